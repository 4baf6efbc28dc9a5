//! What came of some days under one policy.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use outrigger_simulation::{Ending, Policy};
use serde::{Deserialize, Serialize};

use crate::floors::Floors;

/// Pods that wait longer than this for a node are counted.
const LONG_WAIT: Duration = Duration::from_mins(1);

pub(crate) const COLUMNS: [(&str, usize); 14] = [
    ("cluster", 9),
    ("policy", 24),
    ("seed", 4),
    ("dollars", 9),
    ("x bound", 7),
    ("from nothing", 12),
    ("as EC2 picks", 12),
    ("evictions/pod-day", 17),
    ("interruptions/pod-day", 21),
    ("pending > 1 min", 15),
    ("pending p50, p99 s", 18),
    ("nodes launched", 14),
    ("mean age h", 10),
    ("wall s", 6),
];

/// Who disrupts nodes, and how.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    pub(crate) policy: Policy,
    /// The patience of the pools, where it is not the usual one.
    pub(crate) patience: Option<f64>,
    /// The headroom of the pools, where it is not the usual one.
    pub(crate) headroom: Option<u32>,
    /// Whether the pools are Balanced.
    pub(crate) balanced: bool,
}

impl fmt::Display for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.policy)?;
        if let Some(patience) = self.patience {
            write!(f, ", patience {patience}")?;
        }
        if let Some(headroom) = self.headroom {
            write!(f, ", headroom {headroom}")?;
        }
        f.write_str(if self.balanced { ", Balanced" } else { "" })
    }
}

/// Figures of one run. Dollars are of the whole time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WeekOutcome {
    pub(crate) cluster: String,
    pub(crate) player: String,
    /// The patience of the pools, where it is not the usual one.
    pub(crate) patience: Option<f64>,
    pub(crate) seed: u64,
    pub(crate) days: u32,
    /// What was spent.
    pub(crate) dollars: f64,
    /// What the pods cost in fractions of nodes.
    pub(crate) bound: f64,
    /// What plans from nothing cost, as planned.
    pub(crate) from_nothing: f64,
    /// What they cost where EC2 picks among the types.
    pub(crate) as_picked: f64,
    pub(crate) evictions_per_pod_day: f64,
    /// How many pods were evicted, by why their nodes were to end.
    pub(crate) evictions: BTreeMap<String, usize>,
    pub(crate) interruptions_per_pod_day: f64,
    /// Pods that waited for a node, and those of them that waited for more than a minute.
    pub(crate) waits: usize,
    pub(crate) long_waits: usize,
    pub(crate) wait_p50_seconds: f64,
    pub(crate) wait_p99_seconds: f64,
    pub(crate) nodes_launched: usize,
    pub(crate) mean_age_hours: Option<f64>,
    pub(crate) wall_seconds: f64,
}

impl WeekOutcome {
    /// The figures of a run that has ended; which run it was and how long it took is left to the
    /// caller.
    pub(crate) fn new(ending: &Ending, floors: &Floors, player: &Player) -> Self {
        let tally = &ending.tally;
        let pod_days = (tally.pod_time.as_secs_f64() / 86_400.0).max(f64::MIN_POSITIVE);
        Self {
            player: player.to_string(),
            patience: player.patience,
            dollars: ending.summary.spent,
            bound: floors.bound.dollars,
            from_nothing: floors.planned.dollars,
            as_picked: floors.picked.dollars,
            evictions: tally
                .evictions_by_reason
                .iter()
                .map(|(why, pods)| ((*why).to_owned(), *pods))
                .collect(),
            evictions_per_pod_day: tally.evictions as f64 / pod_days,
            interruptions_per_pod_day: tally.interruptions as f64 / pod_days,
            waits: tally.waits.len(),
            long_waits: tally.waited_longer(LONG_WAIT),
            wait_p50_seconds: tally.wait_percentile(50).as_secs_f64(),
            wait_p99_seconds: tally.wait_percentile(99).as_secs_f64(),
            nodes_launched: tally.launched,
            mean_age_hours: tally.mean_age.map(|age| age.as_secs_f64() / 3_600.0),
            ..Self::default()
        }
    }

    /// What was spent, by the bound.
    pub(crate) fn by_bound(&self) -> f64 {
        self.dollars / self.bound
    }

    pub(crate) fn cells(&self) -> [String; 14] {
        [
            self.cluster.clone(),
            self.player.clone(),
            self.seed.to_string(),
            format!("{:.2}", self.dollars),
            format!("{:.3}", self.by_bound()),
            format!("{:.2}", self.from_nothing),
            format!("{:.2}", self.as_picked),
            format!("{:.3}", self.evictions_per_pod_day),
            format!("{:.3}", self.interruptions_per_pod_day),
            format!("{} of {}", self.long_waits, self.waits),
            format!("{:.0}, {:.0}", self.wait_p50_seconds, self.wait_p99_seconds),
            self.nodes_launched.to_string(),
            self.mean_age_hours.map_or_else(|| "-".to_owned(), |age| format!("{age:.1}")),
            format!("{:.1}", self.wall_seconds),
        ]
    }
}
