//! Numbers that look drawn at random and are the same in every run.

/// A generator of such numbers (xorshift64*, Vigna 2016).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below another; nothing where that is zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { usize::try_from((self.next() >> 33) % end as u64).unwrap_or(0) }
    }

    /// One of some values, each as often as its weight says.
    pub(super) fn weighted<T: Copy>(&mut self, values: &[(T, usize)]) -> Option<T> {
        let mut drawn = self.below(values.iter().map(|(_, weight)| weight).sum());
        let mut chosen = values.iter().filter_map(|(value, weight)| {
            let is_reached = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_reached.then_some(*value)
        });
        chosen.next()
    }

    /// True once in so many times.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
