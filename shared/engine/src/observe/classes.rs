//! Node classes, resolved against the state store and the account.

use outrigger_model::{NodeClass, NodeClassRef};

use crate::chain::chain;
use crate::ports::{ClassSource, CloudError, Configuration, Ports};

/// The classes that the pools use, each once.
pub(super) fn references(configuration: &Configuration) -> Vec<NodeClassRef> {
    let mut references: Vec<_> =
        configuration.node_pools.iter().map(|pool| pool.node_class().clone()).collect();
    references.sort();
    references.dedup();
    references
}

/// What a reference to a class comes to.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// This class, which may not be ready.
    Resolved(Box<NodeClass>),
    /// Nothing: there is no valid class of that name.
    Missing,
    /// Something that cannot be used, and why.
    Unusable(String),
    /// Nobody knows, and why.
    Unknown(String),
}

/// Looks a class up.
pub(crate) async fn resolution(
    ports: Ports<'_>,
    configuration: &Configuration,
    reference: &NodeClassRef,
) -> Resolution {
    let Some(source) = ClassSource::named(reference, &configuration.ec2_node_classes) else {
        return Resolution::Missing;
    };
    match ports.cloud.resolve_class(&source).await {
        Ok(class) => Resolution::Resolved(Box::new(class)),
        Err(error @ CloudError::Unusable { .. }) => Resolution::Unusable(chain(&error)),
        Err(error) => Resolution::Unknown(chain(&error)),
    }
}

/// A class that cannot be resolved keeps its pools from launching and lets the others go on.
pub(super) async fn resolve(
    ports: Ports<'_>,
    configuration: &Configuration,
    reference: NodeClassRef,
) -> NodeClass {
    let why = match resolution(ports, configuration, &reference).await {
        Resolution::Resolved(class) => {
            for remark in &class.remarks {
                tracing::warn!(class = %class.reference, remark);
            }
            return *class;
        }
        Resolution::Missing => format!("there is no valid {reference}"),
        Resolution::Unusable(why) | Resolution::Unknown(why) => {
            tracing::warn!(class = %reference, error = why, "the node class could not be resolved");
            why
        }
    };
    NodeClass { not_ready: Some(why), ..NodeClass::for_planning(reference) }
}
