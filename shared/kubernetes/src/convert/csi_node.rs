//! CSINodes: how many volumes each driver attaches to a node.

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1 as wire;
use outrigger_model::Invalid;

use super::bounds::{self, MAX_PARTS};
use super::problem::{Problem, Within};

/// The node's name, and the limit of each driver that has one.
pub fn csi_node(wire: wire::CSINode) -> Result<(String, BTreeMap<String, u32>), Invalid> {
    let name = wire.metadata.name.unwrap_or_default();
    match limits(&name, &wire.spec) {
        Ok(limits) => Ok((name, limits)),
        Err(problem) => Err(problem.about("CSINode", None, &name)),
    }
}

fn limits(name: &str, spec: &wire::CSINodeSpec) -> Result<BTreeMap<String, u32>, Problem> {
    if name.is_empty() {
        return Err(Problem::new("metadata.name", "nothing", "a name"));
    }
    bounds::at_most("spec.drivers", &spec.drivers, MAX_PARTS)?;
    let mut limits = BTreeMap::new();
    for (index, driver) in spec.drivers.iter().enumerate() {
        let Some(count) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
            continue;
        };
        let refuse = |_| Problem::new("allocatable.count", count, "a whole number of 0 or more");
        let count = u32::try_from(count).map_err(refuse).within_item("drivers", index).within("spec")?;
        limits.insert(driver.name.clone(), count);
    }
    Ok(limits)
}
