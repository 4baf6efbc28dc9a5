//! Launches that an operator has paused.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{Pause, Pod};
use tokio::time::Instant;

use super::Tick;
use super::events::{cannot_launch, publish_all};
use crate::pause::in_force;
use crate::ports::{ClusterState, LedgerState};

impl Tick<'_> {
    /// Heeds a pause: no command is planned for while disruption is paused, since none is carried
    /// out. Returns the pause while nothing may be launched.
    pub(super) fn heed_pause(&mut self, ledger: &mut LedgerState) -> Option<Pause> {
        let now = self.ports.now();
        let pause = in_force(ledger, &mut self.summary.pause, self.settings.guards, now)?;
        if pause.stops_disruption(now) {
            ledger.commands.clear();
        }
        pause.stops_launches(now).then_some(pause)
    }

    /// Launches nothing until the pause is over, at the latest until the next tick, and tells the
    /// pods that wait.
    pub(super) async fn rest(&mut self, pause: &Pause, state: &ClusterState) {
        let remaining =
            |until: Timestamp| Duration::try_from(until.duration_since(self.ports.now())).unwrap_or_default();
        let over = pause.until.and_then(|until| Instant::now().checked_add(remaining(until)));
        self.resumes_at = Some(over.map_or(self.deadline, |over| over.min(self.deadline)));
        let why = pause.to_string();
        // A pod that still runs has not failed to be scheduled.
        let waits = |pod: &&Pod| pod.is_provisionable() && pod.node_name.is_none();
        let event = |pod: &Pod| cannot_launch(&pod.id, &pod.uid, &why);
        publish_all(self.ports, state.pods.values().filter(waits).map(event).collect()).await;
    }
}
