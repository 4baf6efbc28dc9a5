//! Names of claims: `<pool>-<suffix>`, the same for the same snapshot, never used twice.

use std::collections::BTreeSet;

use outrigger_model::{Snapshot, labels};
use sha2::{Digest, Sha256};

/// Kubernetes' bound on a label value, which a claim's name becomes.
const NAME_CHARS_MAX: usize = 63;
const SUFFIX_CHARS: usize = 8;
/// Digits and lower-case consonants, which spell nothing, and one vowel to make 32.
const ALPHABET: &[u8; 32] = b"0123456789bcdfghjklmnpqrstvwxyza";

/// Gives out the names of one plan's claims.
pub(crate) struct ClaimNames<'a> {
    cluster: &'a str,
    generation: u64,
    used: BTreeSet<String>,
    next: u64,
}

impl<'a> ClaimNames<'a> {
    /// Names that no claim of the snapshot has, nor a node whose claim the ledger may have
    /// forgotten.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let of_nodes = snapshot.nodes.iter().filter_map(|node| node.annotations.get(labels::CLAIM));
        let used = snapshot.claims.iter().map(|claim| &claim.name).chain(of_nodes).cloned().collect();
        Self { cluster: &snapshot.cluster, generation: snapshot.generation, used, next: 0 }
    }

    /// A new name for a claim of a pool.
    pub(crate) fn next(&mut self, pool: &str) -> String {
        loop {
            let name = self.candidate(pool);
            self.next += 1;
            if self.used.insert(name.clone()) {
                return name;
            }
        }
    }

    fn candidate(&self, pool: &str) -> String {
        let digest = Sha256::new()
            .chain_update(self.cluster)
            .chain_update([0])
            .chain_update(self.generation.to_be_bytes())
            .chain_update(self.next.to_be_bytes())
            .finalize();
        let suffix: String = digest
            .iter()
            .take(SUFFIX_CHARS)
            .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
            .collect();
        let room = NAME_CHARS_MAX - SUFFIX_CHARS - 1;
        let head: String = pool.chars().take(room).collect();
        format!("{}-{suffix}", head.trim_end_matches(['-', '.']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn names_are_short_enough_unique_and_repeatable() {
        let snapshot = Snapshot::empty("c", Timestamp::UNIX_EPOCH);
        let long = "a-long-pool-name-".repeat(4);
        let take = || {
            let mut names = ClaimNames::new(&snapshot);
            (0..500).map(|_| names.next(&long)).collect::<Vec<_>>()
        };
        let names = take();
        assert_eq!(names, take());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 500);
        assert!(
            names.iter().all(|name| name.len() <= NAME_CHARS_MAX && name.starts_with("a-long-pool-name-"))
        );
    }
}
