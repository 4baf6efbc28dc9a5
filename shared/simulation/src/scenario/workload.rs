//! Workloads of a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::{DeletionCost, Invalid, PodRef, PodSpec, UnhealthyPods};
use serde::{Deserialize, Serialize};

/// Pods of one kind, whose number changes over time.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Namespace and name.
    pub id: PodRef,
    /// Labels of its pods.
    pub labels: Arc<BTreeMap<String, String>>,
    /// What its pods ask for.
    pub spec: Arc<PodSpec>,
    /// What of its pods cannot be read, though kube-scheduler and the kubelets understand it.
    pub unreadable: Option<Box<Invalid>>,
    /// How long a pod of it may take to end (`terminationGracePeriodSeconds`).
    pub grace: Duration,
    /// Their annotation `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: Option<String>,
    /// The deletion cost that whoever wrote the workload gives its pods.
    pub deletion_cost: Option<DeletionCost>,
    /// Whether its pods run without ever getting ready, as those that crash again and again.
    pub never_ready: bool,
    /// Whether each of its pods has a volume, which the pod that replaces it takes over.
    pub has_volumes: bool,
    /// Whether its pods are made again under their names once they are gone, as those of a
    /// StatefulSet.
    pub has_stable_names: bool,
    /// Who may use such a volume.
    pub access_mode: AccessMode,
    /// How long each of its pods runs before it has done its work, as those of a Job; `None` where
    /// they run for ever. One that has ended is not made again, and the next change of scale makes
    /// as many as are missing then.
    pub lasts: Option<Lifetime>,
    /// How many there are, from when on.
    pub scale: Vec<Scale>,
    /// What is to become of its pods.
    pub expect: Expect,
}

/// Who may use a volume, in Kubernetes' words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessMode {
    /// The pods of one node.
    #[default]
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
}

/// From a pod coming to its node to its end by itself; each has a time of its own in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// At least.
    pub least: Duration,
    /// At most.
    pub most: Duration,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug)]
pub struct DisruptionBudget {
    /// Namespace and name.
    pub id: PodRef,
    /// The labels of the pods that it protects.
    pub match_labels: BTreeMap<String, String>,
    /// How many of them must stay.
    pub min_available: Option<u32>,
    /// How many of them may be away.
    pub max_unavailable: Option<u32>,
    /// What becomes of pods that are not ready.
    pub unhealthy_pods: UnhealthyPods,
}

/// A number of replicas from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// From when on.
    pub at: Duration,
    /// How many.
    pub replicas: u32,
}

/// What is to become of a workload's pods by the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expect {
    /// All run.
    #[default]
    Running,
    /// All wait, since no pool can serve them.
    Waiting,
}
