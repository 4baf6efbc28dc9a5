//! What EC2 and AWS Health announce about machines, and what comes of it.

use std::time::Duration;

use outrigger_engine::interruption::News;
use outrigger_engine::ports::InstanceState;
use outrigger_model::{CapacityType, labels};

use super::State;
use crate::agenda::Step;
use crate::scenario::Interruption;
use crate::time::Moment;

/// From a spot warning to the machine being taken.
const NOTICE: Duration = Duration::from_mins(2);

impl State {
    /// It happens to the oldest machines that it can happen to.
    pub(crate) fn interrupt(&mut self, what: Interruption, number: usize, moment: Moment) {
        for id in self.concerned(what, number) {
            match what {
                Interruption::SpotWarning => {
                    let news = News::SpotInterruption { action: "terminate".into() };
                    self.announce(&id, news, moment);
                    self.warned.insert(id.clone());
                    self.agenda.add(moment.elapsed.saturating_add(NOTICE), Step::Falls(id));
                }
                Interruption::Rebalance => self.announce(&id, News::RebalanceRecommendation, moment),
                Interruption::ScheduledChange => {
                    let code = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED".into();
                    self.announce(&id, News::ScheduledChange { code }, moment);
                }
                Interruption::ForgedTermination => {
                    self.announce_state(&id, InstanceState::Terminated, moment);
                }
            }
        }
    }

    /// Machines that run, the oldest first, whether their nodes have joined or not.
    fn concerned(&self, what: Interruption, number: usize) -> Vec<String> {
        let is_spot = |kind| kind == CapacityType::Spot;
        let only_spot = matches!(what, Interruption::SpotWarning | Interruption::Rebalance);
        let mut machines: Vec<_> = self
            .cloud
            .machines()
            .values()
            .filter(|machine| machine.state == InstanceState::Running)
            .filter(|machine| machine.tags.contains_key(labels::INTENT))
            .filter(|machine| !only_spot || is_spot(machine.instance.capacity_type))
            .filter(|machine| !self.warned.contains(&machine.instance.id))
            .collect();
        machines.sort_by_key(|machine| (machine.launched, machine.instance.id.as_str()));
        machines.into_iter().take(number).map(|machine| machine.instance.id.clone()).collect()
    }
}
