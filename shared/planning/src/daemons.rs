//! Daemonsets: what each adds to the nodes that it runs on.

use std::collections::BTreeMap;

use outrigger_model::taint::first_untolerated;
use outrigger_model::{PodSpec, Requirements, Snapshot, Taint};

use crate::amounts::Dimensions;

/// A daemonset as the planner sees it.
#[derive(Debug)]
pub(crate) struct Daemon<'a> {
    /// What its pods ask for.
    pub(crate) spec: &'a PodSpec,
    /// What each of them takes.
    pub(crate) request: Vec<i64>,
    /// What its nodes must be like: any of these.
    pub(crate) alternatives: Vec<Requirements>,
}

/// The daemonsets of a snapshot.
pub(crate) fn daemons<'a>(snapshot: &'a Snapshot, dimensions: &Dimensions) -> Vec<Daemon<'a>> {
    let sets = snapshot.daemon_sets.iter().map(|set| set.spec.as_ref());
    sets.map(|spec| Daemon {
        spec,
        request: dimensions.request(&spec.requests),
        alternatives: spec.node_requirements(),
    })
    .collect()
}

impl Daemon<'_> {
    /// Whether its pods bear these taints.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        first_untolerated(taints, &self.spec.tolerations).is_none()
    }

    /// Whether it runs on a node with these labels and taints.
    pub(crate) fn runs_on(&self, labels: &BTreeMap<String, String>, taints: &[Taint]) -> bool {
        self.tolerates(taints) && self.alternatives.iter().any(|wanted| wanted.match_labels(labels).is_ok())
    }
}
