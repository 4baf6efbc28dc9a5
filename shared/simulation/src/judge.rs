//! The judge: worlds drawn from seeds are played, and what came of each is held against what must
//! be true.
//!
//! A seed is all that a world depends on, so a failing one is played again by its number alone.

mod chance;
mod complaints;
mod dice;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use outrigger_engine::Guards;
use outrigger_model::Invalid;

use crate::play::{PlayError, Unobserved, play};
use crate::scenario::Scenario;
use crate::timeline::Happening;

pub use chance::Chance;

/// A world takes a part of a second; who takes so long will never end.
const LONGEST_WORLD: Duration = Duration::from_mins(2);
/// How often worlds are looked for that do not end.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the worlds come from.
#[derive(Clone, Debug)]
pub enum Worlds {
    /// Everything is drawn from the seed: what the cluster asks for, and all that goes wrong.
    Chance(Box<Chance>),
    /// One scenario; the seed decides only what its file leaves to chance.
    Given(Box<Scenario>),
}

/// What the threads that play tell.
enum News {
    Begins(u64),
    Ended(Result<Failure, PlayError>),
}

/// A world that was played, and what was wrong with it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong; nothing when all was as it must be.
    pub complaints: Vec<String>,
    /// What happened.
    pub timeline: Vec<Happening>,
}

/// A world to be played, and how much may be asked of it.
pub(crate) struct Trial {
    pub(crate) scenario: Scenario,
    pub(crate) asks: Asks,
}

/// What may be asked of a world beside its laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Nothing else: it never comes to rest.
    Laws,
    /// What the scenario's file expects.
    Expected,
    /// That nothing is left over. Pods that nobody can read wait for ever, and each tick says so.
    Settled,
    /// That it comes to rest: everything runs, nothing is left over, and nothing happens any more.
    Rest,
}

impl Worlds {
    /// Worlds in which everything is drawn.
    pub fn chance() -> Result<Self, Vec<Invalid>> {
        Chance::new().map(|chance| Self::Chance(Box::new(chance)))
    }

    /// Plays the world of one seed, and says what was wrong and what happened.
    pub fn judge(&self, seed: u64) -> Result<Failure, PlayError> {
        self.judge_without(seed, Guards::default())
    }

    /// The same with some guards taken away.
    pub fn judge_without(&self, seed: u64, guards: Guards) -> Result<Failure, PlayError> {
        let Trial { scenario, asks } = self.trial(seed);
        let scenario = Scenario { guards, ..scenario };
        let ending = play(&scenario, &[], &mut Unobserved)?;
        let complaints = complaints::complaints(&ending, asks, scenario.duration);
        Ok(Failure { seed, complaints, timeline: ending.summary.timeline })
    }

    /// Plays the worlds of all `seeds` on so many threads and returns those that failed, in order
    /// of seed. `on_end` hears of each world as it ends, in any order. A world that never ends
    /// fails, too, and is the last that is played.
    pub fn run(
        &self,
        seeds: RangeInclusive<u64>,
        threads: usize,
        on_end: &mut dyn FnMut(&Failure),
    ) -> Result<Vec<Failure>, PlayError> {
        let (news, mut playing, mut failures) = (self.begin(&seeds, threads), BTreeMap::new(), Vec::new());
        let is_over = loop {
            let ended = match news.recv_timeout(LOOK_EVERY) {
                Ok(News::Begins(seed)) => {
                    playing.insert(seed, Instant::now());
                    None
                }
                Ok(News::Ended(outcome)) => Some(outcome?),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break true,
            };
            if let Some(outcome) = ended {
                playing.remove(&outcome.seed);
                on_end(&outcome);
                failures.extend(Some(outcome).filter(|outcome| !outcome.complaints.is_empty()));
            }
            if playing.values().any(|began| began.elapsed() > LONGEST_WORLD) {
                break false;
            }
        };
        for (seed, _) in playing.into_iter().filter(|(_, began)| is_over || began.elapsed() > LONGEST_WORLD) {
            let complaints = vec![format!("it panicked, or has not ended in {} s", LONGEST_WORLD.as_secs())];
            let stuck = Failure { seed, complaints, timeline: Vec::new() };
            on_end(&stuck);
            failures.push(stuck);
        }
        failures.sort_by_key(|failure: &Failure| failure.seed);
        Ok(failures)
    }

    /// Threads of their own play the worlds: one that never ends can only be left alone.
    fn begin(&self, seeds: &RangeInclusive<u64>, threads: usize) -> Receiver<News> {
        let next = Arc::new(AtomicU64::new(*seeds.start()));
        let (tell, news) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let (worlds, seeds, next, tell) = (self.clone(), seeds.clone(), Arc::clone(&next), tell.clone());
            thread::spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || tell.send(News::Begins(seed)).is_err() {
                        return;
                    }
                    if tell.send(News::Ended(worlds.judge(seed))).is_err() {
                        return;
                    }
                }
            });
        }
        news
    }

    fn trial(&self, seed: u64) -> Trial {
        match self {
            Self::Chance(chance) => chance.trial(seed),
            Self::Given(scenario) => {
                let scenario = Scenario { seed, ..Scenario::clone(scenario) };
                Trial { scenario, asks: Asks::Expected }
            }
        }
    }
}

impl Failure {
    /// What happened, a line each.
    pub fn story(&self) -> String {
        let line =
            |happening: &Happening| format!("{:>8.1} {}\n", happening.at.as_secs_f64(), happening.text);
        self.timeline.iter().map(line).collect()
    }
}
