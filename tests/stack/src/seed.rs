//! What an account with a small kOps cluster holds: network, buckets, launch templates, event
//! rules, the ledger's table.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::Document;
use serde_json::json;

use crate::aws::{ACCOUNT, Aws, REGION, parameter};
use crate::kops::{CLUSTER, GROUPS, Group, STATE_BUCKET, ServiceProxy, Site, Subnet};
use crate::kubernetes::Kubernetes;
use crate::schedule::{
    DEAD_INTERRUPTIONS, EVENT_SOURCE, FUNCTIONS, INTERRUPTIONS, MOST_DELIVERIES, VISIBILITY_SECONDS,
    doorbell_queue,
};

/// The ledger's table.
pub const TABLE: &str = "outrigger";
/// Where the catalogue goes.
pub const CATALOG_BUCKET: &str = "stack-outrigger";

/// The images of the instance groups, by the names that moto knows.
const IMAGES: [(&str, &str); 2] = [("amd64", "x86_64"), ("arm64", "arm64")];
const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];

/// Fills moto. Returns what only the account knows.
pub(crate) fn aws(aws: &Aws, proxy: ServiceProxy) -> Result<Site> {
    let site = network(aws, proxy).context("seeding moto's network")?;
    for bucket in [STATE_BUCKET, CATALOG_BUCKET] {
        aws.create_bucket(bucket)?;
    }
    for (key, body) in site.objects() {
        aws.put_object(STATE_BUCKET, &key, &body)?;
    }
    for group in GROUPS.iter().filter(|group| group.has_launch_template) {
        launch_template(aws, &site, group, &[], &[])
            .with_context(|| format!("the launch template of {}", group.name))?;
    }
    interruptions(aws).context("seeding the queue of interruptions")?;
    doorbells(aws).context("seeding the doorbells")?;
    Ok(site)
}

/// The queue of interruptions and its dead letters.
fn interruptions(aws: &Aws) -> Result<()> {
    aws.json("sqs", "AmazonSQS.CreateQueue", &json!({"QueueName": DEAD_INTERRUPTIONS}))?;
    let dead = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{DEAD_INTERRUPTIONS}");
    let redrive = json!({"deadLetterTargetArn": dead, "maxReceiveCount": MOST_DELIVERIES.to_string()});
    let attributes =
        json!({"VisibilityTimeout": VISIBILITY_SECONDS.to_string(), "RedrivePolicy": redrive.to_string()});
    let queue = json!({"QueueName": INTERRUPTIONS, "Attributes": attributes});
    aws.json("sqs", "AmazonSQS.CreateQueue", &queue).map(drop)
}

/// Makes a ledger's table in `DynamoDB` Local.
pub(crate) fn ledger(dynamodb: &Aws, name: &str) -> Result<()> {
    let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
    let attribute = |name: &str| json!({"AttributeName": name, "AttributeType": "S"});
    let table = json!({
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
        "AttributeDefinitions": [attribute("pk"), attribute("sk"), attribute("instance")],
        "GlobalSecondaryIndexes": [{
            "IndexName": "instances",
            "KeySchema": [key("instance", "HASH"), key("pk", "RANGE")],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }],
    });
    dynamodb
        .json("dynamodb", "DynamoDB_20120810.CreateTable", &table)
        .map(drop)
        .context("making the ledger's table")
}

/// Applies the project's manifests: definitions first, and nothing else before the server serves
/// them.
pub(crate) fn manifests(kubernetes: &Kubernetes, directory: &Path) -> Result<()> {
    for path in yaml_files(&directory.join("crds"))? {
        apply(kubernetes, &path)?;
    }
    let established = |crd: &serde_json::Value| {
        let conditions = crd.pointer("/status/conditions").and_then(|value| value.as_array());
        conditions.is_some_and(|conditions| {
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        })
    };
    for attempt in 0.. {
        let crds = kubernetes.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")?;
        if crds.iter().all(established) {
            break;
        }
        if attempt == 100 {
            bail!("the API server has not established the definitions of infra/kubernetes/crds within 10 s");
        }
        thread::sleep(Duration::from_millis(100));
    }
    yaml_files(directory)?.iter().try_for_each(|path| apply(kubernetes, path))
}

fn apply(kubernetes: &Kubernetes, path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    kubernetes.apply_yaml(&text).with_context(|| format!("applying {}", path.display()))
}

fn yaml_files(directory: &Path) -> Result<Vec<std::path::PathBuf>> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(Vec::new());
    };
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.is_file() && path.extension().is_some_and(|end| end == "yaml" || end == "yml"));
    files.sort();
    Ok(files)
}

/// Looks up moto's default network, tags it as kOps would, and makes the nodes' security group.
fn network(aws: &Aws, proxy: ServiceProxy) -> Result<Site> {
    let xml = aws.ec2("DescribeSubnets", &filter(1, "availability-zone", &ZONES))?;
    let document = Document::parse(&xml)?;
    let subnets: Vec<Subnet> = items(&document, "subnetSet")
        .map(|item| Subnet {
            id: text(item, "subnetId"),
            zone: text(item, "availabilityZone"),
            cidr: text(item, "cidrBlock"),
        })
        .collect();
    let vpc = items(&document, "subnetSet")
        .next()
        .map(|item| text(item, "vpcId"))
        .context("moto has no subnets")?;
    for subnet in &subnets {
        let name = format!("{}.{CLUSTER}", subnet.zone);
        tag(aws, &subnet.id, &[("Name", &name), ("KubernetesCluster", CLUSTER), ("SubnetType", "Public")])?;
    }
    let group = format!("nodes.{CLUSTER}");
    let create = [
        parameter("GroupName", &group),
        parameter("GroupDescription", "Security group for nodes"),
        parameter("VpcId", &vpc),
    ];
    let xml = aws.ec2("CreateSecurityGroup", &create)?;
    let security_group = first_text(&xml, "groupId")?;
    let owned = format!("kubernetes.io/cluster/{CLUSTER}");
    tag(aws, &security_group, &[("Name", &group), ("KubernetesCluster", CLUSTER), (&owned, "owned")])?;
    let [amd64, arm64] = IMAGES.map(|(_, architecture)| image(aws, architecture));
    let (amd64, arm64, state_bucket) = (amd64?, arm64?, STATE_BUCKET.to_owned());
    Ok(Site { vpc, subnets, security_group, amd64, arm64, proxy, state_bucket })
}

/// Name and id of the newest Amazon Linux that moto has of an architecture.
fn image(aws: &Aws, architecture: &str) -> Result<(String, String)> {
    let mut ask = filter(1, "name", &[&format!("al2023-ami-2023.*-kernel-6.12-{architecture}")]);
    ask.push(parameter("Owner.1", "137112412989"));
    let xml = aws.ec2("DescribeImages", &ask)?;
    let document = Document::parse(&xml)?;
    let mut images: Vec<_> =
        items(&document, "imagesSet").map(|item| (text(item, "name"), text(item, "imageId"))).collect();
    images.sort();
    images.pop().with_context(|| format!("moto has no Amazon Linux 2023 image for {architecture}"))
}

/// A launch template as kOps writes it for an instance group that an auto scaling group manages,
/// with the group's own security groups and the cluster's own tags.
pub(crate) fn launch_template(
    aws: &Aws,
    site: &Site,
    group: &Group<'_>,
    more_security_groups: &[String],
    cloud_labels: &[(String, String)],
) -> Result<()> {
    let name = format!("{}.{CLUSTER}", group.name);
    let data = "LaunchTemplateData";
    let mut ask = vec![
        parameter("LaunchTemplateName", &name),
        parameter(format!("{data}.ImageId"), site.image(group)),
        parameter(format!("{data}.InstanceType"), group.machine_type),
        parameter(format!("{data}.UserData"), STANDARD.encode(site.script(group))),
        parameter(format!("{data}.IamInstanceProfile.Name"), format!("nodes.{CLUSTER}")),
        parameter(format!("{data}.MetadataOptions.HttpTokens"), "required"),
        parameter(format!("{data}.MetadataOptions.HttpPutResponseHopLimit"), "1"),
        parameter(format!("{data}.NetworkInterface.1.DeviceIndex"), "0"),
        parameter(format!("{data}.NetworkInterface.1.DeleteOnTermination"), "true"),
        parameter(format!("{data}.NetworkInterface.1.AssociatePublicIpAddress"), "true"),
        parameter(format!("{data}.BlockDeviceMapping.1.DeviceName"), "/dev/xvda"),
        parameter(format!("{data}.BlockDeviceMapping.1.Ebs.VolumeSize"), "128"),
        parameter(format!("{data}.BlockDeviceMapping.1.Ebs.VolumeType"), "gp3"),
        parameter(format!("{data}.BlockDeviceMapping.1.Ebs.Iops"), "3000"),
        parameter(format!("{data}.BlockDeviceMapping.1.Ebs.Throughput"), "125"),
        parameter(format!("{data}.BlockDeviceMapping.1.Ebs.Encrypted"), "true"),
        parameter(format!("{data}.BlockDeviceMapping.1.Ebs.DeleteOnTermination"), "true"),
    ];
    let groups = std::iter::once(&site.security_group).chain(more_security_groups).enumerate();
    ask.extend(groups.map(|(index, group)| {
        parameter(format!("{data}.NetworkInterface.1.SecurityGroupId.{}", index + 1), group)
    }));
    let tags = [group.tags(), cloud_labels.to_vec()].concat();
    for (index, kind) in ["instance", "volume"].iter().enumerate() {
        let root = format!("{data}.TagSpecification.{}", index + 1);
        ask.push(parameter(format!("{root}.ResourceType"), *kind));
        ask.extend(tag_parameters(&format!("{root}.Tag"), &tags));
    }
    ask.push(parameter("TagSpecification.1.ResourceType", "launch-template"));
    ask.extend(tag_parameters("TagSpecification.1.Tag", &tags));
    aws.ec2("CreateLaunchTemplate", &ask).map(drop)
}

/// One queue and one rule for each function that listens to our events.
fn doorbells(aws: &Aws) -> Result<()> {
    for function in FUNCTIONS.iter().filter(|function| !function.doorbells.is_empty()) {
        let queue = doorbell_queue(function.name);
        aws.json("sqs", "AmazonSQS.CreateQueue", &json!({"QueueName": queue}))?;
        let detail = json!({"cluster": [CLUSTER]});
        let pattern = json!({"source": [EVENT_SOURCE], "detail-type": function.doorbells, "detail": detail});
        let rule = json!({"Name": queue, "EventPattern": pattern.to_string(), "State": "ENABLED"});
        aws.json("events", "AWSEvents.PutRule", &rule)?;
        let target = json!({"Id": function.name, "Arn": format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")});
        aws.json("events", "AWSEvents.PutTargets", &json!({"Rule": queue, "Targets": [target]}))?;
    }
    Ok(())
}

fn tag(aws: &Aws, resource: &str, tags: &[(&str, &str)]) -> Result<()> {
    let tags: Vec<_> = tags.iter().map(|(key, value)| parameter(*key, *value)).collect();
    let mut ask = vec![parameter("ResourceId.1", resource)];
    ask.extend(tag_parameters("Tag", &tags));
    aws.ec2("CreateTags", &ask).map(drop)
}

fn tag_parameters(root: &str, tags: &[(String, String)]) -> Vec<(String, String)> {
    let one = |(index, (key, value)): (usize, &(String, String))| {
        let root = format!("{root}.{}", index + 1);
        [parameter(format!("{root}.Key"), key), parameter(format!("{root}.Value"), value)]
    };
    tags.iter().enumerate().flat_map(one).collect()
}

/// EC2's parameters of one filter.
pub(crate) fn filter(index: usize, name: &str, values: &[&str]) -> Vec<(String, String)> {
    let mut parameters = vec![parameter(format!("Filter.{index}.Name"), name)];
    parameters.extend(
        values
            .iter()
            .enumerate()
            .map(|(at, value)| parameter(format!("Filter.{index}.Value.{}", at + 1), *value)),
    );
    parameters
}

/// The `<item>`s right under the first element of that name.
pub(crate) fn items<'a, 'input>(
    document: &'a Document<'input>,
    set: &'static str,
) -> impl Iterator<Item = roxmltree::Node<'a, 'input>> {
    let set =
        document.descendants().find(move |node| node.has_tag_name(set) || node.tag_name().name() == set);
    set.into_iter().flat_map(|set| set.children().filter(|child| child.tag_name().name() == "item"))
}

/// The text of a child; empty when there is none.
pub(crate) fn text(node: roxmltree::Node<'_, '_>, name: &str) -> String {
    let child = node.children().find(|child| child.tag_name().name() == name);
    child.and_then(|child| child.text()).unwrap_or_default().trim().to_owned()
}

fn first_text(xml: &str, name: &str) -> Result<String> {
    let document = Document::parse(xml)?;
    let node = document.descendants().find(|node| node.tag_name().name() == name);
    let found =
        node.and_then(|node| node.text()).with_context(|| format!("EC2's answer has no {name}: {xml}"))?;
    Ok(found.to_owned())
}
