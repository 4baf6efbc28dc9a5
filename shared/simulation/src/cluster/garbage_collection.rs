//! Kubernetes' garbage collector, as far as NodePools and the NodeClaims go that belong to them.

use outrigger_engine::ports::Configuration;
use outrigger_model::{ConfiguredKind, NodePool};

use super::Objects;
use crate::scenario::Cascade;

/// A NodePool that somebody deleted.
#[derive(Clone, Debug)]
pub(crate) struct DeletedPool {
    /// Its name.
    pub(crate) name: String,
    /// Its uid.
    pub(crate) uid: String,
    /// What becomes of its NodeClaims.
    pub(crate) cascade: Cascade,
    /// Whether its object is gone; until then a finalizer holds it.
    is_gone: bool,
}

/// What the garbage collector has done, by the names of the NodeClaims.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Those that it deleted.
    pub(crate) deleted: Vec<String>,
    /// Those that it orphaned.
    pub(crate) orphaned: Vec<String>,
}

/// The objects of a scenario once the API server has them: each NodePool has a uid.
pub(super) fn created(written: &Configuration) -> Configuration {
    let mut configuration = written.clone();
    for pool in &mut configuration.node_pools {
        pool.uid = uid(&pool.name);
    }
    let pools = configuration.objects.iter_mut().map(|object| &mut object.reference);
    for reference in pools.filter(|reference| reference.kind == ConfiguredKind::NodePool) {
        reference.uid = uid(&reference.name);
    }
    configuration
}

fn uid(pool: &str) -> String {
    format!("nodepool-{pool}")
}

impl Objects {
    /// Somebody deletes the first NodePools in order of name. Returns their uids.
    pub(crate) fn delete_node_pools(&mut self, number: usize, cascade: Cascade) -> Vec<String> {
        let pools = &mut self.configuration.node_pools;
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        let deleted: Vec<NodePool> = pools.drain(..number.min(pools.len())).collect();
        let uids: Vec<String> = deleted.iter().map(|pool| pool.uid.clone()).collect();
        self.configuration.objects.retain(|object| !uids.contains(&object.reference.uid));
        self.deleted_pools.extend(deleted.into_iter().map(|pool| DeletedPool {
            name: pool.name,
            uid: pool.uid,
            cascade,
            is_gone: cascade == Cascade::Background,
        }));
        uids
    }

    /// A NodePool that was deleted.
    pub(crate) fn deleted_pool(&self, uid: &str) -> Option<&DeletedPool> {
        self.deleted_pools.iter().find(|pool| pool.uid == uid)
    }

    /// Whether the object of a claim was kept when its NodePool was deleted.
    pub(crate) fn is_orphaned(&self, claim: &str) -> bool {
        self.orphaned.contains(claim)
    }

    /// Whether the object of a claim belongs to a NodePool that was deleted.
    pub(crate) fn is_of_deleted_pool(&self, claim: &str) -> bool {
        let owner = self.mirrors.get(claim).and_then(|mirror| mirror.owner.as_deref());
        owner.is_some_and(|uid| self.deleted_pool(uid).is_some())
    }

    /// The garbage collector looks: it orphans what is to be kept, and deletes what belongs to a
    /// NodePool that is gone or waits for it.
    pub(crate) fn collect_garbage(&mut self) -> Collected {
        let mut collected = Collected::default();
        for pool in &mut self.deleted_pools {
            let owned =
                self.mirrors.iter_mut().filter(|(_, mirror)| mirror.owner.as_ref() == Some(&pool.uid));
            if pool.cascade == Cascade::Orphan && !pool.is_gone {
                for (name, mirror) in owned {
                    mirror.owner = None;
                    collected.orphaned.push(name.clone());
                }
                pool.is_gone = true;
            } else {
                for (name, mirror) in owned.filter(|(_, mirror)| !mirror.deleting) {
                    mirror.deleting = true;
                    collected.deleted.push(name.clone());
                }
            }
        }
        self.orphaned.extend(collected.orphaned.iter().cloned());
        self.release_pools();
        collected
    }

    /// A NodeClaim object is gone, and perhaps the last of a NodePool that waits for it.
    pub(crate) fn remove_mirror(&mut self, claim: &str) {
        self.mirrors.remove(claim);
        self.gone_with_definition.remove(claim);
        self.release_pools();
    }

    /// NodePools that wait for their NodeClaims go when none is left.
    fn release_pools(&mut self) {
        for pool in self.deleted_pools.iter_mut().filter(|pool| pool.cascade == Cascade::Foreground) {
            pool.is_gone |= self.mirrors.values().all(|mirror| mirror.owner.as_ref() != Some(&pool.uid));
        }
    }
}
