//! Whether a node has what was bought, what it teaches about others of its type, and what is said
//! of it (Karpenter `nodeclaim/consistency`, and its provider's cache of discovered capacity,
//! 1.14).

use outrigger_catalog::{InstanceTypeFacts, allocatable};
use outrigger_model::resources::{EPHEMERAL_STORAGE, MEMORY, PODS};
use outrigger_model::{
    Kubelet, KubeletSettings, Node, NodeCheck, NodeClaim, Quantity, Resources, SeenResources, Shortfall,
};

use super::tick::Tick;
use crate::TickError;
use crate::ports::{Event, EventReason, Subject};

/// Of what was expected, in percent, a node may have as little.
const LEAST_PERCENT: i128 = 90;
/// A node with less of something than this tells of itself, and not of its type.
const BELIEVED_PERCENT: i128 = 50;

/// What a machine of a type has, as far as that hangs on the type alone: pods and storage are
/// settings of the class.
pub(crate) fn expected(facts: &InstanceTypeFacts, is_kops: bool) -> Resources {
    let settings = KubeletSettings::default();
    let kubelet = if is_kops { Kubelet::Kops(settings) } else { Kubelet::Karpenter(settings) };
    let capacity = allocatable::node_resources(facts, &kubelet, Quantity::ZERO).capacity;
    capacity.iter().filter(|(name, _)| ![PODS, EPHEMERAL_STORAGE].contains(name)).collect()
}

/// What the node has too little of, among what its pods ask for; `None` when it has enough, or
/// cannot be measured.
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

/// What the node teaches about others of its type, image and class, if that is news: it does not
/// offer what was computed, and that was not seen before.
pub(crate) fn lesson(claim: &NodeClaim, node: &Node, taught: &[SeenResources]) -> Option<SeenResources> {
    let instance = claim.status.instance.as_ref().filter(|instance| !instance.image_id.is_empty())?;
    if node.degraded.is_some() {
        return None;
    }
    let (memory, expected) = (node.capacity.get(MEMORY), claim.status.node_check.expected.get(MEMORY));
    if percent_of(memory, expected)? < BELIEVED_PERCENT {
        return None;
    }
    let class = Some(&claim.spec.node_class);
    let same_machine = |taught: &&SeenResources| {
        taught.instance_type == instance.instance_type && taught.image_id == instance.image_id
    };
    let has_known_memory = taught.iter().filter(same_machine).any(|taught| taught.memory <= memory);
    let is_news_of_memory = memory != expected && !has_known_memory;
    let before = taught.iter().filter(same_machine).find(|taught| taught.node_class.as_ref() == class);
    let offered = offered_otherwise(claim, node, before.map(|taught| &taught.allocatable));
    if !is_news_of_memory && offered.is_empty() {
        return None;
    }
    let mut allocatable = before.map(|taught| taught.allocatable.clone()).unwrap_or_default();
    offered.iter().for_each(|(name, amount)| allocatable.set(name, amount));
    Some(SeenResources {
        instance_type: instance.instance_type.clone(),
        image_id: instance.image_id.clone(),
        node_class: class.cloned(),
        version: before.map_or(0, |taught| taught.version) + 1,
        memory: before.map_or(memory, |taught| taught.memory.min(memory)),
        allocatable,
    })
}

/// What the kubelet leaves to pods where that is neither what was promised nor known. Devices fail
/// one by one, so of these the most counts that any node showed.
fn offered_otherwise(claim: &NodeClaim, node: &Node, taught: Option<&Resources>) -> Resources {
    let promised = claim.status.allocatable.iter().filter(|(name, _)| node.allocatable.names(name));
    let offered = promised.filter_map(|(name, promised)| {
        let has = node.allocatable.get(name);
        let is_device = name.contains('/');
        let is_believed = percent_of(has, promised)? >= BELIEVED_PERCENT;
        let seen = taught.filter(|taught| taught.names(name)).map(|taught| taught.get(name));
        let is_news = seen.is_none_or(|seen| if is_device { has > seen } else { has < seen });
        (is_believed && has != promised && is_news).then(|| (name.to_owned(), has))
    });
    offered.collect()
}

/// `None` where nothing is expected.
fn percent_of(has: Quantity, expected: Quantity) -> Option<i128> {
    let expected = i128::from(expected.milli_value());
    (expected > 0).then(|| i128::from(has.milli_value()) * 100 / expected)
}

impl Tick<'_> {
    /// Notes in a claim what its machine has by the catalogue; nothing for a type that the
    /// catalogue lacks.
    pub(crate) async fn note_expected(&mut self, claim: &mut NodeClaim) -> Result<(), TickError> {
        let is_kops = claim.spec.node_class.is_instance_group();
        let Some(instance_type) =
            claim.status.instance.as_ref().map(|instance| instance.instance_type.clone())
        else {
            return Ok(());
        };
        let entry = self.catalog().await?.entry(&instance_type);
        claim.status.node_check.expected =
            entry.map(|entry| expected(&entry.facts, is_kops)).unwrap_or_default();
        Ok(())
    }

    /// Writes down what the nodes of a claim differ in from what was bought, and tells people,
    /// whenever that changes.
    pub(crate) async fn measure(&mut self, claim: &mut NodeClaim, nodes: &[&Node]) -> Result<(), TickError> {
        let mut duplicates: Vec<String> = match nodes {
            [] | [_] => Vec::new(),
            several => several.iter().map(|node| node.name.clone()).collect(),
        };
        duplicates.sort();
        let shortfall = match nodes {
            [node] if claim.status.initialized_at.is_some() => shortfall(claim, node),
            _ => claim.status.node_check.shortfall.as_ref().map(|noted| noted.message.clone()),
        };
        let check = &claim.status.node_check;
        let noted = check.shortfall.as_ref().map(|noted| &noted.message);
        let is_known = noted == shortfall.as_ref();
        if check.duplicates == duplicates && is_known {
            return Ok(());
        }
        if !duplicates.is_empty() && check.duplicates != duplicates {
            let message = format!("several nodes carry its providerID: {}", duplicates.join(", "));
            self.complain(claim, EventReason::MultipleNodesFound, message).await;
        }
        if let Some(message) = shortfall.clone().filter(|_| !is_known) {
            self.complain(claim, EventReason::FailedConsistencyCheck, message).await;
        }
        let since = self.ports.now();
        let mut node_check = NodeCheck { duplicates, ..claim.status.node_check.clone() };
        if !is_known {
            node_check.shortfall = shortfall.map(|message| Shortfall { since, message });
        }
        let next = claim.clone().with_status(|status| status.node_check = node_check);
        *claim = self.ports.ledger.update_claim(&next, None).await?;
        Ok(())
    }

    async fn complain(&self, claim: &NodeClaim, reason: EventReason, message: String) {
        tracing::warn!(claim = claim.name, %reason, message, "the node is not what was bought");
        let about = Subject::NodeClaim { name: claim.name.clone(), uid: self.mirrors.uid(&claim.name) };
        self.patience.tell(self.ports, Event { about, reason, message }).await;
    }

    /// Remembers what the node of a claim offers, where that is news about its type, image and
    /// class.
    pub(crate) async fn learn(&mut self, claim: &NodeClaim, node: &Node) -> Result<(), TickError> {
        if let Some(lesson) = lesson(claim, node, &self.seen_resources) {
            let SeenResources { instance_type, image_id, memory, allocatable, .. } = &lesson;
            tracing::info!(instance_type, image_id, %memory, %allocatable, "learnt");
            self.ports.ledger.put_seen_resources(&lesson, self.ports.now()).await?;
            self.seen_resources.retain(|seen| seen.key() != lesson.key());
            self.seen_resources.push(lesson);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_catalog::Catalog;
    use outrigger_model::fixtures::{claim, node};
    use outrigger_model::resources::CPU;
    use outrigger_model::{NodeCheck, NodeClassRef};

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
        let names = |resources: &Resources| {
            resources.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&expected_of("m5.large", true)), "cpu memory");
        assert!(names(&expected_of("g4dn.xlarge", true)).ends_with("cpu memory nvidia.com/gpu"));
        assert!(expected_of("m5.large", true).get(MEMORY) > Quantity::mebibytes(7_000));
    }

    #[test]
    fn nine_tenths_of_what_pods_ask_for_are_enough() {
        for (has, short) in [(8_000, false), (7_200, false), (7_199, true), (9_000, false), (0, true)] {
            let shortfall = shortfall(&measured(), &Node { capacity: mebibytes(has), ..node(Vec::new()) });
            assert_eq!(shortfall.is_some(), short, "{has}: {shortfall:?}");
        }
        let poor = Node { capacity: mebibytes(10), ..node(Vec::new()) };
        assert!(shortfall(&measured(), &poor).unwrap().contains("memory 10Mi of the 8000Mi"));
        let unasked =
            measured().with_status(|status| status.requests = Resources::new().with(CPU, Quantity::units(1)));
        assert_eq!(shortfall(&unasked, &poor), None, "nobody asks for memory");
        let unmeasured = measured().with_status(|status| status.node_check = NodeCheck::default());
        assert_eq!(shortfall(&unmeasured, &poor), None);
    }

    fn seen(memory: i64, allocatable: Resources) -> SeenResources {
        SeenResources {
            instance_type: "m5.large".into(),
            image_id: "ami-1".into(),
            node_class: Some(measured().spec.node_class),
            version: 1,
            memory: Quantity::mebibytes(memory),
            allocatable,
        }
    }

    #[test]
    fn the_least_memory_that_was_seen_is_learnt() {
        let learnt = |has: i64, taught: &[i64]| {
            let taught: Vec<_> = taught.iter().map(|count| seen(*count, Resources::new())).collect();
            let lesson_learnt =
                lesson(&measured(), &Node { capacity: mebibytes(has), ..node(Vec::new()) }, &taught);
            lesson_learnt.map(|lesson_learnt| lesson_learnt.memory == Quantity::mebibytes(has))
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
        for (has, taught, expected) in table {
            assert_eq!(learnt(has, taught), expected, "{has} {taught:?}");
        }
        let mut nameless = measured();
        nameless.status.instance.as_mut().unwrap().image_id.clear();
        let learnt = lesson(&nameless, &Node { capacity: mebibytes(7_500), ..node(Vec::new()) }, &[]);
        assert_eq!(learnt, None, "nobody knows under which image");
    }

    /// Thousandths of resources by name.
    type Millis<'a> = &'a [(&'a str, i64)];

    #[test]
    fn what_a_kubelet_leaves_to_pods_is_learnt() {
        let gpu = "nvidia.com/gpu";
        let promised = Resources::new().with(CPU, Quantity::millis(2_000)).with(gpu, Quantity::units(4));
        let claim = measured().with_status(|status| status.allocatable = promised);
        // What the node offers, what is known, and what is known afterwards.
        let table: [(Millis, Millis, Option<Millis>); 9] = [
            (&[(CPU, 2_000)], &[], None),
            (&[(CPU, 1_900)], &[], Some(&[(CPU, 1_900)])),
            (&[(CPU, 1_900)], &[(CPU, 1_900)], None),
            (&[(CPU, 1_950)], &[(CPU, 1_900)], None),
            (&[(CPU, 1_800)], &[(CPU, 1_900), (gpu, 2_000)], Some(&[(CPU, 1_800), (gpu, 2_000)])),
            (&[(CPU, 900)], &[], None),
            (&[(CPU, 2_000), (gpu, 3_000)], &[], Some(&[(gpu, 3_000)])),
            (&[(gpu, 2_000)], &[(gpu, 3_000)], None),
            (&[(gpu, 0)], &[], None),
        ];
        for (offers, taught, expected) in table {
            let amounts = |list: Millis| -> Resources {
                list.iter().map(|(name, amount)| (*name, Quantity::millis(*amount))).collect()
            };
            let before = if taught.is_empty() { Vec::new() } else { vec![seen(8_000, amounts(taught))] };
            let offering =
                Node { capacity: mebibytes(8_000), allocatable: amounts(offers), ..node(Vec::new()) };
            let learnt = lesson(&claim, &offering, &before);
            let case = format!("{offers:?} {taught:?}");
            assert_eq!(
                learnt.as_ref().map(|learnt| &learnt.allocatable),
                expected.map(amounts).as_ref(),
                "{case}"
            );
            assert!(learnt.is_none_or(|learnt| learnt.version == before.len() as u64 + 1), "{case}");
        }
    }

    #[test]
    fn a_class_learns_nothing_from_another_but_memory() {
        let claim = measured().with_status(|status| {
            status.allocatable = Resources::new().with(CPU, Quantity::millis(2_000));
        });
        let offering = Node {
            capacity: mebibytes(7_500),
            allocatable: Resources::new().with(CPU, Quantity::millis(1_900)),
            ..node(Vec::new())
        };
        let other = SeenResources {
            node_class: Some(NodeClassRef::instance_group("other")),
            ..seen(7_500, offering.allocatable.clone())
        };
        let learnt = lesson(&claim, &offering, std::slice::from_ref(&other)).unwrap();
        assert_eq!((learnt.version, &learnt.allocatable), (1, &other.allocatable));
        let memory = Node { allocatable: Resources::new(), ..offering };
        assert_eq!(lesson(&claim, &memory, &[other]), None, "the memory is known");
    }
}
