//! Node classes from a small state store, and what is said when one cannot be made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

use std::collections::BTreeMap;

use outrigger_kops::{
    AccountFacts, ImageFacts, InstanceGroup, LaunchTemplateFacts, SecurityGroupFacts, StateStoreFiles,
    SubnetFacts, account_queries, managed_node_pools, node_class, sha256_base64,
};
use outrigger_model::{Kubelet, LaunchTemplate, NodeClass, NodePool, Subnet};

const CLUSTER: &str = include_str!("fixtures/cluster-completed.spec");
const NODES: &str = include_str!("fixtures/instancegroup/nodes");
const DESCRIBED: &str = include_str!("fixtures/instancegroup/described");
const NODEUP_CONFIG: &str = include_str!("fixtures/nodeupconfig.yaml");

fn script(group: &str) -> String {
    let hash = sha256_base64(NODEUP_CONFIG);
    include_str!("fixtures/nodeupscript.sh").replace("GROUP", group).replace("HASH", &hash)
}

fn files(group: &str, instance_group: &str) -> StateStoreFiles {
    StateStoreFiles {
        cluster: "k8s.example.com".into(),
        group: group.into(),
        cluster_spec: CLUSTER.into(),
        instance_group: instance_group.into(),
        nodeup_config: Some(NODEUP_CONFIG.into()),
        nodeup_script: (group == "described").then(|| script(group)),
        kops_version: Some("1.34.1\n".into()),
    }
}

fn account() -> AccountFacts {
    let subnet = |id: &str, name: &str, zone: &str| SubnetFacts {
        id: id.into(),
        name: name.into(),
        zone: zone.into(),
        zone_id: format!("euw1-az{}", &zone[9..]),
        free_addresses: 4_000,
    };
    AccountFacts {
        subnets: vec![
            subnet("subnet-0shared00000000b", "somebody else's", "eu-west-1b"),
            subnet("subnet-0made00000000000a", "eu-west-1a.k8s.example.com", "eu-west-1a"),
        ],
        security_groups: vec![SecurityGroupFacts {
            id: "sg-0nodes".into(),
            name: "nodes.k8s.example.com".into(),
        }],
        images: vec![ImageFacts {
            id: "ami-0amd64".into(),
            arch: "amd64".into(),
            root_device: "/dev/sda1".into(),
        }],
        second_images: BTreeMap::new(),
        launch_template: Some(LaunchTemplateFacts {
            name: "nodes.k8s.example.com".into(),
            version: "12".into(),
            user_data: script("nodes"),
            image: Some("ami-0amd64".into()),
            asks_for_spot: false,
            instance_tags: BTreeMap::new(),
        }),
    }
}

fn nodes() -> NodeClass {
    node_class(&files("nodes", NODES), &account()).unwrap()
}

#[test]
fn the_account_is_asked_what_the_group_needs() {
    insta::assert_debug_snapshot!("queries_borrowed", account_queries(&files("nodes", NODES)).unwrap());
    insta::assert_debug_snapshot!("queries_own", account_queries(&files("described", DESCRIBED)).unwrap());
}

#[test]
fn a_group_of_an_auto_scaling_group_borrows_its_template() {
    let class = nodes();
    assert_eq!(class.not_ready, None);
    insta::assert_json_snapshot!("class_borrowed", class);
}

#[test]
fn a_group_with_manager_karpenter_gets_a_template_of_its_own() {
    let class = node_class(&files("described", DESCRIBED), &account()).unwrap();
    assert_eq!(class.not_ready, None);
    insta::assert_json_snapshot!("class_own", class);
}

/// The class of the group with these annotations, and these images found for arm64.
fn with_annotations(
    group: &str,
    annotations: &str,
    images: &[(&str, &str, &str)],
) -> Result<NodeClass, outrigger_kops::KopsError> {
    let (yaml, mut account) = (if group == "nodes" { NODES } else { DESCRIBED }, account());
    let yaml = yaml.replace("  annotations:\n", "").replace("    outrigger.dev/managed: \"true\"\n", "");
    let yaml = yaml.replace("metadata:\n", &format!("metadata:\n  annotations:\n    {annotations}\n"));
    let image = |(id, arch, device): &(&str, &str, &str)| ImageFacts {
        id: (*id).into(),
        arch: (*arch).into(),
        root_device: (*device).into(),
    };
    account.second_images = BTreeMap::from([("arm64".to_owned(), images.iter().map(image).collect())]);
    node_class(&files(group, &yaml), &account)
}

const ARM: &str = "outrigger.dev/image-arm64: amazon/al2023-*-arm64";

#[test]
fn an_annotation_names_a_second_image() {
    for group in ["nodes", "described"] {
        let class = with_annotations(group, ARM, &[("ami-0arm64", "arm64", "/dev/sda1")]).unwrap();
        let images: Vec<_> =
            class.images.iter().map(|image| (image.arch.as_str(), image.id.as_str())).collect();
        assert_eq!(images, [("amd64", "ami-0amd64"), ("arm64", "ami-0arm64")], "{group}");
        assert_eq!(class.not_ready, None, "{group}");
    }
    let yaml = NODES.replace("    outrigger.dev/managed: \"true\"\n", &format!("    {ARM}\n"));
    let queries = account_queries(&files("nodes", &yaml)).unwrap();
    insta::assert_debug_snapshot!(queries.second_images);
}

#[test]
fn a_second_image_that_cannot_be_is_said() {
    let said = |annotation: &str, images: &[(&str, &str, &str)]| {
        let class = with_annotations("nodes", annotation, images);
        class.map_or_else(|error| error.to_string(), |class| class.not_ready.expect("it must not be ready"))
    };
    let said = [
        said(ARM, &[]),
        said(ARM, &[("ami-0amd64", "amd64", "/dev/sda1")]),
        said(ARM, &[("ami-0arm64", "arm64", "/dev/xvda")]),
        said("outrigger.dev/image-amd64: ami-0other", &[]),
        said("outrigger.dev/image-arm: ami-0arm64", &[]),
        said("outrigger.dev/images: ami-0arm64", &[]),
    ];
    let empty = NODES.replace("outrigger.dev/managed: \"true\"", "outrigger.dev/image-arm64: self/");
    let empty = account_queries(&files("nodes", &empty)).unwrap_err().to_string();
    insta::assert_snapshot!(said.join("\n") + "\n" + &empty);
}

/// kOps gives private subnets of an IPv6 cluster no IPv4 range, and its templates an IPv6 address
/// and the metadata by IPv6.
#[test]
fn a_group_in_ipv6_subnets_gets_what_kops_templates_have() {
    let range = "  - cidr: 10.20.64.0/19\n";
    assert!(CLUSTER.contains(range));
    let cluster_spec = CLUSTER.replace(range, "  - ipv6CIDR: /64#1\n");
    let mut account = account();
    account.subnets[0].free_addresses = Subnet::IPV6_ALONE;
    for (cluster_spec, ipv6) in [(cluster_spec, true), (CLUSTER.to_owned(), false)] {
        let class =
            node_class(&StateStoreFiles { cluster_spec, ..files("described", DESCRIBED) }, &account).unwrap();
        assert_eq!(class.not_ready, None);
        let LaunchTemplate::Own(template) = class.launch else { panic!("not our own template") };
        assert_eq!((template.ipv6_address, template.metadata_ipv6), (ipv6, ipv6));
    }
}

#[test]
fn pods_are_limited_by_interfaces_only_with_the_networks_that_do_so() {
    for (networking, limited) in [
        ("cilium:\n      enableNodePort: true\n      ipam: kubernetes", false),
        ("cilium:\n      ipam: eni", true),
        ("amazonvpc: {}", true),
        ("calico: {}", false),
    ] {
        let old = "cilium:\n      enableNodePort: true\n      ipam: kubernetes\n      version: v1.18.6";
        let cluster_spec = CLUSTER.replace(old, networking);
        let class =
            node_class(&StateStoreFiles { cluster_spec, ..files("nodes", NODES) }, &account()).unwrap();
        let Kubelet::Kops(settings) = class.kubelet else { panic!("not kOps' rules") };
        assert_eq!(settings.eni_limited, limited, "{networking}");
    }
}

/// What each class says about why it is not ready; none may be launched from.
fn not_ready(change: impl FnOnce(&mut StateStoreFiles, &mut AccountFacts)) -> String {
    let (mut files, mut account) = (files("nodes", NODES), account());
    change(&mut files, &mut account);
    node_class(&files, &account).unwrap().not_ready.expect("it must not be ready")
}

#[test]
fn what_keeps_a_group_from_launching_is_said() {
    let template = |account: &mut AccountFacts| account.launch_template.take().unwrap();
    let mut said = vec![
        not_ready(|files, _| files.nodeup_config = Some(format!("{NODEUP_CONFIG}new: true\n"))),
        not_ready(|files, _| files.nodeup_config = None),
        not_ready(|_, account| account.launch_template = None),
        not_ready(|_, account| {
            account.launch_template =
                Some(LaunchTemplateFacts { user_data: "#!/bin/sh\n".into(), ..template(account) });
        }),
        not_ready(|_, account| {
            account.launch_template = Some(LaunchTemplateFacts { asks_for_spot: true, ..template(account) });
        }),
        not_ready(|files, _| files.instance_group = NODES.replace("  maxSize: 0\n", "")),
        not_ready(|_, account| account.images.clear()),
        not_ready(|_, account| account.subnets.clear()),
    ];
    for (version, script) in [(Some("1.33.2"), true), (None, true), (Some("1.36.0-beta.1"), false)] {
        let mut old = files("described", DESCRIBED);
        old.kops_version = version.map(str::to_owned);
        old.nodeup_script = old.nodeup_script.filter(|_| script);
        said.push(node_class(&old, &account()).unwrap().not_ready.expect("it must not be ready"));
    }
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_template_whose_instances_another_drains_too_is_said_and_used() {
    let mut account = account();
    let tags = BTreeMap::from([("aws-node-termination-handler/managed".to_owned(), String::new())]);
    account.launch_template.as_mut().unwrap().instance_tags = tags;
    let class = node_class(&files("nodes", NODES), &account).unwrap();
    let expected = "launch template nodes.k8s.example.com gives instances the tag aws-node-termination-handler/managed, so \
                    aws-node-termination-handler drains them too; with manager Karpenter they do not get it";
    assert_eq!((class.not_ready, class.remarks), (None, vec![expected.to_owned()]));
    assert_eq!(nodes().remarks, Vec::<String>::new());
}

#[test]
fn a_class_that_is_not_ready_cannot_be_launched_from() {
    let files = StateStoreFiles { nodeup_config: None, ..files("nodes", NODES) };
    assert_eq!(node_class(&files, &account()).unwrap().launch, LaunchTemplate::None);
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    let nodes = |from: &str, to: &str| {
        assert!(NODES.contains(from), "{from}");
        node_class(&files("nodes", &NODES.replace(from, to)), &account()).unwrap_err().to_string()
    };
    let described = |from: &str, to: &str| {
        assert!(DESCRIBED.contains(from), "{from}");
        node_class(&files("described", &DESCRIBED.replace(from, to)), &account()).unwrap_err().to_string()
    };
    let many = (0..40).map(|index| format!("    t{index}: x")).collect::<Vec<_>>().join("\n") + "\n";
    let said = [
        nodes("role: Node", "role: ControlPlane"),
        nodes("manager: CloudGroup", "manager: Argo"),
        nodes("name: nodes", "name: others"),
        nodes("kind: InstanceGroup", "kind: Cluster"),
        nodes("dedicated=front:NoSchedule", "dedicated=front"),
        nodes("    team: shop\n", "    aws:team: shop\n"),
        nodes("    team: shop\n", &many),
        nodes("    team: shop\n", "    k8s.io/role/control-plane: \"1\"\n"),
        nodes("    example.com/tier: front\n", "    node-role.kubernetes.io/control-plane: \"\"\n"),
        nodes("    example.com/tier: front\n", "    kops.k8s.io/instancegroup: others\n"),
        nodes("  role: Node\n", "  role: Node\n  subnets:\n  - eu-west-1c\n"),
        described("- a1.*", "- \"t*\""),
        described("httpTokens: optional", "httpTokens: sometimes"),
        described(
            "  role: Node\n",
            "  role: Node\n  cpuCredits: unlimited\n  tenancy: dedicated\n  volumes:\n  - device: /dev/xvdb\n",
        ),
    ];
    // The image is looked at when the account is asked, before there is a class.
    let image = "image: 099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260210";
    let image = NODES.replace(image, "image: self/");
    let image = account_queries(&files("nodes", &image)).unwrap_err().to_string();
    insta::assert_snapshot!(said.join("\n") + "\n" + &image);
}

#[test]
fn what_is_no_yaml_is_an_error() {
    for text in
        ["", "kind: [", "{}", "- 1", "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nspec: 3\n"]
    {
        let broken = node_class(&files("nodes", text), &account());
        assert!(broken.is_err(), "{text:?}");
        let broken = StateStoreFiles { cluster_spec: text.into(), ..files("nodes", NODES) };
        assert!(node_class(&broken, &account()).is_err(), "{text:?}");
    }
}

#[test]
fn a_managed_group_gets_a_pool() {
    let group = InstanceGroup::read("nodes", NODES).unwrap();
    assert!(group.is_managed());
    insta::assert_json_snapshot!("pool_of_auto_scaling_group", managed_node_pools(&group).unwrap());
    let group = InstanceGroup::read("described", DESCRIBED).unwrap();
    assert!(!group.is_managed());
    insta::assert_json_snapshot!("pool_of_karpenter_group", managed_node_pools(&group).unwrap());
}

/// The pools of the described group with this in its spec in the place of its maxSize.
fn pools(change: &str) -> Vec<NodePool> {
    let yaml = DESCRIBED.replace("  maxSize: 12\n", change);
    managed_node_pools(&InstanceGroup::read("described", &yaml).unwrap()).unwrap()
}

#[track_caller]
fn buys(change: &str, expected: &[&str]) {
    let pools = pools(change);
    let requirement = pools[0].requirements();
    let values = requirement.get("karpenter.sh/capacity-type").unwrap().values().unwrap().clone();
    assert_eq!(values.into_iter().collect::<Vec<_>>(), expected, "{change}");
}

#[test]
fn capacity_types_follow_from_the_fields_as_in_kops() {
    buys("", &["on-demand"]);
    buys("  maxPrice: \"0.1\"\n", &["spot"]);
}

#[test]
fn least_and_most_nodes_hold_for_the_pools_of_a_group_together() {
    let sizes = |change: &str| {
        let size = |pool: &NodePool| {
            let nodes = pool.spec.limits.as_ref().map(|limits| limits.get("nodes").value());
            (pool.name.clone(), pool.spec.replicas, nodes)
        };
        pools(change).iter().map(size).collect::<Vec<_>>()
    };
    let (least, grown) =
        (|n| ("described-min".to_owned(), Some(n), None), |n| ("described".to_owned(), None, n));
    assert_eq!(sizes("  minSize: 3\n  maxSize: 12\n"), [least(3), grown(Some(9))]);
    assert_eq!(sizes("  minSize: 3\n  maxSize: 3\n"), [least(3)]);
    assert_eq!(sizes("  minSize: 0\n  maxSize: 0\n"), [grown(Some(0))], "it launches nothing");
    assert_eq!(sizes("  minSize: 0\n"), [grown(None)]);
    let weights: Vec<_> = pools("  autoscalePriority: 7\n").iter().map(|pool| pool.spec.weight).collect();
    assert_eq!(weights, [Some(7)]);
}

#[test]
fn a_label_asks_for_a_pool_as_the_annotation_does_and_other_values_are_refused() {
    let labelled = DESCRIBED
        .replace("  name: described", "  name: described\n  labels:\n    outrigger.dev/managed: \"true\"");
    assert!(InstanceGroup::read("described", &labelled).unwrap().is_managed());
    assert!(
        !InstanceGroup::read("described", &labelled.replace("\"true\"", "\"false\"")).unwrap().is_managed()
    );
    let refused =
        InstanceGroup::read("nodes", &NODES.replace("\"true\"", "\"yes\"")).unwrap_err().to_string();
    let expected = "InstanceGroup/nodes: metadata.annotations[outrigger.dev/managed]: found \"yes\"; allowed: \"true\", which \
                    asks for a NodePool, or \"false\"";
    assert_eq!(refused, expected);
}

#[test]
fn a_managed_pool_that_cannot_be_is_refused_by_name() {
    let refused = |from: &str, to: &str| {
        let group = InstanceGroup::read("described", &DESCRIBED.replace(from, to));
        group.and_then(|group| managed_node_pools(&group)).unwrap_err().to_string()
    };
    let said = [
        refused("  maxSize: 12\n", "  maxSize: 12\n  minSize: 13\n"),
        refused("  maxSize: 12\n", "  maxPrice: cheap\n"),
        refused("  mixedInstancesPolicy:\n", "  mixedInstancesPolicy:\n    onDemandBase: 2\n"),
        refused("maxInstanceLifetime: 168h", "maxInstanceLifetime: a week"),
    ];
    insta::assert_snapshot!(said.join("\n"));
}
