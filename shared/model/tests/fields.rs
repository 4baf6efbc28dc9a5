//! What `docs/fields.md` says of NodePool and EC2NodeClass, held to their schema and to what
//! reading them refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::crd::crds;
use outrigger_model::{EC2NodeClass, Invalid, NodePool};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../docs/fields.md");

/// Manifests that together write every field that is honoured.
const POOLS: [&str; 2] = [
    "
weight: 5
limits: {cpu: 10}
disruption: {consolidateAfter: 1m, consolidationPolicy: WhenEmpty, budgets: [{nodes: '1', schedule: '@daily', duration: 1h, reasons: [Empty]}]}
template:
  metadata: {labels: {team: red}, annotations: {a: b}}
  spec:
    requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large], minValues: 1}]
    taints: [{key: a, value: b, effect: NoSchedule}]
    startupTaints: [{key: c, value: d, effect: NoSchedule}]
    expireAfter: 1h
    terminationGracePeriod: 1h
    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
",
    "
replicas: 2
template: {spec: {requirements: [], nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}}}
",
];
const CLASSES: [&str; 1] = ["
amiFamily: Custom
amiSelectorTerms: [{id: ami-1}, {ssmParameter: /a}, {name: a, owner: self}, {tags: {a: b}}]
subnetSelectorTerms: [{id: subnet-1}, {tags: {a: b}}]
securityGroupSelectorTerms: [{id: sg-1}, {name: nodes}, {tags: {a: b}}]
associatePublicIPAddress: true
detailedMonitoring: true
instanceProfile: nodes
tags: {team: red}
userData: hello
blockDeviceMappings:
  - deviceName: /dev/xvda
    rootVolume: true
    ebs: {volumeSize: 20Gi, volumeType: gp3, iops: 3000, throughput: 125, encrypted: true, kmsKeyID: a, deleteOnTermination: true}
metadataOptions: {httpEndpoint: enabled, httpTokens: optional, httpPutResponseHopLimit: 2, httpProtocolIPv6: enabled}
capacityReservationSelectorTerms: [{id: cr-1}, {tags: {a: b}, ownerID: '123456789012', instanceMatchCriteria: targeted}]
kubelet: {maxPods: 9, podsPerCore: 2, kubeReserved: {cpu: 1}, systemReserved: {cpu: 1}, evictionHard: {memory.available: 1Gi}}
"];

/// A kind with what it is checked by.
struct Kind {
    name: &'static str,
    manifests: &'static [&'static str],
    read: fn(&Value) -> Result<(), Vec<Invalid>>,
    /// What to write into fields whose type alone does not say it.
    values: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "NodePool",
        manifests: &POOLS,
        read: |object| NodePool::read(object).map(|_| ()),
        values: &[
            ("template.spec.taints[].timeAdded", "'2026-01-01T00:00:00Z'"),
            ("template.spec.startupTaints[].timeAdded", "'2026-01-01T00:00:00Z'"),
        ],
    },
    Kind {
        name: "EC2NodeClass",
        manifests: &CLASSES,
        read: |object| EC2NodeClass::read(object).map(|_| ()),
        values: &[("amiSelectorTerms[].alias", "al2023@latest"), ("kubelet.cpuCFSQuota", "false")],
    },
];

impl Kind {
    /// The fields of its schema, with the schema of each.
    fn fields(&self) -> BTreeMap<String, Value> {
        let mut fields = BTreeMap::new();
        let crd = crds().into_iter().find(|crd| crd["spec"]["names"]["kind"] == self.name).unwrap();
        let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
        leaves("", schema, &mut fields);
        fields
    }

    /// What the page says of each field, in its section.
    fn rows(&self) -> BTreeMap<&'static str, &'static str> {
        let section = PAGE.split(&format!("\n## {}\n", self.name)).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let row = |line: &'static str| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            Some((cells.next()?.trim().trim_end_matches('`'), cells.next()?.trim()))
        };
        section.lines().filter_map(row).collect()
    }

    fn object(&self, spec: &Value) -> Value {
        json!({"kind": self.name, "metadata": {"name": "x"}, "spec": spec})
    }

    /// Some value of a field that asks for something.
    fn value(&self, path: &str, schema: &Value) -> Value {
        if let Some((_, text)) = self.values.iter().find(|(field, _)| *field == path) {
            return serde_saphyr::from_str(text).unwrap();
        }
        match (schema["enum"].as_array(), schema["type"].as_str()) {
            (Some(values), _) => values[0].clone(),
            (_, Some("integer")) => schema["minimum"].as_i64().filter(|least| *least > 0).unwrap_or(1).into(),
            (_, Some("boolean")) => true.into(),
            (_, Some("array")) => json!(["a"]),
            (_, Some("object")) => json!({"memory.available": "1"}),
            _ => "a".into(),
        }
    }
}

fn leaves(path: &str, schema: &Value, into: &mut BTreeMap<String, Value>) {
    let items = &schema["items"];
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            leaves(&path, field, into);
        }
    } else if items["properties"].is_object() {
        leaves(&format!("{path}[]"), items, into);
    } else {
        into.insert(path.to_owned(), schema.clone());
    }
}

/// The paths of all fields that a manifest writes.
fn written(path: &str, value: &Value, into: &mut BTreeSet<String>) {
    into.insert(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                written(&path, field, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| written(&format!("{path}[]"), item, into)),
        _ => {}
    }
}

/// Puts a value at a path; of a list, into its first item.
fn put(spec: &mut Value, path: &str, value: Value) {
    let mut node = spec;
    for key in path.split('.') {
        node = match key.strip_suffix("[]") {
            Some(list) => {
                let list = &mut node[list];
                if list.is_null() {
                    *list = json!([{}]);
                }
                &mut list[0]
            }
            None => &mut node[key],
        };
    }
    *node = value;
}

#[test]
fn every_field_of_the_schema_has_a_row_and_no_row_is_beside_it() {
    for kind in KINDS {
        let (fields, rows) = (kind.fields(), kind.rows());
        let without: Vec<_> = fields.keys().filter(|path| !rows.contains_key(path.as_str())).collect();
        let beside: Vec<_> = rows.keys().filter(|path| !fields.contains_key(**path)).collect();
        assert_eq!((without, beside), (vec![], vec![]), "{}", kind.name);
        assert!(rows.values().all(|fate| ["honoured", "refused"].contains(fate)), "{}", kind.name);
    }
}

#[test]
fn what_the_page_calls_honoured_can_be_written() {
    for kind in KINDS {
        let mut paths = BTreeSet::new();
        for manifest in kind.manifests {
            let spec: Value = serde_saphyr::from_str(manifest).unwrap();
            (kind.read)(&kind.object(&spec)).unwrap_or_else(|problems| panic!("{problems:?}"));
            written("", &spec, &mut paths);
        }
        let rows = kind.rows();
        let honoured = rows.iter().filter(|(_, fate)| **fate == "honoured");
        let missing: Vec<_> = honoured.filter(|(path, _)| !paths.contains(**path)).collect();
        assert_eq!(missing, vec![], "{}", kind.name);
    }
}

#[test]
fn what_the_page_calls_refused_is_refused_by_name() {
    for kind in KINDS {
        let (fields, rows) = (kind.fields(), kind.rows());
        for (path, _) in rows.into_iter().filter(|(_, fate)| *fate == "refused") {
            let mut spec: Value = serde_saphyr::from_str(kind.manifests[0]).unwrap();
            put(&mut spec, path, kind.value(path, &fields[path]));
            let problems = (kind.read)(&kind.object(&spec)).expect_err(path);
            // Selectors and lists that are not acted on are refused as a whole.
            let named = |problem: &Invalid| {
                let field = problem.field.replace("[0]", "[]");
                let field = field.strip_prefix("spec.").unwrap_or_default();
                !field.is_empty() && path.starts_with(field)
            };
            assert!(problems.iter().any(named), "{path}: {problems:?}");
        }
    }
}
