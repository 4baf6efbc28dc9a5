//! What happened, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::time::Moment;

/// What sort of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A workload was scaled.
    Workload,
    /// Pods were bound or could not be.
    Pods,
    /// EC2 launched something.
    Launch,
    /// A node joined or went on.
    Node,
    /// An event of the scenario.
    Event,
    /// A function ended.
    Function,
    /// Something failed.
    Trouble,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    /// How long the world had run, in seconds.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub at: Duration,
    /// What sort of thing.
    pub kind: Kind,
    /// What, for people.
    pub text: String,
}

fn seconds<S: Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((at.as_secs_f64() * 1_000.0).round() / 1_000.0)
}

/// Everything that happened, in order.
#[derive(Debug, Default)]
pub(crate) struct Timeline(Vec<Happening>);

impl Timeline {
    /// Adds what happens now.
    pub(crate) fn add(&mut self, moment: Moment, kind: Kind, text: impl Into<String>) {
        self.0.push(Happening { at: moment.elapsed, kind, text: text.into() });
    }

    /// What was added from `first` on.
    pub(crate) fn since(&self, first: usize) -> &[Happening] {
        self.0.get(first..).unwrap_or_default()
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Texts with their counts, the commonest first: `3 x a, b`.
pub(crate) fn grouped(texts: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
    let shown = counts
        .iter()
        .map(|(text, count)| if *count > 1 { format!("{count} x {text}") } else { text.clone() });
    shown.collect::<Vec<_>>().join(", ")
}
