//! Draws for the worlds of chance.

use std::time::Duration;

use crate::random::draw;

/// Draws of one seed, each by its own name, so that one more changes no other.
pub(super) struct Dice {
    pub(super) seed: u64,
}

impl Dice {
    pub(super) fn below(&self, subject: &str, bound: u64) -> u64 {
        draw(self.seed, &format!("chance/{subject}"), bound)
    }

    pub(super) fn happens(&self, subject: &str, percent: u64) -> bool {
        self.below(subject, 100) < percent
    }

    pub(super) fn seconds(&self, subject: &str, least: u64, most: u64) -> Duration {
        Duration::from_secs(least + self.below(subject, most - least + 1))
    }

    pub(super) fn pick<'t, T>(&self, subject: &str, among: &'t [T]) -> &'t T {
        let length = u64::try_from(among.len()).unwrap_or(u64::MAX);
        &among[usize::try_from(self.below(subject, length)).unwrap_or_default()]
    }

    /// How many of something there are: none most often.
    pub(super) fn few(&self, subject: &str, percent: u64, most: usize) -> usize {
        let more = usize::try_from(self.below(&format!("{subject}/more"), most as u64)).unwrap_or_default();
        if self.happens(subject, percent) { 1 + more } else { 0 }
    }
}
