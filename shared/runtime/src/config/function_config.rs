//! What only one function is told.

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_aws::node_role;
use outrigger_engine::interruption::RebalancePolicy;
use outrigger_engine::{MinValuesPolicy, PlacePods, Preferences};
use outrigger_engine::{disrupt, interruption, lifecycle, provision, refresh};
use outrigger_model::{NillableDuration, NodePool};

use super::Config;
use super::reader::Reader;

/// The longest window that leaves a tick of one minute time to end.
const MAX_WINDOW_SECONDS: u64 = 840;
/// A batch that is open for longer leaves a tick of a minute no time.
const LONGEST_BATCH: Duration = Duration::from_mins(1);

/// What only one function is told.
pub(crate) trait FunctionConfig: Sized {
    /// The function.
    const FUNCTION: &str;

    /// Reads it; complaints are noted.
    fn read(reader: &mut Reader<'_>, config: &Config) -> Self;
}

/// Nothing: `refresh`.
impl FunctionConfig for () {
    const FUNCTION: &str = refresh::FUNCTION;

    fn read(_: &mut Reader<'_>, _: &Config) -> Self {}
}

/// What those who plan are told; `disrupt` is told nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanningConfig {
    /// `OUTRIGGER_PREFERENCE_POLICY`: what becomes of what pods prefer.
    pub(crate) preferences: Preferences,
    /// `OUTRIGGER_MIN_VALUES_POLICY`: what becomes of minValues that cannot be kept.
    pub(crate) min_values: MinValuesPolicy,
}

impl FunctionConfig for PlanningConfig {
    const FUNCTION: &str = disrupt::FUNCTION;

    fn read(reader: &mut Reader<'_>, _: &Config) -> Self {
        Self { preferences: preferences(reader), min_values: min_values(reader) }
    }
}

/// What `provision` is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProvisionConfig {
    /// `OUTRIGGER_POLL_WINDOW_SECONDS`: how long a tick watches.
    pub(crate) poll_window: Duration,
    /// `OUTRIGGER_BATCH_IDLE_DURATION`: a batch of pods closes when no further one came for this
    /// long.
    pub(crate) batch_idle: Duration,
    /// `OUTRIGGER_BATCH_MAX_DURATION`: a batch closes after this long in any case.
    pub(crate) batch_max: Duration,
    /// What becomes of preferences and of minValues.
    pub(crate) planning: PlanningConfig,
    /// `OUTRIGGER_HEADROOM`: how many processors a node is bought larger at most for pods that may
    /// come next.
    pub(crate) headroom: u32,
    /// `OUTRIGGER_MAX_NEW_NODES_PER_MINUTE`: how many nodes the cluster may get within a minute.
    pub(crate) max_new_nodes_per_minute: usize,
}

impl FunctionConfig for ProvisionConfig {
    const FUNCTION: &str = provision::FUNCTION;

    fn read(reader: &mut Reader<'_>, config: &Config) -> Self {
        check_node_role(reader, &config.cluster);
        Self {
            poll_window: poll_window(reader),
            batch_idle: batch(reader, "OUTRIGGER_BATCH_IDLE_DURATION"),
            batch_max: batch(reader, "OUTRIGGER_BATCH_MAX_DURATION"),
            planning: PlanningConfig::read(reader, config),
            headroom: headroom(reader),
            max_new_nodes_per_minute: max_new_nodes_per_minute(reader),
        }
    }
}

/// What `lifecycle` is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LifecycleConfig {
    /// `OUTRIGGER_POLL_WINDOW_SECONDS`: how long a tick watches.
    pub(crate) poll_window: Duration,
    /// `OUTRIGGER_INITIALIZATION_TIMEOUT`: how long a registered node may take to be ready; without
    /// a limit for `Never`.
    pub(crate) initialization_timeout: Option<Duration>,
    /// `OUTRIGGER_NODE_REPAIR`: whether nodes whose conditions say that they are broken are
    /// replaced.
    pub(crate) node_repair: bool,
    /// `OUTRIGGER_PLACE_PODS`: how planned pods come to their nodes.
    pub(crate) place_pods: PlacePods,
    /// `OUTRIGGER_SCHEDULERS`: the schedulers in whose place pods are bound, separated by commas.
    pub(crate) schedulers: BTreeSet<String>,
    /// `OUTRIGGER_ADOPT`: an operator's word that the ledger has lost claims, which lifecycle is to
    /// make again.
    pub(crate) adopt: bool,
    /// `OUTRIGGER_SWEEP_ANYWAY`: an operator's word that a large sweep is meant.
    pub(crate) sweep_anyway: bool,
}

impl FunctionConfig for LifecycleConfig {
    const FUNCTION: &str = lifecycle::FUNCTION;

    fn read(reader: &mut Reader<'_>, _: &Config) -> Self {
        Self {
            poll_window: poll_window(reader),
            initialization_timeout: initialization_timeout(reader),
            node_repair: reader.flag("OUTRIGGER_NODE_REPAIR"),
            place_pods: place_pods(reader),
            schedulers: schedulers(reader),
            adopt: reader.flag("OUTRIGGER_ADOPT"),
            sweep_anyway: reader.flag("OUTRIGGER_SWEEP_ANYWAY"),
        }
    }
}

/// What `interrupt` is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterruptConfig {
    /// `OUTRIGGER_REBALANCE`: what is done about EC2's rebalance recommendations.
    pub(crate) rebalance: RebalancePolicy,
    /// `OUTRIGGER_DEAD_LETTERS`: the URL of the queue for messages that nobody can make sense of.
    pub(crate) dead_letters: String,
    /// `OUTRIGGER_INTERRUPTIONS`: the URL of the queue of interruptions.
    pub(crate) queue: String,
}

impl FunctionConfig for InterruptConfig {
    const FUNCTION: &str = interruption::FUNCTION;

    fn read(reader: &mut Reader<'_>, _: &Config) -> Self {
        Self {
            rebalance: rebalance(reader),
            dead_letters: reader.required("OUTRIGGER_DEAD_LETTERS", "the URL of the dead-letter queue"),
            queue: reader.required("OUTRIGGER_INTERRUPTIONS", "the URL of the queue of interruptions"),
        }
    }
}

/// Makes sure that `provision` may give nodes their role. Without a word it may give them
/// `nodes.<cluster>`, since a template cannot tell what kOps makes of a longer name than IAM takes.
fn check_node_role(reader: &mut Reader<'_>, cluster: &str) {
    let (named, role) = (reader.optional("OUTRIGGER_NODE_ROLE"), node_role(cluster));
    if named.is_none() && role != format!("nodes.{cluster}") {
        reader.complain(format!(
            "OUTRIGGER_NODE_ROLE is not set, and the role nodes.{cluster} has more than IAM's 64 characters; set the \
             parameter NodeRoleName to the role that kOps has made instead, {role}"
        ));
    }
}

fn poll_window(reader: &mut Reader<'_>) -> Duration {
    let allowed = format!("0 to {MAX_WINDOW_SECONDS}, 0 for a single pass");
    let seconds = |text: &str| text.parse().ok().filter(|seconds| *seconds <= MAX_WINDOW_SECONDS);
    Duration::from_secs(reader.parsed("OUTRIGGER_POLL_WINDOW_SECONDS", &allowed, seconds))
}

fn batch(reader: &mut Reader<'_>, name: &str) -> Duration {
    reader.parsed(name, "a duration from 0s to 1m, as 10s", |text| {
        text.parse::<NillableDuration>().ok()?.get().filter(|duration| *duration <= LONGEST_BATCH)
    })
}

fn preferences(reader: &mut Reader<'_>) -> Preferences {
    reader.either(
        "OUTRIGGER_PREFERENCE_POLICY",
        [("Respect", Preferences::Respect), ("Ignore", Preferences::Ignore)],
    )
}

fn min_values(reader: &mut Reader<'_>) -> MinValuesPolicy {
    reader.either(
        "OUTRIGGER_MIN_VALUES_POLICY",
        [("Strict", MinValuesPolicy::Strict), ("BestEffort", MinValuesPolicy::BestEffort)],
    )
}

fn initialization_timeout(reader: &mut Reader<'_>) -> Option<Duration> {
    reader.parsed("OUTRIGGER_INITIALIZATION_TIMEOUT", "a duration as 30m or 1h30m, or Never", |text| {
        let timeout = text.parse::<NillableDuration>().ok()?.get();
        (timeout != Some(Duration::ZERO)).then_some(timeout)
    })
}

fn headroom(reader: &mut Reader<'_>) -> u32 {
    let allowed = format!("a whole number from 0 to {}", NodePool::MOST_HEADROOM);
    reader.parsed("OUTRIGGER_HEADROOM", &allowed, |text| {
        text.parse().ok().filter(|cpus| *cpus <= NodePool::MOST_HEADROOM)
    })
}

fn max_new_nodes_per_minute(reader: &mut Reader<'_>) -> usize {
    reader.parsed("OUTRIGGER_MAX_NEW_NODES_PER_MINUTE", "a whole number from 1", |text| {
        usize::try_from(text.parse::<u32>().ok()?).ok().filter(|number| *number > 0)
    })
}

fn rebalance(reader: &mut Reader<'_>) -> RebalancePolicy {
    reader
        .either("OUTRIGGER_REBALANCE", [("event", RebalancePolicy::Event), ("drain", RebalancePolicy::Drain)])
}

fn place_pods(reader: &mut Reader<'_>) -> PlacePods {
    reader.either("OUTRIGGER_PLACE_PODS", [("bind", PlacePods::Bind), ("nominate", PlacePods::Nominate)])
}

fn schedulers(reader: &mut Reader<'_>) -> BTreeSet<String> {
    reader.parsed("OUTRIGGER_SCHEDULERS", "names of schedulers, separated by commas", |text| {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        Some(names.collect::<BTreeSet<_>>()).filter(|names| !names.is_empty())
    })
}
