//! The PodDisruptionBudgets of the cluster.

use outrigger_model::PodDisruptionBudget;

use crate::chain::chain;
use crate::ports::{ClusterError, Ports};

/// The budgets. Without the right to read them nothing is known to be kept by one.
pub(crate) async fn disruption_budgets(ports: Ports<'_>) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
    match ports.cluster.disruption_budgets().await {
        Err(error @ ClusterError::Refused { status: 403, .. }) => {
            tracing::warn!(error = chain(&error), "pods that a budget keeps for good are not known");
            Ok(Vec::new())
        }
        answer => answer,
    }
}
