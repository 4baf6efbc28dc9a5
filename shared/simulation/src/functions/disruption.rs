//! Who disrupts nodes by choice in the place of the function `disrupt`, which has its schedule.

use std::sync::Arc;

use crate::policy::Policy;
use crate::world::World;

/// Lets the policy of a scenario do its work, for ever.
#[cfg_attr(not(feature = "week"), expect(unused_variables, reason = "only the rival looks at the world"))]
pub(crate) async fn disrupter(world: &Arc<World>, policy: Policy) {
    match policy {
        Policy::None | Policy::Outrigger => std::future::pending().await,
        #[cfg(feature = "week")]
        Policy::Karpenter => crate::week::passes::passes(world).await,
        #[cfg(feature = "week")]
        Policy::KarpenterDeletionCost => {
            tokio::join!(crate::week::passes::passes(world), crate::week::deletion_cost::rankings(world));
        }
    }
}
