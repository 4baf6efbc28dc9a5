//! Objects by version and kind, turned into the model; what refers to other objects is put together
//! at the end.

#[cfg(feature = "client")]
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::{apps, core, policy, storage};
use outrigger_model::capacity_buffer::{self, TemplateRef};
use outrigger_model::volume::claims_to_know;
use outrigger_model::{
    CapacityBufferObject, ConfiguredKind, ConfiguredObject, EC2NodeClass, Invalid, KarpenterLease,
    LeaderLease, NodeOverlay, NodePool, Pod, VolumeClaim, labels,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Dump;
use super::claim::ShownClaim;
use super::stream::Sink;
use crate::convert::{self, Interner, Template, Templated, Volumes};
use crate::wire::{Object, short};

/// The longest name of an object (a DNS subdomain).
const LONGEST_NAME: usize = 253;
const NAMES_ALLOWED: &str = "at most 253 lower-case letters, digits, - and .";
/// How much is shown of a label that is too long.
const LABEL_SHOWN: usize = 60;

/// The version of kOps' API that `kops get` prints.
const KOPS_VERSION: &str = "kops.k8s.io/v1alpha2";

/// What has been read so far.
#[derive(Debug, Default)]
pub(super) struct Objects {
    dump: Dump,
    file: String,
    documents: usize,
    interner: Interner,
    /// What was seen of each kind, with the digest of the object.
    seen: HashMap<(&'static str, String), u64>,
    /// That of the object at hand.
    digest: u64,
    volumes: Volumes,
    volume_limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// What NodeClaims ask for, by the name of their node and by its providerID.
    claim_wishes: BTreeMap<String, String>,
    buffers: Vec<(String, CapacityBufferObject)>,
    templates: BTreeMap<TemplateRef, Result<Template, Invalid>>,
}

impl Sink for Objects {
    fn document(&mut self) {
        self.documents += 1;
    }

    fn strange(&mut self, shown: String) {
        self.dump.objects += 1;
        self.refuse(super::no_object(self.documents, shown));
    }

    fn object(&mut self, version: &str, kind: &str, object: Object) {
        self.dump.objects += 1;
        self.digest = object.digest();
        match (version, kind) {
            (_, "") => self.refuse(super::without_kind(self.documents)),
            ("v1", "Pod") => self.add_pod(&object),
            ("v1", "Node") => self.add_node(&object),
            ("apps/v1", "DaemonSet") => self.add_daemon_set(&object),
            (version, "PodDisruptionBudget") if version.starts_with("policy/") => {
                self.add_disruption_budget(version, &object);
            }
            ("karpenter.sh/v1", "NodeClaim") => self.add_node_claim(&object),
            ("karpenter.sh/v1", "NodePool") => {
                self.add_configured("NodePool", object, NodePool::read, |dump| &mut dump.node_pools);
            }
            ("karpenter.k8s.aws/v1", "EC2NodeClass") => {
                self.add_node_class(object);
            }
            ("karpenter.sh/v1alpha1", "NodeOverlay") => {
                self.add_configured("NodeOverlay", object, NodeOverlay::read, |dump| &mut dump.overlays);
            }
            (KOPS_VERSION, "InstanceGroup") => {
                self.add_kops("InstanceGroup", object, |dump| &mut dump.instance_groups);
            }
            (KOPS_VERSION, "Cluster") => self.add_kops("Cluster", object, |dump| &mut dump.clusters),
            ("coordination.k8s.io/v1", "Lease") => self.add_lease(object),
            (version, "CapacityBuffer") if capacity_buffer::VERSIONS.contains(&version) => {
                self.add_buffer(object);
            }
            _ => {
                self.add_other(version, kind, &object);
                self.add_related(version, kind, &object);
            }
        }
    }
}

impl Objects {
    /// What comes now comes from this file.
    pub(super) fn begin_file(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.documents = 0;
    }

    fn add_pod(&mut self, object: &Object) {
        let read = object.read_in_part::<core::v1::Pod>("Pod");
        let read = read.and_then(|pod| convert::pod_in_part(pod, &mut self.interner));
        let Some(mut pod) = self.sound(read) else { return };
        self.name_file(&mut pod.degraded);
        let id = pod.id.to_string();
        let label = format!("Pod/{}/{}", pod.id.namespace, pod.id.name);
        let uid = ("uid", pod.uid.clone());
        if !self.is_new("Pod", label.clone(), &id) {
            return;
        }
        if self.seen.insert(uid, self.digest).is_some() && pod.uid != id {
            return self.refuse_twice(label, "metadata.uid", &pod.uid);
        }
        self.dump.pods.push(pod);
    }

    fn add_node(&mut self, object: &Object) {
        let read = object.read_in_part::<core::v1::Node>("Node").and_then(convert::node_in_part);
        let Some(mut node) = self.sound(read) else { return };
        self.name_file(&mut node.degraded);
        if self.is_new("Node", format!("Node/{}", node.name), &node.name) {
            self.dump.nodes.push(node);
        }
    }

    fn add_daemon_set(&mut self, object: &Object) {
        let read = object.read_in_part::<apps::v1::DaemonSet>("DaemonSet");
        let read = read.and_then(|set| convert::daemon_set_in_part(set, &mut self.interner));
        let Some(mut set) = self.sound(read) else { return };
        self.name_file(&mut set.degraded);
        let id = set.id.to_string();
        if self.is_new("DaemonSet", format!("DaemonSet/{id}"), &id) {
            self.dump.daemon_sets.push(set);
        }
    }

    /// A budget that cannot be read keeps all pods that it may cover.
    fn add_disruption_budget(&mut self, version: &str, object: &Object) {
        const KIND: &str = "PodDisruptionBudget";
        let current = match version {
            "policy/v1" => Ok(()),
            _ => Err(Invalid::new(object.label(KIND), "apiVersion", format!("{version:?}"), "policy/v1")),
        };
        let read = || object.read::<policy::v1::PodDisruptionBudget>(KIND);
        let budget = match current.and_then(|()| read()).and_then(convert::disruption_budget) {
            Ok(budget) => budget,
            Err(problem) => {
                let whole = object.read::<Value>(KIND);
                let budget = whole.map(|whole| convert::unreadable_budget(&whole, &problem));
                if problem.field == "apiVersion" {
                    self.refuse(problem);
                } else {
                    self.readable::<()>(Err(problem));
                }
                let Ok(budget) = budget else { return };
                budget
            }
        };
        let id = budget.id.to_string();
        if self.is_new(KIND, format!("PodDisruptionBudget/{id}"), &id) {
            self.dump.disruption_budgets.push(budget);
        }
    }

    /// A NodeClaim as it is shown to people, and whether somebody asked that its node be left
    /// alone. The node is known by name or by instance.
    fn add_node_claim(&mut self, object: &Object) {
        const KIND: &str = "NodeClaim";
        let label = object.label(KIND);
        let Some(whole) = self.sound(object.read::<Value>(KIND)) else { return };
        if !self.is_new(KIND, label.clone(), &label) {
            return;
        }
        self.dump.node_claims.push(ShownClaim::from_object(&whole));
        let annotations = whole.pointer("/metadata/annotations");
        let Some(wish) = annotations.and_then(|annotations| annotations.get(labels::DO_NOT_DISRUPT)) else {
            return;
        };
        let wish = wish.as_str().map_or_else(|| wish.to_string(), str::to_owned);
        let names = ["/status/nodeName", "/status/providerID"].map(|field| whole.pointer(field));
        for name in names.into_iter().flatten().filter_map(Value::as_str) {
            self.claim_wishes.insert(name.to_owned(), wish.clone());
        }
    }

    /// An object that the model reads itself.
    fn add_configured<T>(
        &mut self,
        kind: &'static str,
        object: Object,
        read: impl Fn(&Value) -> Result<T, Vec<Invalid>>,
        kept: impl Fn(&mut Dump) -> &mut Vec<T>,
    ) {
        let label = object.label(kind);
        let Some(read) = self.read_configured(kind, object, read) else { return };
        if self.is_new(kind, label.clone(), &label) {
            kept(&mut self.dump).push(read);
        }
    }

    /// An EC2NodeClass, and what its status says: the account's answers, which no file has
    /// otherwise.
    fn add_node_class(&mut self, object: Object) {
        let mut status = None;
        let read = |value: &Value| {
            status = ConfiguredObject::read(ConfiguredKind::EC2NodeClass, value);
            EC2NodeClass::read(value)
        };
        let label = object.label("EC2NodeClass");
        let Some(class) = self.read_configured("EC2NodeClass", object, read) else { return };
        if self.is_new("EC2NodeClass", label.clone(), &label) {
            self.dump.class_statuses.extend(status.map(|status| (class.name.clone(), status)));
            self.dump.ec2_node_classes.push(class);
        }
    }

    /// An object of kOps', which is looked into where a NodePool refers to it.
    fn add_kops(
        &mut self,
        kind: &'static str,
        object: Object,
        kept: impl Fn(&mut Dump) -> &mut BTreeMap<String, Value>,
    ) {
        let label = object.label(kind);
        let Some(value) = self.sound(object.into_value(kind)) else { return };
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            let problem = Invalid::new(label, "metadata.name", "nothing", "a name");
            return self.refuse(problem);
        }
        if self.is_new(kind, label, &name) {
            kept(&mut self.dump).insert(name, value);
        }
    }

    fn add_buffer(&mut self, object: Object) {
        let read = self.read_configured("CapacityBuffer", object, CapacityBufferObject::read);
        let Some(buffer) = read else { return };
        let id = buffer.id.to_string();
        if self.is_new("CapacityBuffer", format!("CapacityBuffer/{id}"), &id) {
            self.buffers.push((self.file.clone(), buffer));
        }
    }

    /// Leases say how late it was when the files were written; one of them, whether a Karpenter
    /// lived then.
    fn add_lease(&mut self, object: Object) {
        let Some(object) = self.readable(object.into_value("Lease")) else { return };
        let read = LeaderLease::read(&object);
        let lease = match &read {
            Ok(lease) => KarpenterLease::Known(lease.clone()),
            Err(problem) => KarpenterLease::Unreadable(problem.complaint()),
        };
        if LeaderLease::is_meant(&object) {
            self.dump.karpenter_lease = lease;
        }
        if let Some(lease) = self.readable(read) {
            self.dump.seen_at = self.dump.seen_at.max(lease.renewed_at);
        }
    }

    fn read_configured<T>(
        &mut self,
        kind: &str,
        object: Object,
        read: impl FnOnce(&Value) -> Result<T, Vec<Invalid>>,
    ) -> Option<T> {
        let read = object.into_value(kind).map_err(|problem| vec![problem]).and_then(|object| read(&object));
        read.map_err(|problems| problems.into_iter().for_each(|problem| self.refuse(problem))).ok()
    }

    /// Objects that say something of others.
    fn add_related(&mut self, version: &str, kind: &str, object: &Object) {
        match (version, kind) {
            ("v1", "PersistentVolumeClaim") => {
                self.dump.has_volume_claims = true;
                self.add_volume_part("PersistentVolumeClaim", object, Volumes::add_claim);
            }
            ("v1", "PersistentVolume") => {
                self.add_volume_part("PersistentVolume", object, Volumes::add_volume);
            }
            ("storage.k8s.io/v1", "StorageClass") => {
                self.add_volume_part("StorageClass", object, Volumes::add_class);
            }
            ("storage.k8s.io/v1", "CSINode") => {
                let read = object.read::<storage::v1::CSINode>("CSINode").and_then(convert::csi_node);
                let Some((name, limits)) = self.readable(read) else { return };
                if self.is_new("CSINode", format!("CSINode/{name}"), &name) {
                    self.volume_limits.insert(name, limits);
                }
            }
            ("v1", "Namespace") => {
                let read = object.read::<core::v1::Namespace>("Namespace").and_then(convert::namespace);
                let Some((name, labels)) = self.readable(read) else { return };
                if self.is_new("Namespace", format!("Namespace/{name}"), &name) {
                    self.dump.namespaces.insert(name, labels);
                }
            }
            ("v1", "PodTemplate") => self.add_template("PodTemplate", object, Templated::PodTemplate),
            ("apps/v1", "Deployment") => self.add_template("Deployment", object, Templated::Deployment),
            ("apps/v1", "StatefulSet") => self.add_template("StatefulSet", object, Templated::StatefulSet),
            ("apps/v1", "ReplicaSet") => self.add_template("ReplicaSet", object, Templated::ReplicaSet),
            _ => {}
        }
    }

    fn add_volume_part<T: DeserializeOwned>(
        &mut self,
        kind: &'static str,
        object: &Object,
        add: impl FnOnce(&mut Volumes, T) -> Result<(), Invalid>,
    ) {
        let label = object.label(kind);
        if !self.is_new(kind, label.clone(), &label) {
            return;
        }
        let added = object.read::<T>(kind).and_then(|read| add(&mut self.volumes, read));
        self.readable(added);
    }

    /// A template that cannot be used matters only to the buffers that name it, which say so.
    fn add_template<T: DeserializeOwned>(
        &mut self,
        kind: &'static str,
        object: &Object,
        templated: impl FnOnce(T) -> Templated,
    ) {
        let label = object.label(kind);
        if !self.is_new(kind, label.clone(), &label) {
            return;
        }
        if let Some(read) = self.readable(object.read::<T>(kind)) {
            let (reference, template) = convert::template(templated(read), &mut self.interner);
            self.templates.insert(reference, template);
        }
    }

    /// Counts an object; an old version of a kind that we do use is an error instead, since leaving
    /// it out in silence would change the answer.
    fn add_other(&mut self, version: &str, kind: &str, object: &Object) {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let allowed = match (group, kind) {
            (labels::KARPENTER_DOMAIN, "NodePool" | "NodeClaim") => "karpenter.sh/v1",
            (labels::KARPENTER_DOMAIN, "NodeOverlay") => "karpenter.sh/v1alpha1",
            (labels::EC2_GROUP, "EC2NodeClass") => "karpenter.k8s.aws/v1",
            (labels::KOPS_GROUP, "InstanceGroup" | "Cluster") => KOPS_VERSION,
            ("autoscaling.x-k8s.io", "CapacityBuffer") => "autoscaling.x-k8s.io/v1beta1",
            (
                "",
                "Pod" | "Node" | "PersistentVolumeClaim" | "PersistentVolume" | "Namespace" | "PodTemplate",
            ) => "v1",
            ("" | "storage.k8s.io", "StorageClass" | "CSINode") => "storage.k8s.io/v1",
            ("", "PodDisruptionBudget") => "policy/v1",
            ("" | "apps", "DaemonSet" | "Deployment" | "StatefulSet" | "ReplicaSet") => "apps/v1",
            _ => "",
        };
        if !allowed.is_empty() && allowed != version {
            let shown = format!("{version:?}");
            return self.refuse(Invalid::new(object.label(kind), "apiVersion", shown, allowed));
        }
        let name = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        *self.dump.other.entry(name).or_default() += 1;
    }

    /// Whether an object is to be taken in: its name is one, and no other object has it. The same
    /// object twice, as from two files, counts once.
    fn is_new(&mut self, kind: &'static str, object: String, identity: &str) -> bool {
        if !is_name(identity) {
            let shown = short(identity);
            let problem = Invalid::new(object, "metadata.name", shown, NAMES_ALLOWED);
            self.refuse(problem);
            return false;
        }
        match self.seen.entry((kind, identity.to_owned())) {
            Entry::Vacant(entry) => {
                entry.insert(self.digest);
                true
            }
            Entry::Occupied(seen) => {
                if *seen.get() != self.digest {
                    self.refuse_twice(object, "metadata", identity);
                }
                false
            }
        }
    }

    fn refuse_twice(&mut self, object: String, field: &str, identity: &str) {
        let shown = format!("{identity} a second time");
        self.refuse(Invalid::new(object, field, shown, "each object once; the first is used"));
    }

    fn sound<T>(&mut self, read: Result<T, Invalid>) -> Option<T> {
        read.map_err(|problem| self.refuse(problem)).ok()
    }

    /// An object of the cluster's own that cannot be read is told of; it is no bad input, and stops
    /// nothing.
    fn readable<T>(&mut self, read: Result<T, Invalid>) -> Option<T> {
        read.map_err(|problem| self.dump.unreadable.push(problem.in_file(&self.file))).ok()
    }

    /// Notes the file of an object that is read in part.
    fn name_file(&self, degraded: &mut Option<Box<Invalid>>) {
        if let Some(problem) = degraded {
            problem.file = Some(self.file.clone());
        }
    }

    fn refuse(&mut self, mut problem: Invalid) {
        problem.object = short_label(problem.object);
        self.dump.invalid.push(problem.in_file(&self.file));
    }

    /// The templates that CapacityBuffers name, each once.
    #[cfg(feature = "client")]
    pub(super) fn wanted_templates(&self) -> BTreeSet<TemplateRef> {
        self.buffers.iter().filter_map(|(_, buffer)| buffer.template()).collect()
    }

    /// Everything that was read.
    pub(super) fn finish(mut self) -> Dump {
        for (file, buffer) in std::mem::take(&mut self.buffers) {
            let template = buffer.template().and_then(|reference| self.templates.get(&reference));
            match convert::capacity_buffer(&buffer, template) {
                Ok(buffer) => self.dump.buffers.push(buffer),
                Err(problem) => self.dump.invalid.push(problem.in_file(file)),
            }
        }
        let mut dump = self.dump;
        // Any pod may be asked about; where the files hold no claims, those that wait say so.
        let is_asked = |pod: &Pod| dump.has_volume_claims || pod.is_provisionable();
        dump.volume_claims = self.volumes.claims(&claims_to_know(dump.pods.iter(), is_asked));
        VolumeClaim::keep_on_selected_nodes(&mut dump.volume_claims, &dump.nodes);
        for node in &mut dump.nodes {
            node.volume_limits = self.volume_limits.remove(&node.name).unwrap_or_default();
            let names = [Some(&node.name), node.provider_id.as_ref()];
            node.claim_do_not_disrupt =
                names.into_iter().flatten().find_map(|name| self.claim_wishes.get(name)).cloned();
        }
        name_namespaces(&mut dump.namespaces, &dump.pods);
        dump.pods.sort_by(|a, b| (&a.id, &a.uid).cmp(&(&b.id, &b.uid)));
        dump.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        dump.daemon_sets.sort_by(|a, b| a.id.cmp(&b.id));
        dump.disruption_budgets.sort_by(|a, b| a.id.cmp(&b.id));
        dump.node_pools.sort_by(|a, b| a.name.cmp(&b.name));
        dump.ec2_node_classes.sort_by(|a, b| a.name.cmp(&b.name));
        dump.overlays.sort_by(|a, b| a.name.cmp(&b.name));
        dump.node_claims.sort_by(|a, b| a.name.cmp(&b.name));
        dump.buffers.sort_by(|a, b| a.id.cmp(&b.id));
        dump
    }
}

/// Whether Kubernetes could have such a name, behind its namespace or kind.
fn is_name(identity: &str) -> bool {
    identity.split('/').all(|part| part.len() <= LONGEST_NAME && part.chars().all(|c| c.is_ascii_graphic()))
}

/// A label that may be longer than anybody reads.
fn short_label(label: String) -> String {
    match label.char_indices().nth(LABEL_SHOWN) {
        Some((end, _)) => format!("{}...", &label[..end]),
        None => label,
    }
}

/// Gives the namespaces that only pods mention the one label that each has.
fn name_namespaces(namespaces: &mut BTreeMap<String, BTreeMap<String, String>>, pods: &[Pod]) {
    if pods.iter().any(|pod| pod.spec.selects_namespaces()) {
        for pod in pods.iter().filter(|pod| !pod.id.namespace.is_empty()) {
            let name = &pod.id.namespace;
            if !namespaces.contains_key(name) {
                namespaces.insert(name.clone(), convert::unlabelled_namespace(name));
            }
        }
    }
}
