//! The most that a NodePool may hold, after the maxSize of its InstanceGroup.

use outrigger_catalog::InstanceTypeFacts;
use outrigger_catalog::embedded::facts_of;
use outrigger_model::resources::NODES;
use outrigger_model::{NodePool, Operator, Quantity, Resources, labels};

/// So many machines of the largest type that the pool names; so many nodes where it names none, or
/// one that nobody knows. `None` where that is more than anything can be.
pub(super) fn limits(pool: &NodePool, most: u64) -> Option<Resources> {
    let most = i64::try_from(most).ok().filter(|most| *most <= i64::from(u32::MAX))?;
    let requirements = &pool.spec.template.spec.requirements;
    let is_list = |key: &str, operator| key == labels::INSTANCE_TYPE && operator == Operator::In;
    let named = requirements.iter().find(|one| is_list(&one.key, one.operator));
    let facts: Option<Vec<&InstanceTypeFacts>> =
        named.and_then(|named| named.values.iter().map(|name| facts_of(name)).collect());
    let Some(facts) = facts.filter(|facts| !facts.is_empty()) else {
        return Some(Resources::new().with(NODES, Quantity::units(most)));
    };
    let cpus = facts.iter().map(|facts| i64::from(facts.vcpus)).max()?;
    let mebibytes = facts.iter().map(|facts| facts.memory_mib).max()?;
    let memory: Quantity = format!("{mebibytes}Mi").parse().ok()?;
    let limits = Resources::new().with("cpu", Quantity::units(cpus).times(most));
    Some(limits.with("memory", memory.times(most)))
}
