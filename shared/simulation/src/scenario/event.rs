//! What goes wrong in a scenario.

use std::fmt;
use std::time::Duration;

use outrigger_model::CapacityType;
use serde::{Deserialize, Serialize};

use crate::cloud::Drought;
use crate::door::{Call, Crash, Service};
use crate::faults::Trouble;
use crate::state::State;

/// Something that goes wrong at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Duration,
    /// What.
    pub kind: EventKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Capacity pools have nothing left. An empty list means all.
    InsufficientCapacity {
        /// Instance types.
        instance_types: Vec<String>,
        /// Zones.
        zones: Vec<String>,
        /// Capacity type; both when absent.
        capacity_type: Option<CapacityType>,
        /// For how long.
        length: Duration,
    },
    /// EC2 refuses calls for their rate.
    Throttle {
        /// The only call that it refuses; every call when absent.
        call: Option<Call>,
        /// For how long.
        length: Duration,
    },
    /// The API server does not answer.
    ApiServerDown(Duration),
    /// The ledger does not answer.
    LedgerDown(Duration),
    /// EC2 does not answer.
    CloudDown(Duration),
    /// Calls fail and functions die by chance.
    Chaos {
        /// Of a hundred calls.
        percent: u64,
        /// For how long.
        length: Duration,
    },
    /// The next run of a function dies.
    KillFunction {
        /// Which function.
        function: Function,
        /// After which call.
        after: Call,
    },
}

/// The functions that a world runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// Launches nodes for pods.
    Provision,
    /// Takes launched nodes to being ready for pods.
    Lifecycle,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provision => "provision",
            Self::Lifecycle => "lifecycle",
        })
    }
}

impl Event {
    /// How long it lasts; `None` for what happens once.
    pub(crate) const fn length(&self) -> Option<Duration> {
        match &self.kind {
            EventKind::InsufficientCapacity { length, .. }
            | EventKind::Throttle { length, .. }
            | EventKind::ApiServerDown(length)
            | EventKind::LedgerDown(length)
            | EventKind::CloudDown(length)
            | EventKind::Chaos { length, .. } => Some(*length),
            EventKind::KillFunction { .. } => None,
        }
    }

    /// Lets it happen to the world.
    pub(crate) fn begin(&self, state: &mut State) {
        let mut trouble = |length: &Duration, trouble| state.faults.add(self.at, *length, trouble);
        match &self.kind {
            EventKind::InsufficientCapacity { instance_types, zones, capacity_type, length } => {
                state.cloud.add_drought(Drought {
                    instance_types: instance_types.clone(),
                    zones: zones.clone(),
                    capacity_type: *capacity_type,
                    from: self.at,
                    until: self.at.saturating_add(*length),
                });
            }
            EventKind::Throttle { call, length } => trouble(length, Trouble::Throttle(*call)),
            EventKind::ApiServerDown(length) => trouble(length, Trouble::Down(Service::ApiServer)),
            EventKind::LedgerDown(length) => trouble(length, Trouble::Down(Service::Ledger)),
            EventKind::CloudDown(length) => trouble(length, Trouble::Down(Service::Cloud)),
            EventKind::Chaos { percent, length } => trouble(length, Trouble::Chaos(*percent)),
            EventKind::KillFunction { function, after } => {
                state.kills.push((*function, Crash::After(*after)));
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EventKind::InsufficientCapacity { instance_types, zones, capacity_type, .. } => {
                let listed = |list: &[String], all: &str| {
                    if list.is_empty() { all.to_owned() } else { list.join(", ") }
                };
                let kind = capacity_type.map_or(String::new(), |kind| format!("{kind} "));
                let types = listed(instance_types, "any type");
                write!(f, "EC2 has no {kind}capacity for {types} in {}", listed(zones, "any zone"))
            }
            EventKind::Throttle { call: None, .. } => f.write_str("EC2 refuses calls for their rate"),
            EventKind::Throttle { call: Some(call), .. } => write!(f, "EC2 refuses {call:?} for its rate"),
            EventKind::ApiServerDown(_) => f.write_str("the API server does not answer"),
            EventKind::LedgerDown(_) => f.write_str("the ledger does not answer"),
            EventKind::CloudDown(_) => f.write_str("EC2 does not answer"),
            EventKind::Chaos { percent, .. } => write!(f, "{percent} % of all calls fail, functions die"),
            EventKind::KillFunction { function, after } => {
                write!(f, "the next run of {function} will die after {after:?}")
            }
        }
    }
}
