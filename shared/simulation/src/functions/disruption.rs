//! Whoever disrupts nodes by choice.

use std::sync::Arc;

use crate::policy::Policy;
use crate::world::World;

/// Lets the policy of a scenario do its work, for ever.
pub(crate) async fn disrupter(world: &Arc<World>, policy: Policy) {
    match policy {
        Policy::None => std::future::pending().await,
        #[cfg(feature = "week")]
        Policy::Karpenter => crate::week::passes::passes(world).await,
    }
}
