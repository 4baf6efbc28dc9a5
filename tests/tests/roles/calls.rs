//! Every call of AWS that the code makes, and which functions make it.

use std::collections::BTreeMap;

use anyhow::Result;
use outrigger_stack::{Account, CLUSTER, Call, LaunchTemplate, STATE_BUCKET};
use serde_json::{Value, json};

use crate::deployment::{BUS, CATALOG, TABLE, queue_url};

/// Functions that read what node classes come to.
const WITH_CLASSES: &[&str] = &["disrupt", "provision"];
/// Functions that read the catalogue.
const WITH_CATALOG: &[&str] = &["disrupt", "lifecycle", "provision"];
/// Functions that keep the ledger.
const WITH_LEDGER: &[&str] = &["disrupt", "interrupt", "lifecycle", "provision"];

/// The partitions of the ledger, what is done to items there, and by whom.
const WRITERS: [(&str, &[&str], &[&str]); 9] = [
    ("cluster", &["Put", "Update", "Delete"], &["lifecycle", "provision"]),
    ("launches", &["Put", "Delete"], &["provision"]),
    ("launched", &["Put"], &["provision"]),
    ("ended", &["Put"], &["lifecycle"]),
    ("commands", &["Put"], &["disrupt", "interrupt", "provision"]),
    ("commands", &["Delete"], &["lifecycle", "provision"]),
    ("disrupt", &["Put", "Update"], &["disrupt"]),
    ("interrupt", &["Put"], &["interrupt"]),
    ("interrupt", &["Delete"], &["lifecycle"]),
];

/// The template of ours whose instances start in a capacity reservation.
const RESERVED: &str = "outrigger/k/reserved-1";

/// A call, and who makes it.
pub(crate) struct Row {
    pub(crate) functions: &'static [&'static str],
    pub(crate) call: Call,
}

/// The account of the calls: an instance, templates of ours, one of which starts instances in a
/// capacity reservation, and one of kOps.
pub(crate) struct Standing;

/// The tags that provision gives to instances and volumes.
pub(crate) fn node_tags() -> BTreeMap<String, String> {
    tags(&[
        ("KubernetesCluster", CLUSTER),
        ("outrigger.dev/cluster", CLUSTER),
        ("outrigger.dev/intent", "i1"),
        ("Name", "n"),
    ])
}

fn template_tags() -> BTreeMap<String, String> {
    tags(&[("KubernetesCluster", CLUSTER), ("outrigger.dev/managed-by", "outrigger")])
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

impl Account for Standing {
    fn tags(&self, id: &str) -> Result<Option<BTreeMap<String, String>>> {
        Ok(Some(if id.starts_with("lt-") { template_tags() } else { node_tags() }))
    }

    fn launch_template(&self, name: &str, _: &str) -> Result<Option<LaunchTemplate>> {
        let of_class = tags(&[("KubernetesCluster", CLUSTER), ("team", "web")]);
        let ours = LaunchTemplate {
            id: "lt-1".into(),
            tags: template_tags(),
            profile: Some(format!("nodes.{CLUSTER}")),
            reservation: (name == RESERVED).then(|| "cr-1".into()),
            security_groups: ["sg-1".to_owned()].into(),
            tagged: [("network-interface".to_owned(), of_class.clone())].into(),
            ..LaunchTemplate::default()
        };
        Ok(Some(if name.starts_with("outrigger/") {
            ours
        } else {
            LaunchTemplate {
                image: Some("ami-2".into()),
                key_pair: Some("kubernetes.k.example.com".into()),
                snapshots: ["snap-1".to_owned()].into(),
                tagged: ["instance", "volume"].map(|kind| (kind.to_owned(), of_class.clone())).into(),
                ..ours
            }
        }))
    }
}

/// The table.
pub(crate) fn table() -> Vec<Row> {
    [of_ec2(), of_fleets(), of_the_ledger(), of_objects(), of_other_services()]
        .into_iter()
        .flatten()
        .collect()
}

fn row(functions: &'static [&'static str], call: Call) -> Row {
    Row { functions, call }
}

fn ec2(operation: &str, parameters: &[(&str, &str)]) -> Call {
    Call {
        service: "ec2".into(),
        operation: operation.into(),
        parameters: tags(parameters),
        ..Call::default()
    }
}

fn json_call(service: &str, operation: &str, body: Value) -> Call {
    Call { service: service.into(), operation: operation.into(), body, ..Call::default() }
}

fn s3(operation: &str, bucket: &str, key: &str) -> Call {
    Call {
        service: "s3".into(),
        operation: operation.into(),
        object: (bucket.into(), key.into()),
        ..Call::default()
    }
}

fn of_ec2() -> Vec<Row> {
    let describe = |functions, operation| row(functions, ec2(operation, &[]));
    let all_but_interrupt: &[&str] = &["disrupt", "lifecycle", "provision", "refresh"];
    vec![
        describe(all_but_interrupt, "DescribeAvailabilityZones"),
        describe(WITH_CLASSES, "DescribeCapacityReservations"),
        describe(WITH_CLASSES, "DescribeImages"),
        describe(WITH_CLASSES, "DescribeLaunchTemplateVersions"),
        describe(WITH_CLASSES, "DescribeSecurityGroups"),
        describe(WITH_CLASSES, "DescribeSubnets"),
        describe(WITH_CATALOG, "DescribeInstances"),
        describe(&["lifecycle"], "DescribeInstanceStatus"),
        describe(&["lifecycle"], "DescribeLaunchTemplates"),
        describe(&["refresh"], "DescribeInstanceTypeOfferings"),
        describe(&["refresh"], "DescribeInstanceTypes"),
        describe(&["refresh"], "DescribeSpotPriceHistory"),
        row(&["lifecycle"], ec2("GetConsoleOutput", &[("InstanceId", "i-1")])),
        row(&["lifecycle"], ec2("TerminateInstances", &[("InstanceId.1", "i-1"), ("InstanceId.2", "i-2")])),
        row(&["lifecycle"], ec2("DeleteLaunchTemplate", &[("LaunchTemplateId", "lt-1")])),
    ]
}

/// Adds the tags that a request gives to a kind of resource.
fn tagging(call: &mut Call, index: usize, kind: &str, tags: &BTreeMap<String, String>) {
    let prefix = format!("TagSpecification.{index}.");
    call.parameters.insert(format!("{prefix}ResourceType"), kind.to_owned());
    for (at, (key, value)) in (1..).zip(tags) {
        call.parameters.insert(format!("{prefix}Tag.{at}.Key"), key.clone());
        call.parameters.insert(format!("{prefix}Tag.{at}.Value"), value.clone());
    }
}

/// Launches from a template of ours, and from one of kOps that names no image of its own in the
/// request.
fn of_fleets() -> Vec<Row> {
    let fleet = |capacity: &str, template: &str, image: Option<&str>| {
        let specification = "LaunchTemplateConfigs.1.LaunchTemplateSpecification";
        let mut call = ec2(
            "CreateFleet",
            &[
                ("Type", "instant"),
                ("TargetCapacitySpecification.DefaultTargetCapacityType", capacity),
                (&format!("{specification}.LaunchTemplateName"), template),
                (&format!("{specification}.Version"), "1"),
                ("LaunchTemplateConfigs.1.Overrides.1.SubnetId", "subnet-1"),
            ],
        );
        let image =
            image.map(|image| ("LaunchTemplateConfigs.1.Overrides.1.ImageId".to_owned(), image.to_owned()));
        call.parameters.extend(image);
        for (index, kind) in (1..).zip(["fleet", "instance", "volume"]) {
            tagging(&mut call, index, kind, &node_tags());
        }
        call
    };
    let mut template = ec2("CreateLaunchTemplate", &[("LaunchTemplateName", "outrigger/k/default-1")]);
    tagging(&mut template, 1, "launch-template", &template_tags());
    let borrowed = format!("nodes.{CLUSTER}");
    vec![
        row(&["provision"], template),
        row(&["provision"], fleet("spot", "outrigger/k/default-1", Some("ami-1"))),
        row(&["provision"], fleet("on-demand", RESERVED, Some("ami-1"))),
        row(&["provision"], fleet("on-demand", &borrowed, None)),
    ]
}

/// Everybody reads all of the ledger, and writes what lies in partitions of their own.
fn of_the_ledger() -> Vec<Row> {
    let key = |partition: &str| json!({"pk": {"S": format!("{partition}#u1")}, "sk": {"S": "s"}});
    let call = |operation, body| json_call("dynamodb", operation, body);
    let read = |operation, body| row(WITH_LEDGER, call(operation, body));
    let check = json!([{"ConditionCheck": {"TableName": TABLE, "Key": key("cluster")}}]);
    let mut rows = vec![
        read("GetItem", json!({"TableName": TABLE, "Key": key("launches")})),
        read("Query", json!({"TableName": TABLE})),
        read("BatchGetItem", json!({"RequestItems": {TABLE: []}})),
        read("TransactWriteItems", json!({"TransactItems": check})),
    ];
    let index = json!({"TableName": TABLE, "IndexName": "instances"});
    rows.push(row(&["interrupt"], call("Query", index)));
    let transacted = |deed: &str, partition: &str| {
        let field = if deed == "Put" { "Item" } else { "Key" };
        call(
            "TransactWriteItems",
            json!({"TransactItems": [{deed: {"TableName": TABLE, field: key(partition)}}]}),
        )
    };
    for (partition, deeds, functions) in WRITERS {
        rows.extend(deeds.iter().map(|deed| row(functions, transacted(deed, partition))));
    }
    rows.push(row(&["interrupt"], call("PutItem", json!({"TableName": TABLE, "Item": key("interrupt")}))));
    rows.push(row(&["disrupt"], call("UpdateItem", json!({"TableName": TABLE, "Key": key("disrupt")}))));
    rows.push(row(&["lifecycle"], call("DeleteItem", json!({"TableName": TABLE, "Key": key("interrupt")}))));
    let event = json!([{"PutRequest": {"Item": key("interrupt")}}]);
    rows.push(row(&["interrupt"], call("BatchWriteItem", json!({"RequestItems": {TABLE: event}}))));
    rows
}

fn of_objects() -> Vec<Row> {
    let mut rows = vec![
        row(WITH_CATALOG, s3("GetObject", CATALOG, "catalog/catalog-v1")),
        row(WITH_CATALOG, s3("ListObjectsV2", CATALOG, "")),
        row(&["refresh"], s3("PutObject", CATALOG, "catalog/catalog-v1")),
        row(WITH_CLASSES, s3("ListObjectsV2", STATE_BUCKET, "")),
    ];
    let files = [
        "cluster-completed.spec",
        "config",
        "igconfig/node/nodes/nodeupconfig.yaml",
        "igconfig/node/own/nodeupscript.sh",
        "instancegroup/nodes",
        "kops-version.txt",
    ];
    for prefix in ["", "clusters/"] {
        let key = |file| format!("{prefix}{CLUSTER}/{file}");
        rows.extend(files.map(|file| row(WITH_CLASSES, s3("GetObject", STATE_BUCKET, &key(file)))));
    }
    rows
}

fn of_other_services() -> Vec<Row> {
    let image = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64";
    let notice = json!({"Entries": [{"Source": "outrigger", "DetailType": "NodeClaims Launched", "EventBusName": BUS}]});
    vec![
        row(WITH_CLASSES, json_call("ssm", "GetParameter", json!({ "Name": image }))),
        row(WITH_LEDGER, json_call("events", "PutEvents", notice)),
        row(
            &["interrupt"],
            json_call("sqs", "SendMessage", json!({"QueueUrl": queue_url("dead-interruptions")})),
        ),
        row(
            &["interrupt"],
            json_call("sqs", "ChangeMessageVisibilityBatch", json!({"QueueUrl": queue_url("interruptions")})),
        ),
        row(&["refresh"], json_call("pricing", "GetProducts", json!({"ServiceCode": "AmazonEC2"}))),
        // `outrigger token` writes it with the rights of whoever runs it, and no function may.
        row(&[], json_call("ssm", "PutParameter", json!({"Name": "/outrigger/api-token"}))),
        // `outrigger doctor` asks the functions with the rights of whoever runs it.
        row(&[], of_operator("lambda", "ListFunctions")),
        row(&[], of_operator("lambda", "Invoke")),
        // `outrigger adopt` takes instances over with the rights of whoever runs it.
        row(&[], ec2("CreateTags", &[("ResourceId.1", "i-1"), ("Tag.1.Key", "a"), ("Tag.1.Value", "b")])),
        row(&[], of_operator("autoscaling", "DescribeAutoScalingGroups")),
        row(&[], of_operator("autoscaling", "DetachInstances")),
        // The command and a doctor ask it of whoever runs it; nobody needs a right.
        row(&[], of_operator("sts", "GetCallerIdentity")),
    ]
}

/// A call that only people make, whatever is in it.
fn of_operator(service: &str, operation: &str) -> Call {
    Call { service: service.into(), operation: operation.into(), ..Call::default() }
}
