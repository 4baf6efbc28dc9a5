//! What nodes have taught about their types, put into what a class is offered: a pure rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::resources::MEMORY;
use outrigger_model::{InstanceType, NodeClass, NodeClassRef, Quantity, Resources, SeenResources, labels};

/// What was seen, by instance type and image.
struct Lessons<'s> {
    memory: BTreeMap<(&'s str, &'s str), Quantity>,
    /// Of one class.
    allocatable: BTreeMap<(&'s str, &'s str), &'s Resources>,
}

impl<'s> Lessons<'s> {
    fn for_class(seen: &'s [SeenResources], class: &NodeClassRef) -> Self {
        let mut lessons = Self { memory: BTreeMap::new(), allocatable: BTreeMap::new() };
        for seen in seen {
            let key = (seen.instance_type.as_str(), seen.image_id.as_str());
            let memory = lessons.memory.entry(key).or_insert(seen.memory);
            *memory = seen.memory.min(*memory);
            if seen.node_class.as_ref() == Some(class) {
                lessons.allocatable.insert(key, &seen.allocatable);
            }
        }
        lessons
    }

    /// The type as nodes of these images were seen to be; `None` where it stays as it is.
    fn applied(&self, kind: &InstanceType, class: &NodeClass) -> Option<InstanceType> {
        let image = class.image(kind.labels.get(labels::ARCH)?)?;
        let key = (kind.name.as_str(), image.id.as_str());
        let memory = *self.memory.get(&key)?;
        let mut taught = kind.clone();
        if memory != kind.capacity.get(MEMORY) {
            let kept = kind.capacity.get(MEMORY) - kind.allocatable.get(MEMORY);
            taught.capacity.set(MEMORY, memory);
            taught.allocatable.set(MEMORY, (memory - kept).max(Quantity::ZERO));
        }
        for (name, amount) in self.allocatable.get(&key).into_iter().flat_map(|seen| seen.iter()) {
            taught.allocatable.set(name, amount);
        }
        (taught != *kind).then_some(taught)
    }
}

/// The types with what nodes of this class's images were seen to have. Where memory alone is known,
/// what is kept from pods stays the same.
pub(crate) fn corrected(
    mut types: Arc<Vec<InstanceType>>,
    class: &NodeClass,
    seen: &[SeenResources],
) -> Arc<Vec<InstanceType>> {
    if seen.is_empty() {
        return types;
    }
    let lessons = Lessons::for_class(seen, &class.reference);
    let taught: Vec<(usize, InstanceType)> = types
        .iter()
        .enumerate()
        .filter_map(|(index, kind)| Some((index, lessons.applied(kind, class)?)))
        .collect();
    if taught.is_empty() {
        return types;
    }
    let corrected = Arc::make_mut(&mut types);
    for (index, kind) in taught {
        if let Some(stored) = corrected.get_mut(index) {
            *stored = kind;
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_catalog::Catalog;
    use outrigger_model::Image;
    use outrigger_model::resources::CPU;

    fn class() -> NodeClass {
        let mut class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        class.images = vec![Image { id: "ami-1".into(), arch: "amd64".into() }];
        class
    }

    fn types() -> Arc<Vec<InstanceType>> {
        Catalog::embedded("us-east-1", &[]).unwrap().instance_types(&class())
    }

    fn large(types: &[InstanceType]) -> &InstanceType {
        types.iter().find(|kind| kind.name == "m5.large").unwrap()
    }

    fn seen(instance_type: &str, image_id: &str, memory: Quantity) -> SeenResources {
        SeenResources {
            instance_type: instance_type.into(),
            image_id: image_id.into(),
            node_class: None,
            version: 0,
            memory,
            allocatable: Resources::new(),
        }
    }

    #[test]
    fn what_was_seen_goes_before_what_is_estimated() {
        let (class, types) = (class(), types());
        let memory = |types: &[InstanceType]| {
            let kind = large(types);
            (kind.capacity.get(MEMORY), kind.allocatable.get(MEMORY))
        };
        let (capacity, allocatable) = memory(&types);
        let less = Quantity::mebibytes(100);
        let others = [seen("m5.large", "ami-2", capacity - less), seen("m9.large", "ami-1", capacity - less)];
        assert!(
            Arc::ptr_eq(&types, &corrected(Arc::clone(&types), &class, &others)),
            "of another image or none"
        );
        let taught = corrected(Arc::clone(&types), &class, &[seen("m5.large", "ami-1", capacity - less)]);
        assert_eq!(memory(&taught), (capacity - less, allocatable - less));
        let differs = taught.iter().zip(types.iter()).filter(|(a, b)| a != b).count();
        assert_eq!(differs, 1, "all others stay");
        let none = seen("m5.large", "ami-1", Quantity::ZERO);
        assert_eq!(memory(&corrected(types, &class, &[none])), (Quantity::ZERO, Quantity::ZERO));
    }

    #[test]
    fn what_a_kubelet_leaves_to_pods_counts_for_its_class() {
        let (class, types) = (class(), types());
        let memory = large(&types).capacity.get(MEMORY);
        let allocatable = Resources::new()
            .with(CPU, Quantity::millis(1_900))
            .with("smarter-devices/fuse", Quantity::units(8));
        let of_class = |name: &str| SeenResources {
            node_class: Some(NodeClassRef::instance_group(name)),
            allocatable: allocatable.clone(),
            ..seen("m5.large", "ami-1", memory)
        };
        let other = corrected(Arc::clone(&types), &class, &[of_class("other")]);
        assert!(Arc::ptr_eq(&types, &other), "another class has settings of its own");
        let taught = corrected(Arc::clone(&types), &class, &[of_class("nodes")]);
        let offered = &large(&taught).allocatable;
        assert_eq!(
            (offered.get(CPU), offered.get("smarter-devices/fuse")),
            (Quantity::millis(1_900), Quantity::units(8))
        );
        assert_eq!(offered.get(MEMORY), large(&types).allocatable.get(MEMORY));
    }
}
