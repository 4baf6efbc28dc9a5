//! What users asked for: the cluster's objects, and the InstanceGroups of the state store that ask
//! for a NodePool.

use outrigger_model::NodePool;

use crate::chain::chain;
use crate::ports::{ClusterError, Configuration, Ports};

/// The objects of the cluster with the pools of InstanceGroups among them. While nothing is known
/// of these they are missing: nothing is launched for them, and their nodes stay as they are.
pub(crate) async fn configuration(ports: Ports<'_>) -> Result<Configuration, ClusterError> {
    let mut configuration = ports.cluster.configuration().await?;
    match ports.cloud.managed_pools().await {
        Ok(managed) => {
            let pools = managed.node_pools.into_iter();
            let missing: Vec<_> = pools.filter(|pool| !is_written(&configuration, pool)).collect();
            configuration.node_pools.extend(missing);
            configuration.invalid.extend(managed.invalid);
        }
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(error, "nothing is launched for InstanceGroups that ask for a NodePool");
        }
    }
    Ok(configuration)
}

/// Whether somebody wrote a NodePool for the InstanceGroup, or one of that name, be it a valid one
/// or not. Then that one counts.
fn is_written(configuration: &Configuration, managed: &NodePool) -> bool {
    let label = format!("NodePool/{}", managed.name);
    let class = managed.node_class();
    configuration.node_pools.iter().any(|pool| pool.name == managed.name || pool.node_class() == class)
        || configuration.invalid.iter().any(|problem| problem.object == label)
}

#[cfg(test)]
mod tests {
    use outrigger_model::{Invalid, NodeClassRef};

    use super::*;

    fn pool(name: &str, group: &str) -> NodePool {
        NodePool::bare(name, NodeClassRef::instance_group(group))
    }

    #[test]
    fn a_pool_that_somebody_wrote_takes_the_place_of_the_managed_one() {
        let refused = Invalid::new("NodePool/c", "spec.weight", 0, "1 to 100");
        let written = Configuration {
            node_pools: vec![pool("mine", "a"), pool("b", "other")],
            invalid: vec![refused],
            ..Configuration::default()
        };
        let table =
            [("a", "a", true), ("a-min", "a", true), ("b", "b", true), ("c", "c", true), ("d", "d", false)];
        for (name, group, expected) in table {
            assert_eq!(is_written(&written, &pool(name, group)), expected, "{name}");
        }
    }
}
