//! NodePools that somebody deletes, and what becomes of their NodeClaims.

use std::time::Duration;

use outrigger_engine::ports::ClusterError;
use outrigger_model::{NodeClaim, OwnerReference};

use crate::agenda::Due;
use crate::faults::Trouble;
use crate::laws::pools as laws;
use crate::scenario::Cascade;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::{Kind, count};

/// From an object being deleted to the garbage collector having looked at what belongs to it.
const COLLECTED_AFTER: Duration = Duration::from_secs(2);

impl State {
    /// Somebody deletes the first NodePools in order of name.
    pub(crate) fn delete_node_pools(&mut self, number: usize, cascade: Cascade, moment: Moment) {
        for uid in self.cluster.delete_node_pools(number, cascade) {
            self.agenda.add(moment.elapsed.saturating_add(laws::LONGEST_DELETION), Due::PoolGoes(uid));
        }
        self.agenda.add(moment.elapsed.saturating_add(COLLECTED_AFTER), Due::CollectGarbage);
    }

    /// Whether NodeClaims are defined. A definition that is deleted goes with the last of its
    /// objects, and can be installed again after that.
    pub(crate) fn has_definition(&self, moment: Moment) -> bool {
        let mut lasting = self.cluster.mirrors().keys();
        let is_going = lasting.any(|claim| self.cluster.went_with_definition(claim));
        !is_going && !self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::NoDefinition)
    }

    /// Why no NodeClaim may be made now, in the API server's words.
    pub(crate) fn check_definition(&self, moment: Moment) -> Result<(), ClusterError> {
        if self.has_definition(moment) {
            return Ok(());
        }
        let (status, message) = if self.cluster.mirrors().is_empty() {
            (404, "404 page not found")
        } else {
            (405, "create not allowed while custom resource definition is terminating")
        };
        let attempted = "write a NodeClaim".to_owned();
        Err(ClusterError::Refused { attempted, status, message: message.to_owned() })
    }

    /// A NodeClaim object is written as a claim has it.
    pub(crate) fn mirror(&mut self, claim: &NodeClaim, owner: Option<&OwnerReference>, moment: Moment) {
        self.cluster.put_mirror(&claim.name, claim.version, owner);
        if self.cluster.is_of_deleted_pool(&claim.name) {
            self.agenda.add(moment.elapsed.saturating_add(COLLECTED_AFTER), Due::CollectGarbage);
        }
    }

    /// The garbage collector looks at what belongs to NodePools that were deleted.
    pub(super) fn collect_garbage(&mut self, moment: Moment) {
        let collected = self.cluster.collect_garbage();
        self.broken.extend(laws::collection(self, &collected.deleted));
        for (claims, what) in [(collected.deleted, "deletes"), (collected.orphaned, "orphans")] {
            if !claims.is_empty() {
                let claims = count(claims.len(), "NodeClaim");
                self.timeline.add(moment, Kind::Node, format!("the garbage collector {what} {claims}"));
            }
        }
    }
}
