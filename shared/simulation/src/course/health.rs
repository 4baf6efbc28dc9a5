//! Machines and kubelets that fail while their nodes stay.

use std::time::Duration;

use outrigger_engine::ports::InstanceState;
use outrigger_model::resources::MEMORY;
use outrigger_model::{InstanceType, Quantity};

use super::departure::MISSED_AFTER;
use crate::agenda::Due;
use crate::scenario::Mishap;
use crate::state::State;
use crate::time::Moment;

/// How long pods bear a node that is not heard of (`DefaultTolerationSeconds`).
const DESERTED_AFTER: Duration = Duration::from_mins(5);

/// How long a node says what nobody understands.
const CONFUSED_FOR: Duration = Duration::from_mins(3);
/// For how long somebody minds that pods leave.
const MINDED_FOR: Duration = Duration::from_mins(5);

impl State {
    /// Lets a mishap befall so many of the oldest nodes.
    pub(super) fn befall(&mut self, mishap: Mishap, number: usize, moment: Moment) {
        for id in self.oldest(number) {
            match mishap {
                Mishap::FailStatusChecks => self.cloud.fail_check(&id, moment),
                Mishap::PlanRetirement => self.cloud.plan_retirement(&id, moment),
                Mishap::StopInstances => self.stop(&id, moment),
                Mishap::SilenceKubelets => self.silence(&id, moment),
                Mishap::BreakHardware => self.cluster.break_hardware(&id, moment),
                Mishap::CloseNodes => self.cluster.close_node(&id, moment),
                Mishap::CordonNodes => self.cluster.cordon_node(&id),
                Mishap::DrainNodes => self.drain_by_hand(&id, moment),
                Mishap::DuplicateNodes => self.cluster.duplicate_node(&id, moment),
                Mishap::ProtectInstances => self.cloud.protect(&id, moment),
                Mishap::ConfuseNodes => self.confuse(&id, moment),
                Mishap::LockNodeClaims => self.cluster.lock_mirror(&id, moment),
                Mishap::AnnotateNodeClaims => self.cluster.annotate_mirror(&id, moment),
                Mishap::AnnotatePods => self.annotate_pods(&id, moment),
                Mishap::AddBudgets => self.add_budgets(&id, moment),
            }
        }
    }

    /// A kubelet is missed.
    pub(super) fn lose(&mut self, node: String, moment: Moment) {
        self.cluster.lose(&node, moment);
        self.agenda.add(moment.elapsed.saturating_add(DESERTED_AFTER), Due::Deserted(node));
    }

    /// The pods of a node that is still not heard of are deleted, so that others take their place.
    pub(super) fn desert(&mut self, node: &str, moment: Moment) {
        for uid in self.cluster.deserters(node) {
            self.ask_to_end(&uid, moment);
        }
    }

    /// Somebody stops a machine; its kubelet is missed a little later.
    fn stop(&mut self, id: &str, moment: Moment) {
        if self.cloud.stop(id) {
            self.announce_state(id, InstanceState::Stopping, moment);
            self.announce_state(id, InstanceState::Stopped, moment);
            self.agenda.add(moment.elapsed.saturating_add(MISSED_AFTER), Due::Lost(id.to_owned()));
        }
    }

    /// A node says for a while what nobody understands.
    fn confuse(&mut self, id: &str, moment: Moment) {
        self.cluster.confuse(id);
        self.agenda.add(moment.elapsed.saturating_add(CONFUSED_FOR), Due::ClearedUp(id.to_owned()));
    }

    /// Somebody asks for the pods of a node that they be left alone, for a time.
    fn annotate_pods(&mut self, id: &str, moment: Moment) {
        self.cluster.annotate_pods(id, moment);
        self.agenda.add(moment.elapsed.saturating_add(MINDED_FOR), Due::Calm(id.to_owned()));
    }

    /// Somebody makes budgets that let none of a node's pods go, for a time.
    fn add_budgets(&mut self, id: &str, moment: Moment) {
        self.cluster.add_budgets(id, moment);
        self.agenda.add(moment.elapsed.saturating_add(MINDED_FOR), Due::DropBudgets);
    }

    /// A node says nothing any more that nobody understands.
    pub(super) fn clear_up(&mut self, node: &str) {
        if !self.cluster.clear_up(node) {
            self.broken.push(format!("somebody took a taint off {node} that nobody understands"));
        }
    }

    /// A kubelet is not heard of any more, and ends no pod.
    fn silence(&mut self, id: &str, moment: Moment) {
        self.silent.insert(id.to_owned());
        self.agenda.add(moment.elapsed.saturating_add(MISSED_AFTER), Due::Lost(id.to_owned()));
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
        let remaining = (resources.get(MEMORY) - Quantity::bytes(missing)).max(Quantity::ZERO);
        resources.set(MEMORY, remaining);
    }
    kind
}
