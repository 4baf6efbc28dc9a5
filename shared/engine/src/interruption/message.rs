//! What EC2 and AWS Health tell about instances, in our words.

use std::time::Duration;

use jiff::Timestamp;

use crate::ports::InstanceState;

/// After so many deliveries the queue gives a message up (`maxReceiveCount` in template.yaml).
const MOST_DELIVERIES: u32 = 7;
/// A message that could not be handled comes again after so long, doubled with each delivery.
const FIRST_DELAY: Duration = Duration::from_secs(2);
/// It never waits longer than that.
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// After how long a message that could not be handled is to come again, having been delivered so
/// often. What it waits for, a launch that is written down or a ledger that answers, is seconds
/// away as a rule, and a spot machine has two minutes.
pub fn retry_delay(deliveries: u32) -> Duration {
    let doublings = 2_u32.saturating_pow(deliveries.saturating_sub(1));
    FIRST_DELAY.saturating_mul(doublings).min(LONGEST_DELAY)
}

/// One event about instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The event's id; an event that is delivered twice has it twice.
    pub id: String,
    /// When it was sent.
    pub at: Timestamp,
    /// What it says.
    pub news: News,
    /// The instances that it is about, anybody's.
    pub instances: Vec<String>,
}

/// What an event says (Karpenter AWS provider, `pkg/controllers/interruption/messages`, 1.14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// `EC2 Spot Instance Interruption Warning`: EC2 takes the instance back in two minutes.
    SpotInterruption {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
    },
    /// `EC2 Instance Rebalance Recommendation`: it may be taken back sooner than others.
    RebalanceRecommendation,
    /// `EC2 Instance State-change Notification`.
    StateChange(InstanceState),
    /// `AWS Health Event` of EC2, category scheduledChange: its host is to be retired, rebooted or
    /// the like.
    ScheduledChange {
        /// `eventTypeCode`, as `AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED`.
        code: String,
    },
    /// `EC2 Capacity Reservation Instance Interruption Warning`: the owner of the reservation wants
    /// it back.
    ReservationInterruption,
    /// Anything that asks for nothing.
    Other {
        /// What it was.
        what: String,
    },
}

/// A message as a queue delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The queue's name for this delivery, which failures are told by.
    pub key: String,
    /// How many times the queue has delivered the message, this one included.
    pub count: u32,
    /// The message.
    pub message: Message,
}

impl Delivery {
    /// Whether the queue gives the message up after this delivery.
    pub const fn is_last(&self) -> bool {
        self.count >= MOST_DELIVERIES
    }
}
