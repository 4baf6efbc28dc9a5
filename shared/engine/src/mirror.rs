//! NodeClaim objects: what the ledger says, for people, and what people ask for by deleting them.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_model::{ClaimState, NodeClaim};
use tokio::time::Instant;

use crate::observe::chain;
use crate::ports::{ClusterError, Mirror, Ports};

/// How often the objects are listed while a tick goes on, to see which were deleted.
const LISTED_EVERY: Duration = Duration::from_secs(10);

/// The objects as they were last seen or written. They are for people: when something fails, the claims go on and the next
/// pass tries again.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    shown: Option<(Instant, BTreeMap<String, Mirror>)>,
}

impl Mirrors {
    /// Lists the objects where that is due. Afterwards [`Mirrors::is_deleted`] and [`Mirrors::uid`] know them.
    pub(crate) async fn look(&mut self, ports: Ports<'_>) {
        if self.shown.as_ref().is_some_and(|(at, _)| at.elapsed() < LISTED_EVERY) {
            return;
        }
        self.shown = match ports.cluster.mirrors().await {
            Ok(shown) => Some((Instant::now(), shown)),
            Err(error) => {
                tracing::warn!(error = chain(&error), "the NodeClaim objects could not be listed");
                None
            }
        };
    }

    /// Whether somebody deleted the object of a claim.
    pub(crate) fn is_deleted(&self, claim: &str) -> bool {
        self.find(claim).is_some_and(|mirror| mirror.deleting)
    }

    /// The uid of a claim's object; empty where it is not known.
    pub(crate) fn uid(&self, claim: &str) -> String {
        self.find(claim).map(|mirror| mirror.uid.clone()).unwrap_or_default()
    }

    fn find(&self, claim: &str) -> Option<&Mirror> {
        self.shown.as_ref()?.1.get(claim)
    }

    /// Makes the objects say what the ledger says of `claims`, which are all that are not over; objects of others go.
    pub(crate) async fn write(&mut self, ports: Ports<'_>, claims: &[NodeClaim]) {
        let Some((_, shown)) = &mut self.shown else { return };
        if let Err(error) = write(ports, shown, claims).await {
            tracing::warn!(error = chain(&error), "the NodeClaim objects are not up to date");
            self.shown = None;
        }
    }
}

async fn write(
    ports: Ports<'_>,
    shown: &mut BTreeMap<String, Mirror>,
    claims: &[NodeClaim],
) -> Result<(), ClusterError> {
    let living: BTreeMap<_, _> =
        claims.iter().filter(|claim| !claim.state.is_terminal()).map(|claim| (&claim.name, claim)).collect();
    for claim in living.values().filter(|claim| claim.state != ClaimState::Intent) {
        if shown.get(&claim.name).is_none_or(|mirror| mirror.version != claim.version) {
            ports.cluster.mirror_claim(claim).await?;
            shown.entry(claim.name.clone()).or_default().version = claim.version;
        }
    }
    let over: Vec<_> = shown.keys().filter(|name| !living.contains_key(*name)).cloned().collect();
    for name in over {
        ports.cluster.remove_mirror(&name).await?;
        shown.remove(&name);
    }
    Ok(())
}
