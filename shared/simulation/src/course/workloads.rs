//! What workloads do over time: deploys that go on in turns, and pods of Jobs that end by
//! themselves.

use std::time::Duration;

use outrigger_model::PodRef;

use crate::agenda::Due;
use crate::random::draw;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::{Kind, count};

/// From one turn of a deploy to the next: a new pod must be ready before an old one goes.
const TURN: Duration = Duration::from_secs(10);

impl State {
    /// A deploy of a workload begins.
    pub(crate) fn roll(&mut self, id: &PodRef, moment: Moment) {
        let Some(workload) = self.cluster.workload(id) else { return };
        let goes_on_already = self.cluster.is_rolling(workload);
        let pods = count(self.cluster.begin_roll(workload), "pod");
        self.timeline.add(moment, Kind::Workload, format!("{id}: {pods} to be replaced"));
        if !goes_on_already {
            self.roll_on(workload, moment);
        }
    }

    pub(super) fn roll_on(&mut self, workload: usize, moment: Moment) {
        if self.cluster.roll_on(workload, moment) {
            self.agenda.add(moment.elapsed.saturating_add(TURN), Due::RollOn(workload));
        }
    }

    /// Puts the end of pods that have just begun their work on the agenda.
    pub(super) fn await_jobs(&mut self, moment: Moment) {
        for uid in self.cluster.take_begun() {
            let Some(lifetime) = self.cluster.lifetime(&uid) else { continue };
            let spread = lifetime.most.saturating_sub(lifetime.least).as_secs();
            let more = draw(self.seed, &format!("lasts/{uid}"), spread.saturating_add(1));
            let takes = lifetime.least.saturating_add(Duration::from_secs(more));
            self.agenda.add(moment.elapsed.saturating_add(takes), Due::PodIsDone(uid));
        }
    }
}
