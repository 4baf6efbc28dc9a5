//! Hashes of what the nodes of a NodePool and of a node class are made from, by which drift is
//! told.
//!
//! A node carries the hashes of the day on which it was planned. Each names its version: a hash of
//! another version, as one that is missing, says nothing, so that a change of what is hashed here
//! makes no node drift. Whoever changes that raises the version.

use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{LaunchTemplate, NodeClass, NodePool, Taint};

const NODE_POOL_VERSION: &str = "v1";
const NODE_CLASS_VERSION: &str = "v1";

impl NodePool {
    /// The hash of its template without the requirements, which are compared with each node's
    /// labels instead (Karpenter's `karpenter.sh/nodepool-hash`).
    pub fn template_hash(&self) -> String {
        let (metadata, spec) = (&self.spec.template.metadata, &self.spec.template.spec);
        let template = json!({
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "taints": sorted(&spec.taints),
            "startupTaints": sorted(&spec.startup_taints),
            "expireAfter": spec.expire_after,
            "terminationGracePeriod": spec.termination_grace_period,
            "nodeClassRef": spec.node_class_ref,
        });
        format!("{NODE_POOL_VERSION}-{}", hash(&template))
    }
}

impl NodeClass {
    /// The hash of what its machines are made from; `None` where that is not known: the class is
    /// not ready, or only plans. Images are compared with each node's own instead. Which subnets
    /// and which instance types it allows is no trait of a machine.
    pub fn template_hash(&self) -> Option<String> {
        if self.not_ready.is_some() || self.launch == LaunchTemplate::None {
            return None;
        }
        let mut launch = self.launch.clone();
        if let LaunchTemplate::Own(template) = &mut launch {
            template.security_groups.sort_unstable();
        }
        let class = json!({
            "labels": self.labels,
            "taints": sorted(&self.taints),
            "tags": self.tags,
            "launch": launch,
            "kubelet": self.kubelet,
            "rootVolume": self.root_volume,
        });
        Some(format!("{NODE_CLASS_VERSION}-{}", hash(&class)))
    }
}

fn sorted(taints: &[Taint]) -> Vec<&Taint> {
    let mut sorted: Vec<_> = taints.iter().collect();
    sorted.sort_unstable();
    sorted
}

fn hash(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    let mut digits = String::new();
    for byte in Sha256::digest(text.as_bytes()).into_iter().take(8) {
        // Writing to a String does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Writes a value with its keys in order and without what is absent or empty, so that a field that
/// is new and says nothing changes no hash.
fn write_canonical(value: &Value, into: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !says_nothing(value)).collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            into.push('{');
            for (key, value) in fields {
                write_canonical(&Value::String(key.clone()), into);
                into.push(':');
                write_canonical(value, into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(items) => {
            into.push('[');
            for item in items {
                write_canonical(item, into);
                into.push(',');
            }
            into.push(']');
        }
        plain => into.push_str(&plain.to_string()),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(says_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Image, NillableDuration, NodeClassRef, Operator, OwnTemplate, RequirementSpec, Subnet, TaintEffect,
    };

    fn pool() -> NodePool {
        let mut pool = NodePool::bare("web", NodeClassRef::instance_group("nodes"));
        let spec = &mut pool.spec.template.spec;
        spec.taints = ["a", "b"].map(|key| Taint::new(key, "", TaintEffect::NoSchedule)).into();
        pool
    }

    fn class() -> NodeClass {
        let launch = LaunchTemplate::Own(OwnTemplate {
            user_data: "#!/bin/bash".into(),
            instance_profile: "nodes".into(),
            security_groups: vec!["sg-1".into(), "sg-2".into()],
            associate_public_ip: None,
            root_device: "/dev/xvda".into(),
            metadata_tokens_required: true,
            metadata_hop_limit: 1,
            detailed_monitoring: false,
            reservations_by_name: false,
            ipv6_address: false,
            metadata_ipv6: false,
        });
        NodeClass { launch, ..NodeClass::for_planning(NodeClassRef::instance_group("nodes")) }
    }

    fn own_template(class: &mut NodeClass) -> &mut OwnTemplate {
        match &mut class.launch {
            LaunchTemplate::Own(template) => template,
            other => panic!("{other:?}"),
        }
    }

    /// A hash that comes out otherwise makes all nodes drift: raise the version before you change
    /// these.
    #[test]
    fn the_hashes_of_a_version_stay() {
        assert_eq!(pool().template_hash(), "v1-92478ab0784ee9b8");
        assert_eq!(class().template_hash().unwrap(), "v1-bca9b15ae26339fd");
    }

    #[test]
    fn a_pool_changes_by_its_template_alone() {
        type Change = fn(&mut NodePool);
        let table: [(&str, Change, bool); 12] = [
            ("nothing", |_| {}, false),
            ("label", |pool| drop(pool.spec.template.metadata.labels.insert("a".into(), "b".into())), true),
            (
                "annotation",
                |pool| drop(pool.spec.template.metadata.annotations.insert("a".into(), "b".into())),
                true,
            ),
            ("taint", |pool| drop(pool.spec.template.spec.taints.pop()), true),
            ("order of taints", |pool| pool.spec.template.spec.taints.reverse(), false),
            (
                "startup taint",
                |pool| pool.spec.template.spec.startup_taints = pool.spec.template.spec.taints.clone(),
                true,
            ),
            (
                "expireAfter",
                |pool| pool.spec.template.spec.expire_after = NillableDuration::thirty_days(),
                true,
            ),
            (
                "terminationGracePeriod",
                |pool| pool.spec.template.spec.termination_grace_period = Some(NillableDuration::zero()),
                true,
            ),
            ("class", |pool| pool.spec.template.spec.node_class_ref.name = "others".into(), true),
            (
                "requirements",
                |pool| {
                    pool.spec.template.spec.requirements = vec![RequirementSpec {
                        key: "a".into(),
                        operator: Operator::Exists,
                        values: Vec::new(),
                        min_values: None,
                    }];
                },
                false,
            ),
            ("weight", |pool| pool.spec.weight = Some(1), false),
            ("name", |pool| pool.name = "other".into(), false),
        ];
        for (what, change, changes) in table {
            let mut changed = pool();
            change(&mut changed);
            assert_eq!(changed.template_hash() != pool().template_hash(), changes, "{what}");
        }
    }

    #[test]
    fn a_class_changes_by_what_its_machines_are_made_from() {
        type Change = fn(&mut NodeClass);
        let table: [(&str, Change, bool); 11] = [
            ("nothing", |_| {}, false),
            ("label", |class| drop(class.labels.insert("a".into(), "b".into())), true),
            ("taint", |class| class.taints.push(Taint::disrupted()), true),
            ("tag", |class| drop(class.tags.insert("a".into(), "b".into())), true),
            ("user data", |class| own_template(class).user_data.push('\n'), true),
            ("security group", |class| drop(own_template(class).security_groups.pop()), true),
            ("order of security groups", |class| own_template(class).security_groups.reverse(), false),
            ("root volume", |class| class.root_volume.encrypted = false, true),
            (
                "carrier",
                |class| class.launch = LaunchTemplate::Borrowed { name: "a".into(), version: "1".into() },
                true,
            ),
            ("image", |class| class.images.push(Image { id: "ami-1".into(), arch: "amd64".into() }), false),
            (
                "subnet",
                |class| {
                    let (id, zone) = ("subnet-1".into(), "us-east-1a".into());
                    class.subnets.push(Subnet { id, zone, zone_id: String::new(), free_addresses: 5 });
                },
                false,
            ),
        ];
        for (what, change, changes) in table {
            let mut changed = class();
            change(&mut changed);
            assert_eq!(changed.template_hash() != class().template_hash(), changes, "{what}");
        }
    }

    #[test]
    fn a_class_that_is_not_known_has_no_hash() {
        let planning = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        assert_eq!(planning.template_hash(), None);
        assert_eq!(NodeClass { not_ready: Some("x".into()), ..class() }.template_hash(), None);
    }
}
