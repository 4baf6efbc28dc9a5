//! From what `kops create cluster` makes to the first node: somebody follows the README, and the
//! one that `outrigger setup` writes, command by command. A release is deployed on moto's
//! CloudFormation, and its functions run with what they have there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use outrigger_stack::{CLUSTER, FUNCTIONS, Made, NodeAgentSettings, Options, Stack, StateStore, parameter};
use outrigger_tests::objects::deployment;
use outrigger_tests::operator::Operator;
use outrigger_tests::world::{NO_WINDOW, apply, count_in_phase, count_unschedulable, tick, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Clusters as kOps' own tests have them. `cargo run -p outrigger-tests --bin kops_clusters`
/// fetches them.
const CREATED: &str = include_str!("created-clusters.json");
const STATE_BUCKET: &str = "created-kops-state";
/// Security groups that one of the clusters names.
const SECURITY_GROUPS: [&str; 4] = ["sg-exampleid4", "sg-exampleid3", "sg-exampleid2", "sg-exampleid"];

/// What `kops create cluster` makes, in the network, the account and the state store of a stack.
fn created(test: &str, stack: &Stack, store: &StateStore) -> Vec<Value> {
    let facts: Value = serde_json::from_str(CREATED).unwrap();
    let mut clusters = facts["clusters"].as_array().unwrap().iter();
    let cluster = clusters.find(|cluster| cluster["test"] == test).unwrap();
    let name = cluster["options"]["ClusterName"].as_str().unwrap();
    let mut json = cluster["objects"].to_string();
    json = json.replace("memfs://tests", &store.address()).replace(name, CLUSTER);
    json = json.replace("us-test-1", "us-east-1");
    for group in SECURITY_GROUPS.into_iter().filter(|group| cluster.to_string().contains(group)) {
        json = json.replace(group, &security_group(stack, group));
    }
    let mut objects: Vec<Value> = serde_json::from_str(&json).unwrap();
    for group in objects.iter_mut().filter(|object| object["kind"] == "InstanceGroup") {
        group["spec"]["image"] = json!(store.image());
    }
    objects
}

fn security_group(stack: &Stack, name: &str) -> String {
    let vpcs = stack.aws().ec2("DescribeVpcs", &[]).unwrap();
    let text = |xml: &str, tag: &str| {
        let rest = xml.split_once(&format!("<{tag}>")).unwrap().1;
        rest.split_once('<').unwrap().0.to_owned()
    };
    // EC2 lets no group's name begin with sg-.
    let ask = [
        parameter("GroupName", format!("of-{name}")),
        parameter("GroupDescription", "of an InstanceGroup"),
        parameter("VpcId", text(&vpcs, "vpcId")),
    ];
    text(&stack.aws().ec2("CreateSecurityGroup", &ask).unwrap(), "groupId")
}

/// The kubeconfig that `kops export kubeconfig` writes. Without DNS it names the load balancer, and
/// the name in the certificate beside it.
fn kubeconfig(stack: &Stack, cluster: &Value, folder: &Path) {
    let admin = fs::read_to_string(&stack.state().endpoints.admin_kubeconfig).unwrap();
    let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
    let server = &mut config["clusters"][0];
    server["name"] = json!(CLUSTER);
    if cluster["spec"]["topology"]["dns"]["type"] == "None" {
        server["cluster"]["server"] =
            json!("https://api-stack-example-com-1a2b3c.elb.us-east-1.amazonaws.com");
        server["cluster"]["tls-server-name"] = json!(format!("api.internal.{CLUSTER}"));
    } else {
        server["cluster"]["server"] = json!(format!("https://api.{CLUSTER}"));
    }
    let user = config["users"][0]["name"].clone();
    config["contexts"] = json!([{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": user}}]);
    config["current-context"] = json!(CLUSTER);
    fs::write(folder.join("kubeconfig"), serde_saphyr::to_string(&config).unwrap()).unwrap();
}

/// The first step of the project's README; the others are what the README of setup says.
fn first_step() -> String {
    let readme = fs::read_to_string(Options::default().checkout.join("README.md")).unwrap();
    let (_, rest) = readme.split_once("1. **Look.**").unwrap();
    rest.split_once("2. **Deploy.**").unwrap().0.replace("CLUSTER", CLUSTER)
}

/// The functions are who they should be in the cluster: each role that was made is in the group of
/// its function.
fn assert_mapped(cluster: &Value, made: &Made) {
    let mappings = cluster["spec"]["authentication"]["aws"]["identityMappings"].as_array().unwrap();
    let outputs = made.described["Stacks"][0]["Outputs"].as_array().unwrap();
    let output = |key: &str| {
        let output = outputs.iter().find(|output| output["OutputKey"] == key);
        output.map(|output| output["OutputValue"].clone()).unwrap()
    };
    let mapped: BTreeMap<String, Value> = mappings
        .iter()
        .map(|mapping| (mapping["arn"].as_str().unwrap().to_owned(), mapping["groups"].clone()))
        .collect();
    let in_the_cluster = FUNCTIONS.iter().filter(|function| function.name != "refresh");
    let expected: BTreeMap<String, Value> = in_the_cluster
        .map(|function| {
            let role = output(&function.logical_id.replace("Function", "Role"));
            (role.as_str().unwrap().to_owned(), json!([format!("outrigger:{}", function.name)]))
        })
        .collect();
    assert_eq!(mapped, expected);
}

/// Follows what is written, until pods run on nodes that Outrigger has launched. Returns the nodes.
fn first_nodes(stack: &mut Stack, test: &str) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let mut store = StateStore::new(stack, STATE_BUCKET).unwrap();
    let objects = created(test, stack, &store);
    for object in &objects {
        store.create(object).unwrap();
    }
    store.update().unwrap();
    kubeconfig(stack, &objects[0], folder.path());
    let (made, cluster) = {
        let mut operator = Operator::new(stack, store, folder.path().to_owned());
        assert_eq!(operator.follow(&first_step()).unwrap().len(), 3);
        let written = folder.path().join(format!("outrigger-{CLUSTER}/README.md"));
        let commands = operator.follow(&fs::read_to_string(written).unwrap()).unwrap();
        assert!(commands.len() >= 10, "{commands:#?}");
        operator.outcome().unwrap()
    };
    assert_mapped(&cluster, &made);

    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "20")]).unwrap();
    tick(stack, "provision").unwrap();
    let pool = stack.kubernetes().get("/apis/karpenter.sh/v1/nodepools/default").unwrap();
    let conditions = pool["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!(ready["status"], "True", "{conditions:#?}");
    apply(stack.kubernetes(), &deployment("web", 3, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 3, Duration::from_secs(60), || count_unschedulable(stack)).unwrap();
    let state_bucket = STATE_BUCKET.to_owned();
    let agent = stack.node_agent(NodeAgentSettings { state_bucket, ..NodeAgentSettings::default() });
    let launched = tick(stack, "provision").unwrap()["launched"].as_array().map_or(0, Vec::len);
    assert!(launched > 0);
    let initialized = || {
        tick(stack, "lifecycle")?;
        Ok(stack.kubernetes().list("/api/v1/nodes?labelSelector=karpenter.sh/initialized%3Dtrue")?.len())
    };
    wait_for("ready nodes", launched, Duration::from_secs(120), initialized).unwrap();
    wait_for("running pods", 3, Duration::from_secs(60), || count_in_phase(stack, "Running")).unwrap();
    drop((agent, provision, lifecycle));
    assert_eq!(stack.refusals(), Vec::<String>::new());
    stack.kubernetes().list("/api/v1/nodes").unwrap()
}

fn zones(nodes: &[Value]) -> Vec<&str> {
    nodes
        .iter()
        .map(|node| node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap())
        .collect()
}

#[test]
fn a_cluster_in_one_zone_gets_its_first_node() {
    let mut stack = Stack::start(Options::default()).unwrap();
    let nodes = first_nodes(&mut stack, "minimal-1.36");
    assert!(zones(&nodes).iter().all(|zone| *zone == "us-east-1a"), "{nodes:#?}");
}

#[test]
fn a_cluster_in_three_zones_gets_its_first_node() {
    let mut stack = Stack::start(Options::default()).unwrap();
    let nodes = first_nodes(&mut stack, "ha");
    let of_cluster = ["us-east-1a", "us-east-1b", "us-east-1c"];
    assert!(zones(&nodes).iter().all(|zone| of_cluster.contains(zone)), "{nodes:#?}");
}

/// Its nodes are in private subnets, with security groups and tags of the cluster's own. moto keeps
/// of a launch template's groups nothing, so the tags are what shows.
#[test]
fn a_private_cluster_gets_its_first_node() {
    let mut stack = Stack::start(Options::default()).unwrap();
    first_nodes(&mut stack, "private");
    let instances = stack.aws().ec2("DescribeInstances", &[]).unwrap();
    for part in ["<key>Owner</key>", "<value>John Doe</value>"] {
        assert!(instances.contains(part), "{part}: {instances}");
    }
}

/// Its API server has a name of its own, and machines of its own.
#[test]
fn a_cluster_with_dns_gets_its_first_node() {
    let mut stack = Stack::start(Options::default()).unwrap();
    first_nodes(&mut stack, "different-amis");
}
