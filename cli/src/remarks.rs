//! What is said beside a result: what of the input was refused or could not be read, what is
//! assumed, and what nobody knows though it matters.

use std::collections::BTreeMap;

use outrigger_model::{Invalid, PodRef, PodsOutcome, Report, Snapshot};
use owo_colors::OwoColorize;
use schemars::JsonSchema;
use serde::Serialize;

use crate::classes::assumptions;
use crate::output::{names, tell};

/// All of it, as other programs read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remarks {
    /// Objects that cannot be used; the result was made without them.
    pub(crate) refused: Vec<Invalid>,
    /// What of the cluster's own objects could not be read.
    pub(crate) unreadable: Vec<Invalid>,
    /// What no file says and the result rests on.
    pub(crate) assumptions: Vec<String>,
    /// What else matters: what is missing, what was passed over, and from when prices are.
    pub(crate) notes: Vec<String>,
}

/// Pods that no node is planned for, though they have none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// The pods.
    pub(crate) pods: Vec<PodRef>,
    /// Why.
    pub(crate) reason: String,
}

impl Remarks {
    /// What there is to say of a snapshot and of what is not in it.
    pub(crate) fn new(snapshot: &Snapshot, notes: Vec<String>) -> Self {
        Self {
            refused: snapshot.invalid.clone(),
            unreadable: snapshot.all_unreadable().cloned().collect(),
            assumptions: assumptions(snapshot),
            notes,
        }
    }

    /// Tells on standard error what text does not have, so that no format loses it.
    pub(crate) fn tell(&self) {
        for problem in &self.refused {
            tell!("{} {problem}", "refused:".yellow().bold());
        }
        self.tell_unreadable();
        for note in &self.notes {
            tell!("{} {note}", "note:".yellow().bold());
        }
    }

    /// Once for all objects that have it in common.
    fn tell_unreadable(&self) {
        let mut alike: BTreeMap<(Option<&str>, String), Vec<&str>> = BTreeMap::new();
        for problem in &self.unreadable {
            let key = (problem.file.as_deref(), problem.complaint());
            alike.entry(key).or_default().push(&problem.object);
        }
        for ((file, complaint), objects) in alike {
            let file = file.map(|file| format!("{file}: ")).unwrap_or_default();
            tell!("{} {file}{}: {complaint}", "not read whole:".yellow().bold(), names(&objects));
        }
    }
}

impl LeftOut {
    /// Those that a decision has left out.
    pub(crate) fn from_report(report: &Report) -> Vec<Self> {
        let left_out = report.pods.iter().filter_map(|entry| match &entry.outcome {
            PodsOutcome::Ignored { reason } => {
                Some(Self { pods: entry.pods.clone(), reason: reason.clone() })
            }
            _ => None,
        });
        left_out.collect()
    }

    /// Tells of them on standard error.
    pub(crate) fn tell(&self) {
        tell!("{} {}: {}", "left out:".yellow().bold(), names(&self.pods), self.reason);
    }
}
