//! Two write one object at once: what was made of an old reading is refused, and made again of a
//! new one.

use outrigger_simulation::EventKind::{Freeze, Mishap};
use outrigger_simulation::Mishap::{CloseNodes, ConfuseNodes};
use outrigger_simulation::{Call, Function};

use crate::common::{self, at, minutes, seconds};

/// Lifecycle opens a node that somebody has closed, and stands still with the change in hand.
/// Meanwhile somebody else taints the node: the taint stays, and the node is opened nevertheless.
#[test]
fn no_node_is_written_over_what_was_written_meanwhile() {
    let length = seconds(90);
    let frozen = Freeze { function: Function::Lifecycle, before: Call::ChangeNode, length };
    let events = [
        at(minutes(2), Mishap(CloseNodes, 1)),
        at(seconds(170), frozen),
        at(minutes(4), Mishap(ConfuseNodes, 1)),
    ];
    let ending = common::one_pod_per_node(minutes(11)).events(events).play();
    let story = || common::timeline(&ending);
    common::check_laws(&ending, "");
    assert_eq!(ending.nodes.iter().filter(|node| node.is_disrupted()).count(), 0, "{}", story());
}
