//! Writing a claim for a node that is adopted, and making the Node its node.

use outrigger_model::{NodeClaim, labels};

use super::Adoption;
use crate::claim::start::registration;
use crate::ports::{Claims, Cluster, ClusterError, LedgerError};

/// How often a node that somebody else changes at the same time is tried again.
const ATTEMPTS: usize = 5;

/// Why a node was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The ledger has a claim of that name, for another instance.
    #[error("the ledger has a NodeClaim {0} already, of another instance")]
    NameTaken(String),
    /// The node has gone meanwhile.
    #[error("the node {0} is gone")]
    Gone(String),
    /// The ledger refused.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The cluster refused.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Writes the claim down, and gives the Node what the nodes of its claim have. May be repeated.
pub async fn enter(
    cluster: &dyn Cluster,
    ledger: &dyn Claims,
    adoption: &Adoption,
) -> Result<(), AdoptError> {
    let claim = &adoption.claim;
    match ledger.adopt(claim, None).await {
        Err(LedgerError::Conflict { .. }) => {
            let there = ledger.claim(&claim.name).await?;
            let is_same = |there: &NodeClaim| there.instance_id() == claim.instance_id();
            if !there.as_ref().is_some_and(is_same) {
                return Err(AdoptError::NameTaken(claim.name.clone()));
            }
        }
        answer => answer?,
    }
    for attempt in 1.. {
        let Some(node) = cluster.node(&adoption.node).await? else {
            return Err(AdoptError::Gone(adoption.node.clone()));
        };
        // What runs has started: nothing takes startup taints off it any more.
        let mut running = claim.clone();
        running.spec.startup_taints.clear();
        let mut change = registration(&running, &node, adoption.type_labels.clone());
        change.labels.insert(labels::INITIALIZED.into(), "true".into());
        match cluster.change_node(&change).await {
            Err(ClusterError::Changed { .. }) if attempt < ATTEMPTS => {}
            answer => return Ok(answer?),
        }
    }
    Ok(())
}
