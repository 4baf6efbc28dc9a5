//! The Report: why the plan is what it is. Reasons are values; their `Display` is what people read.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Conflict, InterruptionFrequency, Invalid, PodRef, Price, Quantity, Taint};

/// Why the plan is what it is.
#[must_use = "a report that nobody reads explains nothing"]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Where each pod went or why it went nowhere; pods with the same fate and the same needs are
    /// one entry.
    pub pods: Vec<PodsReport>,
    /// Why each planned node is what it is.
    pub nodes: Vec<NodeReport>,
    /// Objects that were refused.
    pub invalid: Vec<Invalid>,
    /// What of the cluster's own objects could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Invalid>,
    /// What is to become of nodes that exist, by name, where the decision is about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<NodeVerdict>,
}

/// The fate of pods that ask for the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsReport {
    /// The pods.
    pub pods: Vec<PodRef>,
    /// Their fate.
    pub outcome: PodsOutcome,
}

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PodsOutcome {
    /// It goes to a node or claim of this name.
    Placed {
        /// The node or claim.
        on: String,
    },
    /// No node can be made for it: why each pool does not serve.
    Unplaced {
        /// Each pool with its reason, in the order in which they were tried; empty when there is no
        /// pool.
        pools: Vec<PoolRefusal>,
    },
    /// It could not be read whole, so that nobody knows which node would do for it.
    Unreadable {
        /// What could not be read.
        problem: String,
    },
    /// A volume that it mounts keeps it from every node.
    Volume {
        /// Its claim, and what is wrong with that.
        problem: String,
    },
    /// It was left out of the decision.
    Ignored {
        /// Why.
        reason: String,
    },
}

/// Why a pool does not serve a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRefusal {
    /// The pool.
    pub node_pool: String,
    /// The reason.
    pub reason: Refusal,
    /// What may be meant or done instead, as `did you mean topology.kubernetes.io/zone?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for PoolRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodePool {}: {}", self.node_pool, self.reason)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// Why a pool does not serve a pod, or cannot launch at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// The pod does not tolerate a taint of its nodes.
    Taint(Taint),
    /// Pod and pool ask for different labels.
    Requirements(Conflict),
    /// No instance type is left after each filter in turn.
    NoInstanceType(Vec<FilterStep>),
    /// A limit of the pool stands in the way.
    Limit {
        /// The resource.
        resource: String,
        /// The limit.
        limit: Quantity,
        /// What the pool holds already, this plan's nodes among it.
        used: Quantity,
        /// What the smallest suitable node would add.
        needed: Quantity,
    },
    /// A rule about where pods lie among one another leaves no place: the rule, and why.
    Topology {
        /// The rule, as `topology spread over topology.kubernetes.io/zone (maxSkew 1)`.
        rule: String,
        /// What stands in the way.
        reason: String,
    },
    /// What the pod asks for cannot hold together, so no node will ever do.
    Contradiction {
        /// The PersistentVolumeClaims that have a part in it; of one alone, the pod itself is the
        /// other side.
        volumes: Vec<String>,
        /// What is asked on either side.
        conflict: Conflict,
    },
    /// Volumes and pool ask for different labels.
    Volume {
        /// The PersistentVolumeClaims of the pod that ask.
        claims: Vec<String>,
        /// What they ask for, and what the pool has.
        conflict: Conflict,
    },
    /// A node can be made for the pod, but no plan was found in which every pod keeps its rules.
    NotFound,
    /// The pod group is not placed whole.
    Group(String),
    /// The pool is being deleted.
    PoolDeleting,
    /// A live Karpenter has it, or may have it: why that is so.
    Karpenter(String),
    /// The pool says that it is not ready.
    PoolNotReady(String),
    /// The pool's class cannot make machines now.
    ClassNotReady(String),
    /// The pool launches nothing for a while, because what it launched came to nothing.
    Paused(String),
    /// The pool launches a fixed number of nodes and none beside them.
    Static {
        /// How many (`spec.replicas`).
        replicas: u32,
    },
    /// The pod's node affinity has several terms, of which one would do: why none does.
    Terms(Vec<TermRefusal>),
    /// The pod uses something that this version does not plan for.
    Unsupported(String),
}

/// Why a pool does not serve a pod by one term of its required node affinity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TermRefusal {
    /// The term, as `topology.kubernetes.io/zone In [us-east-1a]`.
    pub term: String,
    /// The reason.
    pub reason: Refusal,
}

impl fmt::Display for TermRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by its node affinity term {}: {}", self.term, self.reason)
    }
}

/// How many instance types a filter left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterStep {
    /// What was asked, as `memory 4Ti` or `kubernetes.io/arch In [arm64]`.
    pub filter: String,
    /// How many types passed it and all before it.
    #[serde(rename = "left")]
    pub remaining: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taint(taint) => write!(f, "the pod does not tolerate its taint {taint}"),
            Self::Requirements(conflict) => write!(f, "the pod asks for {conflict}"),
            Self::NoInstanceType(steps) => {
                f.write_str("no instance type is left: ")?;
                let texts: Vec<_> =
                    steps.iter().map(|step| format!("{} left by {}", step.remaining, step.filter)).collect();
                f.write_str(&texts.join(", "))
            }
            Self::Limit { resource, limit, used, needed } => {
                write!(f, "its limit of {resource} {limit} is reached: {used} used, {needed} more needed")
            }
            Self::Topology { rule, reason } => write!(f, "{rule}: {reason}"),
            Self::Contradiction { volumes, conflict } => {
                match volumes.as_slice() {
                    [] => f.write_str("the pod contradicts itself")?,
                    [one] => write!(f, "the pod contradicts its PersistentVolumeClaim {one}")?,
                    claims => {
                        write!(f, "its PersistentVolumeClaims {} exclude one another", claims.join(" and "))?;
                    }
                }
                write!(f, ": {conflict}")
            }
            Self::Volume { claims, conflict } => {
                let one = claims.len() == 1;
                let (kind, ask) = if one { ("Claim", "asks") } else { ("Claims", "ask") };
                write!(f, "its PersistentVolume{kind} {} {ask} for {conflict}", claims.join(" and "))
            }
            Self::NotFound => f.write_str("no plan was found that gives it a place and keeps every rule"),
            Self::Group(why) | Self::Karpenter(why) => f.write_str(why),
            Self::PoolDeleting => f.write_str("it is being deleted"),
            Self::PoolNotReady(why) => write!(f, "it is not ready: {why}"),
            Self::ClassNotReady(why) => write!(f, "its node class is not ready: {why}"),
            Self::Paused(why) => write!(f, "it is paused: {why}"),
            Self::Static { replicas } => {
                write!(f, "it has a fixed number of nodes (spec.replicas {replicas}) and no room on them")
            }
            Self::Terms(terms) => {
                let texts: Vec<_> = terms.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("; "))
            }
            Self::Unsupported(what) => write!(f, "not planned for by this version: {what}"),
        }
    }
}

/// What is to become of a node that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// The node.
    pub node: String,
    /// A code, which does not change: why it is kept, as `NotWorthIt`, or why it is disrupted, as
    /// `Drifted`.
    pub code: String,
    /// The same with its numbers, for people.
    pub message: String,
}

/// Why a planned node is what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its claim.
    pub claim: String,
    /// How many types of the pool's remained at each step.
    pub filters: Vec<FilterStep>,
    /// The cheapest type, which its price is taken from.
    pub cheapest: String,
    /// That price.
    pub price: Price,
    /// How often EC2 takes that type back as spot, where it is bought so and somebody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<InterruptionFrequency>,
    /// For how many pods more it is bought, in the mean shape of its pool's.
    #[serde(default, skip_serializing_if = "crate::node_class::is_zero")]
    pub headroom: u32,
    /// By when these are expected, as the week before tells; `None` where it tells nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub headroom_by: Option<Timestamp>,
}

impl Report {
    /// The pods that no node can be made for, with the reasons.
    pub fn unplaced(&self) -> impl Iterator<Item = (&PodRef, String)> {
        self.pods.iter().flat_map(|entry| {
            let reason = entry.outcome.unplaced_reason();
            entry.pods.iter().filter_map(move |pod| reason.clone().map(|reason| (pod, reason)))
        })
    }
}

impl PodsOutcome {
    /// Whether no node can be made for it.
    pub const fn is_unplaced(&self) -> bool {
        matches!(self, Self::Unplaced { .. } | Self::Unreadable { .. } | Self::Volume { .. })
    }

    /// For a pod that no node can be made for, why, in one line: each pool's reason.
    pub fn unplaced_reason(&self) -> Option<String> {
        match self {
            Self::Placed { .. } | Self::Ignored { .. } => None,
            Self::Unreadable { problem } => Some(format!("it cannot be read whole: {problem}")),
            Self::Volume { problem } => Some(problem.clone()),
            Self::Unplaced { pools } if pools.is_empty() => Some("there is no usable NodePool".into()),
            Self::Unplaced { pools } => {
                Some(pools.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
        }
    }
}
