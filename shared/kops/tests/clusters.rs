//! What nodes of kOps' own test clusters start with: derived from what the clusters ask for, it is
//! what kOps itself has made of that (`tests/src/bin/kops_clusters.rs` fetches it).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::collections::BTreeMap;

use outrigger_kops::{
    AccountFacts, AccountQueries, ImageFacts, SecurityGroupFacts, StateStoreFiles, SubnetFacts,
    account_queries, node_class, sha256_base64,
};
use outrigger_model::NodeClass;
use serde_json::{Value, json};

const CLUSTERS: &str = include_str!("fixtures/clusters.json");
/// The label that says of which group a node is.
const OF_GROUP: &str = "kops.k8s.io/instancegroup";

/// What only Auto Scaling groups do, or only kOps' own launch templates, so that Outrigger refuses
/// it by its name.
const REFUSED: [(&str, &str); 5] = [
    ("", "cpuCredits"),
    ("", "externalLoadBalancers"),
    ("", "volumes"),
    ("mixedInstancesPolicy", "onDemandAboveBase"),
    ("mixedInstancesPolicy", "spotInstancePools"),
];

/// Takes out of a group what is refused; the fields that it had of that.
fn take_refused(spec: &mut Value) -> Vec<String> {
    let mut taken = Vec::new();
    for (parent, field) in REFUSED {
        let parent_of = if parent.is_empty() { Some(&mut *spec) } else { spec.get_mut(parent) };
        let had = parent_of.and_then(Value::as_object_mut).and_then(|object| object.remove(field));
        let path = if parent.is_empty() { field.to_owned() } else { format!("{parent}.{field}") };
        taken.extend(had.map(|_| format!("spec.{path}")));
    }
    taken
}

/// The files of a group. It is asked for without an Auto Scaling group, so that nothing is borrowed
/// from its launch template and all must be derived.
fn files(facts: &Value) -> StateStoreFiles {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (cluster, group) = (text(&facts["cluster"]["name"]), text(&facts["group"]["name"]));
    let object = |kind: &str, name: &str, spec: &Value| {
        let api_version = "kops.k8s.io/v1alpha2";
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}).to_string()
    };
    let (mut spec, mut kubelet) = (facts["group"]["spec"].clone(), facts["kubelet"].clone());
    spec["manager"] = "Karpenter".into();
    // Some of kOps' tests give nodes the label of another group, which Outrigger refuses.
    for labels in [&mut spec["nodeLabels"], &mut kubelet["nodeLabels"]] {
        labels.as_object_mut().map(|labels| labels.remove(OF_GROUP));
    }
    let nodeup_config = json!({"KubeletConfig": kubelet}).to_string();
    let script = include_str!("fixtures/nodeupscript.sh")
        .replace("k8s.example.com", &cluster)
        .replace("GROUP", &group)
        .replace("HASH", &sha256_base64(&nodeup_config));
    StateStoreFiles {
        cluster_spec: object("Cluster", &cluster, &facts["cluster"]["spec"]),
        instance_group: object("InstanceGroup", &group, &spec),
        nodeup_config: Some(nodeup_config),
        nodeup_script: Some(script),
        kops_version: Some("1.37.0".into()),
        cluster,
        group,
    }
}

/// An account that has what is asked for: ids are `made` of names, where names are asked for.
fn account(queries: &AccountQueries, facts: &Value) -> AccountFacts {
    let subnet = |id: String, name: &str| SubnetFacts {
        id,
        name: name.to_owned(),
        zone: zone_of(name, facts),
        zone_id: "usw2-az1".into(),
        free_addresses: 100,
    };
    let by_id = queries.subnet_ids.iter().map(|id| subnet(id.clone(), id));
    let by_name = queries.subnet_names.iter().map(|name| subnet(made(name), name));
    let group = |name: &String| SecurityGroupFacts { id: made(name), name: name.clone() };
    AccountFacts {
        subnets: by_id.chain(by_name).collect(),
        security_groups: queries.security_group_names.iter().map(group).collect(),
        images: vec![ImageFacts {
            id: "ami-1".into(),
            arch: "amd64".into(),
            root_device: "/dev/sda1".into(),
        }],
        second_images: BTreeMap::new(),
        launch_template: None,
    }
}

fn made(name: &str) -> String {
    format!("made of {name}")
}

/// The zone of a subnet, by its id or its name in EC2.
fn zone_of(subnet: &str, facts: &Value) -> String {
    let cluster = facts["cluster"]["name"].as_str().unwrap();
    let all = facts["cluster"]["spec"]["subnets"].as_array().unwrap();
    let is_it = |one: &&Value| {
        one["id"] == subnet || format!("{}.{cluster}", one["name"].as_str().unwrap_or_default()) == subnet
    };
    all.iter().find(is_it).and_then(|one| one["zone"].as_str()).unwrap().to_owned()
}

/// What instances of a class start with, in the words of the facts.
fn launch(class: &NodeClass) -> Value {
    let named = |ids: Vec<String>| {
        let mut names: Vec<String> =
            ids.into_iter().map(|id| id.strip_prefix("made of ").map_or(id.clone(), str::to_owned)).collect();
        names.sort();
        names
    };
    let class = serde_json::to_value(class).unwrap();
    let launch = &class["launch"];
    let strings = |value: &Value, field: Option<&str>| {
        let all = value.as_array().into_iter().flatten();
        all.map(|one| field.map_or(one, |field| &one[field]).as_str().unwrap().to_owned()).collect()
    };
    let volume = &class["rootVolume"];
    json!({
        "tags": class["tags"],
        "securityGroups": named(strings(&launch["securityGroups"], None)),
        "subnets": named(strings(&class["subnets"], Some("id"))),
        "instanceProfile": launch["instanceProfile"],
        "associatePublicIp": launch["associatePublicIp"],
        "ipv6Addresses": u32::from(launch["ipv6Address"] == true),
        "rootVolume": {
            "size": volume["size"].as_str().unwrap().trim_end_matches("Gi").parse::<u32>().unwrap(),
            "type": volume["kind"],
            "iops": volume["iops"],
            "throughput": volume["throughput"],
            "encrypted": volume["encrypted"],
        },
        "metadata": {
            "tokens": if launch["metadataTokensRequired"] == true { "required" } else { "optional" },
            "hopLimit": launch["metadataHopLimit"],
        },
        "monitoring": launch["detailedMonitoring"],
        "tenancy": launch["tenancy"],
    })
}

/// What kOps has made.
fn expected(facts: &Value) -> Value {
    let mut launch = facts["launch"].clone();
    // The node termination handler looks after Auto Scaling groups by it.
    let tags = launch["tags"].as_object_mut().unwrap();
    tags.remove("aws-node-termination-handler/managed");
    tags.remove(&format!("k8s.io/cluster-autoscaler/node-template/label/{OF_GROUP}"));
    let ebs = launch["rootVolume"].take();
    // Where nothing is said of them, EC2 gives gp3 as much.
    let unless_usual = |field: &str, usual: u64| Some(&ebs[field]).filter(|value| **value != usual);
    launch["rootVolume"] = json!({
        "size": ebs["volume_size"], "type": ebs["volume_type"],
        "iops": unless_usual("iops", 3_000), "throughput": unless_usual("throughput", 125), "encrypted": ebs["encrypted"]});
    launch
}

#[test]
fn nodes_start_as_kops_own_start() {
    let all: Value = serde_json::from_str(CLUSTERS).unwrap();
    let groups = all["groups"].as_array().unwrap();
    assert!(groups.len() >= 12, "{} groups", groups.len());
    let mut wrong = Vec::new();
    for facts in groups {
        let name =
            format!("{}/{}", facts["test"].as_str().unwrap(), facts["group"]["name"].as_str().unwrap());
        let class = |facts: &Value| {
            let files = files(facts);
            account_queries(&files).and_then(|queries| node_class(&files, &account(&queries, facts)))
        };
        let mut accepted = facts.clone();
        let refused = take_refused(&mut accepted["group"]["spec"]);
        if !refused.is_empty() {
            let said = class(facts).map_or_else(|error| error.to_string(), |class| format!("{class:?}"));
            assert!(refused.iter().any(|field| said.contains(&format!("{field}: found"))), "{name}: {said}");
        }
        let class = class(&accepted).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(class.not_ready, None, "{name}");
        let (launch, expected) = (launch(&class), expected(facts));
        for (field, value) in expected.as_object().unwrap() {
            if launch[field] != *value {
                wrong.push(format!("{name}: {field} is {}, and kOps makes it {value}", launch[field]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
