//! Pods that Outrigger binds itself.

use outrigger_engine::ports::Binding;
use outrigger_model::NominatedPod;

use crate::faults::Trouble;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::Kind;

impl State {
    /// A pod is bound to a node at our wish. No law lets us bind one that the node cannot take,
    /// unless the node went between the look and the call, a watch shows late what came to it, or
    /// its kubelet has reasons of its own.
    pub(crate) fn bind(&mut self, pod: &NominatedPod, node: &str, moment: Moment) -> Binding {
        let is_there = self.cluster.nodes().contains_key(node);
        let refuses = self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::KubeletsRefuse);
        let (binding, refusal) = self.cluster.bind(pod, node, refuses, moment);
        if let Some(why) = refusal {
            let text = format!("{} was bound to {node}, which does not take it: {why}", pod.pod);
            if is_there && !refuses && !self.faults.watches_are_late(moment) {
                self.broken.push(text.clone());
            }
            self.timeline.add(moment, Kind::Trouble, text);
        }
        binding
    }
}
