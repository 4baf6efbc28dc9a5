//! Files that `kubectl get ... -o yaml|json` wrote: documents, Lists, or JSON, in any order and mixed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use k8s_openapi::api::{apps, core};

use outrigger_model::{DaemonSet, EC2NodeClass, Invalid, Node, NodePool, Pod, labels};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::convert::{self, Interner};
use crate::wire::{self, Envelope};

/// What files say of a cluster. Everything is in order of name, wherever it stood in the files.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Pods.
    pub pods: Vec<Pod>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Daemonsets.
    pub daemon_sets: Vec<DaemonSet>,
    /// NodePools.
    pub node_pools: Vec<NodePool>,
    /// EC2NodeClasses.
    pub ec2_node_classes: Vec<EC2NodeClass>,
    /// How many objects of each other kind there were, as `Deployment.apps`; nothing is done with them.
    pub other: BTreeMap<String, usize>,
    /// Objects that cannot be used, and why.
    pub invalid: Vec<Invalid>,
}

/// Why a file cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// It cannot be read.
    #[error("{file}: the file cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It is not JSON.
    #[error("{file}: this is not JSON as kubectl writes it")]
    NotJson {
        /// The file.
        file: String,
        /// The cause, with its line and column.
        #[source]
        source: serde_json::Error,
    },
    /// It is not YAML.
    #[error("{file}: this is not YAML as kubectl writes it")]
    NotYaml {
        /// The file.
        file: String,
        /// The cause, with its line and column.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
}

impl Dump {
    /// Reads files.
    pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Self, DumpError> {
        let mut reader = Reader::default();
        for file in files {
            let name = file.as_ref().display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|source| DumpError::Unreadable { file: name.clone(), source })?;
            reader.add(&name, &text)?;
        }
        Ok(reader.finish())
    }

    /// Reads texts that are at hand already, each with the name under which complaints mention it.
    pub fn parse(texts: &[(&str, &str)]) -> Result<Self, DumpError> {
        let mut reader = Reader::default();
        for (name, text) in texts {
            reader.add(name, text)?;
        }
        Ok(reader.finish())
    }
}

#[derive(Default)]
struct Reader {
    dump: Dump,
    interner: Interner,
    seen: BTreeSet<(&'static str, String)>,
    unnamed: usize,
}

impl Reader {
    fn add(&mut self, file: &str, text: &str) -> Result<(), DumpError> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let not_json = |source| DumpError::NotJson { file: file.to_owned(), source };
        self.unnamed = 0;
        let before = self.dump.invalid.len();
        if text.starts_with(['{', '[']) {
            for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
                self.add_document(document.map_err(not_json)?.get(), None).map_err(not_json)?;
            }
        } else {
            for document in
                read_yaml(text).map_err(|source| DumpError::NotYaml { file: file.to_owned(), source })?
            {
                self.add_document(&document.to_string(), None).map_err(not_json)?;
            }
        }
        for invalid in self.dump.invalid.iter_mut().skip(before) {
            invalid.file = Some(file.to_owned());
        }
        Ok(())
    }

    /// Takes in an object, a List, or an array of them. The items of a typed list from the API itself, as a `PodList`,
    /// have no kind of their own and take the list's.
    fn add_document(&mut self, json: &str, of_list: Option<(&str, &str)>) -> Result<(), serde_json::Error> {
        if json.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(json)?;
            return items.into_iter().try_for_each(|item| self.add_document(item.get(), None));
        }
        if json == "null" {
            return Ok(());
        }
        self.unnamed += 1;
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(json) else {
            self.refuse(
                format!("object {}", self.unnamed),
                "kind",
                short(json),
                "a Kubernetes object or List",
            );
            return Ok(());
        };
        let (list_version, list_kind) = of_list.unwrap_or_default();
        let version = envelope.api_version.as_deref().unwrap_or(list_version);
        let kind = envelope.kind.as_deref().unwrap_or(list_kind);
        if let (Some(items), Some(of)) = (envelope.items, kind.strip_suffix("List")) {
            let of_list = (!of.is_empty()).then_some((version, of));
            return items.into_iter().try_for_each(|item| self.add_document(item.get(), of_list));
        }
        self.add_object(version, kind, json);
        Ok(())
    }

    fn add_object(&mut self, version: &str, kind: &str, json: &str) {
        match (version, kind) {
            (_, "") => self.refuse(format!("object {}", self.unnamed), "kind", "nothing", "a kind, as Pod"),
            ("v1", "Pod") => self.add_pod(json),
            ("v1", "Node") => self.add_node(json),
            ("apps/v1", "DaemonSet") => self.add_daemon_set(json),
            ("karpenter.sh/v1", "NodePool") => {
                self.add_configured("NodePool", json, NodePool::read, |dump| &mut dump.node_pools);
            }
            ("karpenter.k8s.aws/v1", "EC2NodeClass") => {
                self.add_configured("EC2NodeClass", json, EC2NodeClass::read, |dump| {
                    &mut dump.ec2_node_classes
                });
            }
            _ => self.add_other(version, kind, json),
        }
    }

    fn add_pod(&mut self, json: &str) {
        let read = wire::read::<core::v1::Pod>("Pod", json);
        match read.and_then(|pod| convert::pod(pod, &mut self.interner)) {
            Err(invalid) => self.dump.invalid.push(invalid),
            Ok(pod) if self.is_new("Pod", &pod.uid) => self.dump.pods.push(pod),
            Ok(pod) => self.refuse_twice(format!("Pod/{}/{}", pod.id.namespace, pod.id.name), &pod.uid),
        }
    }

    fn add_node(&mut self, json: &str) {
        match wire::read::<core::v1::Node>("Node", json).and_then(convert::node) {
            Err(invalid) => self.dump.invalid.push(invalid),
            Ok(node) if self.is_new("Node", &node.name) => self.dump.nodes.push(node),
            Ok(node) => self.refuse_twice(format!("Node/{}", node.name), &node.name),
        }
    }

    fn add_daemon_set(&mut self, json: &str) {
        let read = wire::read::<apps::v1::DaemonSet>("DaemonSet", json);
        match read.and_then(|set| convert::daemon_set(set, &mut self.interner)) {
            Err(invalid) => self.dump.invalid.push(invalid),
            Ok(set) if self.is_new("DaemonSet", &set.id.to_string()) => self.dump.daemon_sets.push(set),
            Ok(set) => {
                let identity = set.id.to_string();
                self.refuse_twice(format!("DaemonSet/{identity}"), &identity);
            }
        }
    }

    /// A NodePool or an EC2NodeClass, which the model reads itself.
    fn add_configured<T>(
        &mut self,
        kind: &'static str,
        json: &str,
        read: impl Fn(&Value) -> Result<T, Vec<Invalid>>,
        all: impl Fn(&mut Dump) -> &mut Vec<T>,
    ) {
        let object: Value = serde_json::from_str(json).unwrap_or_default();
        let label = wire::label(kind, &object);
        match read(&object) {
            Err(invalid) => self.dump.invalid.extend(invalid),
            Ok(read) if self.is_new(kind, &label) => all(&mut self.dump).push(read),
            Ok(_) => self.refuse_twice(label.clone(), &label),
        }
    }

    /// Counts an object that we have no use for; an old version of a kind that we do use is an error instead, since
    /// leaving it out in silence would change the answer.
    fn add_other(&mut self, version: &str, kind: &str, json: &str) {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let (ours, allowed) = match (group, kind) {
            (labels::KARPENTER_DOMAIN, "NodePool") => (true, "karpenter.sh/v1"),
            (labels::EC2_GROUP, "EC2NodeClass") => (true, "karpenter.k8s.aws/v1"),
            ("", "Pod" | "Node") => (true, "v1"),
            ("" | "apps", "DaemonSet") => (true, "apps/v1"),
            _ => (false, ""),
        };
        if ours {
            let object: Value = serde_json::from_str(json).unwrap_or_default();
            self.refuse(wire::label(kind, &object), "apiVersion", format!("{version:?}"), allowed);
            return;
        }
        let name = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        *self.dump.other.entry(name).or_default() += 1;
    }

    fn is_new(&mut self, kind: &'static str, identity: &str) -> bool {
        self.seen.insert((kind, identity.to_owned()))
    }

    fn refuse_twice(&mut self, object: String, identity: &str) {
        self.refuse(
            object,
            "metadata",
            format!("{identity} a second time"),
            "each object once; the first is used",
        );
    }

    fn refuse(&mut self, object: String, field: &str, found: impl std::fmt::Display, allowed: &str) {
        self.dump.invalid.push(Invalid::new(object, field, found, allowed));
    }

    fn finish(self) -> Dump {
        let mut dump = self.dump;
        dump.pods.sort_by(|a, b| (&a.id, &a.uid).cmp(&(&b.id, &b.uid)));
        dump.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        dump.daemon_sets.sort_by(|a, b| a.id.cmp(&b.id));
        dump.node_pools.sort_by(|a, b| a.name.cmp(&b.name));
        dump.ec2_node_classes.sort_by(|a, b| a.name.cmp(&b.name));
        dump
    }
}

/// All documents of a YAML text. The parser's limits guard against documents that grow when they are read; those that
/// only bound the size grow with the text here, since a cluster's dump is large by nature.
fn read_yaml(text: &str) -> Result<Vec<Value>, Box<serde_saphyr::Error>> {
    let size = text.len().max(1 << 20);
    let options = serde_saphyr::options! {
        // YAML 1.2: a label with the value no or n is a text.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_events: size,
            max_nodes: size,
            max_documents: size,
            max_total_scalar_bytes: size,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(Box::new)
}

fn short(text: &str) -> String {
    if text.chars().count() > 120 {
        text.chars().take(117).chain("...".chars()).collect()
    } else {
        text.to_owned()
    }
}
