//! The Cluster port in front of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::SignedDuration;
use outrigger_engine::ports::{
    Attachment, Binding, Cluster, ClusterChange, ClusterError, ClusterState, Configuration, Cursor, Event,
    Eviction, Glance, GoingDefinitions, Mirror, NodeChange, PodOnNode, Scope, Volumes,
};
use outrigger_model::{
    ConfiguredRef, ConfiguredStatus, LeaderLease, Node, NodeClaim, NodePool, NominatedPod, OwnerReference,
    Pod, PodDisruptionBudget, PodRef,
};

use super::{Door, PortError, no_answer};
use crate::calls::Call;
use crate::cluster::scope;
use crate::faults::{Fate, Showing};
use crate::laws;
use crate::looks::Listed;
use crate::timeline::Kind;
use crate::world::World;

/// The uid of the namespace kube-system.
pub(crate) const CLUSTER_UID: &str = "00000000-0000-4000-8000-000000000000";
const SERVER: &str = "https://api.simulated";

#[async_trait]
impl Cluster for Door {
    fn clock_difference(&self) -> Option<SignedDuration> {
        self.clock_difference()
    }

    async fn uid(&self) -> Result<String, ClusterError> {
        self.call(Call::ClusterUid, |_, _| Ok(CLUSTER_UID.to_owned())).await
    }

    async fn configuration(&self) -> Result<Configuration, ClusterError> {
        self.call(Call::Configuration, |state, _| Ok(state.cluster.configuration().clone())).await
    }

    async fn write_status(
        &self,
        object: &ConfiguredRef,
        status: &ConfiguredStatus,
    ) -> Result<(), ClusterError> {
        self.call_on(Call::WriteStatus, &object.name, |state, _| {
            state.cluster.write_status(object, status);
            Ok(())
        })
        .await
    }

    async fn karpenter_lease(&self) -> Result<Option<LeaderLease>, ClusterError> {
        self.call(Call::KarpenterLease, |state, moment| Ok(state.cluster.karpenter_lease(moment))).await
    }

    async fn list(&self, scope: Scope) -> Result<(ClusterState, Cursor), ClusterError> {
        let call = if scope == Scope::Nodes { Call::Nodes } else { Call::List };
        let (function, _) = self.run();
        self.call(call, |state, moment| {
            state.looks.lists.push(Listed { at: moment.elapsed, function, scope });
            self.looks(|owner| match scope {
                Scope::Unscheduled => {}
                Scope::Nodes => state.looks.at_nodes(owner, moment),
                Scope::Everything => state.looks.at_everything(owner, &state.cluster, moment),
            });
            Ok(state.cluster.list(scope))
        })
        .await
    }

    async fn watch(
        &self,
        cursor: Cursor,
    ) -> Result<BoxStream<'static, Result<ClusterChange, ClusterError>>, ClusterError> {
        let version = cursor.nodes.parse::<u64>().map_err(|source| ClusterError::Unreadable {
            attempted: "watch nodes".into(),
            source: Box::new(source),
        })?;
        let watch = self.call(Call::Watch, |state, _| Ok(state.faults.calls())).await?;
        let world = Arc::clone(self.world());
        let watching = Watching { world, watch, scope: cursor.scope, version, shown: version };
        Ok(stream::unfold(Some(watching), next_change).boxed())
    }

    async fn volumes(&self, mounted: &BTreeSet<PodRef>) -> Result<Volumes, ClusterError> {
        self.call(Call::Volumes, |state, _| {
            let volumes = state.cluster.volumes();
            Ok(Volumes { claims: volumes.claims(mounted), limits: volumes.limits() })
        })
        .await
    }

    /// Those that pods are in, with no labels but their names.
    async fn namespaces(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, ClusterError> {
        self.call(Call::Namespaces, |state, _| Ok(state.cluster.namespaces())).await
    }

    async fn glance(&self) -> Result<Glance, ClusterError> {
        self.call(Call::Glance, |state, _| Ok(state.cluster.glance())).await
    }

    async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
        self.call(Call::Nodes, |state, moment| {
            self.looks(|owner| state.looks.at_nodes(owner, moment));
            Ok(state.cluster.nodes().values().cloned().collect())
        })
        .await
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, ClusterError> {
        self.call(Call::Node, |state, _| Ok(state.cluster.nodes().get(name).cloned())).await
    }

    async fn change_node(&self, change: &NodeChange) -> Result<(), ClusterError> {
        self.call_on(Call::ChangeNode, &change.name, |state, moment| {
            let was_closed = state.cluster.is_closed(&change.name);
            let opened = laws::health::opening(state, change, moment);
            let opens_replacement = laws::disruption::opens_replacement(state, self.run().1, change, moment);
            let Some(registers) = state.cluster.change_node(change, moment) else {
                return Err(ClusterError::Changed { what: format!("Node/{}", change.name) });
            };
            state.broken.extend(opened.into_iter().chain(opens_replacement));
            if registers {
                state.registered(&change.name, moment);
            }
            if state.cluster.is_closed(&change.name) && !was_closed {
                state.timeline.add(moment, Kind::Node, format!("{} is closed", change.name));
            }
            Ok(())
        })
        .await
    }

    async fn release_node(&self, name: &str, uid: &str) -> Result<(), ClusterError> {
        self.call_on(Call::ReleaseNode, name, |state, moment| {
            state.broken.extend(laws::departure::release(state, name));
            state.cluster.release_node(name, uid, moment);
            Ok(())
        })
        .await
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
        self.call(Call::DisruptionBudgets, |state, _| Ok(state.cluster.disruption_budgets())).await
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<PodOnNode>, ClusterError> {
        self.call(Call::PodsOn, |state, moment| {
            self.looks(|owner| state.looks.at_pods(owner, node, moment));
            Ok(state.cluster.pods_on(node))
        })
        .await
    }

    async fn evict(&self, pod: &Pod) -> Result<Eviction, ClusterError> {
        self.call_on(Call::Evict, &pod.uid, |state, moment| Ok(state.evict(self.run().1, pod, moment))).await
    }

    async fn delete_pod(&self, pod: &Pod, grace: Duration) -> Result<(), ClusterError> {
        self.call_on(Call::DeletePod, &pod.uid, |state, moment| {
            state.delete_pod(self.run().1, pod, grace, moment);
            Ok(())
        })
        .await
    }

    async fn attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<Attachment>, ClusterError> {
        self.call(Call::Attachments, |state, moment| Ok(state.cluster.volumes().attachments(nodes, moment)))
            .await
    }

    async fn nominate(&self, pod: &NominatedPod, node: &str) -> Result<(), ClusterError> {
        self.call_on(Call::Nominate, &pod.uid, |state, _| {
            state.cluster.nominate(pod, node);
            Ok(())
        })
        .await
    }

    async fn bind(&self, pod: &NominatedPod, node: &str) -> Result<Binding, ClusterError> {
        self.call_on(Call::BindPod, &pod.uid, |state, moment| Ok(state.bind(pod, node, moment))).await
    }

    async fn set_deletion_cost(&self, pod: &Pod, cost: Option<i32>) -> Result<(), ClusterError> {
        self.call_on(Call::SetDeletionCost, &pod.uid, |state, moment| {
            state.broken.extend(laws::deletion_cost::asked(pod, moment));
            state.cluster.set_deletion_cost(pod, cost);
            Ok(())
        })
        .await
    }

    async fn mirrors(&self) -> Result<BTreeMap<String, Mirror>, ClusterError> {
        self.call(Call::Mirrors, |state, moment| {
            self.looks(|owner| state.looks.at_mirrors(owner, moment));
            Ok(state.cluster.mirrors().clone())
        })
        .await
    }

    async fn going_definitions(&self) -> Result<GoingDefinitions, ClusterError> {
        self.call(Call::GoingDefinitions, |state, moment| {
            let node_claims = !state.has_definition(moment);
            Ok(GoingDefinitions { node_claims, node_pools: false })
        })
        .await
    }

    async fn node_pool_uids(&self) -> Result<BTreeMap<String, String>, ClusterError> {
        let named = |pool: &NodePool| (pool.name.clone(), pool.uid.clone());
        self.call(Call::NodePools, |state, _| Ok(state.cluster.node_pools().iter().map(named).collect()))
            .await
    }

    async fn mirror_claim(
        &self,
        claim: &NodeClaim,
        owner: Option<&OwnerReference>,
    ) -> Result<(), ClusterError> {
        self.call_on(Call::MirrorClaim, &claim.name, |state, moment| {
            state.cluster.check_lock(&claim.name, Call::MirrorClaim, moment)?;
            state.check_definition(moment)?;
            state.mirror(claim, owner, moment);
            Ok(())
        })
        .await
    }

    async fn remove_mirror(&self, claim: &str) -> Result<(), ClusterError> {
        self.call_on(Call::RemoveMirror, claim, |state, moment| {
            state.cluster.check_lock(claim, Call::RemoveMirror, moment)?;
            state.cluster.remove_mirror(claim);
            Ok(())
        })
        .await
    }

    async fn delete_mirror(&self, claim: &str) -> Result<(), ClusterError> {
        self.call_on(Call::RemoveMirror, claim, |state, _| {
            state.cluster.delete_mirror(claim);
            state.cluster.confirm_deletion(claim);
            Ok(())
        })
        .await
    }

    async fn forget_mirror(&self, claim: &str) -> Result<(), ClusterError> {
        self.remove_mirror(claim).await
    }

    async fn publish_event(&self, event: &Event) -> Result<(), ClusterError> {
        self.call(Call::PublishEvent, |state, _| {
            state.cluster.publish_event(event);
            Ok(())
        })
        .await
    }
}

/// A watch that goes on.
struct Watching {
    world: Arc<World>,
    /// Its number.
    watch: u64,
    scope: Scope,
    /// What it goes on from, and the last that it has shown.
    version: u64,
    shown: u64,
}

/// The next change of a watch; an error is its last item. Faults of the API server break it off.
async fn next_change(
    watching: Option<Watching>,
) -> Option<(Result<ClusterChange, ClusterError>, Option<Watching>)> {
    let mut watching = watching?;
    let mut versions = watching.world.changes();
    loop {
        let next = watching.world.look(|state, moment| match state.faults.outlook(Call::Watch, moment) {
            Fate::Served => state
                .cluster
                .change_after(watching.version)
                .map_err(|()| ClusterError::Changed { what: "the list that the watch began from".into() }),
            _ => Err(ClusterError::unknown(Call::Watch)),
        });
        match next {
            Err(error) => return Some((Err(error), None)),
            Ok(Some((version, change))) => {
                if !watching.shows(version).await {
                    return Some((Err(ClusterError::unknown(Call::Watch)), None));
                }
                if let Some(change) = scope::change(watching.scope, change) {
                    return Some((Ok(change), Some(watching)));
                }
            }
            Ok(None) => versions.changed().await.ok()?,
        }
    }
}

impl Watching {
    /// Waits until a change is to be shown; says whether the watch goes on.
    async fn shows(&mut self, version: u64) -> bool {
        self.version = version;
        if version <= self.shown {
            return true;
        }
        self.shown = version;
        let showing =
            self.world.look(|state, moment| state.faults.showing(self.watch, version, moment.elapsed));
        match showing {
            Showing::AtOnce => {}
            Showing::Late(by) => tokio::time::sleep(by).await,
            Showing::Again(with) => self.version = version.saturating_sub(with),
            Showing::BrokenOff => return false,
        }
        true
    }
}

impl PortError for ClusterError {
    fn unknown(call: Call) -> Self {
        Self::Unreachable { server: SERVER.into(), attempted: call.words().into(), source: no_answer() }
    }

    fn refused(call: Call) -> Self {
        Self::Refused { attempted: call.words().into(), status: 429, message: "too many requests".into() }
    }

    fn stuck(object: &str) -> Self {
        Self::Changed { what: object.to_owned() }
    }
}
