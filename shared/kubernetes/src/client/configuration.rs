//! NodePools and EC2NodeClasses, as users wrote them.

use outrigger_engine::ports::{ClusterError, Configuration};

use outrigger_model::{EC2NodeClass, Invalid, NodePool};
use serde_json::Value;

use super::list::{Collection, collect};
use super::transport::Transport;
use super::{refusal, unreadable};

const NODE_POOLS: Collection =
    Collection { attempted: "list NodePools", path: "/apis/karpenter.sh/v1/nodepools", fields: "" };
const EC2_NODE_CLASSES: Collection = Collection {
    attempted: "list EC2NodeClasses",
    path: "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    fields: "",
};

/// Reads both kinds; objects that do not pass validation are set apart. A pool that is being deleted launches nothing,
/// as Karpenter has it, and is left out.
pub(super) async fn read(transport: &Transport) -> Result<Configuration, ClusterError> {
    let mut configuration = Configuration::default();
    for object in objects(transport, &NODE_POOLS).await? {
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            tracing::info!(pool = ?object.pointer("/metadata/name"), "the NodePool is being deleted");
            continue;
        }
        sort_out(NodePool::read(&object), &mut configuration.node_pools, &mut configuration.invalid);
    }
    for object in objects(transport, &EC2_NODE_CLASSES).await? {
        let read = EC2NodeClass::read(&object);
        sort_out(read, &mut configuration.ec2_node_classes, &mut configuration.invalid);
    }
    Ok(configuration)
}

/// All objects of a kind; none where its definition is not installed.
async fn objects(transport: &Transport, collection: &Collection) -> Result<Vec<Value>, ClusterError> {
    let take = |all: &mut Vec<Value>, json: &str| {
        let object = serde_json::from_str(json);
        all.push(object.map_err(|error| unreadable(collection.attempted.into(), error.into()))?);
        Ok(())
    };
    match collect(transport, collection, take).await {
        Ok((objects, _)) => Ok(objects),
        Err(error) if refusal(&error) == Some(404) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn sort_out<T>(read: Result<T, Vec<Invalid>>, valid: &mut Vec<T>, invalid: &mut Vec<Invalid>) {
    match read {
        Ok(read) => valid.push(read),
        Err(problems) => invalid.extend(problems),
    }
}
