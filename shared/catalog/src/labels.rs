//! The labels of an instance type's nodes.

use std::collections::BTreeMap;
use std::fmt::Display;

use outrigger_model::labels::{ARCH, EC2_DOMAIN, INSTANCE_TYPE, OS};

use crate::facts::InstanceTypeFacts;

/// The labels that follow from a type's facts, by Karpenter's rules (AWS provider 1.14,
/// `instancetype/types.go`).
///
/// Region, zone and capacity type are not among them: they belong to the catalogue and to the
/// offering.
pub fn labels_of(facts: &InstanceTypeFacts) -> BTreeMap<String, String> {
    let mut labels = Labels(BTreeMap::new());
    labels.0.insert(INSTANCE_TYPE.to_owned(), facts.name.clone());
    labels.0.insert(ARCH.to_owned(), facts.arch.clone());
    labels.0.insert(OS.to_owned(), "linux".to_owned());
    labels.set("cpu", facts.vcpus);
    labels.set("cpu-manufacturer", kebab(&facts.cpu_manufacturer));
    labels.set("cpu-sustained-clock-speed-mhz", facts.clock_mhz);
    labels.set("memory", facts.memory_mib);
    labels.set("hypervisor", &facts.hypervisor);
    labels.set("encryption-in-transit-supported", facts.encryption_in_transit);
    labels.set_known("network-bandwidth", facts.network_mbps);
    labels.set_known("ebs-bandwidth", facts.ebs_mbps);
    labels.set_known("local-nvme", facts.local_nvme_gb);
    add_name_parts(&mut labels, &facts.name);
    if let Some(gpus) = &facts.gpus {
        labels.set("gpu-name", kebab(&gpus.name));
        labels.set("gpu-manufacturer", kebab(&gpus.manufacturer));
        labels.set("gpu-count", gpus.count);
        labels.set("gpu-memory", gpus.memory_mib);
    }
    if let Some(neuron) = &facts.neuron {
        labels.set("accelerator-name", kebab(&neuron.name));
        labels.set("accelerator-manufacturer", "aws");
        labels.set("accelerator-count", neuron.count);
    }
    labels.0
}

struct Labels(BTreeMap<String, String>);

impl Labels {
    fn set(&mut self, name: &str, value: impl Display) {
        self.0.insert(format!("{EC2_DOMAIN}/instance-{name}"), format!("{value}"));
    }

    fn set_known(&mut self, name: &str, value: Option<u32>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }
}

/// Family, size, category, generation and the flex capability, none of which EC2's API names on its
/// own.
fn add_name_parts(labels: &mut Labels, name: &str) {
    let family = name.split('.').next().unwrap_or(name);
    labels.set("capability-flex", family.contains("-flex"));
    if let Some((family, size)) = name.split_once('.')
        && !size.contains('.')
    {
        labels.set("family", family);
        labels.set("size", size);
    }
    if let Some((category, generation)) = category_and_generation(family) {
        labels.set("category", category);
        labels.set("generation", generation);
    }
}

/// `c` and `7` of `c7g`, `u` and `1` of `u-6tb1`; none of a family that is named otherwise.
fn category_and_generation(family: &str) -> Option<(&str, &str)> {
    let (category, rest) = split_where(family, |c| c.is_ascii_lowercase());
    let rest = match rest.strip_prefix('-') {
        Some(size) => split_where(size, |c| c.is_ascii_digit()).1.strip_prefix("tb")?,
        None => rest,
    };
    let (generation, _) = split_where(rest, |c| c.is_ascii_digit());
    (!category.is_empty() && !generation.is_empty()).then_some((category, generation))
}

/// The longest start whose characters all meet the condition, and the rest.
fn split_where(text: &str, condition: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !condition(c)).unwrap_or(text.len()))
}

/// EC2 writes `NVIDIA` and `Radeon Pro V520`; a label value has neither capitals nor spaces.
fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_fall_into_category_and_generation() {
        let table = [
            ("m5", Some(("m", "5"))),
            ("c7gn", Some(("c", "7"))),
            ("m7i-flex", Some(("m", "7"))),
            ("u-12tb1", Some(("u", "1"))),
            ("u7in-16tb", Some(("u", "7"))),
            ("p6-b200", Some(("p", "6"))),
            ("hpc7g", Some(("hpc", "7"))),
            ("u-x1", None),
            ("metal", None),
            ("", None),
        ];
        for (family, expected) in table {
            assert_eq!(category_and_generation(family), expected, "{family}");
        }
    }

    #[test]
    fn texts_as_ec2_writes_them_become_label_values() {
        assert_eq!(kebab("Radeon Pro V520"), "radeon-pro-v520");
    }
}
