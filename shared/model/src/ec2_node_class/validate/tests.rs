//! One broken class for each rule, with what is said about it, and manifests that must pass.

use serde_json::{Value, json};

use super::*;
use crate::Quantity;
use crate::ec2_node_class::HttpTokens;

/// A class as kOps' documentation shows it.
const PLAIN: &str = r#"
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: general
spec:
  amiFamily: Custom
  amiSelectorTerms:
    - ssmParameter: /aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id
    - ssmParameter: /aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id
  associatePublicIPAddress: true
  tags:
    KubernetesCluster: stack.example.com
    kops.k8s.io/instancegroup: nodes
    k8s.io/role/node: "1"
  subnetSelectorTerms:
    - tags: {KubernetesCluster: stack.example.com}
  securityGroupSelectorTerms:
    - tags: {KubernetesCluster: stack.example.com, Name: nodes.stack.example.com}
  instanceProfile: nodes.stack.example.com
  userData: |
    #!/bin/bash
    echo nodeup
"#;

/// A class that uses every field that is acted on, and fields that are not with values that change
/// nothing.
const FULL: &str = r#"
metadata: {name: full}
spec:
  amiFamily: Custom
  amiSelectorTerms:
    - {id: ami-0123456789abcdef0}
    - {name: "my-image-*", owner: self}
    - {tags: {release: stable}, owner: "123456789012"}
  subnetSelectorTerms: [{id: subnet-0abc}, {tags: {zone: "*"}}]
  securityGroupSelectorTerms: [{id: sg-0abc}, {name: nodes}]
  instanceProfile: nodes
  tags: {team: red}
  blockDeviceMappings:
    - deviceName: /dev/sda1
      rootVolume: true
      ebs: {volumeSize: 128Gi, volumeType: gp3, iops: 4000, throughput: 250, encrypted: true, kmsKeyID: alias/nodes, deleteOnTermination: true}
  metadataOptions: {httpTokens: optional, httpPutResponseHopLimit: 2}
  detailedMonitoring: true
  kubelet:
    maxPods: 110
    podsPerCore: 20
    kubeReserved: {cpu: 100m, memory: 255Mi, ephemeral-storage: 1Gi, pid: "1000"}
    systemReserved: {memory: 100Mi}
    evictionHard: {memory.available: 5%, nodefs.available: 12.5%, pid.available: "100"}
    evictionSoft: {}
    cpuCFSQuota: true
  capacityReservationSelectorTerms: []
  networkInterfaces: []
  ipPrefixCount: 0
  cpuOptions: {nestedVirtualization: disabled}
  context: ""
"#;

fn read(text: &str) -> EC2NodeClass {
    let object: Value = serde_saphyr::from_str(text).unwrap();
    EC2NodeClass::read(&object).unwrap_or_else(|problems| panic!("{problems:?}"))
}

#[test]
fn a_plain_class_gets_the_defaults_of_version_1() {
    let spec = read(PLAIN).spec;
    assert_eq!(
        spec.metadata_options,
        MetadataOptions {
            http_endpoint: Toggle::Enabled,
            http_protocol_ipv6: Toggle::Disabled,
            http_put_response_hop_limit: 1,
            http_tokens: HttpTokens::Required,
        }
    );
    assert_eq!((spec.associate_public_ip_address, spec.detailed_monitoring), (Some(true), None));
    assert_eq!(spec.user_data.as_deref(), Some("#!/bin/bash\necho nodeup\n"));
    assert_eq!(spec.root_volume().size, Quantity::gibibytes(20));
    assert!(spec.kubelet_settings().eni_limited);
}

#[test]
fn every_field_that_is_acted_on_is_read() {
    let class = read(FULL);
    let root = class.spec.root_volume();
    assert_eq!((root.size, root.iops, root.throughput), (Quantity::gibibytes(128), Some(4_000), Some(250)));
    assert_eq!(
        (root.kind.as_str(), root.encrypted, root.kms_key.as_deref()),
        ("gp3", true, Some("alias/nodes"))
    );
    assert_eq!(class.spec.kubelet_settings().max_pods, Some(110));
    let object = json!({"metadata": {"name": "full"}, "spec": serde_json::to_value(&class.spec).unwrap()});
    assert_eq!(EC2NodeClass::read(&object), Ok(class));
}

/// A change of one field of the spec.
type Change = (&'static str, Value);

fn complaints(changes: &[Change]) -> Vec<String> {
    let mut object: Value = serde_saphyr::from_str(PLAIN).unwrap();
    for (field, value) in changes {
        match *field {
            "apiVersion" => object["apiVersion"] = value.clone(),
            "name" => object["metadata"]["name"] = value.clone(),
            field => object["spec"][field] = value.clone(),
        }
    }
    EC2NodeClass::read(&object).expect_err("must be refused").iter().map(ToString::to_string).collect()
}

/// So many tags.
fn tags(count: usize) -> Value {
    (0..count).map(|n| (format!("tag-{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into()
}

fn selector_rules() -> Vec<(&'static str, Vec<Change>)> {
    let subnets = |terms: Value| vec![("subnetSelectorTerms", terms)];
    let groups = |terms: Value| vec![("securityGroupSelectorTerms", terms)];
    let images = |terms: Value| vec![("amiSelectorTerms", terms)];
    let reserved = |terms: Value| vec![("capacityReservationSelectorTerms", terms)];
    vec![
        ("no subnet terms", subnets(json!([]))),
        ("too many subnet terms", subnets(json!(vec![json!({"id": "subnet-1"}); 31]))),
        ("empty subnet term", subnets(json!([{}]))),
        ("subnet by id and tags", subnets(json!([{"id": "subnet-1", "tags": {"a": "b"}}]))),
        ("subnet id", subnets(json!([{"id": "sn-1"}]))),
        ("empty tag value", subnets(json!([{"tags": {"a": ""}}]))),
        ("too many tags", subnets(json!([{"tags": tags(21)}]))),
        ("no security group terms", groups(Value::Array(Vec::new()))),
        ("security group by name and tags", groups(json!([{"name": "nodes", "tags": {"a": "b"}}]))),
        ("security group by id and name", groups(json!([{"id": "sg-1", "name": "nodes"}]))),
        ("security group id", groups(json!([{"id": "sg-"}]))),
        ("empty security group name", groups(json!([{"name": ""}]))),
        ("no image terms", images(json!([]))),
        ("image by alias", images(json!([{"alias": "al2023@latest"}]))),
        ("image by id and name", images(json!([{"id": "ami-1", "name": "x"}]))),
        ("image by parameter and owner", images(json!([{"ssmParameter": "/x", "owner": "self"}]))),
        ("image by owner alone", images(json!([{"owner": "self"}]))),
        ("image id", images(json!([{"id": "ami_1"}]))),
        ("empty image term", images(json!([{}]))),
        ("reservation by id and tags", reserved(json!([{"id": "cr-1", "tags": {"a": "b"}}]))),
        ("reservation id", reserved(json!([{"id": "lt-1"}]))),
        ("reservation of nobody", reserved(json!([{"ownerID": "me"}]))),
        ("empty reservation term", reserved(json!([{}]))),
        ("too many reservation terms", reserved(json!(vec![json!({"id": "cr-1"}); 31]))),
    ]
}

fn spec_rules() -> Vec<(&'static str, Vec<Change>)> {
    let tagged = |tags: Value| vec![("tags", tags)];
    let kubelet = |kubelet: Value| vec![("kubelet", kubelet)];
    let options = |options: Value| vec![("metadataOptions", options)];
    vec![
        ("another version", vec![("apiVersion", json!("karpenter.k8s.aws/v1beta1"))]),
        ("name", vec![("name", json!(""))]),
        ("unknown field", vec![("licenses", json!([]))]),
        ("no amiFamily", vec![("amiFamily", Value::Null)]),
        ("amiFamily", vec![("amiFamily", json!("AL2023"))]),
        ("unknown amiFamily", vec![("amiFamily", json!("Ubuntu"))]),
        ("tag of the control plane", tagged(json!({"k8s.io/role/master": "1"}))),
        (
            "label of the control plane",
            tagged(json!({format!("{}node-role.kubernetes.io/control-plane", labels::NODE_LABEL_TAG): ""})),
        ),
        (
            "label of another InstanceGroup",
            tagged(json!({format!("{}kops.k8s.io/instancegroup", labels::NODE_LABEL_TAG): "others"})),
        ),
        ("role", vec![("role", json!("nodes")), ("instanceProfile", Value::Null)]),
        ("role and instanceProfile", vec![("role", json!("nodes"))]),
        ("neither role nor instanceProfile", vec![("instanceProfile", Value::Null)]),
        ("empty instanceProfile", vec![("instanceProfile", json!(""))]),
        ("long userData", vec![("userData", json!("x".repeat(16_385)))]),
        ("empty tag key", tagged(json!({"": "x"}))),
        ("more tags than EC2 takes", tagged(tags(41))),
        ("tag of AWS", tagged(json!({"aws:x": "x"}))),
        ("long tag value", tagged(json!({"x": "é".repeat(257)}))),
        ("tag of the cluster", tagged(json!({"kubernetes.io/cluster/stack.example.com": "owned"}))),
        ("tag of the pool", tagged(json!({"karpenter.sh/nodepool": "x"}))),
        ("tag of ours", tagged(json!({"outrigger.dev/intent": "x"}))),
        ("metadata endpoint", options(json!({"httpEndpoint": "disabled"}))),
        ("metadata hops", options(json!({"httpPutResponseHopLimit": 65}))),
        ("metadata tokens", options(json!({"httpTokens": "maybe"}))),
        ("reserved resource", kubelet(json!({"kubeReserved": {"gpu": "1"}}))),
        ("negative reserve", kubelet(json!({"systemReserved": {"cpu": "-100m"}}))),
        ("eviction signal", kubelet(json!({"evictionHard": {"memory": "100Mi"}}))),
        ("eviction threshold", kubelet(json!({"evictionHard": {"memory.available": "101%"}}))),
    ]
}

fn volume_rules() -> Vec<(&'static str, Vec<Change>)> {
    let volume = |ebs: Value| vec![("blockDeviceMappings", json!([{"deviceName": "/dev/sda1", "ebs": ebs}]))];
    let root = json!({"deviceName": "/dev/sda1", "rootVolume": true, "ebs": {"volumeSize": "8Gi"}});
    let data = json!({"deviceName": "/dev/sdb", "ebs": {"volumeSize": "8Gi"}});
    let devices = |devices: Value| vec![("blockDeviceMappings", devices)];
    vec![
        ("two root volumes", devices(json!([root, root]))),
        ("a volume beside the root", devices(json!([root, data]))),
        ("no root among several", devices(json!([data, data]))),
        ("volume without a device", devices(json!([{"ebs": {"volumeSize": "8Gi"}}]))),
        ("volume without a size", devices(json!([{"deviceName": "/dev/sda1"}]))),
        ("volume of half a unit", volume(json!({"volumeSize": "1.5Gi"}))),
        ("volume too large", volume(json!({"volumeSize": "59001Gi"}))),
        ("volume of nothing", volume(json!({"volumeSize": "0Gi"}))),
        ("volume type", volume(json!({"volumeSize": "8Gi", "volumeType": "gp4"}))),
        ("throughput of gp2", volume(json!({"volumeSize": "8Gi", "volumeType": "gp2", "throughput": 250}))),
        ("iops of st1", volume(json!({"volumeSize": "500Gi", "volumeType": "st1", "iops": 250}))),
        ("a volume that stays", volume(json!({"volumeSize": "8Gi", "deleteOnTermination": false}))),
        ("snapshot", volume(json!({"snapshotID": "snap-1", "volumeInitializationRate": 100}))),
    ]
}

fn unsupported_rules() -> Vec<(&'static str, Vec<Change>)> {
    let interface = json!({"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa-only"});
    vec![
        ("placementGroupSelector", vec![("placementGroupSelector", json!({"name": "x"}))]),
        ("networkInterfaces", vec![("networkInterfaces", json!([interface]))]),
        ("connectionTracking", vec![("connectionTracking", json!({"udpTimeout": 30}))]),
        ("ipPrefixCount", vec![("ipPrefixCount", json!(1))]),
        ("cpuOptions", vec![("cpuOptions", json!({"nestedVirtualization": "enabled"}))]),
        ("instanceStorePolicy", vec![("instanceStorePolicy", json!("RAID0"))]),
        ("context", vec![("context", json!("x"))]),
        (
            "kubelet",
            vec![(
                "kubelet",
                json!({"evictionSoft": {"memory.available": "5%"},
                    "evictionSoftGracePeriod": {"memory.available": "1m"}, "evictionMaxPodGracePeriod": 60,
                    "imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 70, "cpuCFSQuota": false,
                    "clusterDNS": ["10.0.0.10"]}),
            )],
        ),
        ("unknown kubelet field", vec![("kubelet", json!({"registerWithTaints": []}))]),
    ]
}

#[test]
fn each_rule_says_what_is_wrong() {
    let rules = [selector_rules(), spec_rules(), volume_rules(), unsupported_rules()];
    let text: Vec<String> = rules
        .into_iter()
        .flatten()
        .map(|(rule, changes)| format!("{rule}\n    {}\n", complaints(&changes).join("\n    ")))
        .collect();
    insta::assert_snapshot!(text.concat());
}

#[test]
fn every_problem_is_told_at_once() {
    let changes = [
        ("role", json!("x")),
        ("amiFamily", json!("AL2")),
        ("colour", json!("red")),
        ("context", json!("x")),
    ];
    let complaints = complaints(&changes);
    assert_eq!(complaints.len(), 4, "{complaints:?}");
}
