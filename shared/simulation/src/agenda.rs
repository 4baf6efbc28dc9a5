//! What the world will do by itself, in order of time; what is due at the same time happens in the
//! order it was added.

use std::collections::BTreeMap;
use std::time::Duration;

/// Something that the world does by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A workload gets so many replicas.
    Scale {
        /// Its place in the scenario.
        workload: usize,
        /// How many.
        replicas: u32,
    },
    /// An event of the scenario begins.
    Begin(usize),
    /// An event of the scenario is over.
    End(usize),
    /// An instance's kubelet registers its node.
    Join(String),
    /// A kubelet shows the static pods of its node.
    ShowsStaticPods(String),
    /// The cloud controller has labelled a node.
    Labelled(String),
    /// A node's network is up.
    Ready(String),
    /// A node has been ready for so long that its planned pods must be there.
    Filled(String),
    /// A node has been ready for so long that it must be open to all pods.
    Open(String),
    /// A command of disruption, by id, was committed just now.
    Committed(String),
    /// A command of disruption, by id, has waited for so long that it must have come to its end.
    CommandEnds(String),
    /// Kubernetes' garbage collector looks at what belongs to objects that are gone.
    CollectGarbage,
    /// A NodePool, by its uid, was deleted so long ago that its nodes must be going.
    PoolGoes(String),
    /// A deploy of a workload goes on, by its place in the scenario.
    RollOn(usize),
    /// A pod has done its work, by uid.
    PodIsDone(String),
    /// A pod that was asked to end has done so, by uid.
    PodEnds(String),
    /// An instance that was being terminated is no more.
    Ended(String),
    /// EC2 carries out the oldest fleet request that it has heard late.
    LateFleet,
    /// EC2 takes a spot instance.
    Falls(String),
    /// The node of an instance that is no more is not ready.
    Lost(String),
    /// Pods of a node that has not been heard of for too long are deleted.
    Deserted(String),
    /// Nobody minds any more that the pods of a node leave.
    Calm(String),
    /// Budgets that were made for a time are deleted.
    DropBudgets,
    /// A node says nothing any more that nobody understands.
    ClearedUp(String),
    /// What runs on a node has removed its startup taints.
    Started(String),
    /// The scheduler tries again what it has tried in vain.
    TryAgain,
    /// A rogue has noticed a node.
    Rogue(String),
}

/// What is due by time.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeMap<(Duration, u64), Due>,
    added: u64,
}

impl Agenda {
    /// Puts something on the agenda.
    pub(crate) fn add(&mut self, at: Duration, due: Due) {
        self.added += 1;
        self.entries.insert((at, self.added), due);
    }

    /// Takes the next that is due.
    pub(crate) fn due(&mut self, elapsed: Duration) -> Option<Due> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= elapsed).then(|| first.remove())
    }

    /// How many were ever added.
    pub(crate) const fn added(&self) -> u64 {
        self.added
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }
}
