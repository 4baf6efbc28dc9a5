//! The functions' schedule: provision and lifecycle each minute and when their bells ring, disrupt
//! each minute, interrupt when the queue has messages, each in its own run that may die.

pub(crate) mod disruption;
pub(crate) mod interrupt;
pub(crate) mod uninstall;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use outrigger_engine::{chain, disrupt, lifecycle, provision};
use tokio::time::{Instant, sleep_until};

use crate::calls::Crash;
use crate::door::{Door, Run};
use crate::faults::Trouble;
use crate::policy::Policy;
use crate::random::{draw, happens};
use crate::scenario::{Function, Scenario};
use crate::state::State;
use crate::timeline::{Kind, count};
use crate::world::{CLUSTER, World};

/// How often the schedules ring.
const PERIOD: Duration = Duration::from_mins(1);
/// From the beginning of a run to the last moment at which it may change anything.
const DEADLINE: Duration = Duration::from_secs(58);
/// How long lifecycle goes on looking while claims wait for their nodes.
const LIFECYCLE_WINDOW: Duration = Duration::from_secs(50);
/// Where in a run chance may kill a function.
const CALLS_OF_A_RUN: u64 = 40;

/// What wakes a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Schedule,
    Bell,
}

impl Wake {
    /// How long its run waits for another one to end, as the functions have it.
    const fn patience(self, window: Duration) -> Duration {
        match self {
            Self::Schedule => window,
            Self::Bell => Duration::ZERO,
        }
    }
}

/// A run that is to die: the `run`th of a function, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Which function.
    pub function: Function,
    /// Which of its runs.
    pub run: u32,
    /// Where in it.
    pub crash: Crash,
}

/// Begins a function each minute, for ever.
pub(crate) async fn schedule(world: &Arc<World>, scenario: &Scenario, function: Function, kills: &[Kill]) {
    while is_there(scenario, function) && has_functions(world) {
        run(world, scenario, function, Wake::Schedule, kills).await;
        sleep_until(next_period(world)).await;
    }
    std::future::pending::<()>().await;
}

fn is_there(scenario: &Scenario, function: Function) -> bool {
    function != Function::Disrupt || scenario.policy == Policy::Outrigger
}

/// Begins a function when a notice asks for it, for ever; as in Lambda, whatever its other runs do.
pub(crate) async fn bell(world: &Arc<World>, scenario: &Scenario, function: Function, kills: &[Kill]) {
    let mut changes = world.changes();
    let rings = || world.look(|state, _| state.rings.get(&function).copied());
    while has_functions(world) {
        let heard = rings();
        while rings() == heard {
            if changes.changed().await.is_err() {
                return;
            }
        }
        run(world, scenario, function, Wake::Bell, kills).await;
    }
    std::future::pending::<()>().await;
}

fn has_functions(world: &World) -> bool {
    !world.look(|state, _| state.is_without_functions())
}

/// Rings a function a second time each minute: while the first run stands still, and where runs are
/// begun twice. As in Lambda, it is the functions that must see to it that two of them do no harm.
pub(crate) async fn second(world: &Arc<World>, scenario: &Scenario, function: Function, kills: &[Kill]) {
    if !scenario.overlaps(function) || !is_there(scenario, function) {
        return std::future::pending().await;
    }
    loop {
        sleep_until(next_period(world)).await;
        if !has_functions(world) {
            return std::future::pending().await;
        }
        let twice = |trouble| trouble == Trouble::Duplicate(function);
        let is_begun_twice = world.look(|state, moment| state.faults.open(moment.elapsed).any(twice));
        if is_begun_twice || scenario.freezes(function) {
            run(world, scenario, function, Wake::Schedule, kills).await;
        }
    }
}

fn next_period(world: &World) -> Instant {
    let periods = world.clock().elapsed().as_secs() / PERIOD.as_secs() + 1;
    world.clock().instant(Duration::from_secs(periods * PERIOD.as_secs()))
}

/// One run of a function, which may die on the way.
async fn run(world: &Arc<World>, scenario: &Scenario, function: Function, wake: Wake, kills: &[Kill]) {
    let begun = begin(world, function, kills);
    let owner = begun.owner.clone();
    let deadline = Instant::now() + DEADLINE;
    let door = Door::new(Arc::clone(world), begun);
    let (died, line) = tokio::select! {
        biased;
        () = door.died() => (Some(door.calls()), None),
        line = tick(&door, scenario, wake, owner, deadline) => (None, line),
    };
    end(world, door, died, line);
}

/// The next run of a function.
fn begin(world: &World, function: Function, kills: &[Kill]) -> Run {
    world.with(|state, moment| {
        let run = state.runs.entry(function).or_default();
        *run += 1;
        let run = *run;
        let asked = kills.iter().find(|kill| kill.function == function && kill.run == run);
        let crash = asked.map(|kill| kill.crash).or_else(|| crash(state, function, run, moment.elapsed));
        let server_ahead = state.faults.clock_ahead(&format!("{function}/{run}"), moment.elapsed);
        Run {
            function,
            owner: format!("{function}-{run}"),
            crash,
            server_ahead,
            environment: state.environment(function),
        }
    })
}

/// A run has ended, or has died after so many calls.
fn end(world: &World, door: Door, died_after: Option<u32>, line: Line) {
    let (function, owner) = door.run();
    let owner = owner.to_owned();
    let environment = door.close();
    let death = died_after.map(|calls| (Kind::Trouble, format!("{function} died after {calls} calls")));
    world.with(|state, moment| {
        state.looks.forget(&owner);
        match died_after {
            Some(_) => state.deaths += 1,
            None => state.keep_warm(function, environment),
        }
        if let Some((kind, text)) = death.or(line) {
            state.timeline.add(moment, kind, text);
        }
    });
}

/// Where this run dies, if it does: as the scenario says, or by chance.
fn crash(state: &mut State, function: Function, run: u32, elapsed: Duration) -> Option<Crash> {
    if let Some(index) = state.kills.iter().position(|(killed, _)| *killed == function) {
        return Some(state.kills.remove(index).1);
    }
    let percent = state.faults.open(elapsed).filter_map(|trouble| match trouble {
        Trouble::Chaos(percent) => Some(percent),
        _ => None,
    });
    let percent = percent.max().unwrap_or(0);
    let subject = format!("kill/{function}/{run}");
    // A run makes dozens of calls, so that one run in a few dies where one call in a hundred fails.
    happens(state.seed, &subject, percent.saturating_mul(5)).then(|| {
        let calls = 1 + draw(state.seed, &format!("{subject}/calls"), CALLS_OF_A_RUN);
        Crash::AfterCalls(u32::try_from(calls).unwrap_or(1))
    })
}

type Line = Option<(Kind, String)>;

async fn tick(door: &Door, scenario: &Scenario, wake: Wake, owner: String, deadline: Instant) -> Line {
    let (function, _) = door.run();
    match function {
        Function::Provision => {
            let mut settings = provision::ProvisionSettings::new(CLUSTER, owner);
            settings.window = scenario.poll_window;
            settings.preferences = scenario.preferences;
            settings.min_values = scenario.min_values;
            settings.patience = wake.patience(settings.window);
            settings.guards = scenario.guards;
            line(function, provision::tick(door.ports(), &settings, deadline).await, |summary| {
                let counts = [
                    (summary.launched.len(), "launched"),
                    (summary.failed.len(), "not launched"),
                    (summary.unknown.len(), "unanswered"),
                ];
                let claims = counted("claims", &counts);
                let unplaced = (summary.unplaced > 0)
                    .then(|| format!("{} without a place", count(summary.unplaced, "pod")));
                [claims, unplaced].into_iter().flatten().collect::<Vec<_>>().join("; ")
            })
        }
        Function::Lifecycle => {
            let settings = lifecycle::LifecycleSettings {
                window: LIFECYCLE_WINDOW,
                patience: wake.patience(LIFECYCLE_WINDOW),
                initialization_timeout: Some(scenario.initialization_timeout),
                node_repair: scenario.node_repair,
                guards: scenario.guards,
                adopt: scenario.adopt,
                ..lifecycle::LifecycleSettings::new(CLUSTER, owner)
            };
            line(function, lifecycle::tick(door.ports(), &settings, deadline).await, |summary| {
                let counts = [
                    (summary.registered.len(), "registered"),
                    (summary.initialized.len(), "initialised"),
                    (summary.ending.len(), "to end"),
                    (summary.gone.len(), "gone"),
                ];
                let claims = counted("claims", &counts);
                let orphans = (!summary.orphans.is_empty())
                    .then(|| format!("{} terminated", count(summary.orphans.len(), "orphan")));
                let breaker =
                    summary.breaker.map(|count| format!("the breaker is open: {count} would have ended"));
                [claims, orphans, breaker].into_iter().flatten().collect::<Vec<_>>().join("; ")
            })
        }
        Function::Disrupt => {
            let mut settings = disrupt::DisruptSettings::new(CLUSTER, owner);
            settings.preferences = scenario.preferences;
            settings.min_values = scenario.min_values;
            settings.guards = scenario.guards;
            line(function, disrupt::tick(door.ports(), &settings, deadline).await, |summary| {
                let nodes: usize = summary.committed.values().map(Vec::len).sum();
                let committed = (nodes > 0).then(|| format!("{} to be disrupted", count(nodes, "node")));
                let proposed = (summary.proposed > 0)
                    .then(|| format!("{} proposed", count(summary.proposed, "command")));
                [committed, proposed].into_iter().flatten().collect::<Vec<_>>().join("; ")
            })
        }
        // The queue's pollers call one with what it holds, and a person the other.
        Function::Interrupt | Function::Uninstall => None,
    }
}

fn line<S, E: Error>(function: Function, result: Result<S, E>, text: impl FnOnce(&S) -> String) -> Line {
    match result {
        Err(error) => Some((Kind::Trouble, chain(&error))),
        Ok(summary) => {
            let text = text(&summary);
            (!text.is_empty()).then(|| (Kind::Function, format!("{function}: {text}")))
        }
    }
}

fn counted(what: &str, counts: &[(usize, &str)]) -> Option<String> {
    let parts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    (!parts.is_empty()).then(|| format!("{what}: {}", parts.join(", ")))
}
