//! Node classes, resolved against the state store and the account.

use outrigger_model::{NodeClass, NodeClassRef};

use crate::error::chain;
use crate::ports::{ClassSource, Configuration, Ports};

/// The classes that the pools use, each once.
pub(super) fn references(configuration: &Configuration) -> Vec<NodeClassRef> {
    let mut references: Vec<_> =
        configuration.node_pools.iter().map(|pool| pool.node_class().clone()).collect();
    references.sort();
    references.dedup();
    references
}

/// A class that cannot be resolved keeps its pools from launching and lets the others go on.
pub(super) async fn resolve(
    ports: Ports<'_>,
    configuration: &Configuration,
    reference: NodeClassRef,
) -> NodeClass {
    let not_ready =
        |why: String| NodeClass { not_ready: Some(why), ..NodeClass::for_planning(reference.clone()) };
    let source = if reference.is_instance_group() {
        ClassSource::InstanceGroup(reference.name.clone())
    } else {
        let found = configuration.ec2_node_classes.iter().find(|class| class.name == reference.name);
        match found {
            Some(class) => ClassSource::Ec2(Box::new(class.clone())),
            None => return not_ready(format!("there is no valid {reference}")),
        }
    };
    match ports.cloud.resolve_class(&source).await {
        Ok(class) => {
            for remark in &class.remarks {
                tracing::warn!(class = %class.reference, remark);
            }
            class
        }
        Err(error) => {
            let why = chain(&error);
            tracing::warn!(class = %reference, error = why, "the node class could not be resolved");
            not_ready(why)
        }
    }
}
