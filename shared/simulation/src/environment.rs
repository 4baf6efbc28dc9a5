//! Where functions run: Lambda keeps a process after its run and gives it to the next one. Runs at
//! the same time have processes of their own, and who dies takes the process along.

use outrigger_engine::{Rate, Rates};

/// A process of one function.
pub(crate) struct Environment {
    /// Counted from 0 in the order of first starts, over all functions.
    pub number: usize,
    /// How fast it asks EC2, where that is bounded.
    rates: Option<Rates>,
}

impl Environment {
    /// One that keeps to EC2's rates, or does not.
    pub(crate) fn new(number: usize, paces: bool) -> Self {
        Self { number, rates: paces.then(Rates::new) }
    }

    /// Waits until one more request of this kind may be sent to EC2.
    pub(crate) async fn ready(&self, rate: Rate) {
        if let Some(rates) = &self.rates {
            rates.ready(rate).await;
        }
    }
}
