//! Machines and kubelets that fail while their nodes stay.

use std::time::Duration;

use outrigger_engine::ports::InstanceState;
use outrigger_model::resources::MEMORY;
use outrigger_model::{InstanceType, Quantity};

use super::State;
use super::departure::MISSED_AFTER;
use crate::agenda::Step;
use crate::time::Moment;

/// How long pods bear a node that is not heard of (`DefaultTolerationSeconds`).
const DESERTED_AFTER: Duration = Duration::from_mins(5);

/// How long a node says what nobody understands.
const CONFUSED_FOR: Duration = Duration::from_mins(3);
/// For how long somebody minds that pods leave.
const MINDED_FOR: Duration = Duration::from_mins(5);

impl State {
    /// A kubelet is missed.
    pub(super) fn lose(&mut self, node: String, moment: Moment) {
        self.cluster.lose(&node, moment);
        self.agenda.add(moment.elapsed.saturating_add(DESERTED_AFTER), Step::Deserted(node));
    }

    /// The pods of a node that is still not heard of are deleted, so that others take their place.
    pub(super) fn desert(&mut self, node: &str, moment: Moment) {
        for uid in self.cluster.deserters(node) {
            self.ask_to_end(&uid, moment);
        }
    }

    /// Somebody stops a machine; its kubelet is missed a little later.
    pub(crate) fn stop(&mut self, id: &str, moment: Moment) {
        if self.cloud.stop(id) {
            self.announce_state(id, InstanceState::Stopping, moment);
            self.announce_state(id, InstanceState::Stopped, moment);
            self.agenda.add(moment.elapsed.saturating_add(MISSED_AFTER), Step::Lost(id.to_owned()));
        }
    }

    /// A node says for a while what nobody understands.
    pub(crate) fn confuse(&mut self, id: &str, moment: Moment) {
        self.cluster.confuse(id);
        self.agenda.add(moment.elapsed.saturating_add(CONFUSED_FOR), Step::ClearedUp(id.to_owned()));
    }

    /// Somebody asks for the pods of a node that they be left alone, for a time.
    pub(crate) fn annotate_pods(&mut self, id: &str, moment: Moment) {
        self.cluster.annotate_pods(id, moment);
        self.agenda.add(moment.elapsed.saturating_add(MINDED_FOR), Step::Calm(id.to_owned()));
    }

    /// Somebody makes budgets that let none of a node's pods go, for a time.
    pub(crate) fn add_budgets(&mut self, id: &str, moment: Moment) {
        self.cluster.add_budgets(id, moment);
        self.agenda.add(moment.elapsed.saturating_add(MINDED_FOR), Step::DropBudgets);
    }

    /// A node says nothing any more that nobody understands.
    pub(super) fn clear_up(&mut self, node: &str) {
        if !self.cluster.clear_up(node) {
            self.broken.push(format!("somebody took a taint off {node} that nobody understands"));
        }
    }

    /// A kubelet is not heard of any more, and ends no pod.
    pub(crate) fn silence(&mut self, id: &str, moment: Moment) {
        self.silent.insert(id.to_owned());
        self.agenda.add(moment.elapsed.saturating_add(MISSED_AFTER), Step::Lost(id.to_owned()));
    }
}

/// A type as its machines really are: with so many hundredths of the memory that the catalogue
/// promises.
pub(super) fn with_memory(kind: &InstanceType, percent: u64) -> InstanceType {
    let mut kind = kind.clone();
    let missing = 100_i64.saturating_sub_unsigned(percent);
    if missing <= 0 {
        return kind;
    }
    let missing = kind.counted().get(MEMORY).value() / 100 * missing;
    for resources in [&mut kind.capacity, &mut kind.allocatable] {
        let left = (resources.get(MEMORY) - Quantity::bytes(missing)).max(Quantity::ZERO);
        resources.set(MEMORY, left);
    }
    kind
}
