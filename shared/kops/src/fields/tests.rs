//! The table is what the code does, and what the documentation shows.

use std::collections::BTreeSet;

use super::*;
use crate::{AccountFacts, ImageFacts, InstanceGroup, SecurityGroupFacts, StateStoreFiles, SubnetFacts};
use crate::{account_queries, managed_node_pools, node_class};

const CLUSTER: &str = include_str!("../../tests/fixtures/cluster-completed.spec");
const NODEUP_CONFIG: &str = include_str!("../../tests/fixtures/nodeupconfig.yaml");

/// What to write into each honoured field so that it makes a difference, as YAML.
const HONOURED: &[(&str, &str)] = &[
    ("additionalSecurityGroups", "[sg-0more]"),
    ("additionalUserData", "[{name: a.sh, type: text/x-shellscript, content: '#!/bin/sh'}]"),
    ("associatePublicIp", "false"),
    ("cloudLabels", "{team: shop}"),
    ("detailedInstanceMonitoring", "true"),
    ("iam.profile", "arn:aws:iam::123456789012:instance-profile/mine"),
    ("image", "ami-0other"),
    ("instanceMetadata.httpPutResponseHopLimit", "3"),
    ("instanceMetadata.httpTokens", "optional"),
    ("machineType", "m6i.large"),
    ("manager", "CloudGroup"),
    ("maxInstanceLifetime", "48h"),
    ("maxPrice", "'0.05'"),
    ("maxSize", "7"),
    ("minSize", "2"),
    ("mixedInstancesPolicy.instanceRequirements.cpu.max", "'16'"),
    ("mixedInstancesPolicy.instanceRequirements.cpu.min", "'2'"),
    ("mixedInstancesPolicy.instanceRequirements.excludedInstanceTypes", "[a1.*]"),
    ("mixedInstancesPolicy.instanceRequirements.memory.max", "16Gi"),
    ("mixedInstancesPolicy.instanceRequirements.memory.min", "4Gi"),
    ("mixedInstancesPolicy.instances", "[c6i.large]"),
    ("mixedInstancesPolicy.spotAllocationStrategy", "capacity-optimized"),
    ("nodeLabels", "{example.com/tier: front}"),
    ("role", "ControlPlane"),
    ("rollingUpdate.maxSurge", "2"),
    ("rollingUpdate.maxUnavailable", "20%"),
    ("rootVolumeEncryption", "false"),
    ("rootVolumeEncryptionKey", "arn:aws:kms:eu-west-1:123456789012:key/abc"),
    ("rootVolumeIops", "4000"),
    ("rootVolumeSize", "60"),
    ("rootVolumeThroughput", "200"),
    ("rootVolumeType", "gp2"),
    ("securityGroupOverride", "sg-0mine"),
    ("subnets", "[eu-west-1b]"),
    ("taints", "['a=b:NoSchedule']"),
    ("zones", "[eu-west-1a]"),
];

/// What to write into each refused field so that it asks for something, and where there is such a
/// thing, for nothing.
const REFUSED: &[(&str, &str, Option<&str>)] = &[
    ("autoscalePriority", "101", Some("100")),
    ("capacityRebalance", "true", Some("false")),
    ("externalLoadBalancers", "[{targetGroupArn: a}]", Some("[]")),
    ("gcpProvisioningModel", "SPOT", None),
    ("guestAccelerators", "[{acceleratorCount: 1}]", Some("[]")),
    ("instanceInterruptionBehavior", "hibernate", Some("terminate")),
    ("instanceProtection", "true", Some("false")),
    ("mixedInstancesPolicy.onDemandAboveBase", "30", Some("100")),
    ("mixedInstancesPolicy.onDemandAllocationStrategy", "prioritized", Some("lowest-price")),
    ("mixedInstancesPolicy.onDemandBase", "2", Some("0")),
    ("mixedInstancesPolicy.spotInstancePools", "2", None),
    ("rollingUpdate.drainAndTerminate", "false", Some("true")),
    ("rootVolumeDeleteOnTermination", "false", Some("true")),
    ("spotDurationInMinutes", "60", None),
    ("suspendProcesses", "[AZRebalance, Launch]", Some("[AZRebalance]")),
    ("warmPool", "{minSize: 1}", Some("{maxSize: 0}")),
];

/// An InstanceGroup with a value in a field, which may be one of its own.
fn yaml(path: &str, value: &str) -> String {
    let mut spec = serde_json::json!({
        "role": "Node", "manager": "Karpenter", "image": "ami-0amd64", "maxSize": 5,
        "rootVolumeEncryption": true,
        "subnets": ["utility-eu-west-1a"],
    });
    if !path.is_empty() {
        let mut field = &mut spec;
        for key in path.split('.') {
            field = &mut field[key];
        }
        *field = serde_saphyr::from_str(value).unwrap();
    }
    let meta = serde_json::json!({ "name": "nodes" });
    let group = serde_json::json!({
        "apiVersion": "kops.k8s.io/v1alpha2", "kind": "InstanceGroup", "metadata": meta, "spec": spec,
    });
    group.to_string()
}

/// All that follows from an InstanceGroup.
fn outcome(path: &str, value: &str) -> String {
    let yaml = yaml(path, value);
    let hash = crate::sha256_base64(NODEUP_CONFIG);
    let script =
        include_str!("../../tests/fixtures/nodeupscript.sh").replace("GROUP", "nodes").replace("HASH", &hash);
    let files = StateStoreFiles {
        cluster: "k8s.example.com".into(),
        group: "nodes".into(),
        cluster_spec: CLUSTER.into(),
        instance_group: yaml.clone(),
        nodeup_config: Some(NODEUP_CONFIG.into()),
        nodeup_script: Some(script),
        kops_version: Some("1.36.0".into()),
    };
    let subnet = |id: &str, name: &str, zone: &str| SubnetFacts {
        id: id.into(),
        name: name.into(),
        zone: zone.into(),
        ..SubnetFacts::default()
    };
    let account = AccountFacts {
        subnets: vec![
            subnet("subnet-0utility", "utility-eu-west-1a.k8s.example.com", "eu-west-1a"),
            subnet("subnet-0shared00000000b", "other", "eu-west-1b"),
            subnet("subnet-0made00000000000a", "eu-west-1a.k8s.example.com", "eu-west-1a"),
        ],
        security_groups: vec![SecurityGroupFacts {
            id: "sg-0nodes".into(),
            name: "nodes.k8s.example.com".into(),
        }],
        images: vec![ImageFacts { id: "ami-0amd64".into(), arch: "amd64".into(), ..ImageFacts::default() }],
        ..AccountFacts::default()
    };
    let pools = InstanceGroup::read("nodes", &yaml).and_then(|group| managed_node_pools(&group));
    let (queries, class) = (account_queries(&files), node_class(&files, &account));
    format!("{queries:?}\n{class:?}\n{pools:?}")
}

fn paths(of: impl Fn(&Fate) -> bool) -> BTreeSet<&'static str> {
    FIELDS.iter().filter(|field| of(&field.fate)).map(|field| field.path).collect()
}

#[test]
fn what_is_honoured_makes_a_difference() {
    let listed: BTreeSet<_> = HONOURED.iter().map(|(path, _)| *path).collect();
    assert_eq!(listed, paths(|fate| matches!(fate, Fate::Honoured(_))));
    let plain = outcome("", "");
    assert!(plain.contains("user_data") && !plain.contains("Invalid"), "{plain}");
    let without: Vec<_> = HONOURED.iter().filter(|(path, value)| outcome(path, value) == plain).collect();
    assert_eq!(without, Vec::<&(&str, &str)>::new(), "these change nothing");
}

#[test]
fn what_is_refused_is_refused_by_name_and_what_asks_for_nothing_is_not() {
    let listed: BTreeSet<_> = REFUSED.iter().map(|(path, ..)| *path).collect();
    assert_eq!(listed, paths(|fate| matches!(fate, Fate::Refused { .. })));
    for (path, asks, fits) in REFUSED {
        let refused = InstanceGroup::read("nodes", &yaml(path, asks)).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("InstanceGroup/nodes: spec.{path}: found ")), "{refused}");
        if let Some(fits) = fits {
            InstanceGroup::read("nodes", &yaml(path, fits)).unwrap();
        }
    }
}

#[test]
fn a_field_that_is_in_no_row_is_refused_with_the_releases_that_are_known() {
    for path in
        ["newThing", "mixedInstancesPolicy.newThing", "mixedInstancesPolicy.instanceRequirements.gpu.min"]
    {
        let refused = InstanceGroup::read("nodes", &yaml(path, "1")).unwrap_err().to_string();
        let named = path.trim_end_matches(".min");
        let expected = format!(
            "InstanceGroup/nodes: spec.{named}: found this field; allowed: the fields of {KNOWN}, which this version of \
             Outrigger knows"
        );
        assert_eq!(refused, expected);
    }
    InstanceGroup::read("nodes", &yaml("newThing", "null")).unwrap();
}

#[test]
fn the_documentation_shows_the_table() {
    let row = |Field { path, fate }: &Field| {
        let (word, how) = match fate {
            Fate::Honoured(how) | Fate::Carried(how) => ("honoured", (*how).to_owned()),
            Fate::Refused { allowed, .. } => ("refused", format!("allowed: {allowed}")),
        };
        format!("| `{path}` | {word} | {how} |\n")
    };
    let table: String = FIELDS.iter().map(row).collect();
    let page = include_str!("../../../../docs/fields.md");
    assert!(page.contains(&table), "docs/fields.md must contain:\n{table}");
    assert!(FIELDS.is_sorted_by_key(|field| field.path));
}
