//! The world: one state behind a lock, a clock, and somebody to tell when something has changed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::cloud::Ec2;
use crate::scenario::Scenario;
use crate::state::State;
use crate::time::{Moment, VirtualClock};

/// The name of every simulated cluster.
pub(crate) const CLUSTER: &str = "simulated.example.com";

/// A world. Its lock is never held while anything waits.
pub(crate) struct World {
    state: Mutex<State>,
    clock: VirtualClock,
    changes: watch::Sender<()>,
}

impl World {
    /// The world at the beginning of a scenario; must be called within a runtime whose time is
    /// paused.
    pub(crate) fn new(scenario: &Scenario) -> Arc<Self> {
        let cloud = Ec2::new(scenario, CLUSTER);
        Arc::new(Self {
            state: Mutex::new(State::new(scenario, cloud)),
            clock: VirtualClock::start(),
            changes: watch::Sender::new(()),
        })
    }

    pub(crate) const fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Notes changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Looks at the state.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State, Moment) -> T) -> T {
        let moment = self.clock.moment();
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner), moment)
    }

    /// Changes the state, and wakes who waits for changes.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State, Moment) -> T) -> T {
        let moment = self.clock.moment();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.version();
        let result = change(&mut state, moment);
        let changed = state.version() != before;
        drop(state);
        if changed {
            self.changes.send_replace(());
        }
        result
    }
}
