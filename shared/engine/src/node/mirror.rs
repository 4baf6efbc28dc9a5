//! NodeClaim objects: what the ledger says, for people, and what people ask for by deleting or annotating them.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_model::{ClaimState, NodeClaim, labels};
use tokio::time::Instant;

use crate::error::chain;
use crate::ports::{ClusterError, Mirror, Ports};

/// How often the objects are listed while a tick goes on, to see which were deleted.
const LISTED_EVERY: Duration = Duration::from_secs(10);

/// The objects as they were last seen or written. They are for people: when something fails, the claims go on and the
/// next pass tries again.
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

    /// What somebody asks for by the annotation `karpenter.sh/do-not-disrupt` of a claim's object; as long as the
    /// objects are not known, what was last seen.
    pub(crate) fn do_not_disrupt(&self, claim: &NodeClaim) -> Option<String> {
        if self.shown.is_none() {
            return claim.status.do_not_disrupt.clone();
        }
        let wish = self.find(&claim.name)?.do_not_disrupt.as_ref();
        // What its pool asked for went to its Node, where it counts for as long as it stands there.
        wish.filter(|wish| claim.spec.annotations.get(labels::DO_NOT_DISRUPT) != Some(wish)).cloned()
    }

    /// Whether it is known what the objects say.
    pub(crate) const fn are_known(&self) -> bool {
        self.shown.is_some()
    }

    fn find(&self, claim: &str) -> Option<&Mirror> {
        self.shown.as_ref()?.1.get(claim)
    }

    /// Makes the objects say what the ledger says of `claims`, which are all that are not over; objects of
    /// others go. An object that is refused holds up no other. Nothing is begun after `deadline`.
    pub(crate) async fn write(&mut self, ports: Ports<'_>, claims: &[NodeClaim], deadline: Instant) {
        let Some((_, shown)) = &mut self.shown else { return };
        if let Err(error) = write(ports, shown, claims, deadline).await {
            tracing::warn!(error = chain(&error), "the NodeClaim objects are not up to date");
            self.shown = None;
        }
    }
}

/// Errors when there is no use in going on with the others.
async fn write(
    ports: Ports<'_>,
    shown: &mut BTreeMap<String, Mirror>,
    claims: &[NodeClaim],
    deadline: Instant,
) -> Result<(), ClusterError> {
    let living: BTreeMap<_, _> = claims
        .iter()
        .filter(|claim| !claim.status.state.is_terminal())
        .map(|claim| (&claim.name, claim))
        .collect();
    for claim in living.values().filter(|claim| claim.status.state != ClaimState::Intent) {
        if shown.get(&claim.name).is_some_and(|mirror| mirror.version == claim.version) {
            continue;
        }
        if Instant::now() >= deadline {
            return Ok(());
        }
        match ports.cluster.mirror_claim(claim).await {
            Ok(()) => shown.entry(claim.name.clone()).or_default().version = claim.version,
            Err(error) => tell_of_one(&claim.name, error)?,
        }
    }
    let over: Vec<_> = shown.keys().filter(|name| !living.contains_key(*name)).cloned().collect();
    for name in over {
        if Instant::now() >= deadline {
            return Ok(());
        }
        match ports.cluster.remove_mirror(&name).await {
            Ok(()) => drop(shown.remove(&name)),
            Err(error) => tell_of_one(&name, error)?,
        }
    }
    Ok(())
}

/// Tells of an object that could not be written or removed. What the others would meet as well is handed
/// back: a server that is not there, not well or busy, and a definition that is not installed.
fn tell_of_one(claim: &str, error: ClusterError) -> Result<(), ClusterError> {
    let is_of_all = matches!(
        error,
        ClusterError::Unreachable { .. } | ClusterError::Refused { status: 404 | 429 | 500.., .. }
    );
    if is_of_all {
        return Err(error);
    }
    tracing::warn!(claim, error = chain(&error), "the NodeClaim object is not up to date");
    Ok(())
}
