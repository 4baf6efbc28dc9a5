//! The simulated scheduler: pods that want to be near others or away from them, and pods that make
//! others leave.

use std::collections::BTreeMap;

use outrigger_model::{Pod, labels};
use outrigger_simulation::{Ending, Expect};
use serde_json::{Value, json};

use crate::common::{self, Pool, Workload, World, minutes};

/// One pool of small nodes.
fn run(limits: Value, workloads: impl IntoIterator<Item = Workload>) -> Ending {
    let pool = Pool::new("general").spec("limits", limits).of_m6a_large();
    World::new("scheduler", minutes(12)).seed(3).pool(pool).workloads(workloads).play_lawfully()
}

/// A workload whose pods must be on the nodes of the pods `apart`, or on none of them.
fn tied(name: &str, affinity: &str) -> Workload {
    let selector = json!({"matchLabels": {"app": "apart"}});
    let term = json!({"topologyKey": labels::HOSTNAME, "labelSelector": selector});
    let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    Workload::new(name, 3, "300m", "1Gi").labelled().spec("affinity", json!({affinity: terms}))
}

/// The pods of a workload that are on a node, by that.
fn by_node<'a>(ending: &'a Ending, workload: &str) -> BTreeMap<&'a str, Vec<&'a Pod>> {
    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    let of_workload = |pod: &&Pod| pod.id.name.starts_with(workload);
    for pod in ending.pods.iter().filter(of_workload) {
        if let Some(node) = pod.node_name.as_deref() {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node
}

#[test]
fn pods_are_near_whom_they_ask_for_and_away_from_whom_they_shun() {
    // It would find room beside `apart`, which keeps it away; it says nothing of that itself.
    let shunned = Workload::new("shunned", 1, "100m", "64Mi").at(minutes(6));
    let ending = run(
        json!({"cpu": "100"}),
        [
            tied("apart", "podAntiAffinity"),
            tied("near", "podAffinity").at(minutes(3)),
            shunned.label("app", "apart").label("kind", "other"),
        ],
    );
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{story}");
    let (apart, near, shunned) =
        (by_node(&ending, "apart"), by_node(&ending, "near"), by_node(&ending, "shunned"));
    assert_eq!(apart.values().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1], "{story}");
    assert_eq!(near.values().map(Vec::len).sum::<usize>(), 3, "{story}");
    assert!(near.keys().all(|node| apart.contains_key(node)), "{story}");
    assert!(shunned.len() == 1 && shunned.keys().all(|node| !apart.contains_key(node)), "{story}");
}

#[test]
fn a_pod_that_fits_nowhere_makes_lower_ones_leave() {
    let ending = run(
        json!({"nodes": "1"}),
        [
            Workload::new("low", 4, "400m", "1Gi").grace(20).expect(Expect::Waiting),
            Workload::new("high", 1, "700m", "1Gi").at(minutes(5)).spec("priority", 1000),
        ],
    );
    let story = common::timeline(&ending);
    let running = |workload: &str| by_node(&ending, workload).values().map(Vec::len).sum::<usize>();
    assert_eq!((running("high"), running("low"), ending.nodes.len()), (1, 3, 1), "{story}");
    assert_eq!(story.matches("preempted").count(), 1, "{story}");
}
