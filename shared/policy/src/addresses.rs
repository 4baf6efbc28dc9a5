//! Free addresses of subnets, less those that launches on their way will take: EC2 counts an
//! address only once its instance is there, and says so late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::node_class::Subnet;
use outrigger_model::{ClaimState, FleetOverride, Kubelet, NodeClaim, NodeClass, Snapshot};

/// For so long after its launch an instance may be missing from the count of free addresses, which
/// is itself a minute old.
const COUNTED_AFTER: Duration = Duration::from_mins(2);
/// What the network plugin holds ready on a node where pods have addresses of the subnet: a warm
/// interface (amazon-vpc-cni `WARM_ENI_TARGET=1`, 15 addresses on most types).
const WARM_ADDRESSES: u32 = 15;

/// How many addresses a new node of a class takes.
pub const fn per_node(class: &NodeClass) -> u32 {
    let (Kubelet::Kops(settings) | Kubelet::Karpenter(settings)) = &class.kubelet;
    if settings.eni_limited { 1 + WARM_ADDRESSES } else { 1 }
}

/// The subnets of a class that have addresses for one node more, with how many each has beside what
/// is on its way. A zone can be used while one of its subnets can; a class that has subnets and
/// none of these can launch nothing.
pub fn usable_subnets(snapshot: &Snapshot, class: &NodeClass) -> Vec<Subnet> {
    let now = snapshot.taken_at;
    let mut subnets = class.subnets.clone();
    let each = per_node(class);
    for intent in &snapshot.intents {
        take(&mut subnets, &intent.request.overrides, intent.request.count.saturating_mul(each));
    }
    for zone in snapshot.claims.iter().filter_map(|claim| just_launched(claim, now)) {
        let in_zone = subnets.iter_mut().filter(|subnet| subnet.zone == zone);
        if let Some(roomiest) = in_zone.max_by_key(|subnet| subnet.free_addresses) {
            roomiest.free_addresses = roomiest.free_addresses.saturating_sub(each);
        }
    }
    let is_closed =
        |subnet: &Subnet| snapshot.health.subnets.get(&subnet.id).is_some_and(|hold| hold.holds(now));
    subnets.retain(|subnet| subnet.free_addresses > 0 && !is_closed(subnet));
    subnets
}

/// Takes addresses from every subnet that a launch may use: which it will be, EC2 decides.
pub fn take(subnets: &mut [Subnet], overrides: &[FleetOverride], addresses: u32) {
    let named: BTreeSet<&str> = overrides.iter().map(|wanted| wanted.subnet.as_str()).collect();
    for subnet in subnets.iter_mut().filter(|subnet| named.contains(subnet.id.as_str())) {
        subnet.free_addresses = subnet.free_addresses.saturating_sub(addresses);
    }
}

/// The zone of an instance that was launched so lately that its address may not be counted.
fn just_launched(claim: &NodeClaim, now: Timestamp) -> Option<&str> {
    let launched = claim.status.launched_at.filter(|_| claim.status.state == ClaimState::Launched)?;
    let age = Duration::try_from(now.duration_since(launched)).unwrap_or_default();
    (age < COUNTED_AFTER).then_some(claim.status.instance.as_ref()?.zone.as_str())
}

/// The subnet with the most free addresses of each zone, which is what EC2 Fleet is given: it wants
/// one for each zone.
pub fn roomiest(subnets: &[Subnet]) -> BTreeMap<&str, &Subnet> {
    let mut by_zone: BTreeMap<&str, &Subnet> = BTreeMap::new();
    for subnet in subnets {
        let best = by_zone.entry(subnet.zone.as_str()).or_insert(subnet);
        if (subnet.free_addresses, &best.id) > (best.free_addresses, &subnet.id) {
            *best = subnet;
        }
    }
    by_zone
}

#[cfg(test)]
mod tests {
    use outrigger_model::fixtures::{self, at, claim};
    use outrigger_model::{Hold, Intent, IntentState, NodeClassRef, Price};

    use super::*;

    fn subnet(id: &str, zone: &str, free_addresses: u32) -> Subnet {
        Subnet { id: id.into(), zone: zone.into(), zone_id: String::new(), free_addresses }
    }

    fn intent(subnets: &[&str], count: u32) -> Intent {
        let wanted = |subnet: &&str| FleetOverride {
            instance_type: "m5.large".into(),
            zone: String::new(),
            subnet: (*subnet).into(),
            image: String::new(),
            price: Price::ZERO,
        };
        let mut intent = fixtures::intent(IntentState::Sent, 0);
        intent.request.count = count;
        intent.request.overrides = subnets.iter().map(wanted).collect();
        intent
    }

    /// What is left of two subnets in zone us-east-1a and one in zone b.
    fn usable(closed: &[&str], intents: &[Intent], launched: usize, second: i64) -> String {
        let mut class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        class.subnets =
            vec![subnet("a1", "us-east-1a", 10), subnet("a2", "us-east-1a", 9), subnet("b1", "b", 3)];
        let one = claim().with_status(|status| status.launched_at = Some(at(0)));
        let mut snapshot = Snapshot::empty("c", at(second));
        snapshot.claims = vec![one; launched];
        snapshot.intents = intents.to_vec();
        let hold = Hold { until: at(600), failures: 1, reason: "full".into() };
        snapshot.health.subnets.extend(closed.iter().map(|id| ((*id).to_owned(), hold.clone())));
        let subnets = usable_subnets(&snapshot, &class);
        let shown = subnets.iter().map(|subnet| format!("{} {}", subnet.id, subnet.free_addresses));
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_subnet_of_ipv6_alone_is_never_full() {
        let mut class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        class.subnets = vec![subnet("a6", "us-east-1a", Subnet::IPV6_ALONE)];
        let mut snapshot = Snapshot::empty("c", at(0));
        snapshot.intents = vec![intent(&["a6"], 1_000_000); 50];
        assert_eq!(usable_subnets(&snapshot, &class).len(), 1);
    }

    #[test]
    fn what_is_on_its_way_is_taken() {
        assert_eq!(usable(&[], &[], 0, 0), "a1 10, a2 9, b1 3");
        assert_eq!(usable(&["a1"], &[], 0, 0), "a2 9, b1 3");
        assert_eq!(usable(&[], &[intent(&["a1", "b1"], 2)], 0, 0), "a1 8, a2 9, b1 1");
        assert_eq!(usable(&[], &[intent(&["a1", "b1"], 3)], 0, 0), "a1 7, a2 9", "zone b is full");
        assert_eq!(usable(&[], &[], 3, 119), "a1 8, a2 8, b1 3", "the roomiest first");
        assert_eq!(usable(&[], &[], 3, 120), "a1 10, a2 9, b1 3", "counted by now");
        assert_eq!(usable(&["a1", "a2", "b1"], &[], 0, 0), "");
    }

    #[test]
    fn one_subnet_of_each_zone_is_offered() {
        let subnets =
            [subnet("a1", "a", 5), subnet("a2", "a", 7), subnet("b2", "b", 1), subnet("b1", "b", 1)];
        let chosen: Vec<_> = roomiest(&subnets).values().map(|subnet| subnet.id.as_str()).collect();
        assert_eq!(chosen, ["a2", "b1"]);
    }
}
