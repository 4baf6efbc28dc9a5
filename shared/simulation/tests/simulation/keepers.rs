//! Nodes of one type of which one has room for the pods of all: that one stays, and nothing is
//! bought.

use outrigger_model::{ClaimState, NodeClaim};

use serde_json::json;

use crate::common::{self, Pool, Workload, World, minutes};

/// A large pod comes each minute and gets a node of its own, on which there is room for one small
/// pod. Then the large pods end.
fn world(nodes: &str) -> World {
    let disruption = json!({"consolidateAfter": "1m", "budgets": [{"nodes": nodes}]});
    let scale = [(minutes(1), 2), (minutes(2), 3), (minutes(3), 4), (minutes(10), 0)];
    World::new("keepers", minutes(120))
        .disrupts()
        .pool(Pool::new("general").spec("disruption", disruption).on_demand().families(&["m5"]))
        .workload(Workload::new("rank", 1, "1600m", "1Gi").scale(&scale))
        .workload(Workload::new("web", 4, "250m", "512Mi").at(minutes(5)))
}

#[test]
fn one_of_four_equal_nodes_stays_and_none_of_their_type_is_launched() {
    for (seed, nodes) in [(1, "100%"), (2, "100%"), (3, "1")] {
        let ending = world(nodes).seed(seed).play();
        let story = || format!("seed {seed}\n{}\n{:?}", common::timeline(&ending), ending.published);
        common::check_laws(&ending, &format!("seed {seed}"));
        assert_eq!(ending.claims.len(), 4, "nothing is launched later: {}", story());
        let lives = |claim: &&NodeClaim| claim.status.state == ClaimState::Initialized;
        assert_eq!(ending.claims.iter().filter(lives).count(), 1, "{}", story());
        let homes = ending.pods.iter().filter(|pod| pod.node_name.is_some()).count();
        assert_eq!((ending.nodes.len(), homes), (1, 4), "{}", story());
    }
}
