//! Doorbells: notices by which functions wake one another.

use std::collections::BTreeMap;

use crate::chain::chain;
use crate::ports::{Notice, Ports};

/// Rings about some claims; about none nothing is rung. Losing it costs time only: the next ticks
/// do without it.
pub(crate) async fn ring(ports: Ports<'_>, kind: &'static str, cluster: &str, claims: Vec<String>) {
    if claims.is_empty() {
        return;
    }
    let notice = Notice { kind, cluster: cluster.to_owned(), claims, detail: BTreeMap::new() };
    if let Err(error) = ports.cloud.publish(&notice).await {
        tracing::warn!(kind, error = chain(&error), "the bell was not rung; the next ticks do without it");
    }
}
