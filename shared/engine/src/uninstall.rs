//! Taking Outrigger out of a cluster: its finalizers, which nobody would take off any more, its
//! objects, and nodes that it left closed. It works without the ledger and without EC2, so that it
//! works when those are gone already.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{DeletionCost, Node, NodePool, Pod, PodRef, Taint, labels};
use serde::Serialize;

use crate::claim::end::reopening;
use crate::ports::{Cluster, ClusterError, Mirror, NodeChange, Scope};

/// How often a node that somebody else changes at the same time is tried again.
const ATTEMPTS: usize = 5;

/// What Outrigger has in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traces {
    /// Nodes of ours that carry our finalizer, are closed for a drain, or bear a taint of ours.
    pub nodes: Vec<NodeTrace>,
    /// NodeClaim objects of ours.
    pub node_claims: Vec<String>,
    /// Pods whose deletion cost is ours.
    pub deletion_costs: Vec<PodRef>,
    /// NodePools of these nodes that are still there: whoever drains the nodes gets new ones of
    /// them.
    pub node_pools: Vec<String>,
    /// What is left for people to look at.
    pub warnings: Vec<String>,
}

/// What Outrigger has left on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTrace {
    /// The node.
    pub name: String,
    /// Whether our finalizer keeps its object from being deleted.
    pub finalizer: bool,
    /// Whether it keeps pods away, for a drain that nobody will finish or since it was to be
    /// disrupted.
    pub closed: bool,
}

impl Traces {
    /// Whether nothing of ours is left.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.node_claims.is_empty() && self.deletion_costs.is_empty()
    }
}

/// Looks for what Outrigger has in the cluster; changes nothing.
pub async fn survey(cluster: &dyn Cluster) -> Result<Traces, ClusterError> {
    let (nodes, mirrors) = (cluster.nodes().await?, cluster.mirrors().await?);
    let traces = traces(&nodes, &mirrors, &cluster.configuration().await?.node_pools);
    let pods = ranked_pods(cluster).await?;
    Ok(Traces { deletion_costs: pods.into_iter().map(|pod| pod.id).collect(), ..traces })
}

/// The pods whose deletion cost is ours, in order of namespace and name.
async fn ranked_pods(cluster: &dyn Cluster) -> Result<Vec<Pod>, ClusterError> {
    let (state, _) = cluster.list(Scope::Everything).await?;
    let is_ours = |pod: &Pod| pod.deletion_cost.is_some_and(DeletionCost::is_ours);
    let mut pods: Vec<Pod> = state.pods.into_values().filter(is_ours).collect();
    pods.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(pods)
}

/// Takes finalizers off nodes, opens nodes that are closed for a drain, takes our deletion costs
/// off pods, and removes the NodeClaim objects. Instances run on. May be repeated, and harms
/// nothing where Outrigger's functions still run: they put everything back.
///
/// Goes on past what cannot be changed; errors with the first of these.
pub async fn release(cluster: &dyn Cluster, traces: &Traces) -> Result<(), ClusterError> {
    let mut answers = Vec::new();
    for trace in &traces.nodes {
        answers.push(release_node(cluster, &trace.name).await);
    }
    answers.push(take_off_deletion_costs(cluster).await);
    for claim in &traces.node_claims {
        answers.push(cluster.forget_mirror(claim).await);
    }
    answers.into_iter().collect()
}

/// Asks for the end of every node, as `kubectl delete nodeclaims` does. Outrigger's functions,
/// which must still run, drain them. Goes on past what cannot be changed; errors with the first of
/// these.
pub async fn drain(cluster: &dyn Cluster, traces: &Traces) -> Result<(), ClusterError> {
    let mut answers = Vec::new();
    for claim in &traces.node_claims {
        answers.push(cluster.delete_mirror(claim).await);
    }
    answers.push(take_off_deletion_costs(cluster).await);
    answers.into_iter().collect()
}

async fn take_off_deletion_costs(cluster: &dyn Cluster) -> Result<(), ClusterError> {
    let mut answers = Vec::new();
    for pod in ranked_pods(cluster).await? {
        answers.push(cluster.set_deletion_cost(&pod, None).await);
    }
    answers.into_iter().collect()
}

/// Tries until nobody else has changed the node in between.
async fn release_node(cluster: &dyn Cluster, name: &str) -> Result<(), ClusterError> {
    for attempt in 1.. {
        let nodes = cluster.nodes().await?;
        let Some(change) = nodes.iter().find(|node| node.name == name).and_then(releasing) else { break };
        match cluster.change_node(&change).await {
            Err(ClusterError::Changed { .. }) if attempt < ATTEMPTS => {}
            answer => return answer,
        }
    }
    Ok(())
}

fn traces(nodes: &[Node], mirrors: &BTreeMap<String, Mirror>, pools: &[NodePool]) -> Traces {
    let mut traces = Traces { node_claims: mirrors.keys().cloned().collect(), ..Traces::default() };
    let existing: BTreeSet<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    let mut of_nodes = BTreeSet::new();
    for node in nodes {
        if !is_ours(node) {
            let waits = node.taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT);
            traces.warnings.extend(waits.then(|| {
                let taint = labels::UNREGISTERED_TAINT;
                format!("node {} still carries the taint {taint}, which nobody takes off any more", node.name)
            }));
            continue;
        }
        of_nodes.extend(node.node_pool().filter(|pool| existing.contains(pool)));
        if node.deleting {
            let instance = node.instance_id().unwrap_or("its instance");
            let message =
                format!("node {} is being deleted: its object goes, and {instance} runs on", node.name);
            traces.warnings.push(message);
        }
        let trace = NodeTrace {
            name: node.name.clone(),
            finalizer: node.has_our_finalizer(),
            closed: keeps_pods_away(node),
        };
        if trace.finalizer || trace.closed {
            traces.nodes.push(trace);
        }
    }
    traces.node_pools = of_nodes.into_iter().map(str::to_owned).collect();
    traces
}

/// Karpenter's nodes have the same finalizer and labels, but no claim of ours.
fn is_ours(node: &Node) -> bool {
    node.annotations.contains_key(labels::CLAIM)
}

/// Whether we have closed it, for its drain or until its pods are placed, or ask pods to stay away.
fn keeps_pods_away(node: &Node) -> bool {
    node.is_disrupted() || node.awaits_placing() || node.is_disruption_candidate()
}

/// The change that leaves nothing of ours on a node but its labels; `None` when it has nothing.
fn releasing(node: &Node) -> Option<NodeChange> {
    if !is_ours(node) || !(node.has_our_finalizer() || keeps_pods_away(node)) {
        return None;
    }
    let mut change = reopening(node);
    change.taints.retain(|taint| *taint != Taint::placing() && !taint.is_own_soft());
    change.finalizers.retain(|finalizer| finalizer != labels::TERMINATION_FINALIZER);
    Some(change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::TaintEffect;
    use outrigger_model::fixtures::node;

    fn node_of(name: &str, claim: Option<&str>, finalizers: &[&str]) -> Node {
        let claim = claim.map(|claim| (labels::CLAIM.to_owned(), claim.to_owned()));
        Node {
            name: name.into(),
            annotations: claim.into_iter().collect(),
            labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), "web".to_owned())]),
            finalizers: finalizers.iter().map(|&name| name.to_owned()).collect(),
            ..node(Vec::new())
        }
    }

    #[test]
    fn only_what_is_ours_is_found() {
        let closed = Node { taints: vec![Taint::disrupted()], ..node_of("closed", Some("c"), &[]) };
        let soft = Taint::disruption_candidate();
        let candidate = Node { taints: vec![soft], ..node_of("candidate", Some("e"), &[]) };
        let gate = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let nodes = [
            node_of("ours", Some("a"), &[labels::TERMINATION_FINALIZER, "example.com/own"]),
            node_of("karpenters", None, &[labels::TERMINATION_FINALIZER]),
            node_of("released", Some("b"), &["example.com/own"]),
            closed,
            candidate,
            Node { deleting: true, ..node_of("going", Some("d"), &[labels::TERMINATION_FINALIZER]) },
            Node { taints: vec![gate], ..node_of("waiting", None, &[]) },
        ];
        let mirrors = BTreeMap::from([("a".to_owned(), Mirror::default())]);
        let traces = traces(&nodes, &mirrors, &[]);
        let words: Vec<_> = traces
            .nodes
            .iter()
            .map(|trace| format!("{} {} {}", trace.name, trace.finalizer, trace.closed))
            .collect();
        assert_eq!(
            words,
            ["ours true false", "closed false true", "candidate false true", "going true false"]
        );
        assert_eq!((traces.node_claims.as_slice(), traces.node_pools.len()), (&["a".to_owned()][..], 0));
        assert_eq!(traces.warnings.len(), 2, "{:?}", traces.warnings);
        assert!(traces.warnings[0].contains("i-1 runs on"), "{:?}", traces.warnings);
        assert!(traces.warnings[1].contains("waiting"), "{:?}", traces.warnings);
        assert!(!traces.is_empty() && Traces::default().is_empty());
    }

    #[test]
    fn a_node_keeps_what_is_not_ours() {
        let users = Taint::new("dedicated", "web", TaintEffect::NoSchedule);
        let busy = Node {
            taints: vec![users.clone(), Taint::disrupted(), Taint::placing(), Taint::disruption_candidate()],
            ..node_of("ours", Some("a"), &[labels::TERMINATION_FINALIZER, "example.com/own"])
        };
        let change = releasing(&busy).unwrap();
        assert_eq!((change.taints, change.finalizers), (vec![users], vec!["example.com/own".to_owned()]));
        let foreign = node_of("karpenters", None, &[labels::TERMINATION_FINALIZER]);
        assert_eq!(releasing(&foreign), None);
        assert_eq!(releasing(&node_of("released", Some("a"), &[])), None);
    }
}
