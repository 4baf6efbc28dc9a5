//! The clusters in which a week is played: the same workloads, each as busy at other times.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use outrigger_model::{Operator, RequirementSpec};

use crate::names::{UnknownName, named};
use crate::random::draw;
use crate::scenario::{Scale, Scenario};

use super::load::{DAY_MINUTES, Load};

/// So many times the cluster of the file are the medium and the large one, whose nodes have 8 vCPUs
/// at most.
const MEDIUM: u32 = 10;
const LARGE: u32 = 30;
const LARGE_NODE_VCPUS: &str = "9";
/// The workloads of the small cluster, with their pods.
const SMALL: [(&str, u32); 3] = [("web", 4), ("api", 3), ("auth", 3)];

/// Which cluster it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cluster {
    /// Deployments that follow the hours and the days of the week, and jobs at night.
    #[default]
    Daily,
    /// The same number of pods all the time.
    Flat,
    /// A few pods, and several times a day each workload asks for many more at once.
    Bursty,
    /// Jobs around the clock beside a few pods.
    Batch,
    /// Days like others, each with less to do than the one before.
    Shrinking,
    /// Ten pods.
    Small,
    /// About 330 nodes.
    Medium,
    /// About 1,000 nodes.
    Large,
}

/// Several batches of each job come within the first minutes of a day.
#[derive(Clone, Copy)]
pub(super) struct Batches {
    pub a_day: u64,
    pub within_minutes: u64,
}

impl Cluster {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::Daily,
        Self::Flat,
        Self::Bursty,
        Self::Batch,
        Self::Shrinking,
        Self::Small,
        Self::Medium,
        Self::Large,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Flat => "flat",
            Self::Bursty => "bursty",
            Self::Batch => "batch",
            Self::Shrinking => "shrinking",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// Gives a scenario the size of this cluster.
    pub(super) fn resize(self, scenario: &mut Scenario) {
        match self {
            Self::Small => {
                let pods = |name: &str| SMALL.iter().find(|(small, _)| *small == name).map(|(_, pods)| *pods);
                scenario.workloads.retain(|workload| pods(&workload.id.name).is_some());
                scenario.budgets.clear();
                for workload in &mut scenario.workloads {
                    let replicas = pods(&workload.id.name).unwrap_or_default();
                    workload.scale = vec![Scale { at: Duration::from_secs(2), replicas }];
                }
            }
            Self::Medium => multiply(scenario, MEDIUM),
            Self::Large => multiply(scenario, LARGE),
            Self::Flat => scenario.workloads.retain(|workload| workload.lasts.is_none()),
            Self::Daily | Self::Bursty | Self::Batch | Self::Shrinking => {}
        }
    }

    /// What the users of a workload ask for over so many days.
    pub(super) fn load(self, seed: u64, workload: &str, days: u64) -> Load {
        match self {
            Self::Daily | Self::Small | Self::Medium | Self::Large => Load::daily(seed, workload),
            Self::Flat => Load::Flat(700),
            Self::Batch => Load::Flat(300),
            Self::Bursty => Load::bursty(seed, workload, days),
            Self::Shrinking => Load::shrinking(seed, workload, days),
        }
    }

    /// When jobs come.
    pub(super) const fn batches(self) -> Batches {
        match self {
            Self::Batch => Batches { a_day: 24, within_minutes: DAY_MINUTES },
            _ => Batches { a_day: 3, within_minutes: 5 * 60 },
        }
    }

    /// How many spot machines EC2 takes back on a day: about 5 % of those that the cluster has.
    pub(super) fn spot_warnings(self, seed: u64, day: u64) -> u64 {
        match self {
            Self::Small => u64::from(draw(seed, &format!("week/warned/{day}"), 10) == 0),
            Self::Medium => 13,
            Self::Large => 40,
            _ => 2,
        }
    }
}

/// So many times as many pods, on small nodes.
fn multiply(scenario: &mut Scenario, times: u32) {
    let scales = scenario.workloads.iter_mut().flat_map(|workload| &mut workload.scale);
    scales.for_each(|scale| scale.replicas *= times);
    for pool in &mut scenario.configuration.node_pools {
        pool.spec.template.spec.requirements.push(small_nodes());
    }
}

fn small_nodes() -> RequirementSpec {
    RequirementSpec {
        key: "karpenter.k8s.aws/instance-cpu".into(),
        operator: Operator::Lt,
        values: vec![LARGE_NODE_VCPUS.into()],
        min_values: None,
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Cluster {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        named(&Self::ALL, text)
    }
}
