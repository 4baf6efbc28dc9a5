//! The way into the world: one door for each run of a function. It counts the calls, lets faults
//! happen to them, and is where a function dies when the scenario or a test says so.

mod cloud;
mod cluster;
mod ledger;

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use outrigger_engine::Ports;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::calls::{Call, Crash, Service};
use crate::environment::Environment;
use crate::faults::Fate;
use crate::laws;
use crate::scenario::Function;
use crate::state::{Halt, State};
use crate::time::Moment;
use crate::timeline::Kind;
use crate::world::World;

/// Errors that faults can make for a port.
pub(crate) trait PortError {
    /// No answer came.
    fn unknown(call: Call) -> Self;
    /// It was turned away before anything happened.
    fn refused(call: Call) -> Self;
    /// Somebody else has written the object first.
    fn stuck(object: &str) -> Self;
}

/// A run of a function as it begins.
pub(crate) struct Run {
    /// Whose run it is.
    pub function: Function,
    /// Who it is, as leases know it.
    pub owner: String,
    /// Where it dies, if it does.
    pub crash: Option<Crash>,
    /// By how much the clock of its API server is ahead.
    pub server_ahead: SignedDuration,
    /// Where it runs.
    pub environment: Environment,
}

/// One run's way into the world.
pub(crate) struct Door {
    world: Arc<World>,
    function: Function,
    owner: String,
    crash: Option<Crash>,
    environment: Environment,
    server_ahead: SignedDuration,
    /// Whether the API server has answered, so that its time is known.
    heard: AtomicBool,
    /// Until when the whole run stands still.
    frozen_until: Mutex<Instant>,
    calls: AtomicU32,
    died: Notify,
}

impl Door {
    /// The door of a run.
    pub(crate) fn new(world: Arc<World>, run: Run) -> Self {
        let Run { function, owner, crash, server_ahead, environment } = run;
        let (heard, calls, died) = (AtomicBool::new(false), AtomicU32::new(0), Notify::new());
        let frozen_until = Mutex::new(Instant::now());
        Self { world, function, owner, crash, environment, server_ahead, heard, frozen_until, calls, died }
    }

    /// The run has come to its end: what is warm in its environment serves the next one.
    pub(crate) fn close(self) -> Environment {
        self.environment
    }

    /// By how much the API server's clock is ahead, once it has answered.
    pub(crate) fn clock_difference(&self) -> Option<SignedDuration> {
        self.heard.load(Ordering::Relaxed).then_some(self.server_ahead)
    }

    /// The world behind the ports of the engine.
    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports { cluster: self, cloud: self, ledger: self, clock: self.world.clock() }
    }

    /// The function whose run this is, and who it is.
    pub(crate) fn run(&self) -> (Function, &str) {
        (self.function, &self.owner)
    }

    /// Takes note of a look by whoever launches nodes or gives them up.
    pub(crate) fn looks(&self, note: impl FnOnce(&str)) {
        if matches!(self.function, Function::Provision | Function::Lifecycle | Function::Disrupt) {
            note(&self.owner);
        }
    }

    pub(crate) const fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Completes when the run has reached its crash point; whoever waits then drops the run.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// [`Door::call`] for one that changes an object, which faults may pick out.
    pub(crate) async fn call_on<T, E, F>(&self, call: Call, object: &str, act: F) -> Result<T, E>
    where
        T: Send,
        E: PortError + Send,
        F: FnOnce(&mut State, Moment) -> Result<T, E> + Send,
    {
        self.call(call, |state, moment| {
            if state.faults.is_stuck(call, object, moment) {
                Err(E::stuck(object))
            } else {
                act(state, moment)
            }
        })
        .await
    }

    /// Makes one call: waits as long as it takes, lets a fault happen, acts, and perhaps never
    /// returns.
    pub(crate) async fn call<T, E, F>(&self, call: Call, act: F) -> Result<T, E>
    where
        T: Send,
        E: PortError + Send,
        F: FnOnce(&mut State, Moment) -> Result<T, E> + Send,
    {
        if let Some(rate) = call.rate() {
            self.environment.ready(rate).await;
            self.world.with(|state, moment| laws::rates::sent(state, &self.environment, rate, moment));
        }
        let delay = self.world.with(|state, moment| {
            if let Some(length) = take_halt(&mut state.freezes, self.function, call) {
                self.freeze(length);
            }
            let hang = take_halt(&mut state.hangs, self.function, call).unwrap_or_default();
            state.faults.delay(moment).saturating_add(hang)
        });
        self.thaw().await;
        tokio::time::sleep(delay.saturating_add(call.latency())).await;
        self.thaw().await;
        let result = self.world.with(|state, moment| {
            let fate = match (state.faults.fate(call, moment), call.rate()) {
                (Fate::Served | Fate::AnswerLost, Some(rate)) if !state.cloud.admits(rate, moment) => {
                    Fate::Refused
                }
                (fate, _) => fate,
            };
            if let Some(words) = fate.words().filter(|_| call == Call::CreateFleet) {
                state.timeline.add(moment, Kind::Trouble, format!("CreateFleet {words}"));
            }
            let result = match fate {
                Fate::Served => act(state, moment),
                Fate::Refused => Err(E::refused(call)),
                Fate::Unheard => Err(E::unknown(call)),
                Fate::AnswerLost => act(state, moment).and(Err(E::unknown(call))),
            };
            laws::check(state);
            result
        });
        if result.is_ok() && call.service() == Service::ApiServer {
            self.heard.store(true, Ordering::Relaxed);
        }
        self.survive(call).await;
        result
    }

    /// The whole run stands still for so long.
    fn freeze(&self, length: Duration) {
        *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + length;
    }

    async fn thaw(&self) {
        let until = *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep_until(until).await;
    }

    /// Returns unless this call was the run's last.
    async fn survive(&self, call: Call) {
        let made = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let dies = match self.crash {
            None => false,
            Some(Crash::AfterCalls(count)) => made == count,
            Some(Crash::After(name)) => call == name,
        };
        if dies {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// How long a run of a function stops before a call now, once.
fn take_halt(halts: &mut Vec<Halt>, function: Function, call: Call) -> Option<Duration> {
    let index = halts.iter().position(|(of, before, _)| *of == function && *before == call)?;
    Some(halts.remove(index).2)
}

/// The cause of an answer that never came.
pub(crate) fn no_answer() -> Box<dyn Error + Send + Sync> {
    Box::new(io::Error::from(io::ErrorKind::TimedOut))
}
