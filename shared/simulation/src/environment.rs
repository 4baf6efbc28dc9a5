//! Where functions run: Lambda keeps a process after its run and gives it to the next one. Runs at
//! the same time have processes of their own, and who dies takes the process along.

use outrigger_engine::{Rate, Rates};

use crate::scenario::Function;
use crate::state::State;

/// A process of one function.
pub(crate) struct Environment {
    /// Counted from 0 in the order of first starts, over all functions.
    pub number: usize,
    /// How fast it asks EC2, where that is bounded.
    rates: Option<Rates>,
}

impl Environment {
    /// Waits until one more request of this kind may be sent to EC2.
    pub(crate) async fn ready(&self, rate: Rate) {
        if let Some(rates) = &self.rates {
            rates.ready(rate).await;
        }
    }
}

impl State {
    /// A process for a run: one that is warm, or a new one.
    pub(crate) fn environment(&mut self, function: Function) -> Environment {
        let warm = self.warm.entry(function).or_default().pop();
        warm.unwrap_or_else(|| {
            let number = self.environments;
            self.environments += 1;
            Environment { number, rates: self.paces.then(Rates::new) }
        })
    }

    /// A run has ended, and its process waits for the next.
    pub(crate) fn keep_warm(&mut self, function: Function, environment: Environment) {
        self.warm.entry(function).or_default().push(environment);
    }
}
