//! Chance that is the same in every run: each draw depends on the seed and on what it is drawn for,
//! never on the order of draws, so that one change in a scenario does not shift everything after
//! it.

/// A number below `bound` for this subject; 0 when `bound` is 0.
pub(crate) fn draw(seed: u64, subject: &str, bound: u64) -> u64 {
    // FNV-1a spreads the text, SplitMix64's last step spreads the bits. Both are fixed for ever, as
    // summaries must be.
    let folded = subject.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut mixed = folded.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    if bound == 0 { 0 } else { mixed % bound }
}

/// Whether something with this chance in a hundred happens to this subject.
pub(crate) fn happens(seed: u64, subject: &str, percent: u64) -> bool {
    draw(seed, subject, 100) < percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_fixed_and_spread() {
        assert_eq!(draw(1, "a", 1_000_000), draw(1, "a", 1_000_000));
        assert_ne!(draw(1, "a", 1_000_000), draw(2, "a", 1_000_000));
        assert_eq!(draw(1, "a", 0), 0);
        let hits = (0..10_000).filter(|n| happens(7, &format!("call/{n}"), 10)).count();
        assert!((800..1_200).contains(&hits), "{hits}");
    }
}
