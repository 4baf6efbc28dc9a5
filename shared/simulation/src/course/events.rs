//! Events of the scenario as they begin: trouble for a time, or something that is done at once.

use std::time::Duration;

use outrigger_model::{Pause, PauseScope};

use crate::calls::{Crash, Service};
use crate::cloud::{Drought, NO_CAPACITY, Refusal};
use crate::faults::Trouble;
use crate::scenario::{Event, EventKind};
use crate::state::State;
use crate::time::{Moment, after};

impl State {
    /// Lets an event happen.
    pub(super) fn begin(&mut self, event: &Event, moment: Moment) {
        if let Some((trouble, length)) = trouble(&event.kind) {
            self.faults.add(event.at, length, trouble);
        }
        self.act(event, moment);
    }

    /// Does what an event does at once.
    fn act(&mut self, event: &Event, moment: Moment) {
        match &event.kind {
            EventKind::InsufficientCapacity { .. } | EventKind::LaunchErrors { .. } => {
                self.refuse_launches(event);
            }
            EventKind::Freeze { function, before, length } => {
                self.freezes.push((*function, *before, *length));
            }
            EventKind::Hang { function, call, length } => self.hangs.push((*function, *call, *length)),
            EventKind::KillFunction { function, after } => self.kills.push((*function, Crash::After(*after))),
            EventKind::LoseTable | EventKind::CopyTable | EventKind::RestoreTable => {
                self.replace_table(event, moment);
            }
            EventKind::Pause { what, length } => self.ledger.put_pause(Some(pause(*what, *length, moment))),
            EventKind::Resume => self.ledger.put_pause(None),
            EventKind::DeleteNodes(count) => self.delete_nodes(*count, moment),
            EventKind::DeleteRunningPods(count) => self.delete_running(*count, moment),
            EventKind::DeletePods(count) => self.cluster.delete_waiting(*count, moment),
            EventKind::DeleteNodeClaims(count) => self.delete_claims(*count),
            EventKind::DeleteNodePools(count, cascade) => self.delete_node_pools(*count, *cascade, moment),
            EventKind::DeleteDoubles => self.cluster.delete_doubles(moment),
            EventKind::ConfirmDeletions => self.cluster.confirm_deletions(),
            EventKind::DeleteDefinition(_) => {
                self.lost_definition = true;
                self.cluster.delete_definition();
            }
            EventKind::ReclaimInstances(count) => self.reclaim(*count, moment),
            EventKind::Mishap(mishap, count) => self.befall(*mishap, *count, moment),
            EventKind::StrayInstances(count) => self.appear(*count, true, moment),
            EventKind::LateInstances(count) => self.appear_late(*count, moment),
            EventKind::SurplusInstances(count) => self.cloud.add_surplus(*count),
            EventKind::LateFleet(length) => self.cloud.delay_fleet(*length),
            EventKind::ForeignInstances(count) => self.appear(*count, false, moment),
            EventKind::Interruption(what, count) => self.interrupt(*what, *count, moment),
            EventKind::Roll(workload) => self.roll(workload, moment),
            EventKind::UpdateImages => self.cloud.update_images(),
            EventKind::Uninstall(how) => self.uninstall(*how, moment),
            // Trouble alone.
            EventKind::RogueTaint { .. }
            | EventKind::RogueBinding(_)
            | EventKind::KubeletsRefuse(_)
            | EventKind::Throttle { .. }
            | EventKind::Stuck { .. }
            | EventKind::ApiServerDown(_)
            | EventKind::LedgerDown(_)
            | EventKind::CloudDown(_)
            | EventKind::Chaos { .. }
            | EventKind::Slow(_)
            | EventKind::Duplicate { .. }
            | EventKind::SkewClocks(_)
            | EventKind::UnsteadyWatches { .. }
            | EventKind::NeverJoin(_)
            | EventKind::LateJoin(_)
            | EventKind::NeverReady(_)
            | EventKind::PodsHang(_)
            | EventKind::EventsAstray { .. } => {}
        }
    }

    /// EC2 refuses launches: of some offerings, or all of them where none are named.
    fn refuse_launches(&mut self, event: &Event) {
        let (code, instance_types, zones, capacity_type, length) = match &event.kind {
            EventKind::InsufficientCapacity { instance_types, zones, capacity_type, length } => {
                (NO_CAPACITY, instance_types, zones, *capacity_type, *length)
            }
            EventKind::LaunchErrors { code, instance_types, zones, capacity_type, length } => {
                (code.as_str(), instance_types, zones, *capacity_type, *length)
            }
            _ => return,
        };
        let (code, from, until) = (code.to_owned(), event.at, event.at.saturating_add(length));
        let names_none = instance_types.is_empty() && zones.is_empty() && capacity_type.is_none();
        if names_none && matches!(event.kind, EventKind::LaunchErrors { .. }) {
            self.cloud.add_refusal(Refusal { code, from, until });
        } else {
            let (instance_types, zones) = (instance_types.clone(), zones.clone());
            self.cloud.add_drought(Drought { code, instance_types, zones, capacity_type, from, until });
        }
    }

    /// The ledger's table is lost, copied, or replaced by its copy.
    fn replace_table(&mut self, event: &Event, moment: Moment) {
        match event.kind {
            EventKind::LoseTable => {
                self.ledger = self.ledger.lost();
                self.restored_at = Some(moment.elapsed);
            }
            EventKind::CopyTable => {
                let copy = self.ledger.copied(moment.at, self.seed.is_multiple_of(2));
                self.table_copy = Some(Box::new(copy));
            }
            _ => {
                if let Some(copy) = self.table_copy.clone() {
                    self.ledger = copy.restored_over(&self.ledger);
                    self.restored_at = Some(moment.elapsed);
                }
            }
        }
    }
}

/// The trouble that an event brings, and for how long.
fn trouble(kind: &EventKind) -> Option<(Trouble, Duration)> {
    Some(match kind {
        EventKind::RogueTaint { effect, length } => (Trouble::RogueTaint(*effect), *length),
        EventKind::RogueBinding(length) => (Trouble::RogueBinding, *length),
        EventKind::KubeletsRefuse(length) => (Trouble::KubeletsRefuse, *length),
        EventKind::Throttle { call, length } => (Trouble::Throttle(*call), *length),
        EventKind::Stuck { call, length } => (Trouble::Stuck(*call), *length),
        EventKind::ApiServerDown(length) => (Trouble::Down(Service::ApiServer), *length),
        EventKind::LedgerDown(length) => (Trouble::Down(Service::Ledger), *length),
        EventKind::CloudDown(length) => (Trouble::Down(Service::Cloud), *length),
        EventKind::Chaos { percent, length } => (Trouble::Chaos(*percent), *length),
        EventKind::Slow(length) => (Trouble::Slow, *length),
        EventKind::Duplicate { function, length } => (Trouble::Duplicate(*function), *length),
        EventKind::SkewClocks(length) => (Trouble::SkewClocks, *length),
        EventKind::UnsteadyWatches { percent, length } => (Trouble::UnsteadyWatches(*percent), *length),
        EventKind::NeverJoin(length) => (Trouble::NeverJoin, *length),
        EventKind::LateJoin(length) => (Trouble::LateJoin, *length),
        EventKind::NeverReady(length) => (Trouble::NeverReady, *length),
        EventKind::PodsHang(length) => (Trouble::PodsHang, *length),
        EventKind::DeleteDefinition(length) => (Trouble::NoDefinition, *length),
        EventKind::EventsAstray { percent, length } => (Trouble::EventsAstray(*percent), *length),
        _ => return None,
    })
}

/// What somebody says who pauses the functions.
fn pause(what: PauseScope, length: Option<Duration>, moment: Moment) -> Pause {
    let until = length.map(|length| after(moment.at, length));
    Pause { by: "somebody".to_owned(), reason: None, since: moment.at, until, what }
}
