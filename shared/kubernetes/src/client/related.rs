//! Objects that are read only while some pod refers to them: volumes and namespaces.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{core, storage};
use outrigger_engine::ports::{self, ClusterError};
use outrigger_model::{Invalid, PodRef};
use serde::de::DeserializeOwned;

use super::list::{Collection, collect, skip};
use super::transport::Transport;
use crate::convert::{self, Volumes};
use crate::wire;

const CLAIMS: Collection = all("list PersistentVolumeClaims", "/api/v1/persistentvolumeclaims");
const VOLUMES: Collection = all("list PersistentVolumes", "/api/v1/persistentvolumes");
const CLASSES: Collection = all("list StorageClasses", "/apis/storage.k8s.io/v1/storageclasses");
const CSI_NODES: Collection = all("list CSINodes", "/apis/storage.k8s.io/v1/csinodes");
const NAMESPACES: Collection = all("list namespaces", "/api/v1/namespaces");

const fn all(attempted: &'static str, path: &'static str) -> Collection {
    Collection { attempted, path, fields: "" }
}

/// The mounted claims, and the limits of nodes. An object that cannot be used keeps the pods that need it waiting; a
/// CSINode that cannot be used sets no limit.
pub(super) async fn volumes(
    transport: &Transport,
    mounted: &BTreeSet<PodRef>,
) -> Result<ports::Volumes, ClusterError> {
    let (claims, volumes, classes, limits) = futures::try_join!(
        parts(transport, &CLAIMS, "PersistentVolumeClaim", Volumes::add_claim),
        parts(transport, &VOLUMES, "PersistentVolume", Volumes::add_volume),
        parts(transport, &CLASSES, "StorageClass", Volumes::add_class),
        parts(transport, &CSI_NODES, "CSINode", |limits: &mut BTreeMap<_, _>, node: storage::v1::CSINode| {
            convert::csi_node(node).map(|(name, own)| drop(limits.insert(name, own)))
        }),
    )?;
    Ok(ports::Volumes { claims: claims.join(volumes).join(classes).claims(mounted), limits })
}

/// The labels of all namespaces. Without the labels of one, a rule about its pods would go unheeded, so that one which
/// cannot be used keeps its name.
pub(super) async fn namespaces(
    transport: &Transport,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, ClusterError> {
    let take = |all: &mut BTreeMap<_, _>, wire: core::v1::Namespace| {
        let name = wire.metadata.name.clone().unwrap_or_default();
        let (read, problem) = match convert::namespace(wire) {
            Ok((_, labels)) => (labels, Ok(())),
            Err(problem) => (convert::unlabelled_namespace(&name), Err(problem)),
        };
        all.insert(name, read);
        problem
    };
    parts(transport, &NAMESPACES, "Namespace", take).await
}

/// All objects of a collection, each taken in by `add` as it comes by.
async fn parts<T: Default + Send, W: DeserializeOwned>(
    transport: &Transport,
    collection: &Collection,
    kind: &str,
    add: impl Fn(&mut T, W) -> Result<(), Invalid> + Send + Sync,
) -> Result<T, ClusterError> {
    let take = |all: &mut T, json: &str| {
        if let Err(problem) = wire::read::<W>(kind, json).and_then(|read| add(all, read)) {
            skip(&problem);
        }
        Ok(())
    };
    collect(transport, collection, take).await.map(|(all, _)| all)
}
