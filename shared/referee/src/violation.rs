//! The rules that a plan can break, as values.

use std::collections::BTreeMap;

use outrigger_model::PodRef;

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A pod has more than one place, or a place and a reason for having none.
    #[error("pod {pod}: found {times} times in the plan and its report; allowed: once")]
    NotOnce {
        /// The pod.
        pod: PodRef,
        /// How often it was found.
        times: usize,
    },
    /// A pod is placed that is not waiting for a node.
    #[error("pod {pod}: placed on {on}; allowed: only pods of the snapshot that wait for a node")]
    NotWaiting {
        /// The pod.
        pod: PodRef,
        /// Where it is placed.
        on: String,
    },
    /// Pods and daemonsets ask for more than there is.
    #[error("{on}: {resource} {asked} is asked of it; allowed: {available} as {instance_type}")]
    Overfull {
        /// The node or claim.
        on: String,
        /// What it is or may become; `it is` for a node that has joined.
        instance_type: String,
        /// The resource.
        resource: String,
        /// What is asked.
        asked: String,
        /// What there is.
        available: String,
    },
    /// A pod may not be where it is placed.
    #[error("pod {pod}: placed on {on}, but {reason}")]
    Refused {
        /// The pod.
        pod: PodRef,
        /// Where it is placed.
        on: String,
        /// What stands against it.
        reason: String,
    },
    /// Pods do not lie among one another as one of them asks. One pod stands for all that break the
    /// same rule in the same place.
    #[error("pod {pod}: placed on {on}, against {rule}: {reason}")]
    Topology {
        /// A pod that was placed there.
        pod: PodRef,
        /// Where it is placed.
        on: String,
        /// The rule, as `its topology spread over topology.kubernetes.io/zone (maxSkew 1)`.
        rule: String,
        /// What the plan makes of it.
        reason: String,
    },
    /// A node would have more volumes of a driver attached than it can.
    #[error("node {node}: {attached} volumes of {driver} attached after the plan; allowed: {limit}")]
    Attachments {
        /// The node.
        node: String,
        /// The CSI driver.
        driver: String,
        /// How many volumes of it there would be.
        attached: usize,
        /// How many it attaches at most.
        limit: u32,
    },
    /// A planned node is not one that its pool and class allow.
    #[error("claim {claim}: {reason}")]
    Node {
        /// Its claim.
        claim: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A node or claim takes no pods.
    #[error("{target}: pods are placed on it, but {reason}")]
    TakesNoPods {
        /// The node or claim.
        target: String,
        /// Why it takes none.
        reason: String,
    },
    /// A pool would hold more than its limit if the largest types were launched.
    #[error("NodePool {node_pool}: {resource} {used} after the plan; allowed: {limit}")]
    Limit {
        /// The pool.
        node_pool: String,
        /// The resource.
        resource: String,
        /// What it would hold.
        used: String,
        /// Its limit.
        limit: String,
    },
    /// A pool with a fixed number of nodes would have more.
    #[error("NodePool {node_pool}: {nodes} nodes after the plan; allowed: {replicas}, its replicas")]
    Replicas {
        /// The pool.
        node_pool: String,
        /// How many nodes it would have.
        nodes: usize,
        /// How many it is to have.
        replicas: u32,
    },
    /// More nodes may draw on a reservation than it has room for.
    #[error("capacity reservation {id}: {nodes} planned nodes may draw on it; allowed: {count}")]
    Reservation {
        /// Its id.
        id: String,
        /// How many planned nodes name it.
        nodes: usize,
        /// How many more instances it has room for.
        count: u32,
    },
    /// A pod group is placed in part.
    #[error("pod group {namespace}/{group}: {placed} of {pending} waiting pods placed; allowed: all or none")]
    Group {
        /// The namespace.
        namespace: String,
        /// The group's name.
        group: String,
        /// How many of its pods are placed.
        placed: usize,
        /// How many wait.
        pending: usize,
    },
    /// A command of a consolidation may not be carried out as it is.
    #[error("command {number}, which ends {ended}: {reason}")]
    Command {
        /// Its place in the order, from one.
        number: usize,
        /// The nodes that it ends.
        ended: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A pod has no place once its node is ended.
    #[error("pod {pod}: command {number} ends its node {node} and has no place for it; allowed: exactly one")]
    Displaced {
        /// The pod.
        pod: PodRef,
        /// The command's place in the order, from one.
        number: usize,
        /// The node that it is on.
        node: String,
    },
    /// All nodes together do not cost what a consolidation tells.
    #[error("consolidation: the nodes {when} it are told to cost {reported}; found: {actual}")]
    Cost {
        /// `before` or `after`.
        when: &'static str,
        /// What is told.
        reported: String,
        /// What they cost.
        actual: String,
    },
}

/// Each once, in the order of their words.
pub(super) fn in_order(violations: Vec<Violation>) -> Vec<Violation> {
    let sorted: BTreeMap<String, Violation> =
        violations.into_iter().map(|violation| (violation.to_string(), violation)).collect();
    sorted.into_values().collect()
}
