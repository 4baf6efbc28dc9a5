//! What EC2 and AWS Health announce about machines, and what comes of it.

use std::time::Duration;

use outrigger_engine::interruption::{Message, News};
use outrigger_engine::ports::InstanceState;
use outrigger_model::{CapacityType, labels};

use crate::agenda::Due;
use crate::faults::Trouble;
use crate::random::draw;
use crate::scenario::Interruption;
use crate::state::State;
use crate::time::Moment;

/// How long an event is under way, usually and when events go astray.
const USUAL_DELAY_MILLIS: u64 = 1_500;
const WORST_DELAY_MILLIS: u64 = 150_000;
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
                    self.agenda.add(moment.elapsed.saturating_add(NOTICE), Due::Falls(id));
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

    /// EC2 tells something about an instance.
    pub(super) fn announce(&mut self, instance: &str, news: News, moment: Moment) {
        let id = self.queue.next_event_id();
        let message = Message { id: id.clone(), at: moment.at, news, instances: vec![instance.to_owned()] };
        let astray = self.faults.open(moment.elapsed).filter_map(|trouble| match trouble {
            Trouble::Chaos(percent) | Trouble::EventsAstray(percent) => Some(percent),
            _ => None,
        });
        let percent = astray.max().unwrap_or(0);
        let copies = match draw(self.seed, &format!("{id}/fate"), 200) {
            drawn if drawn < percent => 0,
            drawn if drawn < 2 * percent => 2,
            _ => 1,
        };
        for copy in 0..copies {
            let subject = format!("{id}/delay/{copy}");
            let is_late = draw(self.seed, &format!("{subject}/late"), 100) < percent;
            let longest = if is_late { WORST_DELAY_MILLIS } else { USUAL_DELAY_MILLIS };
            let delay = Duration::from_millis(draw(self.seed, &subject, longest));
            self.queue.put(message.clone(), moment.elapsed.saturating_add(delay));
        }
    }

    /// An instance has come to another state.
    pub(super) fn announce_state(&mut self, instance: &str, state: InstanceState, moment: Moment) {
        self.announce(instance, News::StateChange(state), moment);
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
