//! NodePools, EC2NodeClasses, NodeOverlays and CapacityBuffers, as users wrote them.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps, core};
use outrigger_engine::ports::{ClusterError, Configuration};
use outrigger_model::capacity_buffer::TemplateRef;
use outrigger_model::{
    CapacityBufferObject, ConfiguredKind, ConfiguredObject, EC2NodeClass, Invalid, NodeOverlay, NodePool,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::list::{Collection, collect};
use super::transport::{Call, Transport};
use super::{refusal, unreadable};
use crate::convert::{self, Interner, Template, Templated};
use crate::wire;

pub(super) const NODE_POOLS: Collection<'_> =
    Collection::new("list NodePools", "/apis/karpenter.sh/v1/nodepools");
pub(super) const EC2_NODE_CLASSES: Collection<'_> =
    Collection::new("list EC2NodeClasses", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses");
pub(super) const NODE_OVERLAYS: Collection<'_> =
    Collection::new("list NodeOverlays", "/apis/karpenter.sh/v1alpha1/nodeoverlays");
/// CapacityBuffers in the versions in which they may be served.
pub(super) const BUFFERS: [Collection<'_>; 2] = [
    Collection::new("list CapacityBuffers", "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"),
    Collection::new("list CapacityBuffers", "/apis/autoscaling.x-k8s.io/v1alpha1/capacitybuffers"),
];

/// What helps where a right is missing.
const RIGHTS: &str = "the rights of infra/kubernetes/rbac.yaml for whoever runs the functions";

/// The objects of all kinds, as the API server has them.
struct Objects {
    pools: Vec<Value>,
    classes: Vec<Value>,
    overlays: Result<Vec<Value>, Invalid>,
    buffers: Result<Vec<Value>, Invalid>,
}

impl Objects {
    async fn list(transport: &Transport) -> Result<Self, ClusterError> {
        let (pools, classes, overlays, buffers) = futures::try_join!(
            objects(transport, &NODE_POOLS),
            objects(transport, &EC2_NODE_CLASSES),
            optional(transport, std::slice::from_ref(&NODE_OVERLAYS), "NodeOverlay"),
            optional(transport, &BUFFERS, "CapacityBuffer"),
        )?;
        let (pools, classes) = (pools.unwrap_or_default(), classes.unwrap_or_default());
        Ok(Self { pools, classes, overlays, buffers })
    }
}

/// Reads all kinds; objects that do not pass validation are set apart. A pool that is being deleted
/// launches nothing, as Karpenter has it, and is left out; so are overlays and buffers.
pub(super) async fn read(transport: &Transport) -> Result<Configuration, ClusterError> {
    let mut configuration = Configuration::default();
    let Objects { pools, classes, overlays, buffers } = Objects::list(transport).await?;
    for pool in pools.iter().filter(|pool| stays(pool)) {
        configuration.objects.extend(ConfiguredObject::read(ConfiguredKind::NodePool, pool));
        // Its Ready condition is what we wrote there ourselves.
        let read = NodePool::read(pool).map(|pool| NodePool { not_ready: None, ..pool });
        sort_out(read, &mut configuration.node_pools, &mut configuration.invalid);
    }
    for class in classes {
        if stays(&class) {
            configuration.objects.extend(ConfiguredObject::read(ConfiguredKind::EC2NodeClass, &class));
        }
        let read = EC2NodeClass::read(&class);
        sort_out(read, &mut configuration.ec2_node_classes, &mut configuration.invalid);
    }
    for overlay in sound(overlays, &mut configuration).iter().filter(|overlay| stays(overlay)) {
        configuration.objects.extend(ConfiguredObject::read(ConfiguredKind::NodeOverlay, overlay));
        sort_out(NodeOverlay::read(overlay), &mut configuration.overlays, &mut configuration.invalid);
    }
    let mut read_buffers = Vec::new();
    for buffer in sound(buffers, &mut configuration).iter().filter(|buffer| stays(buffer)) {
        configuration.objects.extend(ConfiguredObject::read(ConfiguredKind::CapacityBuffer, buffer));
        sort_out(CapacityBufferObject::read(buffer), &mut read_buffers, &mut configuration.invalid);
    }
    resolve(transport, &read_buffers, &mut configuration).await?;
    Ok(configuration)
}

/// What people wrote of all objects, in a form in which a change shows.
pub(super) async fn written(transport: &Transport) -> Result<Vec<[String; 1]>, ClusterError> {
    let Objects { pools, classes, overlays, buffers } = Objects::list(transport).await?;
    let needed = pools.into_iter().chain(classes);
    let others = [overlays, buffers].into_iter().flat_map(Result::unwrap_or_default);
    let fields = ["uid", "generation", "labels", "annotations", "deletionTimestamp"];
    let of_object = |object: Value| {
        let fields = fields.map(|field| object.pointer(&format!("/metadata/{field}")).cloned());
        [serde_json::json!(fields).to_string()]
    };
    Ok(needed.chain(others).map(of_object).collect())
}

/// The uids of the NodePools that stay, by name.
pub(super) async fn node_pool_uids(transport: &Transport) -> Result<BTreeMap<String, String>, ClusterError> {
    let pools = objects(transport, &NODE_POOLS).await?.unwrap_or_default();
    let text = |pool: &Value, pointer: &str| pool.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let named = |pool: &Value| Some((text(pool, "/metadata/name")?, text(pool, "/metadata/uid")?));
    Ok(pools.iter().filter(|pool| !is_leaving(pool)).filter_map(named).collect())
}

/// Puts buffers and their templates together. Each template is read by its name, since buffers are
/// few and workloads many.
async fn resolve(
    transport: &Transport,
    buffers: &[CapacityBufferObject],
    configuration: &mut Configuration,
) -> Result<(), ClusterError> {
    let mut templates = BTreeMap::new();
    let mut interner = Interner::default();
    for buffer in buffers {
        let Some(reference) = buffer.template() else { continue };
        if !templates.contains_key(&reference) {
            let read = template(transport, &reference, &mut interner).await?;
            templates.insert(reference.clone(), read);
        }
        let template = templates.get(&reference).and_then(Option::as_ref);
        match convert::capacity_buffer(buffer, template) {
            Ok(buffer) => configuration.buffers.push(buffer),
            Err(problem) => configuration.invalid.push(problem),
        }
    }
    Ok(())
}

/// A template; none where there is no such object.
async fn template(
    transport: &Transport,
    reference: &TemplateRef,
    interner: &mut Interner,
) -> Result<Option<Result<Template, Invalid>>, ClusterError> {
    let TemplateRef { kind, id } = reference;
    let call = template_call(reference);
    let body = match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(404) => return Ok(None),
        Err(error) if refusal(&error) == Some(403) => {
            let problem = Invalid::new(format!("{kind}/{}/{}", id.namespace, id.name), "", error, RIGHTS);
            return Ok(Some(Err(problem)));
        }
        answer => answer?,
    };
    let json = String::from_utf8_lossy(&body);
    let read = match *kind {
        "PodTemplate" => typed::<core::v1::PodTemplate>(kind, &json).map(Templated::PodTemplate),
        "StatefulSet" => typed::<apps::v1::StatefulSet>(kind, &json).map(Templated::StatefulSet),
        "ReplicaSet" => typed::<apps::v1::ReplicaSet>(kind, &json).map(Templated::ReplicaSet),
        _ => typed::<apps::v1::Deployment>(kind, &json).map(Templated::Deployment),
    };
    Ok(Some(read.and_then(|read| convert::template(read, interner).1)))
}

/// The call that reads a template.
pub(super) fn template_call(TemplateRef { kind, id }: &TemplateRef) -> Call {
    let (api, plural) = match *kind {
        "PodTemplate" => ("/api/v1", "podtemplates"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "ReplicaSet" => ("/apis/apps/v1", "replicasets"),
        _ => ("/apis/apps/v1", "deployments"),
    };
    let path = format!("{api}/namespaces/{}/{plural}/{}", id.namespace, id.name);
    Call::get(format!("read the {kind} {id}"), path)
}

fn typed<T: DeserializeOwned>(kind: &str, json: &str) -> Result<T, Invalid> {
    wire::read(kind, json)
}

/// The objects of a kind that nobody needs to have, in the first of its versions that is served. A
/// right that is missing is a complaint beside the others, and stops nothing.
async fn optional(
    transport: &Transport,
    versions: &[Collection<'_>],
    kind: &str,
) -> Result<Result<Vec<Value>, Invalid>, ClusterError> {
    for collection in versions {
        match objects(transport, collection).await {
            Ok(None) => {}
            Ok(Some(objects)) => return Ok(Ok(objects)),
            Err(error) if refusal(&error) == Some(403) => {
                return Ok(Err(Invalid::new(kind, "", error, RIGHTS)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(Vec::new()))
}

/// All objects of a kind; none where its definition is not installed.
async fn objects(
    transport: &Transport,
    collection: &Collection<'_>,
) -> Result<Option<Vec<Value>>, ClusterError> {
    let take = |objects: &mut Vec<Value>, json: &str| {
        let object = serde_json::from_str(json);
        objects.push(object.map_err(|error| unreadable(collection.attempted.into(), error.into()))?);
        Ok(())
    };
    match collect(transport, collection, take).await {
        Ok((objects, _)) => Ok(Some(objects)),
        Err(error) if refusal(&error) == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

fn stays(object: &Value) -> bool {
    let leaves = is_leaving(object);
    if leaves {
        tracing::info!(name = ?object.pointer("/metadata/name"), "the object is being deleted and does not count");
    }
    !leaves
}

fn is_leaving(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn sound(read: Result<Vec<Value>, Invalid>, configuration: &mut Configuration) -> Vec<Value> {
    read.unwrap_or_else(|problem| {
        configuration.invalid.push(problem);
        Vec::new()
    })
}

fn sort_out<T>(read: Result<T, Vec<Invalid>>, valid: &mut Vec<T>, invalid: &mut Vec<Invalid>) {
    match read {
        Ok(read) => valid.push(read),
        Err(problems) => invalid.extend(problems),
    }
}
