//! Somebody who taints each node that we open, as Karpenter's chaos tests do
//! (`test/suites/regression/chaos_test.go`), or binds pods to it.

use std::time::Duration;

use outrigger_model::{Pod, Taint, TaintEffect};

use crate::agenda::Due;
use crate::faults::Trouble;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::Kind;

/// The rogue's taint.
const KEY: &str = "example.com/rogue";
/// How long the rogue takes to notice a new node.
const NOTICED_AFTER: Duration = Duration::from_secs(1);

impl State {
    /// A node was opened: the rogue will see it, if there is one.
    pub(super) fn tempt_rogue(&mut self, node: &str, moment: Moment) {
        if self.rogue(moment).is_some() {
            self.agenda.add(moment.elapsed + NOTICED_AFTER, Due::Rogue(node.to_owned()));
        }
    }

    /// The rogue taints a node; where the taint drives pods out, they leave as the taint manager
    /// makes them.
    pub(super) fn taint_by_rogue(&mut self, node: &str, moment: Moment) {
        let Some(effect) = self.rogue(moment) else { return };
        let taint = Taint::new(KEY, "", effect);
        self.cluster.taint(node, taint.clone());
        self.timeline.add(moment, Kind::Event, format!("a rogue taints {node}"));
        if effect != TaintEffect::NoExecute {
            return;
        }
        let leaves = |pod: &&Pod| {
            let tolerates = pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint));
            pod.node_name.as_deref() == Some(node) && !tolerates
        };
        let leaving: Vec<Pod> = self.cluster.pods().values().filter(leaves).cloned().collect();
        for pod in leaving {
            self.ask_to_end(&pod.uid, moment);
        }
    }

    /// The rogue binds a pod of its own to a node that has just been registered, and is closed to
    /// others.
    pub(super) fn bind_stranger(&mut self, node: &str, moment: Moment) {
        if self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::RogueBinding) {
            self.cluster.add_stranger(node, moment);
            self.timeline.add(moment, Kind::Event, format!("a rogue binds a pod to {node}"));
        }
    }

    fn rogue(&self, moment: Moment) -> Option<TaintEffect> {
        self.faults.open(moment.elapsed).find_map(|trouble| match trouble {
            Trouble::RogueTaint(effect) => Some(effect),
            _ => None,
        })
    }
}
