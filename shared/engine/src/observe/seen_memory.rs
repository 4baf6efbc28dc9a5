//! What nodes have taught about their types, put into what a class is offered: a pure rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::resources::MEMORY;
use outrigger_model::{InstanceType, NodeClass, Quantity, SeenMemory, labels};

/// The types with the memory that nodes of this class's images were seen to have. What is kept from pods stays the
/// same.
pub(crate) fn corrected(
    mut types: Arc<Vec<InstanceType>>,
    class: &NodeClass,
    seen: &[SeenMemory],
) -> Arc<Vec<InstanceType>> {
    let seen: BTreeMap<(&str, &str), Quantity> = seen
        .iter()
        .map(|seen| ((seen.instance_type.as_str(), seen.image_id.as_str()), seen.memory))
        .collect();
    let correction = |kind: &InstanceType| {
        let image = class.image(kind.labels.get(labels::ARCH)?)?;
        let memory = seen.get(&(kind.name.as_str(), image.id.as_str())).copied()?;
        (memory != kind.capacity.get(MEMORY)).then_some(memory)
    };
    let corrections: Vec<(usize, Quantity)> =
        types.iter().enumerate().filter_map(|(index, kind)| Some((index, correction(kind)?))).collect();
    if corrections.is_empty() {
        return types;
    }
    let all = Arc::make_mut(&mut types);
    for (index, memory) in corrections {
        let Some(kind) = all.get_mut(index) else { continue };
        let kept = kind.capacity.get(MEMORY) - kind.allocatable.get(MEMORY);
        kind.capacity.set(MEMORY, memory);
        kind.allocatable.set(MEMORY, (memory - kept).max(Quantity::ZERO));
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_catalog::Catalog;
    use outrigger_model::{Image, NodeClassRef};

    #[test]
    fn what_was_seen_goes_before_what_is_estimated() {
        let mut class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        class.images = vec![Image { id: "ami-1".into(), arch: "amd64".into() }];
        let types = Catalog::embedded("us-east-1", &[]).unwrap().instance_types(&class);
        let memory = |types: &[InstanceType], name: &str| {
            let kind = types.iter().find(|kind| kind.name == name).unwrap();
            (kind.capacity.get(MEMORY), kind.allocatable.get(MEMORY))
        };
        let (capacity, allocatable) = memory(&types, "m5.large");
        let less = Quantity::mebibytes(100);
        let seen = |instance_type: &str, image_id: &str| SeenMemory {
            instance_type: instance_type.into(),
            image_id: image_id.into(),
            memory: capacity - less,
        };
        let others = [seen("m5.large", "ami-2"), seen("m9.large", "ami-1")];
        assert!(
            Arc::ptr_eq(&types, &corrected(Arc::clone(&types), &class, &others)),
            "of another image or none"
        );
        let taught = corrected(Arc::clone(&types), &class, &[seen("m5.large", "ami-1")]);
        assert_eq!(memory(&taught, "m5.large"), (capacity - less, allocatable - less));
        let differs = taught.iter().zip(types.iter()).filter(|(a, b)| a != b).count();
        assert_eq!(differs, 1, "all others stay");
        let none = SeenMemory { memory: Quantity::ZERO, ..seen("m5.large", "ami-1") };
        assert_eq!(memory(&corrected(types, &class, &[none]), "m5.large"), (Quantity::ZERO, Quantity::ZERO));
    }
}
