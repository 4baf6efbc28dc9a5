//! Whether a node has what was bought, and what its memory teaches about others of its type: pure rules (Karpenter
//! `nodeclaim/consistency`, and its provider's cache of discovered capacity, 1.14).

use outrigger_catalog::{InstanceTypeFacts, allocatable};
use outrigger_model::resources::{EPHEMERAL_STORAGE, MEMORY, PODS};
use outrigger_model::{Kubelet, KubeletSettings, Node, NodeClaim, Quantity, Resources, SeenMemory};

/// Of what was expected, in percent, a node may have as little.
const LEAST_PERCENT: i128 = 90;
/// A node with less of its memory than this tells of itself, and not of its type.
const BELIEVED_PERCENT: i128 = 50;

/// What a machine of a type has, as far as that hangs on the type alone: pods and storage are settings of the class.
pub(crate) fn expected(facts: &InstanceTypeFacts, is_kops: bool) -> Resources {
    let settings = KubeletSettings::default();
    let kubelet = if is_kops { Kubelet::Kops(settings) } else { Kubelet::Karpenter(settings) };
    let capacity = allocatable::of(facts, &kubelet, Quantity::ZERO).capacity;
    capacity.iter().filter(|(name, _)| ![PODS, EPHEMERAL_STORAGE].contains(name)).collect()
}

/// What the node has too little of, among what its pods ask for; `None` when it has enough, or cannot be measured.
pub(crate) fn shortfall(claim: &NodeClaim, node: &Node) -> Option<String> {
    if node.degraded.is_some() {
        return None;
    }
    let expected = &claim.status.node_check.expected;
    let asked = claim.status.requests.iter().filter(|(_, asked)| !asked.is_zero());
    let short = asked.filter_map(|(name, _)| {
        let (has, should) = (node.capacity.get(name), expected.get(name));
        let is_short = percent_of(has, should)? < LEAST_PERCENT;
        is_short.then(|| format!("{name} {has} of the {should} that its instance type has"))
    });
    let short: Vec<_> = short.collect();
    (!short.is_empty()).then(|| format!("its node has only {}", short.join(", ")))
}

/// What the node's memory teaches, if that is news: it is not what the catalogue says, and less than was ever seen.
pub(crate) fn lesson(claim: &NodeClaim, node: &Node, known: &[SeenMemory]) -> Option<SeenMemory> {
    let instance = claim.status.instance.as_ref().filter(|instance| !instance.image_id.is_empty())?;
    if node.degraded.is_some() {
        return None;
    }
    let (memory, expected) = (node.capacity.get(MEMORY), claim.status.node_check.expected.get(MEMORY));
    if percent_of(memory, expected)? < BELIEVED_PERCENT || memory == expected {
        return None;
    }
    let seen = SeenMemory {
        instance_type: instance.instance_type.clone(),
        image_id: instance.image_id.clone(),
        memory,
    };
    let same = |known: &&SeenMemory| {
        known.instance_type == seen.instance_type && known.image_id == seen.image_id && known.memory <= memory
    };
    (!known.iter().any(|known| same(&known))).then_some(seen)
}

/// `None` where nothing is expected.
fn percent_of(has: Quantity, expected: Quantity) -> Option<i128> {
    let expected = i128::from(expected.milli_value());
    (expected > 0).then(|| i128::from(has.milli_value()) * 100 / expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_catalog::Catalog;
    use outrigger_model::NodeCheck;
    use outrigger_model::fixtures::{claim, node};
    use outrigger_model::resources::CPU;

    fn mebibytes(count: i64) -> Resources {
        Resources::new().with(MEMORY, Quantity::mebibytes(count)).with(CPU, Quantity::units(2))
    }

    fn measured() -> NodeClaim {
        let node_check = NodeCheck { expected: mebibytes(8_000), ..NodeCheck::default() };
        claim().with_status(|status| {
            status.node_check = node_check;
            status.requests = mebibytes(100);
        })
    }

    #[test]
    fn a_type_has_what_no_class_can_change() {
        let catalog = Catalog::embedded("us-east-1", &[]).unwrap();
        let expected_of = |name: &str, is_kops| expected(&catalog.entry(name).unwrap().facts, is_kops);
        let names =
            |all: &Resources| all.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&expected_of("m5.large", true)), "cpu memory");
        assert!(names(&expected_of("g4dn.xlarge", true)).ends_with("cpu memory nvidia.com/gpu"));
        assert!(expected_of("m5.large", true).get(MEMORY) > Quantity::mebibytes(7_000));
    }

    #[test]
    fn nine_tenths_of_what_pods_ask_for_are_enough() {
        for (has, short) in [(8_000, false), (7_200, false), (7_199, true), (9_000, false), (0, true)] {
            let found = shortfall(&measured(), &Node { capacity: mebibytes(has), ..node(Vec::new()) });
            assert_eq!(found.is_some(), short, "{has}: {found:?}");
        }
        let poor = Node { capacity: mebibytes(10), ..node(Vec::new()) };
        assert!(shortfall(&measured(), &poor).unwrap().contains("memory 10Mi of the 8000Mi"));
        let unasked =
            measured().with_status(|status| status.requests = Resources::new().with(CPU, Quantity::units(1)));
        assert_eq!(shortfall(&unasked, &poor), None, "nobody asks for memory");
        let unmeasured = measured().with_status(|status| status.node_check = NodeCheck::default());
        assert_eq!(shortfall(&unmeasured, &poor), None);
    }

    #[test]
    fn the_least_memory_that_was_seen_is_learnt() {
        let learnt = |has: i64, known: &[i64]| {
            let known: Vec<_> = known
                .iter()
                .map(|count| SeenMemory {
                    instance_type: "m5.large".into(),
                    image_id: "ami-1".into(),
                    memory: Quantity::mebibytes(*count),
                })
                .collect();
            let seen = lesson(&measured(), &Node { capacity: mebibytes(has), ..node(Vec::new()) }, &known);
            seen.map(|seen| seen.memory == Quantity::mebibytes(has))
        };
        let table: [(i64, &[i64], Option<bool>); 7] = [
            (8_000, &[], None),
            (7_500, &[], Some(true)),
            (7_500, &[7_500], None),
            (7_400, &[7_500], Some(true)),
            (7_600, &[7_500], None),
            (8_100, &[], Some(true)),
            (3_999, &[], None),
        ];
        for (has, known, expected) in table {
            assert_eq!(learnt(has, known), expected, "{has} {known:?}");
        }
        let mut nameless = measured();
        nameless.status.instance.as_mut().unwrap().image_id.clear();
        let seen = lesson(&nameless, &Node { capacity: mebibytes(7_500), ..node(Vec::new()) }, &[]);
        assert_eq!(seen, None, "nobody knows under which image");
    }
}
