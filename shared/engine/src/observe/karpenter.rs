//! Whether a Karpenter lives.

use outrigger_model::KarpenterLease;

use crate::chain::chain;
use crate::ports::{Configuration, Ports};

/// Karpenter's Lease, which is asked for only where something may be Karpenter's. What could not be
/// read is not known, and stops nothing but what depends on it. Nor is it while the cluster's
/// clocks are wrong, by which it is renewed.
pub(crate) async fn karpenter_lease(ports: Ports<'_>, configuration: &Configuration) -> KarpenterLease {
    if !may_be_karpenters(configuration) {
        return KarpenterLease::Absent;
    }
    match ports.cluster.karpenter_lease().await {
        Ok(None) => KarpenterLease::Absent,
        Ok(Some(_)) if ports.clock_difference().is_some() => {
            KarpenterLease::Unreadable("the API server's clock differs from AWS'".into())
        }
        Ok(Some(lease)) => KarpenterLease::Known(lease),
        Err(error) => {
            let why = chain(&error);
            tracing::warn!(error = why, "whether a Karpenter lives is not known; its pools launch nothing");
            KarpenterLease::Unreadable(why)
        }
    }
}

/// Whether Karpenter would act on any of the objects.
fn may_be_karpenters(configuration: &Configuration) -> bool {
    let is_of_kops = |pool: &outrigger_model::NodePool| pool.node_class().is_instance_group();
    configuration.node_pools.iter().any(|pool| !is_of_kops(pool))
        || configuration.objects.iter().any(|object| {
            !object.node_class.as_ref().is_some_and(outrigger_model::NodeClassRef::is_instance_group)
        })
}
