//! Why a node is left alone.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::Offset;
use outrigger_model::{Invalid, NillableDuration, NodeProtection, PodRef, Price, ProtectedObject};

use super::budgets::Closed;
use crate::leaving::eviction::EvictionBlocker;

/// Why a node is left alone, by disruption as a whole or by consolidation alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyKept {
    /// It has not finished starting, or waits for its planned pods.
    NotInitialized,
    /// There is no NodePool of the name that it has.
    UnknownPool {
        /// The name.
        pool: String,
    },
    /// Its NodePool is being deleted.
    PoolDeleting {
        /// The NodePool.
        pool: String,
    },
    /// It is going already.
    Leaving,
    /// Its kubelet is not heard of, or says that it is not ready.
    NotReady,
    /// Somebody has cordoned it.
    Cordoned,
    /// kOps is about to replace it.
    KopsUpdate,
    /// A command holds it already.
    HeldByCommand {
        /// The command.
        command: String,
    },
    /// The pods of nodes that are to go wait for it.
    Awaited {
        /// The command that ends those nodes.
        command: String,
    },
    /// It is meant for a pod that still waits.
    Nominated {
        /// The pod.
        pod: PodRef,
    },
    /// It, or its NodeClaim object, asks not to be disrupted.
    DoNotDisrupt {
        /// Which of them, and what is wrong with its annotation.
        protection: Box<NodeProtection>,
    },
    /// It, or a pod on it that needs a place elsewhere, cannot be read whole.
    Unreadable {
        /// What cannot be read.
        problem: Box<Invalid>,
    },
    /// It is not the time for it (`outrigger.dev/disruption-windows`).
    OutsideWindows {
        /// When the next window begins; `None` where none ever does.
        next: Option<Until>,
    },
    /// Its NodePool is paused after launches that failed, so nothing would take its place.
    PoolPaused {
        /// Why it is.
        why: String,
    },
    /// It is younger than nodes must be.
    TooYoung {
        /// How old nodes must be.
        least: Duration,
    },
    /// A pod on it will not leave.
    PodStays {
        /// Which pod, and why.
        blocker: Box<EvictionBlocker>,
        /// Until when it asks to stay, where it says so.
        until: Option<Until>,
    },
    /// A PodDisruptionBudget lets a pod on it not go just now.
    PodWaits {
        /// The budget.
        budget: PodRef,
        /// The pod.
        pod: PodRef,
    },
    /// Its NodePool has a fixed number of nodes and no more than these; only drift and expiry
    /// replace them.
    StaticPool,
    /// Its NodePool has a fixed number of nodes, and cannot launch the one that would take its
    /// place.
    NoSuccessor,
    /// Its NodePool does not want it consolidated (`consolidateAfter: Never`).
    ConsolidateAfterNever,
    /// Its NodePool does not want it consolidated (`consolidationPolicy: Never`).
    ConsolidationPolicyNever,
    /// It or its pods have changed within `consolidateAfter`.
    ConsolidateAfter {
        /// Until when it is left alone.
        until: Until,
    },
    /// Its NodePool wants only empty nodes consolidated (`consolidationPolicy: WhenEmpty`).
    NotEmpty {
        /// How many pods are on it, daemonset and static pods aside.
        pods: usize,
    },
    /// Its class makes no such instance type, or nobody knows its type.
    UnknownInstanceType {
        /// The type, where it is known.
        instance_type: Option<String>,
    },
    /// Nobody knows its zone.
    UnknownZone,
    /// Nobody knows how it is paid for.
    UnknownCapacityType,
    /// Nobody knows what it costs.
    UnknownPrice,
    /// The budgets of its NodePool allow no disruption now.
    BudgetClosed {
        /// For how long.
        closed: Closed,
        /// The time.
        now: Timestamp,
        /// Which budget that is, in its fields.
        budget: String,
    },
    /// As many nodes of its NodePool are disrupted as its budgets allow.
    BudgetUsedUp {
        /// How many that are.
        at_once: usize,
    },
    /// A pod on it has no place elsewhere.
    NoPlaceFor {
        /// The pod.
        pod: PodRef,
        /// What keeps it from one, as a plan would say it; empty where that is not known.
        why: String,
    },
    /// Its pods have a place elsewhere only as they would be packed: this one has none where
    /// kube-scheduler spreads them.
    OnlyPacked {
        /// The pod.
        pod: PodRef,
    },
    /// Its pods need a node, and there is no cheaper one.
    NothingCheaper,
    /// Giving it up would save less than it must.
    NotWorthIt {
        /// What it would save.
        saving: Price,
        /// What it must save at least.
        least: Price,
    },
    /// Too few instance types are cheaper to replace a spot node with another.
    TooFewSpotTypes {
        /// How many are.
        cheaper: usize,
        /// How many must be.
        least: usize,
    },
    /// Pods of nodes that go move to it.
    TakesPodsIn,
    /// The time for the decision was over before its turn.
    TimeIsUp,
}

impl WhyKept {
    /// Whether it passes by itself within minutes.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::NotInitialized
                | Self::Leaving
                | Self::HeldByCommand { .. }
                | Self::Awaited { .. }
                | Self::Nominated { .. }
                | Self::TooYoung { .. }
                | Self::ConsolidateAfter { .. }
                | Self::BudgetUsedUp { .. }
                | Self::TakesPodsIn
                | Self::TimeIsUp
        )
    }

    /// Whether it lasts until something changes that a glance at the cluster shows, or that may be
    /// seen a little later: time alone does not end it.
    pub const fn lasts(&self) -> bool {
        matches!(
            self,
            Self::UnknownPool { .. }
                | Self::Cordoned
                | Self::DoNotDisrupt { .. }
                | Self::Unreadable { .. }
                | Self::PodStays { until: None, .. }
                | Self::PodWaits { .. }
                | Self::StaticPool
                | Self::NoSuccessor
                | Self::ConsolidateAfterNever
                | Self::ConsolidationPolicyNever
                | Self::NotEmpty { .. }
                | Self::UnknownInstanceType { .. }
                | Self::UnknownZone
                | Self::UnknownCapacityType
                | Self::UnknownPrice
                | Self::BudgetClosed { closed: Closed::Always, .. }
                | Self::NoPlaceFor { .. }
                | Self::OnlyPacked { .. }
                | Self::NothingCheaper
                | Self::NotWorthIt { .. }
                | Self::TooFewSpotTypes { .. }
                | Self::TakesPodsIn
        )
    }

    /// Whether nothing forbids to end the node, and only nothing is won by it.
    pub const fn is_of_price(&self) -> bool {
        matches!(
            self,
            Self::OnlyPacked { .. }
                | Self::NothingCheaper
                | Self::NotWorthIt { .. }
                | Self::TooFewSpotTypes { .. }
        )
    }

    /// Its code, which does not change.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotInitialized => "NotInitialized",
            Self::UnknownPool { .. } => "UnknownPool",
            Self::PoolDeleting { .. } => "PoolDeleting",
            Self::Leaving => "Leaving",
            Self::NotReady => "NotReady",
            Self::Cordoned => "Cordoned",
            Self::KopsUpdate => "KopsUpdate",
            Self::HeldByCommand { .. } => "HeldByCommand",
            Self::Awaited { .. } => "Awaited",
            Self::Nominated { .. } => "Nominated",
            Self::DoNotDisrupt { .. } => "DoNotDisrupt",
            Self::Unreadable { .. } => "Unreadable",
            Self::OutsideWindows { .. } => "OutsideWindows",
            Self::PoolPaused { .. } => "PoolPaused",
            Self::TooYoung { .. } => "TooYoung",
            Self::PodStays { .. } => "PodStays",
            Self::PodWaits { .. } => "PodWaits",
            Self::StaticPool => "StaticPool",
            Self::NoSuccessor => "NoSuccessor",
            Self::ConsolidateAfterNever => "ConsolidateAfterNever",
            Self::ConsolidationPolicyNever => "ConsolidationPolicyNever",
            Self::ConsolidateAfter { .. } => "ConsolidateAfter",
            Self::NotEmpty { .. } => "NotEmpty",
            Self::UnknownInstanceType { .. } => "UnknownInstanceType",
            Self::UnknownZone => "UnknownZone",
            Self::UnknownCapacityType => "UnknownCapacityType",
            Self::UnknownPrice => "UnknownPrice",
            Self::BudgetClosed { .. } => "BudgetClosed",
            Self::BudgetUsedUp { .. } => "BudgetUsedUp",
            Self::NoPlaceFor { .. } => "NoPlaceFor",
            Self::OnlyPacked { .. } => "OnlyPacked",
            Self::NothingCheaper => "NothingCheaper",
            Self::NotWorthIt { .. } => "NotWorthIt",
            Self::TooFewSpotTypes { .. } => "TooFewSpotTypes",
            Self::TakesPodsIn => "TakesPodsIn",
            Self::TimeIsUp => "TimeIsUp",
        }
    }
}

impl fmt::Display for WhyKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialized => f.write_str("not initialized yet"),
            Self::UnknownPool { pool } => write!(f, "there is no NodePool {pool}"),
            Self::PoolDeleting { pool } => write!(f, "the NodePool {pool} is being deleted"),
            Self::Leaving => f.write_str("leaving already"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::Cordoned => f.write_str("it is cordoned"),
            Self::KopsUpdate => f.write_str("kOps is to replace it"),
            Self::HeldByCommand { command } => write!(f, "the command {command} holds it"),
            Self::Awaited { command } => write!(f, "the pods of the command {command} wait for it"),
            Self::Nominated { pod } => write!(f, "meant for the pod {pod}, which waits"),
            Self::DoNotDisrupt { protection } => write_protection(f, protection),
            Self::Unreadable { problem } => {
                write!(f, "{} cannot be read whole: {}", problem.object, problem.complaint())
            }
            Self::OutsideWindows { next } => write_windows(f, *next),
            Self::PoolPaused { why } => write!(f, "its NodePool is paused: {why}"),
            Self::TooYoung { least } => write!(f, "younger than {}", length(*least)),
            Self::PodStays { blocker, until: Some(until) } => write!(f, "{blocker} until {until}"),
            Self::PodStays { blocker, until: None } => blocker.fmt(f),
            Self::PodWaits { budget, pod } => {
                write!(f, "the budget {budget} lets the pod {pod} not go just now")
            }
            Self::StaticPool => f.write_str("its NodePool has a fixed number of nodes"),
            Self::NoSuccessor => f.write_str("its NodePool cannot launch a node in its place"),
            Self::ConsolidateAfterNever => f.write_str("consolidateAfter is Never"),
            Self::ConsolidationPolicyNever => f.write_str("consolidationPolicy is Never"),
            Self::ConsolidateAfter { until } => write!(f, "left alone until {until} by consolidateAfter"),
            Self::NotEmpty { pods } => write!(f, "{pods} pods on it, and the policy is WhenEmpty"),
            Self::UnknownInstanceType { instance_type: Some(name) } => {
                write!(f, "its class makes no instance type {name}")
            }
            Self::UnknownInstanceType { instance_type: None } => {
                f.write_str("its instance type is not known")
            }
            Self::UnknownZone => f.write_str("its zone is not known"),
            Self::UnknownCapacityType => f.write_str("its capacity type is not known"),
            Self::UnknownPrice => f.write_str("its price is not known"),
            Self::BudgetClosed { closed, now, budget } => {
                write_closed(f, *closed, *now)?;
                if budget.is_empty() { Ok(()) } else { write!(f, " ({budget})") }
            }
            Self::BudgetUsedUp { at_once } => write!(f, "budget {at_once} used up"),
            Self::NoPlaceFor { pod, why } => {
                write!(f, "no other place for the pod {pod}")?;
                if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
            }
            Self::OnlyPacked { pod } => {
                write!(f, "no other place for the pod {pod} where kube-scheduler spreads the others")
            }
            Self::NothingCheaper => f.write_str("nothing cheaper has room for its pods"),
            Self::NotWorthIt { saving, least } => write!(f, "saves {saving}, least is {least}"),
            Self::TooFewSpotTypes { cheaper, least } => {
                write!(f, "{cheaper} cheaper spot instance types, least is {least}")
            }
            Self::TakesPodsIn => f.write_str("pods of nodes that go move to it"),
            Self::TimeIsUp => f.write_str("the time for this decision was over before its turn"),
        }
    }
}

fn write_protection(f: &mut fmt::Formatter<'_>, protection: &NodeProtection) -> fmt::Result {
    let object = match protection.object {
        ProtectedObject::Node => "it",
        ProtectedObject::NodeClaim => "its NodeClaim",
    };
    write!(f, "{object} asks not to be disrupted")?;
    protection.unreadable.as_ref().map_or(Ok(()), |wish| write!(f, " ({wish})"))
}

fn write_closed(f: &mut fmt::Formatter<'_>, closed: Closed, now: Timestamp) -> fmt::Result {
    match closed {
        Closed::Until(at) => write!(f, "budget 0 until {}", Until { at, now }),
        Closed::Always => f.write_str("budget 0"),
        Closed::Unreadable => f.write_str("a budget that cannot be read allows none"),
    }
}

fn write_windows(f: &mut fmt::Formatter<'_>, next: Option<Until>) -> fmt::Result {
    f.write_str("outside of its NodePool's disruption windows; ")?;
    match next {
        Some(next) => write!(f, "the next begins at {next}"),
        None => f.write_str("none begins again"),
    }
}

fn length(duration: Duration) -> NillableDuration {
    NillableDuration::seconds(duration.as_secs())
}

/// A time to come, printed as short as it is clear: `06:00 UTC`, and with its day where that is not
/// within 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// The time to come.
    pub at: Timestamp,
    /// The time.
    pub now: Timestamp,
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Offset::UTC.to_datetime(self.at);
        if self.at.duration_since(self.now).as_hours() >= 24 {
            write!(f, "{} ", at.date())?;
        }
        write!(f, "{:02}:{:02}", at.hour(), at.minute())?;
        if at.second() != 0 {
            write!(f, ":{:02}", at.second())?;
        }
        f.write_str(" UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_its_numbers() {
        let (now, pod) = (
            "2026-11-20T12:00:00Z".parse().unwrap(),
            PodRef { namespace: "default".into(), name: "x".into() },
        );
        let time = |text: &str| format!("2026-11-{text}Z").parse().unwrap();
        let until = |text: &str| Until { at: time(text), now };
        let price = |dollars| Price::from_dollars(dollars).unwrap();
        let closed = |closed, budget: &str| WhyKept::BudgetClosed { closed, now, budget: budget.into() };
        let blocker = Box::new(EvictionBlocker::DoNotDisrupt { pod: pod.clone(), unreadable: None });
        let table = [
            (closed(Closed::Until(time("21T06:00:00")), ""), "budget 0 until 06:00 UTC"),
            (closed(Closed::Until(time("23T06:00:00")), ""), "budget 0 until 2026-11-23 06:00 UTC"),
            (closed(Closed::Always, "budgets[0]: nodes 0"), "budget 0 (budgets[0]: nodes 0)"),
            (WhyKept::BudgetUsedUp { at_once: 2 }, "budget 2 used up"),
            (WhyKept::TooYoung { least: Duration::from_mins(5) }, "younger than 5m"),
            (
                WhyKept::PodStays { blocker: blocker.clone(), until: Some(until("20T13:00:30")) },
                "the pod default/x asks not to be disrupted until 13:00:30 UTC",
            ),
            (WhyKept::PodStays { blocker, until: None }, "the pod default/x asks not to be disrupted"),
            (
                WhyKept::PodWaits { budget: pod.clone(), pod: pod.clone() },
                "the budget default/x lets the pod default/x not go just now",
            ),
            (
                WhyKept::NotWorthIt { saving: price(0.004), least: price(0.02) },
                "saves $0.0040/h, least is $0.0200/h",
            ),
            (
                WhyKept::OnlyPacked { pod: pod.clone() },
                "no other place for the pod default/x where kube-scheduler spreads the others",
            ),
            (
                WhyKept::NoPlaceFor { pod: pod.clone(), why: "no room".into() },
                "no other place for the pod default/x: no room",
            ),
            (WhyKept::NoPlaceFor { pod, why: String::new() }, "no other place for the pod default/x"),
            (
                WhyKept::TooFewSpotTypes { cheaper: 3, least: 15 },
                "3 cheaper spot instance types, least is 15",
            ),
        ];
        for (kept, expected) in table {
            assert_eq!(kept.to_string(), expected, "{}", kept.as_str());
        }
    }
}
