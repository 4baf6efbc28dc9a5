//! What goes wrong in a scenario.

use std::fmt;
use std::time::Duration;

use outrigger_model::{CapacityType, PauseScope, PodRef, TaintEffect};
use serde::{Deserialize, Serialize};

use super::{Interruption, Mishap};
use crate::calls::Call;
use crate::timeline::count;

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
    /// EC2 answers launches with an error: for some offerings, or for the whole request where none
    /// are named.
    LaunchErrors {
        /// EC2's error code.
        code: String,
        /// Instance types.
        instance_types: Vec<String>,
        /// Zones.
        zones: Vec<String>,
        /// Capacity type; both when absent.
        capacity_type: Option<CapacityType>,
        /// For how long.
        length: Duration,
    },
    /// Somebody taints each node that is opened meanwhile.
    RogueTaint {
        /// What the taint does.
        effect: TaintEffect,
        /// For how long.
        length: Duration,
    },
    /// Somebody binds a pod of their own to each node that is registered meanwhile and still
    /// closed.
    RogueBinding(Duration),
    /// Kubelets admit none of the pods that we bind meanwhile.
    KubeletsRefuse(Duration),
    /// EC2, or who else answers the call, refuses it for its rate.
    Throttle {
        /// The only call that is refused; every call of EC2 when absent.
        call: Option<Call>,
        /// For how long.
        length: Duration,
    },
    /// The first object that a call changes meanwhile is never changed: each attempt meets somebody
    /// else's.
    Stuck {
        /// The call.
        call: Call,
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
    /// Calls take longer.
    Slow(Duration),
    /// The next run of a function that comes to a call stands still before it.
    Freeze {
        /// Which function.
        function: Function,
        /// Before which call.
        before: Call,
        /// For how long.
        length: Duration,
    },
    /// A call of the next run of a function that makes it takes long; the run goes on beside it.
    Hang {
        /// Which function.
        function: Function,
        /// Which call.
        call: Call,
        /// For how long.
        length: Duration,
    },
    /// Each minute's run of a function is begun twice.
    Duplicate {
        /// Which function.
        function: Function,
        /// For how long.
        length: Duration,
    },
    /// The clocks of the API servers are wrong that runs talk to which begin meanwhile, and that
    /// date what is made meanwhile: by seconds, minutes or days.
    SkewClocks(Duration),
    /// Watches of the API server show changes late or twice, or break off.
    UnsteadyWatches {
        /// Of a hundred changes.
        percent: u64,
        /// For how long.
        length: Duration,
    },
    /// Machines that are launched meanwhile never join.
    NeverJoin(Duration),
    /// Machines that are launched meanwhile take many minutes to join, some of them longer than
    /// anybody waits.
    LateJoin(Duration),
    /// Nodes that join meanwhile never become ready.
    NeverReady(Duration),
    /// The ledger's table is lost.
    LoseTable,
    /// A copy is made of the ledger's table.
    CopyTable,
    /// The table becomes again what it was when it was last copied; the leases stay as they are.
    RestoreTable,
    /// An operator pauses the functions.
    Pause {
        /// What is paused.
        what: PauseScope,
        /// For how long; until they are resumed when absent.
        length: Option<Duration>,
    },
    /// An operator resumes them.
    Resume,
    /// Pods that are asked to end meanwhile never do.
    PodsHang(Duration),
    /// Somebody deletes the oldest nodes, so many of them.
    DeleteNodes(usize),
    /// Somebody deletes the oldest pods that wait for a node, so many of them.
    DeletePods(usize),
    /// Somebody deletes the oldest pods of workloads that run, so many of them, with the grace that
    /// they ask for.
    DeleteRunningPods(usize),
    /// Somebody deletes the NodeClaim objects of the oldest nodes.
    DeleteNodeClaims(usize),
    /// Somebody deletes the first NodePools in order of name, so many of them.
    DeleteNodePools(usize, Cascade),
    /// Somebody deletes the second Nodes that bear a providerID.
    DeleteDoubles,
    /// Somebody says of all that is deleted that it is meant.
    ConfirmDeletions,
    /// The definition of NodeClaims is deleted, and installed again after so long.
    DeleteDefinition(Duration),
    /// The machines of the oldest nodes are terminated, and not by us.
    ReclaimInstances(usize),
    /// Something befalls the oldest nodes, so many of them.
    Mishap(Mishap, usize),
    /// Instances with our tags appear that belong to no launch.
    StrayInstances(usize),
    /// Instances appear late that launches have made which are over.
    LateInstances(usize),
    /// EC2 launches so many instances more than it is asked for, with the next fleet that it
    /// launches.
    SurplusInstances(usize),
    /// The next fleet request is not answered, and EC2 carries it out only after so long.
    LateFleet(Duration),
    /// Instances appear that are not ours.
    ForeignInstances(usize),
    /// Something is announced about the oldest machines, so many of them.
    Interruption(Interruption, usize),
    /// A deploy: the pods of a workload are replaced by new ones, a quarter of them at a time.
    Roll(PodRef),
    /// All node classes get new images, as by a kOps update: nodes that run the old ones have
    /// drifted.
    UpdateImages,
    /// Somebody takes Outrigger out of the cluster.
    Uninstall(Uninstall),
    /// EC2's events are lost, come twice, or late.
    EventsAstray {
        /// Of a hundred events.
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

/// What becomes of the NodeClaims of a NodePool that is deleted: kubectl's `--cascade`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cascade {
    /// They are deleted once the pool is gone.
    #[default]
    Background,
    /// They are deleted before the pool goes.
    Foreground,
    /// They stay, and belong to no pool any more.
    Orphan,
}

/// How Outrigger is taken out of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uninstall {
    /// The functions are removed, and then what they have left in the cluster; nodes run on.
    Release,
    /// The NodePools are deleted, and the functions drain and terminate all nodes.
    Drain,
}

/// The functions that a world runs, and the command that people run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// Launches nodes for pods.
    Provision,
    /// Takes launched nodes to being ready for pods.
    Lifecycle,
    /// Ends nodes that are not worth their price or have drifted.
    Disrupt,
    /// Begins the end of nodes that EC2 takes back.
    Interrupt,
    /// `outrigger uninstall`, run by a person.
    Uninstall,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provision => "provision",
            Self::Lifecycle => "lifecycle",
            Self::Disrupt => "disrupt",
            Self::Interrupt => "interrupt",
            Self::Uninstall => "uninstall",
        })
    }
}

impl Event {
    /// How long it lasts; `None` for what happens once.
    pub(crate) const fn length(&self) -> Option<Duration> {
        match &self.kind {
            EventKind::InsufficientCapacity { length, .. }
            | EventKind::LaunchErrors { length, .. }
            | EventKind::RogueTaint { length, .. }
            | EventKind::RogueBinding(length)
            | EventKind::KubeletsRefuse(length)
            | EventKind::Throttle { length, .. }
            | EventKind::Stuck { length, .. }
            | EventKind::ApiServerDown(length)
            | EventKind::LedgerDown(length)
            | EventKind::CloudDown(length)
            | EventKind::Slow(length)
            | EventKind::Duplicate { length, .. }
            | EventKind::SkewClocks(length)
            | EventKind::NeverJoin(length)
            | EventKind::DeleteDefinition(length)
            | EventKind::LateJoin(length)
            | EventKind::NeverReady(length)
            | EventKind::PodsHang(length)
            | EventKind::EventsAstray { length, .. }
            | EventKind::UnsteadyWatches { length, .. }
            | EventKind::Chaos { length, .. } => Some(*length),
            EventKind::KillFunction { .. }
            | EventKind::LoseTable
            | EventKind::CopyTable
            | EventKind::RestoreTable
            | EventKind::Pause { .. }
            | EventKind::Resume
            | EventKind::Freeze { .. }
            | EventKind::Hang { .. }
            | EventKind::DeleteNodes(_)
            | EventKind::DeletePods(_)
            | EventKind::DeleteRunningPods(_)
            | EventKind::DeleteNodeClaims(_)
            | EventKind::DeleteNodePools(..)
            | EventKind::ConfirmDeletions
            | EventKind::DeleteDoubles
            | EventKind::ReclaimInstances(_)
            | EventKind::Mishap(..)
            | EventKind::StrayInstances(_)
            | EventKind::LateInstances(_)
            | EventKind::SurplusInstances(_)
            | EventKind::LateFleet(_)
            | EventKind::ForeignInstances(_)
            | EventKind::Interruption(..)
            | EventKind::Roll(_)
            | EventKind::UpdateImages
            | EventKind::Uninstall(_) => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientCapacity { instance_types, zones, capacity_type, .. } => {
                write!(f, "EC2 has no {}", capacity(instance_types, zones, *capacity_type))
            }
            Self::LaunchErrors { code, .. } => write!(f, "EC2 answers launches with {code}"),
            Self::RogueTaint { effect, .. } => write!(f, "a rogue taints each node that is opened: {effect}"),
            Self::RogueBinding(_) => f.write_str("a rogue binds a pod to each closed node"),
            Self::KubeletsRefuse(_) => f.write_str("kubelets admit none of our pods"),
            Self::Stuck { call, .. } => write!(f, "one object conflicts with every {call:?}"),
            Self::Throttle { call: None, .. } => f.write_str("EC2 refuses calls for their rate"),
            Self::Throttle { call: Some(call), .. } => write!(f, "{call:?} is refused for its rate"),
            Self::ApiServerDown(_) => f.write_str("the API server does not answer"),
            Self::LedgerDown(_) => f.write_str("the ledger does not answer"),
            Self::CloudDown(_) => f.write_str("EC2 does not answer"),
            Self::Chaos { percent, .. } => write!(f, "{percent} % of all calls fail, functions die"),
            Self::Slow(_) => f.write_str("calls take long"),
            Self::Hang { function, call, length } => {
                write!(f, "a {call:?} of {function} will take {} s", length.as_secs())
            }
            Self::Freeze { function, before, length } => {
                write!(f, "the next {before:?} of {function} will stand still for {} s", length.as_secs())
            }
            Self::Duplicate { function, .. } => write!(f, "each run of {function} is begun twice"),
            Self::LateJoin(_) => f.write_str("machines join late"),
            Self::SkewClocks(_) => f.write_str("the clocks of API servers are wrong"),
            Self::UnsteadyWatches { percent, .. } => {
                write!(f, "{percent} % of what watches show comes late, twice or breaks them off")
            }
            Self::NeverJoin(_) => f.write_str("machines do not join"),
            Self::NeverReady(_) => f.write_str("nodes do not become ready"),
            Self::PodsHang(_) => f.write_str("pods do not end"),
            Self::LoseTable => f.write_str("the ledger's table is lost"),
            Self::CopyTable => f.write_str("the ledger's table is copied"),
            Self::RestoreTable => f.write_str("the ledger's table is restored from its copy"),
            Self::Pause { what, .. } => write!(f, "somebody pauses {what}"),
            Self::Resume => f.write_str("somebody resumes what was paused"),
            Self::DeleteNodes(number) => write!(f, "somebody deletes {}", count(*number, "node")),
            Self::DeleteRunningPods(number) => {
                write!(f, "somebody deletes {}", count(*number, "running pod"))
            }
            Self::DeletePods(number) => write!(f, "somebody deletes {}", count(*number, "waiting pod")),
            Self::DeleteNodeClaims(number) => write!(f, "somebody deletes {}", count(*number, "NodeClaim")),
            Self::DeleteNodePools(number, cascade) => {
                let kept = if *cascade == Cascade::Orphan { " and keeps the NodeClaims" } else { "" };
                write!(f, "somebody deletes {}{kept}", count(*number, "NodePool"))
            }
            Self::DeleteDoubles => f.write_str("somebody deletes second nodes"),
            Self::ConfirmDeletions => f.write_str("somebody says that all deletions are meant"),
            Self::DeleteDefinition(_) => f.write_str("the definition of NodeClaims is deleted"),
            Self::ReclaimInstances(number) => write!(f, "EC2 ends {}", count(*number, "instance")),
            Self::Mishap(mishap, number) => mishap.tell(*number, f),
            Self::LateInstances(number) => {
                write!(f, "{} of launches that are over", count(*number, "instance"))
            }
            Self::SurplusInstances(number) => {
                write!(f, "EC2 will launch {} too many", count(*number, "instance"))
            }
            Self::LateFleet(length) => {
                write!(f, "EC2 will hear the next fleet request {} s late", length.as_secs())
            }
            Self::StrayInstances(number) => write!(f, "{} of no launch", count(*number, "instance")),
            Self::ForeignInstances(number) => write!(f, "{} of somebody else", count(*number, "instance")),
            Self::Interruption(what, number) => write!(f, "{what} {}", count(*number, "instance")),
            Self::Roll(workload) => write!(f, "{workload} is deployed anew"),
            Self::UpdateImages => f.write_str("node classes get new images"),
            Self::Uninstall(Uninstall::Release) => f.write_str("the functions are removed"),
            Self::Uninstall(Uninstall::Drain) => {
                f.write_str("all NodePools are deleted, and all nodes are to end")
            }
            Self::EventsAstray { percent, .. } => {
                write!(f, "{percent} % of EC2's events are lost, doubled or late")
            }
            Self::KillFunction { function, after } => {
                write!(f, "the next run of {function} will die after {after:?}")
            }
        }
    }
}

/// What EC2 has none of.
fn capacity(instance_types: &[String], zones: &[String], capacity_type: Option<CapacityType>) -> String {
    let listed = |names: &[String], any: &str| {
        if names.is_empty() { any.to_owned() } else { names.join(", ") }
    };
    let kind = capacity_type.map_or(String::new(), |kind| format!("{kind} "));
    let types = listed(instance_types, "any type");
    format!("{kind}capacity for {types} in {}", listed(zones, "any zone"))
}
