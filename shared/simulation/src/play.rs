//! Playing a scenario: the world goes on by itself, the functions run beside it, and time passes
//! only when all of them wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::{Command, ConfiguredObject, Intent, Node, NodeClaim, Pod, Snapshot};
use tokio::runtime::Builder;
use tokio::time::sleep_until;

use crate::cloud::Market;
use crate::demand::Samples;
use crate::functions::{self, Kill};
use crate::laws;
use crate::looks::Listed;
use crate::scenario::{Function, Scenario};
use crate::summary::{Figures, Summary, figures, summary};
use crate::tally::{Tally, tally};
use crate::timeline::Happening;
use crate::world::World;

/// How often an observer is told where the world stands.
const BEAT: Duration = Duration::from_secs(1);

/// Watches a run. Whatever time it takes is not the world's time.
pub trait Observer {
    /// Something has happened.
    fn happened(&mut self, happening: &Happening) {
        let _ = happening;
    }

    /// So the world stands; told at least once in each of its seconds.
    fn stands(&mut self, figures: &Figures) {
        let _ = figures;
    }

    /// How often it wants to know what the pods ask for, if at all.
    fn samples_every(&self) -> Option<Duration> {
        None
    }

    /// What all pods that run or wait at a time ask for: a cluster without nodes, in which they
    /// wait. `market` says what EC2 would launch for a node that is planned for them.
    fn sampled(&mut self, at: Duration, demand: &Snapshot, market: &dyn Market) {
        let _ = (at, demand, market);
    }

    /// Whether it wants to be told what happens and where the world stands. A world that nobody
    /// looks at is played faster.
    fn looks(&self) -> bool {
        true
    }

    /// Whether it wants to be told where the world stands, for which nodes and pods are counted.
    fn counts(&self) -> bool {
        self.looks()
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn looks(&self) -> bool {
        false
    }
}

/// The end of a run: what came of it, and the objects themselves for whoever checks them.
#[derive(Clone, Debug)]
pub struct Ending {
    /// What came of it.
    pub summary: Summary,
    /// What was counted on the way.
    pub tally: Tally,
    /// Every claim, over or not, in order of name.
    pub claims: Vec<NodeClaim>,
    /// Commands of disruption that have not ended, in order of id.
    pub commands: Vec<Command>,
    /// Every intent, over or not, in order of id.
    pub intents: Vec<Intent>,
    /// Nodes in order of name.
    pub nodes: Vec<Node>,
    /// Pods in order of creation.
    pub pods: Vec<Pod>,
    /// Ids of living instances in order, with the launch that each belongs to.
    pub instances: Vec<(String, String)>,
    /// Nodes that should be gone: empty ones, and those of an old image with volumes on them.
    pub kept: Vec<String>,
    /// When something was last written that changes which nodes there are, by what it was: a
    /// launch, a command of disruption, the end of a claim.
    pub last_writes: BTreeMap<&'static str, Duration>,
    /// By function, how often its lease was taken over from one who had not given it back, and the
    /// longest that it was kept for at once.
    pub leases: BTreeMap<String, (usize, Duration)>,
    /// The lists of nodes and pods that functions have read, in order of time.
    pub lists: Vec<Listed>,
    /// How many runs of functions have died.
    pub deaths: u32,
    /// How many messages about interruptions were given up.
    pub dead_letters: usize,
    /// How many of them are still to be handled.
    pub messages: usize,
    /// The launch templates that Outrigger wrote, by name.
    pub templates: Vec<String>,
    /// The NodeClaim objects by name, each with the version of its claim that it shows.
    pub mirrors: BTreeMap<String, u64>,
    /// The objects that users wrote, with their status.
    pub configured: Vec<ConfiguredObject>,
    /// How many different events were published.
    pub events: usize,
    /// The last event of each reason about each object: what it is about, why, and what it says.
    pub published: Vec<(String, &'static str, String)>,
}

/// Why a scenario cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// There is no runtime to play it on.
    #[error("the simulation cannot be started")]
    Runtime(#[source] std::io::Error),
}

/// Plays a scenario from beginning to end. `kills` names runs of functions that die, beside those
/// that the scenario kills.
pub fn play(scenario: &Scenario, kills: &[Kill], observer: &mut dyn Observer) -> Result<Ending, PlayError> {
    let runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().map_err(PlayError::Runtime)?;
    Ok(runtime.block_on(async {
        let world = World::new(scenario);
        let end = world.clock().instant(scenario.duration);
        tokio::select! {
            biased;
            () = pass_time(&world, scenario, observer) => {}
            () = functions::schedule(&world, scenario, Function::Provision, kills) => {}
            () = functions::bell(&world, scenario, Function::Provision, kills) => {}
            () = functions::schedule(&world, scenario, Function::Lifecycle, kills) => {}
            () = functions::bell(&world, scenario, Function::Lifecycle, kills) => {}
            () = functions::schedule(&world, scenario, Function::Disrupt, kills) => {}
            () = functions::second(&world, scenario, Function::Provision, kills) => {}
            () = functions::second(&world, scenario, Function::Lifecycle, kills) => {}
            () = functions::second(&world, scenario, Function::Disrupt, kills) => {}
            () = functions::interrupt::pollers(&world, scenario, kills) => {}
            () = functions::disruption::disrupter(&world, scenario.policy) => {}
            () = functions::uninstall::person(&world, kills) => {}
            () = sleep_until(end) => {}
        }
        ending(&world, scenario)
    }))
}

/// The world by itself, until the end of the scenario.
async fn pass_time(world: &Arc<World>, scenario: &Scenario, observer: &mut dyn Observer) {
    let mut changes = world.changes();
    let (mut shown, mut samples) = (0, Samples::new(observer.samples_every()));
    loop {
        while world.with(|state, moment| {
            let happened = state.advance(moment, scenario);
            laws::check(state);
            happened
        }) {}
        if observer.looks() {
            tell(world, scenario, observer, &mut shown);
        }
        world.look(|state, moment| {
            if let Some(demand) = samples.take(state, moment) {
                observer.sampled(moment.elapsed, &demand, &state.cloud);
            }
        });
        let (elapsed, next) = world.look(|state, moment| (moment.elapsed, state.agenda.next()));
        if elapsed >= scenario.duration {
            return;
        }
        let beat =
            if observer.looks() { Duration::from_secs(elapsed.as_secs()) + BEAT } else { scenario.duration };
        let until =
            [next, samples.due].into_iter().flatten().fold(beat, Duration::min).min(scenario.duration);
        changes.mark_unchanged();
        tokio::select! {
            biased;
            change = changes.changed() => if change.is_err() { return },
            () = sleep_until(world.clock().instant(until)) => {}
        }
    }
}

/// Tells an observer what has happened since it was last told, and where the world stands.
fn tell(world: &World, scenario: &Scenario, observer: &mut dyn Observer, shown: &mut usize) {
    let happenings = world.look(|state, _| state.timeline.since(*shown).to_vec());
    *shown += happenings.len();
    for happening in &happenings {
        observer.happened(happening);
    }
    if observer.counts() {
        observer.stands(&world.look(|state, moment| figures(state, moment, scenario.duration)));
    }
}

fn ending(world: &World, scenario: &Scenario) -> Ending {
    world.look(|state, moment| Ending {
        summary: summary(state, moment, scenario),
        tally: tally(state, moment),
        claims: state.ledger.claims().cloned().collect(),
        commands: state.ledger.commands().cloned().collect(),
        intents: state.ledger.intents().cloned().collect(),
        nodes: state.cluster.nodes().values().cloned().collect(),
        pods: state.cluster.pods().values().cloned().collect(),
        instances: state
            .cloud
            .live()
            .map(|machine| (machine.instance.id.clone(), machine.token.clone()))
            .collect(),
        kept: [
            laws::volumes::kept_from_drift(state, moment),
            laws::disruption::kept_though_empty(state, scenario.policy),
        ]
        .concat(),
        last_writes: state.last_writes.clone(),
        leases: state
            .ledger
            .leases()
            .map(|(function, taken_over, longest)| (function.to_owned(), (taken_over, longest)))
            .collect(),
        lists: state.looks.lists.clone(),
        deaths: state.deaths,
        dead_letters: state.queue.dead().len(),
        messages: state.queue.len(),
        templates: state.cloud.own_templates().into_iter().map(|template| template.name).collect(),
        mirrors: state
            .cluster
            .mirrors()
            .iter()
            .map(|(name, mirror)| (name.clone(), mirror.version))
            .collect(),
        configured: state.cluster.configured().to_vec(),
        events: state.cluster.events().len(),
        published: state
            .cluster
            .events()
            .iter()
            .map(|((about, reason), (message, _))| (about.to_string(), *reason, message.clone()))
            .collect(),
    })
}
