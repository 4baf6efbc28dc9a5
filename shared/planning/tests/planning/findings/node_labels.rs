//! Labels that each new node has though no NodePool gives them: its host name, and what
//! kops-controller makes of tags.

use outrigger_model::{CapacityType, PodSpec, Snapshot, labels};
use serde_json::json;

use super::placed;
use crate::fixtures::{applied, planned, selecting, spec_with, with_pods};

/// A pod that requires this of a label.
fn wanting(key: &str, operator: &str, values: &[&str]) -> PodSpec {
    let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    spec_with(500, 512, json!({"nodeAffinity": [term]}))
}

/// A cluster whose class has these tags, and a pod that waits.
fn tagged(tags: &[(&str, &str)], spec: PodSpec) -> Snapshot {
    let mut snapshot = with_pods(&[("web", 1, spec)]);
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    snapshot.classes[0].class.tags = tags.collect();
    snapshot
}

#[test]
fn a_host_is_there_and_has_a_name_that_nobody_knows() {
    let table =
        [("Exists", &[][..], 1), ("NotIn", &["i-1"], 1), ("In", &["i-1"], 0), ("DoesNotExist", &[], 0)];
    for (operator, values, expected) in table {
        let snapshot = with_pods(&[("web", 1, wanting(labels::HOSTNAME, operator, values))]);
        let (plan, _) = planned(&snapshot);
        assert_eq!(placed(&plan, "web"), expected, "{operator} {values:?}");
        assert!(plan.nodes.iter().all(|node| node.spec.requirements.get(labels::HOSTNAME).is_none()));
    }
}

#[test]
fn a_node_on_its_way_has_a_host_name_as_well() {
    let snapshot = with_pods(&[("web", 1, wanting(labels::HOSTNAME, "Exists", &[]))]);
    let (plan, _) = planned(&snapshot);
    let (again, _) = planned(&applied(&snapshot, &plan));
    assert_eq!((plan.nodes.len(), again.nodes.len(), placed(&again, "web")), (1, 0, 1));
}

#[test]
fn tags_that_kops_controller_makes_labels_of_are_labels() {
    let role = format!("{}node-role.kubernetes.io/node", labels::NODE_LABEL_TAG);
    let tags = [(labels::INSTANCE_GROUP, "nodes"), (&*role, "")];
    for (key, value, expected) in [
        (labels::INSTANCE_GROUP, "nodes", 1),
        (labels::INSTANCE_GROUP, "others", 0),
        ("node-role.kubernetes.io/node", "", 1),
    ] {
        let (plan, _) = planned(&tagged(&tags, spec_with(500, 512, selecting(key, value))));
        assert_eq!(placed(&plan, "web"), expected, "{key}={value}");
        assert!(plan.nodes.iter().all(|node| node.spec.labels.get(key).is_some_and(|label| label == value)));
    }
    let untagged = tagged(&[], spec_with(500, 512, selecting("node-role.kubernetes.io/node", "")));
    assert_eq!(placed(&planned(&untagged).0, "web"), 0);
}

#[test]
fn only_nodes_on_spot_have_kops_label_for_them() {
    let tags = [(labels::INSTANCE_GROUP, "nodes")];
    let bought = |spec: PodSpec| {
        let snapshot = tagged(&tags, spec);
        let (plan, _) = planned(&snapshot);
        let (again, _) = planned(&applied(&snapshot, &plan));
        assert_eq!(again.nodes.len(), 0, "the pod waits for the node that is on its way");
        plan.nodes
            .first()
            .map(|node| (node.capacity_type, node.spec.labels.contains_key(labels::SPOT_WORKER)))
    };
    let spot = Some((CapacityType::Spot, true));
    assert_eq!(bought(spec_with(500, 512, selecting(labels::SPOT_WORKER, "true"))), spot);
    assert_eq!(bought(wanting(labels::SPOT_WORKER, "Exists", &[])), spot);
    assert_eq!(
        bought(wanting(labels::SPOT_WORKER, "DoesNotExist", &[])),
        Some((CapacityType::OnDemand, false))
    );
    assert_eq!(bought(spec_with(500, 512, selecting(labels::SPOT_WORKER, "false"))), None);
    // A daemonset for spot alone takes room there alone.
    let mut snapshot = tagged(&tags, spec_with(1_500, 512, json!({})));
    let on_spot = spec_with(1_000, 64, selecting(labels::SPOT_WORKER, "true"));
    snapshot.daemon_sets.push(crate::fixtures::daemon_set("handler", on_spot));
    let (plan, _) = planned(&snapshot);
    assert_eq!(placed(&plan, "web"), 1);
}
