//! NodeClaim objects: what the ledger says, for people, and what people ask for by deleting or
//! annotating them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{ClaimState, NodeClaim, OwnerReference, labels};
use tokio::time::Instant;

use crate::chain::chain;
use crate::ports::{ClusterError, GoingDefinitions, Lease, Mirror, Ports};

/// How often the objects are listed while a tick goes on, to see which were deleted.
const LISTED_EVERY: Duration = Duration::from_secs(10);
/// How long after its node is ready a claim may get its first object.
const FIRST_SHOWN_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// The objects as they were last seen or written. They are for people: when something fails, the
/// claims go on and the next pass tries again.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    shown: Option<(Instant, BTreeMap<String, Mirror>)>,
    /// Which definitions are going; `None` while that cannot be told.
    going: Option<GoingDefinitions>,
}

impl Mirrors {
    /// Lists the objects where that is due. Afterwards [`Mirrors::is_deleted`] and [`Mirrors::uid`]
    /// know them.
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
        let mut shown = self.shown.iter().flat_map(|(_, shown)| shown.values());
        let is_any_deleted = shown.any(|mirror| mirror.deleting && !mirror.delete_anyway);
        self.going =
            if is_any_deleted { going_definitions(ports).await } else { Some(GoingDefinitions::default()) };
    }

    /// Whether somebody deleted the object of a claim, and not its definition. While nobody knows,
    /// no deletion counts.
    pub(crate) fn is_deleted(&self, claim: &str) -> bool {
        self.find(claim)
            .is_some_and(|mirror| mirror.deleting && self.went_with_definition(mirror) == Some(false))
    }

    /// Whether an object is deleted since its definition is; `None` while that cannot be told.
    fn went_with_definition(&self, mirror: &Mirror) -> Option<bool> {
        if mirror.delete_anyway {
            return Some(false);
        }
        let going = self.going?;
        Some(mirror.deleting && (going.node_claims || going.node_pools && mirror.owner.is_some()))
    }

    /// Whether the end of a claim is meant, however many end at once.
    pub(crate) fn is_meant(&self, claim: &str) -> bool {
        self.find(claim).is_some_and(|mirror| mirror.delete_anyway)
    }

    /// The names of the objects that are deleted since their definition is.
    pub(crate) fn gone_with_definition(&self) -> Vec<String> {
        let shown = self.shown.iter().flat_map(|(_, shown)| shown);
        let went = shown.filter(|(_, mirror)| self.went_with_definition(mirror) == Some(true));
        went.map(|(name, _)| name.clone()).collect()
    }

    /// The uid of a claim's object; empty where it is not known.
    pub(crate) fn uid(&self, claim: &str) -> String {
        self.find(claim).map(|mirror| mirror.uid.clone()).unwrap_or_default()
    }

    /// What somebody asks for by the annotation `karpenter.sh/do-not-disrupt` of a claim's object;
    /// as long as the objects are not known, what was last seen.
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

    /// Makes the objects say what the ledger says of `claims`, which are all that are not over;
    /// objects of others go. An object that is refused holds up no other. Nothing is begun after
    /// `deadline`.
    pub(crate) async fn write(
        &mut self,
        ports: Ports<'_>,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
        deadline: Instant,
    ) {
        let gone = self.gone_with_definition();
        let Some((_, shown)) = &mut self.shown else { return };
        if !gone.is_empty() {
            // They are written anew once their definition is there again.
            return let_go(ports, shown, &gone, claims, lease, deadline).await;
        }
        if let Err(error) = write(ports, shown, claims, deadline).await {
            tracing::warn!(error = chain(&error), "the NodeClaim objects are not up to date");
            self.shown = None;
        }
    }
}

/// Which definitions are going; `None` while that cannot be told. Who may not read them takes each
/// deletion for a user's.
async fn going_definitions(ports: Ports<'_>) -> Option<GoingDefinitions> {
    match ports.cluster.going_definitions().await {
        Ok(going) => Some(going),
        Err(error @ ClusterError::Refused { status: 403, .. }) => {
            tracing::warn!(
                error = chain(&error),
                "whether the definition of NodeClaims is going is not known"
            );
            Some(GoingDefinitions::default())
        }
        Err(error) => {
            tracing::warn!(error = chain(&error), "no deletion of a NodeClaim counts for now");
            None
        }
    }
}

/// Lets objects go that are deleted with their definition, so that it can be installed anew. Before
/// that their claims note it, as far as it matters to the [`owner`] of the next ones.
async fn let_go(
    ports: Ports<'_>,
    shown: &mut BTreeMap<String, Mirror>,
    gone: &[String],
    claims: &[NodeClaim],
    lease: Option<&Lease>,
    deadline: Instant,
) {
    for name in gone {
        if Instant::now() >= deadline {
            return;
        }
        let claim = claims.iter().find(|claim| claim.name == *name);
        if let Some(claim) = claim.filter(|claim| is_new(claim, ports.now()) && !claim.status.had_object) {
            let next = claim.clone().with_status(|status| status.had_object = true);
            if let Err(error) = ports.ledger.update_claim(&next, lease).await {
                tracing::warn!(claim = name, error = chain(&error), "its NodeClaim is let go later");
                continue;
            }
        }
        match ports.cluster.remove_mirror(name).await {
            Ok(()) => drop(shown.remove(name)),
            Err(error) => tracing::warn!(claim = name, error = chain(&error), "the NodeClaim was not let go"),
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
    let launched: Vec<&NodeClaim> =
        living.values().copied().filter(|claim| claim.status.state != ClaimState::Intent).collect();
    let pools = node_pools(ports, shown, &launched).await?;
    for claim in launched {
        let owner = owner(claim, shown.get(&claim.name), &pools, ports.now());
        let is_shown = shown.get(&claim.name).is_some_and(|mirror| mirror.version == claim.version);
        if is_shown && owner.is_none() {
            continue;
        }
        if Instant::now() >= deadline {
            return Ok(());
        }
        match ports.cluster.mirror_claim(claim, owner.as_ref()).await {
            Ok(()) => {
                let mirror = shown.entry(claim.name.clone()).or_default();
                mirror.version = claim.version;
                mirror.owner = mirror.owner.take().or_else(|| owner.map(|owner| owner.uid));
            }
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

/// The uids of the NodePools, by name. Nobody asks for them while each object has an owner.
async fn node_pools(
    ports: Ports<'_>,
    shown: &BTreeMap<String, Mirror>,
    claims: &[&NodeClaim],
) -> Result<BTreeMap<String, String>, ClusterError> {
    if claims.iter().all(|claim| shown.get(&claim.name).is_some_and(has_owner)) {
        return Ok(BTreeMap::new());
    }
    ports.cluster.node_pool_uids().await
}

/// Whether nobody looks for an owner of an object any more.
const fn has_owner(mirror: &Mirror) -> bool {
    mirror.owner.is_some() || mirror.deleting
}

/// The NodePool that is to own the object of a claim; `None` where it has an owner, and where there
/// is none for it.
///
/// It is the pool that bears the name now, since nodes belong to pools by name. An object without
/// an owner was orphaned, or is older than its pool: it never gets a pool that is gone, for which
/// the garbage collector would delete it. Only a claim that is new and never had an object bears
/// the pool that it was launched for: where that was deleted meanwhile, the claim ends as all
/// others of the pool do. A claim whose object went with the definition had one. Nobody knows
/// whether its node was to be kept.
fn owner(
    claim: &NodeClaim,
    shown: Option<&Mirror>,
    pools: &BTreeMap<String, String>,
    now: Timestamp,
) -> Option<OwnerReference> {
    if shown.is_some_and(has_owner) {
        return None;
    }
    let never_had_one = shown.is_none() && !claim.status.had_object;
    let launched_for = Some(&claim.spec.node_pool_uid).filter(|uid| is_new(claim, now) && !uid.is_empty());
    let living = pools.get(&claim.spec.node_pool);
    let uid = living.or(launched_for.filter(|_| never_had_one))?;
    Some(OwnerReference::node_pool(&claim.spec.node_pool, uid))
}

/// Whether the node of a claim is not ready for pods yet, or was not a little while ago: so long
/// functions that die may fail to write its object.
fn is_new(claim: &NodeClaim, now: Timestamp) -> bool {
    let is_lately = |since: Timestamp| now.duration_since(since) < FIRST_SHOWN_WITHIN;
    match claim.status.state {
        ClaimState::Initialized => claim.status.initialized_at.is_some_and(is_lately),
        state => state < ClaimState::Initialized,
    }
}

/// Tells of an object that could not be written or removed. What the others would meet as well is
/// handed back: a server that is not there, not well or busy, and a definition that is not
/// installed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{at, claim};

    /// The uid of the owner that the object of a claim of the pool `uid-1` gets.
    fn owner_of(state: ClaimState, shown: Option<&Mirror>, pools: &[(&str, &str)]) -> Option<String> {
        let mut claim = claim().with_status(|status| {
            status.state = state;
            status.initialized_at = (state >= ClaimState::Initialized).then_some(at(0));
        });
        claim.spec.node_pool_uid = "uid-1".into();
        let pools = pools.iter().map(|(name, uid)| ((*name).to_owned(), (*uid).to_owned())).collect();
        owner(&claim, shown, &pools, at(600)).map(|owner| {
            assert!(owner.is_node_pool() && owner.name == claim.spec.node_pool, "{owner:?}");
            owner.uid
        })
    }

    #[test]
    fn an_object_belongs_to_the_pool_of_its_name_and_never_gets_one_that_is_gone() {
        use ClaimState::{Draining, Initialized, Launched, Registered};
        let name = claim().spec.node_pool;
        let (first, second) = ([(name.as_str(), "uid-1")], [(name.as_str(), "uid-2")]);
        let (unowned, other) = (Mirror::default(), [("another", "uid-3")]);
        let owned = Mirror { owner: Some("uid-1".into()), ..Mirror::default() };
        let deleted = Mirror { deleting: true, ..Mirror::default() };
        let table: [(_, _, &[(&str, &str)], _); 11] = [
            (Launched, None, &first, Some("uid-1")),
            (Initialized, None, &first, Some("uid-1")),
            (Initialized, Some(&unowned), &first, Some("uid-1")),
            (Initialized, Some(&unowned), &second, Some("uid-2")),
            (Initialized, Some(&owned), &second, None),
            (Initialized, Some(&deleted), &first, None),
            // The pool is gone.
            (Launched, None, &other, Some("uid-1")),
            (Registered, None, &[], Some("uid-1")),
            (Initialized, None, &other, None),
            (Draining, None, &other, None),
            (Launched, Some(&unowned), &other, None),
        ];
        for (state, shown, pools, expected) in table {
            let new_owner = owner_of(state, shown, pools);
            assert_eq!(new_owner.as_deref(), expected, "{state:?} {shown:?} {pools:?}");
        }
        // The object that it had went with the definition.
        let mut claim = claim().with_status(|status| {
            status.state = Launched;
            status.had_object = true;
        });
        claim.spec.node_pool_uid = "uid-1".into();
        let uid_in = |claim: &NodeClaim, pools| Some(owner(claim, None, &pools, at(599))?.uid);
        assert_eq!(uid_in(&claim, BTreeMap::from([(name, "uid-2".into())])).as_deref(), Some("uid-2"));
        assert_eq!(uid_in(&claim, BTreeMap::new()), None, "it is nobody's");
        // Functions that died have written none until now.
        (claim.status.state, claim.status.initialized_at) = (Initialized, Some(at(0)));
        claim.status.had_object = false;
        assert_eq!(uid_in(&claim, BTreeMap::new()).as_deref(), Some("uid-1"));
    }
}
