//! Objects that are read only while a decision hangs on them: volumes, namespaces and
//! PodDisruptionBudgets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{core, policy, storage};
use outrigger_engine::ports::{self, Attachment, ClusterError};
use outrigger_model::{Invalid, PodDisruptionBudget, PodRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::list::{Collection, collect, skip};
use super::transport::Transport;
use crate::convert::{self, Volumes};
use crate::wire;

pub(super) const CLAIMS: Collection<'_> =
    Collection::new("list PersistentVolumeClaims", "/api/v1/persistentvolumeclaims");
pub(super) const VOLUMES: Collection<'_> =
    Collection::new("list PersistentVolumes", "/api/v1/persistentvolumes");
pub(super) const CLASSES: Collection<'_> =
    Collection::new("list StorageClasses", "/apis/storage.k8s.io/v1/storageclasses");
pub(super) const CSI_NODES: Collection<'_> =
    Collection::new("list CSINodes", "/apis/storage.k8s.io/v1/csinodes");
const ATTACHMENTS: Collection<'_> =
    Collection::new("list VolumeAttachments", "/apis/storage.k8s.io/v1/volumeattachments");
pub(super) const BUDGETS: Collection<'_> =
    Collection::new("list PodDisruptionBudgets", "/apis/policy/v1/poddisruptionbudgets");
pub(super) const NAMESPACES: Collection<'_> = Collection::new("list namespaces", "/api/v1/namespaces");

/// The mounted claims, and the limits of nodes. An object that cannot be used keeps the pods that
/// need it waiting; a CSINode that cannot be used sets no limit.
pub(super) async fn volumes(
    transport: &Transport,
    mounted: &BTreeSet<PodRef>,
) -> Result<ports::Volumes, ClusterError> {
    let (claims, volumes, classes, limits) = futures::try_join!(
        parts(transport, &CLAIMS, "PersistentVolumeClaim", Volumes::add_claim),
        parts(transport, &VOLUMES, "PersistentVolume", Volumes::add_volume),
        parts(transport, &CLASSES, "StorageClass", Volumes::add_class),
        parts(transport, &CSI_NODES, "CSINode", |limits: &mut BTreeMap<_, _>, node: storage::v1::CSINode| {
            convert::csi_node(node).map(|(name, limit)| drop(limits.insert(name, limit)))
        }),
    )?;
    Ok(ports::Volumes { claims: claims.join(volumes).join(classes).claims(mounted), limits })
}

/// The volumes attached to these nodes. Volumes that cannot be read count as bound to nothing, and
/// are waited for.
pub(super) async fn attachments(
    transport: &Transport,
    nodes: &BTreeSet<String>,
) -> Result<Vec<Attachment>, ClusterError> {
    let take = |attached: &mut Vec<(String, String)>, wire: storage::v1::VolumeAttachment| {
        let node = wire.spec.node_name;
        if let Some(volume) = wire.spec.source.persistent_volume_name.filter(|_| nodes.contains(&node)) {
            attached.push((volume, node));
        }
        Ok(())
    };
    let mut attached = parts(transport, &ATTACHMENTS, "VolumeAttachment", take).await?;
    if attached.is_empty() {
        return Ok(Vec::new());
    }
    attached.sort();
    let take = |volumes: &mut BTreeMap<String, (Option<PodRef>, bool)>, wire: core::v1::PersistentVolume| {
        let spec = wire.spec.unwrap_or_default();
        let claim =
            spec.claim_ref.and_then(|claim| Some(PodRef { namespace: claim.namespace?, name: claim.name? }));
        let modes = spec.access_modes.unwrap_or_default();
        let shared = modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany");
        volumes.insert(wire.metadata.name.unwrap_or_default(), (claim, shared));
        Ok(())
    };
    let volumes = parts(transport, &VOLUMES, "PersistentVolume", take).await?;
    let attachment = |(volume, node): (String, String)| {
        let (claim, shared) = volumes.get(&volume).cloned().unwrap_or_default();
        Attachment { node, volume, claim, shared }
    };
    Ok(attached.into_iter().map(attachment).collect())
}

/// All PodDisruptionBudgets. One that cannot be read keeps all pods that it may cover, as the
/// Eviction API may do.
pub(super) async fn disruption_budgets(
    transport: &Transport,
) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
    const KIND: &str = "PodDisruptionBudget";
    let take = |budgets: &mut Vec<PodDisruptionBudget>, json: &str| {
        let read = wire::read::<policy::v1::PodDisruptionBudget>(KIND, json);
        match read.and_then(convert::disruption_budget) {
            Ok(budget) => budgets.push(budget),
            Err(problem) => {
                let object: Value = serde_json::from_str(json).unwrap_or_default();
                tracing::warn!(object = problem.object, %problem, "the budget keeps all pods that it may cover");
                budgets.push(convert::unreadable_budget(&object, &problem));
            }
        }
        Ok(())
    };
    let (mut budgets, _) = collect(transport, &BUDGETS, take).await?;
    budgets.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(budgets)
}

/// The labels of all namespaces. Without the labels of one, a rule about its pods would go
/// unheeded, so that one which cannot be used keeps its name.
pub(super) async fn namespaces(
    transport: &Transport,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, ClusterError> {
    let take = |namespaces: &mut BTreeMap<_, _>, wire: core::v1::Namespace| {
        let name = wire.metadata.name.clone().unwrap_or_default();
        let (read, problem) = match convert::namespace(wire) {
            Ok((_, labels)) => (labels, Ok(())),
            Err(problem) => (convert::unlabelled_namespace(&name), Err(problem)),
        };
        namespaces.insert(name, read);
        problem
    };
    parts(transport, &NAMESPACES, "Namespace", take).await
}

/// All objects of a collection, each taken in by `add` as it comes by.
async fn parts<T: Default + Send, W: DeserializeOwned>(
    transport: &Transport,
    collection: &Collection<'_>,
    kind: &str,
    add: impl Fn(&mut T, W) -> Result<(), Invalid> + Send + Sync,
) -> Result<T, ClusterError> {
    let take = |collected: &mut T, json: &str| {
        if let Err(problem) = wire::read::<W>(kind, json).and_then(|read| add(collected, read)) {
            skip(&problem);
        }
        Ok(())
    };
    collect(transport, collection, take).await.map(|(collected, _)| collected)
}
