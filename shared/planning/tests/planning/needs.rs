//! What pods ask of nodes, one small cluster after another, each with the guarantee that it proves.
//! The snapshot files show plan and report.

use std::sync::Arc;

use outrigger_model::{
    ClassOffer, NodeClass, NodeClassRef, PodState, Requirement, Taint, TaintEffect, labels,
};
use serde_json::json;

use crate::fixtures::{
    ZONES, catalogue, check_snapshot as check, cluster, daemon_set, node, planned, pods, pool, rendered,
    requiring, selecting, spec, spec_with, taint, with_pods,
};

#[test]
fn requests() {
    check(
        "requests",
        "Cpu, memory and pod counts decide which types a node offers.",
        &with_pods(&[("web", 6, spec(500, 512)), ("cache", 2, spec(200, 6_000)), ("tiny", 120, spec(1, 1))]),
    );
}

#[test]
fn extended_resources() {
    let gpu = spec_with(500, 1_024, json!({"requests": {"nvidia.com/gpu": "1"}}));
    check(
        "extended_resources",
        "A GPU is launched for pods that ask for one, and others only fill its gaps.",
        &with_pods(&[("train", 1, gpu), ("web", 4, spec(500, 512))]),
    );
}

#[test]
fn node_selectors() {
    check(
        "node_selectors",
        "nodeSelector decides machine, zone and capacity type.",
        &with_pods(&[
            ("arm", 1, spec_with(500, 512, selecting(labels::ARCH, "arm64"))),
            ("zonal", 1, spec_with(500, 512, selecting(labels::ZONE, ZONES[2]))),
            ("steady", 1, spec_with(500, 512, selecting(labels::CAPACITY_TYPE, "on-demand"))),
            ("beta", 1, spec_with(500, 512, selecting("beta.kubernetes.io/arch", "arm64"))),
            ("named", 1, spec_with(500, 512, selecting(labels::INSTANCE_TYPE, "r6a.large"))),
            ("region", 1, spec_with(500, 512, selecting(labels::REGION, "us-east-1"))),
        ]),
    );
}

#[test]
fn numeric_affinity() {
    let large = json!({"nodeAffinity": [{"matchExpressions": [
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]}]}]});
    check(
        "numeric_affinity",
        "Gt and Lt compare the labels of instance types as integers.",
        &with_pods(&[("web", 1, spec_with(500, 512, large))]),
    );
}

#[test]
fn affinity_alternatives() {
    let term = |key: &str, value: &str| {
        let expression = json!({"key": key, "operator": "In", "values": [value]});
        json!({"matchExpressions": [expression]})
    };
    let both = json!({"nodeAffinity": [term("team", "red"), term(labels::ARCH, "arm64")]});
    let empty = json!({"nodeAffinity": [{}]});
    let fields = json!({"nodeAffinity": [{"hasMatchFields": true}]});
    check(
        "affinity_alternatives",
        "Alternatives are tried in order; an empty one matches nothing; matchFields are refused.",
        &with_pods(&[
            ("second", 1, spec_with(500, 512, both)),
            ("empty", 1, spec_with(500, 512, empty)),
            ("fields", 1, spec_with(500, 512, fields)),
        ]),
    );
}

#[test]
fn an_earlier_alternative_wins_over_a_heavier_pool() {
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool("light", requiring(&[("team", "In", &["red"])])));
    let mut heavy = pool("heavy", requiring(&[("team", "In", &["blue"])]));
    heavy.spec.weight = Some(10);
    snapshot.node_pools.push(heavy);
    let term =
        |value: &str| json!({"matchExpressions": [{"key": "team", "operator": "In", "values": [value]}]});
    snapshot.pods = pods("web", 1, spec_with(500, 512, json!({"nodeAffinity": [term("red"), term("blue")]})));
    check(
        "alternative_before_weight",
        "The first alternative that some pool serves wins, whatever the weights.",
        &snapshot,
    );
}

#[test]
fn taints_and_tolerations() {
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool(
        "batch",
        json!({"template": {"spec": {
        "taints": [taint("batch")], "startupTaints": [taint("starting")]}}}),
    ));
    let tolerant = json!({"tolerations": [{"key": "batch", "operator": "Exists"}]});
    snapshot.pods = pods("job", 1, spec_with(500, 512, tolerant));
    snapshot.pods.extend(pods("web", 1, spec(500, 512)));
    check(
        "taints",
        "A pool's taints keep pods away that do not bear them; its startup taints do not.",
        &snapshot,
    );
}

#[test]
fn daemon_sets() {
    let mut snapshot = with_pods(&[("web", 1, spec(1_700, 512))]);
    snapshot.daemon_sets.push(daemon_set("logs", spec(300, 128)));
    snapshot.daemon_sets.push(daemon_set(
        "gpu",
        spec_with(3_000, 128, selecting("karpenter.k8s.aws/instance-gpu-count", "1")),
    ));
    check(
        "daemon_sets",
        "Daemonsets take their share of the machines that they run on, so no large type fits.",
        &snapshot,
    );
}

#[test]
fn a_daemon_set_counts_only_where_it_runs() {
    let mut snapshot = with_pods(&[("web", 1, spec(1_700, 512))]);
    snapshot.daemon_sets.push(daemon_set("amd", spec_with(300, 128, selecting(labels::ARCH, "amd64"))));
    check("daemon_set_by_arch", "A daemonset for amd64 takes nothing of arm64 machines.", &snapshot);
}

#[test]
fn open_labels() {
    let mut snapshot = cluster();
    snapshot
        .node_pools
        .push(pool("default", requiring(&[("team", "In", &["red", "blue"]), ("tier", "NotIn", &["gold"])])));
    for team in ["red", "blue", "green"] {
        snapshot.pods.extend(pods(team, 1, spec_with(300, 512, selecting("team", team))));
    }
    let expression = |operator: &str| {
        let tier = json!({"key": "tier", "operator": operator, "values": []});
        json!({"nodeAffinity": [{"matchExpressions": [tier]}]})
    };
    snapshot.pods.extend(pods("tiered", 1, spec_with(300, 512, expression("Exists"))));
    snapshot.pods.extend(pods("untiered", 1, spec_with(300, 512, expression("DoesNotExist"))));
    check(
        "open_labels",
        "A node has one value of each label; pods that want different ones do not meet.",
        &snapshot,
    );
}

#[test]
fn host_ports() {
    let port = json!({"hostPorts": [{"ip": "", "port": 80, "protocol": "TCP"}]});
    let mut snapshot =
        with_pods(&[("proxy", 3, spec_with(100, 128, port.clone())), ("web", 3, spec(100, 128))]);
    check("host_ports", "Pods that take the same port of the node do not share one.", &snapshot);
    snapshot.daemon_sets.push(daemon_set("ingress", spec_with(100, 128, port)));
    check("host_ports_of_daemon_sets", "Nor does one go where a daemonset takes the port.", &snapshot);
}

#[test]
fn unsupported_needs() {
    check(
        "unsupported",
        "What cannot be planned for with certainty is never placed on a guess.",
        &with_pods(&[
            ("device", 1, spec_with(100, 128, json!({"usesResourceClaims": true}))),
            ("field", 1, spec_with(100, 128, json!({"nodeAffinity": [{"hasMatchFields": true}]}))),
        ]),
    );
}

#[test]
fn pods_that_are_left_out() {
    let unpooled = json!({"key": labels::NODE_POOL, "operator": "DoesNotExist"});
    let none = json!({"nodeAffinity": [{"matchExpressions": [unpooled]}]});
    let mut snapshot = with_pods(&[("foreign", 1, spec_with(100, 128, none)), ("urgent", 2, spec(100, 128))]);
    snapshot.nodes.push(node("i-busy", "m6a.large"));
    snapshot.nodes[0].taints.push(Taint::new("busy", "", TaintEffect::NoSchedule));
    let mut leaving = pods("leaving", 1, spec(100, 128)).remove(0);
    (leaving.state, leaving.node_name) = (PodState::Terminating, Some("i-busy".into()));
    snapshot.pods.push(leaving);
    snapshot.pods[1].nominated_node = Some("i-busy".into());
    snapshot.pods[2].nominated_node = Some("i-gone".into());
    check(
        "left_out",
        "Pods that opted out or wait for a preemption are left out, with the reason.",
        &snapshot,
    );
}

#[test]
fn refusals_name_every_filter() {
    let mut snapshot = with_pods(&[
        ("huge", 1, spec(500_000, 512)),
        ("arm", 1, spec_with(6_000, 512, selecting(labels::ARCH, "arm64"))),
        ("custom", 1, spec_with(100, 128, selecting("team", "red"))),
        ("reserved", 1, spec_with(100, 128, selecting(labels::CAPACITY_TYPE, "reserved"))),
        ("fpga", 1, spec_with(100, 128, json!({"requests": {"xilinx.com/fpga": "1"}}))),
    ]);
    let amd = requiring(&[(labels::ARCH, "In", &["amd64"]), (labels::ZONE, "In", &[ZONES[0]])]);
    snapshot.node_pools.push(pool("amd", amd));
    check("refusals", "For each pool the filters stand in order, with how many types each left.", &snapshot);
}

#[test]
fn types_that_the_catalogue_does_not_have_are_not_launched() {
    let of_pool = |name: &str| spec_with(500, 512, selecting(labels::NODE_POOL, name));
    let of_type = |name: &str, pool: &str| {
        spec_with(500, 512, json!({"nodeSelector": {labels::INSTANCE_TYPE: name, labels::NODE_POOL: pool}}))
    };
    let mut snapshot = with_pods(&[
        ("of-new", 1, of_pool("new")),
        ("of-either", 1, of_pool("either")),
        ("of-group", 1, of_pool("group")),
        ("named", 1, of_type("m9x.large", "default")),
        ("named-of-either", 1, of_type("m9x.large", "either")),
    ]);
    let naming = |types: &[&str]| requiring(&[(labels::INSTANCE_TYPE, "In", types)]);
    snapshot.node_pools.push(pool("new", naming(&["m9x.large"])));
    snapshot.node_pools.push(pool("either", naming(&["m9x.large", "m6a.large"])));
    let mut class = NodeClass::for_planning(NodeClassRef::instance_group("named"));
    class.requirements.add(labels::INSTANCE_TYPE, Requirement::exactly("m9x.large"));
    snapshot.classes.push(ClassOffer { class, instance_types: Arc::new(catalogue()) });
    let of_class = json!({"template": {"spec": {"nodeClassRef": {"name": "named"}}}});
    snapshot.node_pools.push(pool("group", of_class));
    let (plan, report) = planned(&snapshot);
    let types = plan.nodes.iter().flat_map(|node| node.instance_types.iter().map(|kind| kind.name.as_str()));
    assert_eq!(types.collect::<Vec<_>>(), ["m6a.large"]);
    let guarantee = "What the catalogue does not have is not launched, whoever names it.";
    insta::assert_snapshot!("unknown_types", rendered(guarantee, &plan, &report));
}
