//! What EC2 and AWS Health tell about instances, in our words.

use jiff::Timestamp;

use crate::ports::InstanceState;

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
    /// `AWS Health Event` of EC2, category scheduledChange: its host is to be retired, rebooted or the like.
    ScheduledChange {
        /// `eventTypeCode`, as `AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED`.
        code: String,
    },
    /// `EC2 Capacity Reservation Instance Interruption Warning`: the owner of the reservation wants it back.
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
    /// Whether the queue gives up after this delivery.
    pub is_last: bool,
    /// The message.
    pub message: Message,
}
