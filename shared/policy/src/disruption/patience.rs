//! Patience with nodes that are not worth their price: the rule of who rents skis, and buys them
//! once the rent has come to their price.
//!
//! Each look adds what ending a node would have saved since the last one. A command begins once its
//! nodes have wasted together what its evictions count. So no order of events costs more than twice
//! what the best choice would have cost, and pods that leave by themselves need not be evicted.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{Snapshot, Waste};

/// At most so much time is counted between two looks: what went on in a longer one is not known. It
/// is a little more than lies between two looks where nothing changes.
const LONGEST_LOOK: SignedDuration = SignedDuration::from_mins(6);
/// For so long a node is remembered of which a look finds that nothing is to be saved.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);
const NANOS_PER_DOLLAR: f64 = 1e9;
const MILLIS_PER_HOUR: u128 = 3_600_000;

/// How far patience with the nodes of a command has come. It is printed as
/// `once $0.36 are wasted, $0.12 so far`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// Dollars that ending them would have saved so far.
    pub wasted: f64,
    /// Dollars at which the command begins.
    pub ends_at: f64,
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "once ${:.2} are wasted, ${:.2} so far", self.ends_at, self.wasted)
    }
}

/// What nodes have wasted up to now, as far as ending them would have saved anything.
pub struct Wasted<'a> {
    snapshot: &'a Snapshot,
    by_node: BTreeMap<String, Waste>,
}

impl<'a> Wasted<'a> {
    /// As it was remembered lately.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let lately = |waste: &Waste| snapshot.taken_at.duration_since(waste.until) <= REMEMBERED;
        let remembered = snapshot.waste.iter().filter(|(_, waste)| lately(waste));
        Self { snapshot, by_node: remembered.map(|(node, waste)| (node.clone(), *waste)).collect() }
    }

    /// Adds what ending nodes together would have saved since the last look, in nano-dollars per
    /// hour, to each by its share of what they cost. Returns the dollars that they have wasted
    /// together.
    pub fn add(&mut self, nodes: &[(&str, u64)], saving: i64) -> f64 {
        let weight = |cost: &u64| u128::from(*cost).max(1);
        let weights: u128 = nodes.iter().map(|(_, cost)| weight(cost)).sum();
        let saving = u128::from(u64::try_from(saving).unwrap_or(0));
        let now = self.snapshot.taken_at;
        let mut together: u64 = 0;
        for (node, cost) in nodes {
            let before = self.by_node.get(*node).copied().unwrap_or(Waste { nanos: 0, until: now });
            let nanos = saving * weight(cost) * millis(before.until, now) / (weights * MILLIS_PER_HOUR);
            let nanos = before.nanos.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.by_node.insert((*node).to_owned(), Waste { nanos, until: now });
            together = nanos.saturating_add(together);
        }
        together as f64 / NANOS_PER_DOLLAR
    }

    /// What is to be remembered.
    pub fn into_remembered(self) -> BTreeMap<String, Waste> {
        self.by_node
    }
}

/// The time between two looks that counts. Clocks that go back count none.
fn millis(since: Timestamp, now: Timestamp) -> u128 {
    now.duration_since(since).clamp(SignedDuration::ZERO, LONGEST_LOOK).as_millis().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use outrigger_model::fixtures::at;

    use super::*;

    fn look(minutes: i64, waste: BTreeMap<String, Waste>) -> Snapshot {
        Snapshot { waste, ..Snapshot::empty("", at(minutes * 60)) }
    }

    #[test]
    fn waste_adds_up_from_look_to_look() {
        let nodes = [("a", 3_000_000_000), ("b", 1_000_000_000)];
        let mut waste = BTreeMap::new();
        for (minutes, expected) in [(0, 0.0), (1, 0.01), (2, 0.02), (60, 0.0), (59, 0.0)] {
            let snapshot = look(minutes, waste);
            let mut wasted = Wasted::new(&snapshot);
            let dollars = wasted.add(&nodes, 600_000_000);
            assert!((dollars - expected).abs() < 1e-8, "{minutes}: {dollars}");
            waste = wasted.into_remembered();
        }
        let snapshot = look(61, waste);
        let dollars = Wasted::new(&snapshot).add(&nodes, 600_000_000);
        assert!((dollars - 0.02).abs() < 1e-8, "2 minutes since the clock went back: {dollars}");
    }

    #[test]
    fn a_node_wastes_its_share_and_no_more_than_is_known() {
        let before = Waste { nanos: 7, until: at(0) };
        let snapshot = look(9, BTreeMap::from([("a".to_owned(), before), ("c".to_owned(), before)]));
        let mut wasted = Wasted::new(&snapshot);
        wasted.add(&[("a", 3_000_000_000), ("b", 1_000_000_000)], 1_000_000_000);
        wasted.add(&[("d", 0)], -5);
        let remembered = wasted.into_remembered();
        let nanos: Vec<(&str, u64)> =
            remembered.iter().map(|(node, waste)| (node.as_str(), waste.nanos)).collect();
        assert_eq!(nanos, [("a", 7 + 75_000_000), ("b", 0), ("c", 7), ("d", 0)]);
        let later = look(10, remembered);
        let remembered: Vec<String> = Wasted::new(&later).into_remembered().into_keys().collect();
        assert_eq!(remembered, ["a", "b", "c", "d"]);
        let much_later = look(11, later.waste);
        let remembered: Vec<String> = Wasted::new(&much_later).into_remembered().into_keys().collect();
        assert_eq!(remembered, ["a", "b", "d"]);
    }
}
