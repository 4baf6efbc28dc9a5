//! Topology spread constraints with Kubernetes' defaults.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use outrigger_model::Operator;
use outrigger_model::pod::TopologySpread;

use super::bounds::{self, MAX_PARTS};
use super::problem::{Problem, Within};
use super::selector::{narrow, selector};

/// One constraint. The values of `matchLabelKeys` in the pod's own labels are put into the
/// selector.
pub(super) fn constraint(
    wire: &TopologySpreadConstraint,
    labels: &BTreeMap<String, String>,
) -> Result<TopologySpread, Problem> {
    bounds::key("topologyKey", &wire.topology_key)?;
    if wire.max_skew < 1 {
        return Err(Problem::new("maxSkew", wire.max_skew, "1 or more"));
    }
    if let Some(domains) = wire.min_domains.filter(|domains| *domains < 1) {
        return Err(Problem::new("minDomains", domains, "1 or more"));
    }
    let schedule_anyway = match wire.when_unsatisfiable.as_str() {
        "DoNotSchedule" => false,
        "ScheduleAnyway" => true,
        other => return Err(Problem::text("whenUnsatisfiable", other, "DoNotSchedule or ScheduleAnyway")),
    };
    bounds::at_most("matchLabelKeys", wire.match_label_keys.as_deref().unwrap_or_default(), MAX_PARTS)?;
    let mut selector = selector(wire.label_selector.as_ref()).within("labelSelector")?;
    narrow(&mut selector, wire.match_label_keys.as_deref(), Operator::In, labels);
    Ok(TopologySpread {
        topology_key: wire.topology_key.clone(),
        max_skew: wire.max_skew,
        schedule_anyway,
        selector,
        min_domains: wire.min_domains,
        match_label_keys: wire.match_label_keys.clone().unwrap_or_default(),
        honor_affinity: honors("nodeAffinityPolicy", wire.node_affinity_policy.as_deref(), true)?,
        honor_taints: honors("nodeTaintsPolicy", wire.node_taints_policy.as_deref(), false)?,
    })
}

fn honors(field: &str, policy: Option<&str>, default: bool) -> Result<bool, Problem> {
    match policy {
        None => Ok(default),
        Some("Honor") => Ok(true),
        Some("Ignore") => Ok(false),
        Some(other) => Err(Problem::text(field, other, "Honor or Ignore")),
    }
}
