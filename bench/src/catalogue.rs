//! The instance types that both sides choose from, as a catalogue file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use outrigger_catalog::Catalog;
use outrigger_model::{CapacityType, InstanceType, NodeClass, NodeClassRef, labels};

/// What [`small`] keeps.
const FAMILIES: [&str; 11] = ["c5", "c6a", "c7g", "g5", "i4i", "m5", "m6g", "m6i", "m7i-flex", "r6a", "r7g"];
const SIZES: [&str; 7] = ["medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge"];
/// The region whose list prices the embedded catalogue is read for.
const REGION: &str = "us-east-1";

/// The embedded catalogue as an EC2NodeClass makes it, without the burstable types: Karpenter buys
/// them unasked, and Outrigger does not. Spot costs the same share of on demand everywhere, as it
/// did when most figures were first measured: so they stay comparable, whatever spot costs by now.
pub fn embedded() -> Result<Vec<InstanceType>> {
    let class = NodeClass::for_planning(NodeClassRef::ec2("default"));
    let catalog = Catalog::embedded(REGION, &[])?.with_flat_spot();
    let mut types = catalog.instance_types(&class).to_vec();
    types.retain(|kind| {
        kind.labels.get(labels::INSTANCE_CATEGORY).is_none_or(|category| category != labels::BURSTABLE)
    });
    Ok(types)
}

/// About 80 common types of the embedded catalogue, so that many small decisions stay quick. Unlike
/// in the embedded one, spot prices differ from type to type and from zone to zone, and some
/// offerings cannot be had.
pub fn small() -> Result<Vec<InstanceType>> {
    let is = |kind: &InstanceType, key: &str, values: &[&str]| {
        kind.labels.get(key).is_some_and(|value| values.contains(&value.as_str()))
    };
    let mut types = embedded()?;
    types.retain(|kind| {
        is(kind, "karpenter.k8s.aws/instance-family", &FAMILIES)
            && is(kind, "karpenter.k8s.aws/instance-size", &SIZES)
    });
    for (row, kind) in types.iter_mut().enumerate() {
        for (column, offering) in kind.offerings.iter_mut().enumerate() {
            let draw = (row * 7 + column * 11) % 23;
            offering.available = draw != 22;
            if offering.capacity_type == CapacityType::Spot {
                offering.price = offering.price.percent(75 + 2 * draw as u64);
            }
        }
    }
    Ok(types)
}

/// A catalogue file, or the embedded catalogue where none is given.
pub fn read(file: Option<&Path>) -> Result<Vec<InstanceType>> {
    let Some(file) = file else { return embedded() };
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    outrigger_catalog::read_file(&bytes).with_context(|| format!("reading {}", file.display()))
}

/// Writes a catalogue file.
pub fn write(types: &[InstanceType], file: &Path) -> Result<()> {
    let text = serde_json::to_vec(types)?;
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}
