//! Two write one object at once: what was made of an old reading is refused, and made again of a
//! new one.

use crate::common;

/// Lifecycle opens a node that somebody has closed, and stands still with the change in hand.
/// Meanwhile somebody else taints the node: the taint stays, and the node is opened nevertheless.
#[test]
fn no_node_is_written_over_what_was_written_meanwhile() {
    let events = "{at: 2m, kind: CloseNodes, count: 1}, \
                  {at: 170s, kind: Freeze, function: lifecycle, call: ChangeNode, for: 90s}, \
                  {at: 4m, kind: ConfuseNodes, count: 1}";
    let ending = common::run_one_pod_per_node("11m", events);
    let story = || common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.nodes.iter().filter(|node| node.is_disrupted()).count(), 0, "{}", story());
}
