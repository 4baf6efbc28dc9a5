//! Files that `kubectl get ... -o yaml|json` wrote: documents, Lists, or JSON, in any order and
//! mixed.

mod claim;
mod objects;
mod raw;
mod stream;
mod yaml;

use std::collections::BTreeMap;
#[cfg(feature = "client")]
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use jiff::Timestamp;
#[cfg(feature = "client")]
use outrigger_model::capacity_buffer::TemplateRef;
use outrigger_model::{
    CapacityBuffer, ClassOffer, ConfiguredObject, DaemonSet, EC2NodeClass, Invalid, KarpenterLease, Node,
    NodeOverlay, NodePool, Pod, PodDisruptionBudget, Snapshot, VolumeClaim,
};
use serde_json::Value;

use objects::Objects;
use stream::Sink;

pub use claim::ShownClaim;
pub use raw::{RawObject, RawReader};

/// What files say of a cluster. Everything is in order of name, wherever it stood in the files.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Pods.
    pub pods: Vec<Pod>,
    /// Nodes, with the volume limits of their CSINodes.
    pub nodes: Vec<Node>,
    /// Daemonsets.
    pub daemon_sets: Vec<DaemonSet>,
    /// PodDisruptionBudgets.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// NodePools.
    pub node_pools: Vec<NodePool>,
    /// NodeClaim objects.
    pub node_claims: Vec<ShownClaim>,
    /// EC2NodeClasses.
    pub ec2_node_classes: Vec<EC2NodeClass>,
    /// What the status of each EC2NodeClass says, by its name.
    pub class_statuses: BTreeMap<String, ConfiguredObject>,
    /// kOps' InstanceGroups by name, as `kops get` prints them.
    pub instance_groups: BTreeMap<String, Value>,
    /// kOps' Clusters by name.
    pub clusters: BTreeMap<String, Value>,
    /// The labels of namespaces. One that only pods mention has its name for a label, as the API
    /// server gives it.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The claims that pods mount. Where the files hold none, only while a pod that waits for a
    /// node mounts one.
    pub volume_claims: Vec<VolumeClaim>,
    /// Whether the files hold PersistentVolumeClaims at all.
    pub has_volume_claims: bool,
    /// NodeOverlays.
    pub overlays: Vec<NodeOverlay>,
    /// CapacityBuffers with their templates.
    pub buffers: Vec<CapacityBuffer>,
    /// Karpenter's Lease.
    pub karpenter_lease: KarpenterLease,
    /// When the last Lease was renewed.
    pub seen_at: Option<Timestamp>,
    /// How many objects there were, whether or not they can be used.
    pub objects: usize,
    /// How many objects of each other kind there were, as `Service` or `Deployment.apps`. Of these
    /// only volumes, namespaces and templates have a part in anything, through the objects that
    /// refer to them.
    pub other: BTreeMap<String, usize>,
    /// Objects that cannot be used, and why.
    pub invalid: Vec<Invalid>,
    /// What of the cluster's own objects cannot be read; pods, nodes and daemonsets say it
    /// themselves.
    pub unreadable: Vec<Invalid>,
}

impl Dump {
    /// Whether there was no object at all, not even one that cannot be used.
    pub fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// The snapshot of a cluster with these node classes. The newest object's time, or that of the
    /// last renewal of a Lease, stands for now, so that the same files make the same plan on any
    /// day.
    pub fn into_snapshot(self, cluster: &str, classes: Vec<ClassOffer>) -> Snapshot {
        let of_pods = self.pods.iter().map(|pod| pod.created_at);
        let created = of_pods.chain(self.nodes.iter().map(|node| node.created_at));
        let taken_at = created.chain(self.seen_at).max().unwrap_or(Timestamp::UNIX_EPOCH);
        Snapshot {
            classes,
            node_pools: self.node_pools,
            invalid: self.invalid,
            unreadable: self.unreadable,
            karpenter_lease: self.karpenter_lease,
            nodes: self.nodes,
            pods: self.pods,
            daemon_sets: self.daemon_sets,
            disruption_budgets: self.disruption_budgets,
            namespaces: self.namespaces,
            volume_claims: self.volume_claims,
            overlays: self.overlays,
            buffers: self.buffers,
            ..Snapshot::empty(cluster, taken_at)
        }
    }
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
    #[error("{file}: this is not YAML as kubectl writes it{}: {problem}", from_line(*line))]
    NotYaml {
        /// The file.
        file: String,
        /// The line that the document begins in; the problem counts from there.
        line: usize,
        /// What is wrong, with its line and column.
        problem: String,
    },
}

fn from_line(line: usize) -> String {
    if line <= 1 { String::new() } else { format!(" (lines are counted from line {line} on)") }
}

impl Dump {
    /// Reads files.
    pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Self, DumpError> {
        let mut reader = DumpReader::default();
        for file in files {
            let name = file.as_ref().display().to_string();
            let opened = File::open(file);
            let opened = opened.map_err(|source| DumpError::Unreadable { file: name.clone(), source })?;
            reader.add(&name, BufReader::new(opened))?;
        }
        Ok(reader.finish())
    }

    /// Reads texts that are at hand already, each with the name under which complaints mention it.
    pub fn parse(texts: &[(&str, &str)]) -> Result<Self, DumpError> {
        let mut reader = DumpReader::default();
        for (name, text) in texts {
            reader.add(name, text.as_bytes())?;
        }
        Ok(reader.finish())
    }
}

/// Takes in files one after another. Each object is turned into the model as it comes by, so that a
/// file may be much larger than the memory.
#[derive(Debug, Default)]
pub struct DumpReader {
    objects: Objects,
}

impl DumpReader {
    /// Reads a file; `file` is the name under which complaints mention it.
    pub fn add(&mut self, file: &str, input: impl BufRead) -> Result<(), DumpError> {
        self.objects.begin_file(file);
        read_into(&mut self.objects, file, input)
    }

    /// The templates that CapacityBuffers name, each once.
    #[cfg(feature = "client")]
    pub(crate) fn wanted_templates(&self) -> BTreeSet<TemplateRef> {
        self.objects.wanted_templates()
    }

    /// Everything that was read.
    pub fn finish(self) -> Dump {
        self.objects.finish()
    }
}

/// Reads a file of JSON or YAML; `file` is the name under which complaints mention it.
fn read_into(sink: &mut impl Sink, file: &str, mut input: impl BufRead) -> Result<(), DumpError> {
    let unreadable = |source| DumpError::Unreadable { file: file.to_owned(), source };
    match first_byte(&mut input).map_err(unreadable)? {
        None => Ok(()),
        Some(b'{' | b'[') => stream::read_json(input, sink).map_err(|source| {
            if source.is_io() {
                return unreadable(source.into());
            }
            DumpError::NotJson { file: file.to_owned(), source }
        }),
        Some(_) => yaml::read(input, sink).map_err(|error| match error {
            yaml::Error::Unreadable(source) => unreadable(source),
            yaml::Error::NotYaml { line, source } => {
                DumpError::NotYaml { file: file.to_owned(), line, problem: yaml::problem(&source) }
            }
        }),
    }
}

/// The complaint about an object that says no kind; `number` counts the documents of its file.
fn without_kind(number: usize) -> Invalid {
    Invalid::new(format!("object {number}"), "kind", "nothing", "a kind, as Pod")
}

/// The complaint about a document that is no object.
fn no_object(number: usize, shown: String) -> Invalid {
    Invalid::new(format!("object {number}"), "kind", shown, "a Kubernetes object or List")
}

/// The first byte that is no space, which is left where it stands.
fn first_byte(input: &mut impl BufRead) -> std::io::Result<Option<u8>> {
    const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let blank =
            buffer.iter().take_while(|b| b.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(b)).count();
        let first = buffer.get(blank).copied();
        // YAML needs the spaces before its first word, and a line of them costs nothing.
        let line_start = buffer[..blank].iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        let skipped = match first {
            Some(b'{' | b'[') | None => blank,
            Some(_) => line_start,
        };
        input.consume(skipped);
        if first.is_some() {
            return Ok(first);
        }
    }
}
