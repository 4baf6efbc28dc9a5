//! The functions: each re-reads the world, whatever event woke it.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant as Stopwatch};

use anyhow::Context as _;
use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use outrigger_aws::Aws;
use outrigger_engine::Guards;
use outrigger_engine::ports::{Ports, WallClock};
use outrigger_engine::{
    disrupt as disrupt_tick, lifecycle as lifecycle_tick, provision as provision_tick,
    refresh as refresh_tick,
};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use crate::config::{Config, FunctionConfig, LifecycleConfig, PlanningConfig, ProvisionConfig};
use crate::connect::Connections;
use crate::doctor;
use crate::limits::{Deadlines, Limits};
use crate::metrics::{
    self, BINDING_FORBIDDEN, BREAKER_OPEN, CATALOG_INCOMPLETE, CLOCK_DIFFERENCE, COST_PER_HOUR, Metric,
    NODES_FORGOTTEN, NODES_LAUNCHED, PAUSED, PODS_UNPLACED, POOLS_PAUSED,
};

/// Runs `provision` until Lambda ends the process.
pub async fn provision() -> Result<(), Error> {
    serve_event(Limits::TICK, async |shell: &Shell<ProvisionConfig>, event, owner, deadline| {
        let config = &shell.function_config;
        let settings = provision_tick::ProvisionSettings {
            window: config.poll_window,
            patience: patience(&event, config.poll_window),
            batch_idle: config.batch_idle,
            batch_max: config.batch_max,
            preferences: config.planning.preferences,
            min_values: config.planning.min_values,
            headroom: config.headroom,
            max_new_nodes_per_minute: config.max_new_nodes_per_minute,
            ..provision_tick::ProvisionSettings::new(&shell.config.cluster, owner)
        };
        let summary = Box::pin(provision_tick::tick(shell.ports().await?, &settings, deadline)).await?;
        shell.measure(&[
            (PODS_UNPLACED, summary.unplaced as f64),
            (NODES_LAUNCHED, summary.launched.len() as f64),
            (POOLS_PAUSED, summary.paused.len() as f64),
            (PAUSED, if summary.pause.is_some() { 1.0 } else { 0.0 }),
        ]);
        Ok(serde_json::to_value(summary)?)
    })
    .await
}

/// Runs `lifecycle` until Lambda ends the process.
pub async fn lifecycle() -> Result<(), Error> {
    serve_event(Limits::TICK, async |shell: &Shell<LifecycleConfig>, event, owner, deadline| {
        let config = &shell.function_config;
        let guards = if config.sweep_anyway { Guards::sweeping_anyway() } else { Guards::default() };
        let settings = lifecycle_tick::LifecycleSettings {
            window: config.poll_window,
            patience: patience(&event, config.poll_window),
            initialization_timeout: config.initialization_timeout,
            node_repair: config.node_repair,
            adopt: config.adopt,
            place_pods: config.place_pods,
            schedulers: config.schedulers.clone(),
            guards,
            ..lifecycle_tick::LifecycleSettings::new(&shell.config.cluster, owner)
        };
        let summary = Box::pin(lifecycle_tick::tick(shell.ports().await?, &settings, deadline)).await?;
        shell.measure(&[
            (BINDING_FORBIDDEN, if summary.binding_forbidden { 1.0 } else { 0.0 }),
            (NODES_FORGOTTEN, (summary.forgotten + summary.strangers.len()) as f64),
            (BREAKER_OPEN, if summary.breaker.is_some() || summary.held_deletions > 0 { 1.0 } else { 0.0 }),
            (CLOCK_DIFFERENCE, summary.clock_difference.unwrap_or_default().unsigned_abs() as f64),
        ]);
        Ok(serde_json::to_value(summary)?)
    })
    .await
}

/// Runs `disrupt` until Lambda ends the process.
pub async fn disrupt() -> Result<(), Error> {
    serve_event(Limits::TICK, async |shell: &Shell<PlanningConfig>, _, owner, deadline| {
        let settings = disrupt_tick::DisruptSettings {
            preferences: shell.function_config.preferences,
            min_values: shell.function_config.min_values,
            ..disrupt_tick::DisruptSettings::new(&shell.config.cluster, owner)
        };
        let summary = Box::pin(disrupt_tick::tick(shell.ports().await?, &settings, deadline)).await?;
        shell.measure(&[(COST_PER_HOUR, summary.cost_per_hour)]);
        Ok(serde_json::to_value(summary)?)
    })
    .await
}

/// Runs `refresh` until Lambda ends the process.
pub async fn refresh() -> Result<(), Error> {
    serve_event(Limits::TICK, async |shell: &Shell<()>, _, _, _| {
        let summary = refresh_tick::tick(shell.connections().await?.cloud()).await?;
        shell.measure(&[(CATALOG_INCOMPLETE, summary.missing.len() as f64)]);
        Ok(serde_json::to_value(summary)?)
    })
    .await
}

/// What every invocation of a process shares.
pub(crate) struct Shell<T> {
    limits: Limits,
    pub(crate) config: Config,
    /// What only this function is told.
    pub(crate) function_config: T,
    connections: OnceCell<Connections>,
}

impl<T> Shell<T> {
    /// The ports.
    pub(crate) async fn ports(&self) -> anyhow::Result<Ports<'_>> {
        self.connections().await?.ports(&self.config, &WallClock).await
    }

    /// AWS, for what stands behind no port.
    pub(crate) async fn aws(&self) -> anyhow::Result<&Aws> {
        Ok(self.connections().await?.aws())
    }

    async fn connections(&self) -> anyhow::Result<&Connections> {
        // On the heap: the futures of the SDK's start-up are large, and only the first invocation
        // needs them.
        self.connections.get_or_try_init(|| Box::pin(Connections::open(&self.config, self.limits))).await
    }

    pub(crate) fn measure(&self, values: &[(Metric, f64)]) {
        let now = jiff::Timestamp::now().as_millisecond();
        metrics::emit(&self.config.cluster, now, values);
    }

    /// What this function sees of all that it needs.
    async fn examine(&self) -> anyhow::Result<Value>
    where
        T: FunctionConfig,
    {
        let diagnosis = doctor::examine(&self.config, self.connections().await?, T::FUNCTION).await;
        Ok(serde_json::to_value(diagnosis)?)
    }

    async fn invoke<H>(&self, event: LambdaEvent<Value>, handler: &H) -> Result<Value, Diagnostic>
    where
        T: FunctionConfig,
        H: AsyncFn(&Self, Value, String, Instant) -> anyhow::Result<Value>,
    {
        let stopwatch = Stopwatch::now();
        let context = event.context;
        let deadlines = Deadlines::new(&self.limits, context.deadline);
        let owner = owner(&context.request_id);
        let work = async {
            if doctor::is_asked_for(&event.payload) {
                return self.examine().await;
            }
            handler(self, event.payload, owner, deadlines.last_change).await
        };
        let result = timeout_at(deadlines.answer, Box::pin(work)).await;
        let result =
            result.unwrap_or_else(|_| Err(anyhow::anyhow!("its time was up before all had answered")));
        let seconds = stopwatch.elapsed().as_secs_f64();
        match result {
            Ok(summary) => {
                tracing::info!(%summary, seconds, "done");
                Ok(summary)
            }
            Err(error) => {
                let words = outrigger_engine::chain(error.as_ref());
                tracing::error!(error = words, seconds, "nothing more is changed; the next tick tries again");
                Err(Diagnostic { error_type: "TickFailed".into(), error_message: words })
            }
        }
    }
}

/// Who holds a lease in an invocation: its request, told apart from a second delivery of the same
/// one.
fn owner(request_id: &str) -> String {
    // The standard library draws the keys of each of these at random.
    let delivery = RandomState::new().hash_one(request_id);
    format!("{request_id}/{delivery:016x}")
}

/// How long a tick waits for another one to end: only those of the schedule do, whose events
/// EventBridge names so, whether rules or EventBridge Scheduler send them.
fn patience(event: &Value, poll_window: Duration) -> Duration {
    if event["detail-type"] == "Scheduled Event" { poll_window } else { Duration::ZERO }
}

/// Serves events, each handed on with the name of its invocation and the last moment at which
/// anything may be changed.
pub(crate) async fn serve_event<T, H>(limits: Limits, handler: H) -> Result<(), Error>
where
    T: FunctionConfig,
    H: AsyncFn(&Shell<T>, Value, String, Instant) -> anyhow::Result<Value>,
{
    log_as_json();
    let (config, function_config) =
        Config::from_env().context("the environment variables come from template.yaml")?;
    let shell = Shell { limits, config, function_config, connections: OnceCell::new() };
    let (shell, handler) = (&shell, &handler);
    lambda_runtime::run(service_fn(async move |event| shell.invoke(event, handler).await)).await
}

/// One JSON object a line; `RUST_LOG` chooses the levels. Nothing that is logged holds a
/// credential.
fn log_as_json() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).with_target(false).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_deliveries_of_one_request_are_two_owners() {
        let (first, second) = (owner("6c2f"), owner("6c2f"));
        assert!(first.starts_with("6c2f/") && second.starts_with("6c2f/"), "{first} {second}");
        assert_ne!(first, second);
    }
}
