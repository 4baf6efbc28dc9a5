//! The judge: worlds drawn from seeds are played, and what came of each is held against what must be true.
//!
//! A seed is all that a world depends on, so a failing one is played again by its number alone.

mod chance;
mod dice;
mod verdict;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use outrigger_model::Invalid;

use crate::play::{PlayError, Unobserved, play};
use crate::scenario::Scenario;
use crate::timeline::Happening;

pub use chance::Chance;

/// Where the worlds come from.
#[derive(Clone, Debug)]
pub enum Worlds {
    /// Everything is drawn from the seed: what the cluster asks for, and all that goes wrong.
    Chance(Box<Chance>),
    /// One scenario; the seed decides only what its file leaves to chance.
    Given(Box<Scenario>),
}

/// A world that was not as it must be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
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
        let Trial { scenario, asks } = self.trial(seed);
        let ending = play(&scenario, &[], &mut Unobserved)?;
        let complaints = verdict::complaints(&ending, asks);
        Ok(Failure { seed, complaints, timeline: ending.summary.timeline })
    }

    /// Plays the worlds of all `seeds` on so many threads and returns those that failed, in order of seed. `done` is told
    /// after each how many have been played and how many of them have failed.
    pub fn run(
        &self,
        seeds: RangeInclusive<u64>,
        threads: usize,
        done: &(dyn Fn(u64, usize) + Sync),
    ) -> Result<Vec<Failure>, PlayError> {
        let (next, played) = (AtomicU64::new(*seeds.start()), AtomicU64::new(0));
        let is_over = AtomicBool::new(false);
        let failures = Mutex::new(Vec::new());
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    return Ok(());
                }
                let result = self.judge(seed).inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                if !result.complaints.is_empty() {
                    failures.push(result);
                }
                done(played.fetch_add(1, Ordering::Relaxed) + 1, failures.len());
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        failures.sort_by_key(|failure: &Failure| failure.seed);
        Ok(failures)
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
