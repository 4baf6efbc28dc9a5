//! What the schemas of our resources say beyond their types: patterns, and rules in CEL.
//!
//! No rule here refuses an object that Karpenter's own definitions accept, so that a cluster may
//! keep its objects; what Outrigger does not act on is refused when an object is read.

use serde_json::{Value, json};

use crate::labels;

/// A label or taint key: an optional DNS name and slash, then a name.
pub(crate) const KEY_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";

/// Rules of a pool's spec: what a static pool may not have, and that a pool stays static or
/// dynamic.
pub(crate) fn pool() -> Value {
    rules(&[
        (
            "has(self.replicas) == has(oldSelf.replicas)",
            "a pool with replicas cannot become one without, nor the other way round",
        ),
        (
            "!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == 'nodes')",
            "a pool with replicas may limit only nodes",
        ),
        ("!has(self.replicas) || !has(self.weight)", "a pool with replicas has no weight"),
    ])
}

/// Rules of a pool's labels.
pub(crate) fn labels() -> Value {
    let rules: Vec<Value> = key_rules("key")
        .into_iter()
        .map(|(rule, message)| json!({"rule": format!("self.all(key, {rule})"), "message": message}))
        .collect();
    rules.into()
}

/// The schema of a label's value.
pub(crate) fn label_value() -> Value {
    json!({"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"})
}

/// Rules of a pool's requirements.
pub(crate) fn requirements() -> Value {
    let values = [
        (
            "r.operator != 'In' || (has(r.values) && r.values.size() > 0)",
            "a requirement with the operator In has at least one value",
        ),
        (
            "!(r.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || \
             (has(r.values) && r.values.size() == 1 && int(r.values[0]) >= 0)",
            "a requirement with the operator Gt, Lt, Gte or Lte has one whole number of 0 or more",
        ),
        (
            "r.operator != 'In' || !has(r.minValues) || (has(r.values) && r.values.size() >= r.minValues)",
            "a requirement has no fewer values than its minValues",
        ),
    ];
    let values = values.map(|(rule, message)| (rule.to_owned(), message));
    let rules: Vec<Value> = values
        .into_iter()
        .chain(key_rules("r.key"))
        .map(|(rule, message)| json!({"rule": format!("self.all(r, {rule})"), "message": message}))
        .collect();
    rules.into()
}

/// Rules of an overlay's spec.
pub(crate) fn overlay() -> Value {
    rules(&[(
        "!has(self.price) || !has(self.priceAdjustment)",
        "an overlay has a price or a priceAdjustment, not both",
    )])
}

/// Rules of an overlay's requirements. Those about keys are looser than a pool's: an overlay may
/// name pools.
pub(crate) fn overlay_requirements() -> Value {
    rules(&[
        (
            "self.all(r, !(r.operator in ['In', 'NotIn']) || (has(r.values) && r.values.size() > 0))",
            "a requirement with the operator In or NotIn has at least one value",
        ),
        (
            "self.all(r, !(r.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(r.values) && r.values.size() == 1 && \
             int(r.values[0]) >= 0))",
            "a requirement with the operator Gt, Lt, Gte or Lte has one whole number of 0 or more",
        ),
        (
            "self.all(r, r.key in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || \
             !r.key.matches('^([^/]*[.])?karpenter[.]sh/'))",
            "of the domain karpenter.sh only the labels karpenter.sh/capacity-type and \
             karpenter.sh/nodepool may be named",
        ),
        (
            "self.all(r, r.key != 'kubernetes.io/hostname')",
            "the label kubernetes.io/hostname differs between nodes",
        ),
    ])
}

/// Rules of an overlay's capacity.
pub(crate) fn overlay_capacity() -> Value {
    rules(&[(
        "self.all(name, !(name in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
        "only extended resources may be added",
    )])
}

/// Rules of a buffer's spec.
pub(crate) fn buffer() -> Value {
    rules(&[
        (
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "a buffer with a podTemplateRef has replicas or limits",
        ),
        (
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "a buffer has a podTemplateRef or a scalableRef, not both",
        ),
    ])
}

/// Rules of a pool's reference to its class.
pub(crate) fn node_class_ref() -> Value {
    rules(&[
        ("self.group == oldSelf.group", "the group of a nodeClassRef cannot be changed"),
        ("self.kind == oldSelf.kind", "the kind of a nodeClassRef cannot be changed"),
    ])
}

/// Rules of one budget.
pub(crate) fn budget() -> Value {
    rules(&[(
        "has(self.schedule) == has(self.duration)",
        "a budget has both a schedule and a duration, or neither",
    )])
}

/// Rules of a claim's spec.
pub(crate) fn claim() -> Value {
    rules(&[("self == oldSelf", "the spec of a NodeClaim cannot be changed")])
}

/// Rules of an `EC2NodeClass`'s spec.
pub(crate) fn ec2_node_class() -> Value {
    rules(&[
        ("has(self.role) != has(self.instanceProfile)", "exactly one of role and instanceProfile is set"),
        (
            "has(self.amiFamily) || self.amiSelectorTerms.exists(term, has(term.alias))",
            "amiFamily is set unless an amiSelectorTerm has an alias",
        ),
        (
            "!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(term, \
             !has(term.alias) || term.alias.startsWith(self.amiFamily.lowerAscii() + '@'))",
            "amiFamily is Custom or that of the alias",
        ),
    ])
}

/// Rules of the list of AMI terms.
pub(crate) fn ami_terms() -> Value {
    rules(&[(
        "self.size() == 1 || self.all(term, !has(term.alias))",
        "a term with an alias is the only term",
    )])
}

/// Rules of one AMI term.
pub(crate) fn ami_term() -> Value {
    rules(&[
        (
            "has(self.alias) || has(self.id) || has(self.name) || has(self.ssmParameter) || has(self.tags)",
            "a term has at least one of alias, id, name, ssmParameter and tags",
        ),
        (
            "!has(self.id) || !(has(self.alias) || has(self.tags) || has(self.name) || has(self.owner))",
            "a term with an id has nothing else",
        ),
        (
            "!has(self.alias) || !(has(self.tags) || has(self.name) || has(self.owner))",
            "a term with an alias has nothing else",
        ),
    ])
}

/// Rules of a selector term's tags.
pub(crate) fn selector_tags() -> Value {
    rules(&[("self.all(key, key != '' && self[key] != '')", "neither a tag's key nor its value is empty")])
}

/// Rules of the tags that instances get.
pub(crate) fn tags() -> Value {
    rules(&[
        ("self.all(key, key != '')", "the key of a tag is not empty"),
        (
            "self.all(key, !key.startsWith('kubernetes.io/cluster') && !(key in ['eks:eks-cluster-name', \
             'karpenter.sh/nodepool', 'karpenter.sh/nodeclaim', 'karpenter.k8s.aws/ec2nodeclass']))",
            "the tags kubernetes.io/cluster/*, eks:eks-cluster-name, karpenter.sh/nodepool, karpenter.sh/nodeclaim and \
             karpenter.k8s.aws/ec2nodeclass are set by the provisioner",
        ),
    ])
}

/// Rules of the list of block devices.
pub(crate) fn block_devices() -> Value {
    rules(&[(
        "self.filter(device, has(device.rootVolume) && device.rootVolume).size() <= 1",
        "at most one device is the root volume",
    )])
}

/// Rules of one EBS volume.
pub(crate) fn ebs() -> Value {
    rules(&[
        ("has(self.snapshotID) || has(self.volumeSize)", "a volume has a snapshotID or a volumeSize"),
        (
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "a volume with a volumeInitializationRate has a snapshotID",
        ),
    ])
}

/// Rules of the network interfaces.
pub(crate) fn network_interfaces() -> Value {
    rules(&[(
        "self.size() == 0 || \
         self.exists(i, i.deviceIndex == 0 && i.networkCardIndex == 0 && i.interfaceType == 'interface')",
        "device 0 of card 0 is there, and is of type interface",
    )])
}

/// Rules of the kubelet's settings.
pub(crate) fn kubelet() -> Value {
    rules(&[
        (
            "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || \
             self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
            "imageGCHighThresholdPercent is above imageGCLowThresholdPercent",
        ),
        (
            "!has(self.evictionSoft) || self.evictionSoft.all(signal, \
             has(self.evictionSoftGracePeriod) && signal in self.evictionSoftGracePeriod)",
            "each signal of evictionSoft is in evictionSoftGracePeriod",
        ),
        (
            "!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(signal, \
             has(self.evictionSoft) && signal in self.evictionSoft)",
            "each signal of evictionSoftGracePeriod is in evictionSoft",
        ),
    ])
}

/// Rules of a group of placement: by name or by id.
pub(crate) fn placement_group() -> Value {
    rules(&[("has(self.name) != has(self.id)", "exactly one of name and id is set")])
}

/// What holds for the key of a label, where `key` names it in CEL.
fn key_rules(key: &str) -> Vec<(String, &'static str)> {
    let ec2_labels = json!(labels::EC2_LABELS).to_string();
    vec![
        (
            format!("{key} == 'karpenter.sh/capacity-type' || !{key}.matches('^([^/]*[.])?karpenter[.]sh/')"),
            "of the domain karpenter.sh only the label karpenter.sh/capacity-type may be named",
        ),
        (
            format!("{key} != 'kubernetes.io/hostname'"),
            "the label kubernetes.io/hostname differs between nodes",
        ),
        (
            format!("{key} in {ec2_labels} || !{key}.matches('^([^/]*[.])?karpenter[.]k8s[.]aws/')"),
            "of the domain karpenter.k8s.aws only labels that describe an instance type may be named",
        ),
    ]
}

fn rules(rules: &[(&str, &str)]) -> Value {
    rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}
