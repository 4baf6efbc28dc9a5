//! A cluster of IPv6: subnets without IPv4 addresses, an API server at an IPv6 address, nodes with
//! IPv6 addresses.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::time::Duration;

use outrigger_stack::{CLUSTER, NodeAgentSettings, STATE_BUCKET, Stack, parameter};
use outrigger_tests::objects::{deployment, node_pool, requirement};
use outrigger_tests::proxy::Proxy;
use outrigger_tests::world::{apply, count_in_phase, count_unschedulable, tick, wait_for};
use serde_json::{Value, json};

const ZONE: &str = "us-east-1a";

/// What stands in the first element of a name.
fn first<'a>(xml: &'a str, element: &str) -> &'a str {
    xml.split(&format!("<{element}>")).nth(1).and_then(|rest| rest.split('<').next()).unwrap()
}

/// Makes a subnet that has IPv6 addresses alone, and returns its id.
fn subnet(stack: &Stack) -> String {
    let ec2 = |action: &str, parameters: &[(String, String)]| stack.aws().ec2(action, parameters).unwrap();
    let vpc = first(&ec2("DescribeVpcs", &[]), "vpcId").to_owned();
    // moto makes names of hosts from IPv4 addresses only.
    ec2("ModifyVpcAttribute", &[parameter("VpcId", &vpc), parameter("EnableDnsHostnames.Value", "false")]);
    let provided = parameter("AmazonProvidedIpv6CidrBlock", "true");
    let associated = ec2("AssociateVpcCidrBlock", &[parameter("VpcId", &vpc), provided]);
    let range = first(&associated, "ipv6CidrBlock").replace("/56", "/64");
    let wanted = [
        parameter("VpcId", &vpc),
        parameter("Ipv6CidrBlock", range),
        parameter("Ipv6Native", "true"),
        parameter("AvailabilityZone", ZONE),
    ];
    first(&ec2("CreateSubnet", &wanted), "subnetId").to_owned()
}

/// Writes the state store anew, as kOps does for a private subnet of an IPv6 cluster, in which the
/// group `own` is.
fn rewrite(stack: &Stack, subnet: &str) {
    let change = |name: &str, changes: &[(&str, &str)]| {
        let key = format!("{CLUSTER}/{name}");
        let mut text = stack.aws().object(STATE_BUCKET, &key).unwrap().unwrap();
        for (old, new) in changes {
            assert!(text.contains(old), "{old} in {text}");
            text = text.replace(old, new);
        }
        stack.aws().put_object(STATE_BUCKET, &key, &text).unwrap();
    };
    let written = format!(
        "  subnets:\n  - id: {subnet}\n    ipv6CIDR: /64#1\n    name: six\n    type: Private\n    zone: {ZONE}\n"
    );
    let cluster = [
        ("  subnets:\n", written.as_str()),
        ("nonMasqueradeCIDR: 100.64.0.0/10", "nonMasqueradeCIDR: ::/0"),
        ("  podCIDR: 100.96.0.0/11\n", ""),
        ("serviceClusterIPRange: 100.64.0.0/13", "serviceClusterIPRange: fd00:5e4f:ce::/108"),
        ("clusterDNS: 100.64.0.10", "clusterDNS: fd00:5e4f:ce::a"),
    ];
    change("cluster-completed.spec", &cluster);
    change("instancegroup/own", &[("  - us-east-1a\n  - us-east-1b\n  - us-east-1c\n", "  - six\n")]);
}

/// The addresses by which nodes are reached within the cluster.
fn addresses(stack: &Stack) -> Vec<String> {
    let nodes = stack.kubernetes().list("/api/v1/nodes").unwrap();
    let all = nodes.iter().flat_map(|node| node["status"]["addresses"].as_array().unwrap());
    let internal = all.filter(|address| address["type"] == "InternalIP");
    internal.map(|address| address["address"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn nodes_of_ipv6_subnets_join_a_server_at_an_ipv6_address() {
    let stack = Stack::start(outrigger_stack::Options::default()).unwrap();
    let subnet = subnet(&stack);
    rewrite(&stack, &subnet);
    let capacity = requirement("karpenter.sh/capacity-type", "In", &["on-demand"]);
    apply(stack.kubernetes(), &node_pool("own", "own", &json!([capacity]))).unwrap();
    apply(stack.kubernetes(), &deployment("web", 3, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 3, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();

    let server = stack.state().endpoints.kubernetes.trim_start_matches("https://");
    let proxy = Proxy::start_at("[::1]:0", server).unwrap();
    let address = format!("https://[::1]:{}", proxy.port());
    let reached = ("OUTRIGGER_API_SERVER", address.as_str());
    let provision = stack.start_function("provision", &[reached]).unwrap();
    let longer = [reached, ("OUTRIGGER_POLL_WINDOW_SECONDS", "30")];
    let lifecycle = stack.start_function("lifecycle", &longer).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!((answer["unplaced"].as_u64(), &answer["failed"]), (Some(0), &json!([])), "{answer}");
    let registered = tick(&stack, "lifecycle").unwrap();
    assert_eq!(registered["waiting"], json!({}), "{registered}");
    wait_for("running pods", 3, Duration::from_secs(60), || count_in_phase(&stack, "Running")).unwrap();
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, agent));

    let addresses = addresses(&stack);
    assert!(
        !addresses.is_empty() && addresses.iter().all(|one| one.parse::<Ipv6Addr>().is_ok()),
        "{addresses:?}"
    );
    for node in stack.kubernetes().list("/api/v1/nodes").unwrap() {
        assert_eq!(
            (&node["spec"]["taints"], node["metadata"]["labels"]["karpenter.sh/initialized"].as_str()),
            (&Value::Null, Some("true")),
            "{node}"
        );
    }
    let templates = stack.aws().ec2("DescribeLaunchTemplates", &[]).unwrap();
    let names = templates.split("<launchTemplateName>").skip(1).filter_map(|rest| rest.split('<').next());
    let ours: BTreeSet<&str> = names.filter(|name| name.starts_with("outrigger")).collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    let name = ours.first().unwrap();
    let wanted = [parameter("LaunchTemplateName", *name), parameter("LaunchTemplateVersion.1", "1")];
    let written = stack.aws().ec2("DescribeLaunchTemplateVersions", &wanted).unwrap();
    assert_eq!((first(&written, "ipv6AddressCount"), first(&written, "httpProtocolIpv6")), ("1", "enabled"));
}
