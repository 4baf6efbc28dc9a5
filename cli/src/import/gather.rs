//! Objects by version and kind, each made into the form that Outrigger takes.

use std::collections::BTreeMap;

use outrigger_kubernetes::RawObject;
use serde_json::json;

use super::draft::{self, Draft, Drafts};
use super::kops::Kops;
use super::kubelet::Kubelet;
use super::note::{Fate, Notes, Origin};
use super::{karpenter_v1, karpenter_v1alpha5, karpenter_v1beta1, node_template, workloads};

const POOL: (&str, &str) = ("karpenter.sh/v1", "NodePool");
const CLASS: (&str, &str) = ("karpenter.k8s.aws/v1", "EC2NodeClass");
const OVERLAY: (&str, &str) = ("karpenter.sh/v1alpha1", "NodeOverlay");
/// The version that `kops get` prints.
const KOPS_VERSION: &str = "kops.k8s.io/v1alpha2";

/// What is read, named to people.
pub(super) const ALLOWED: &str = "NodePool and EC2NodeClass of v1 or v1beta1, Provisioner of v1alpha5, \
     AWSNodeTemplate of v1alpha1, NodeOverlay of v1alpha1, and kOps' InstanceGroup and Cluster of v1alpha2";

/// What files hold, in the form of v1.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// NodePools by name.
    pub(super) pools: Drafts,
    /// EC2NodeClasses by name.
    pub(super) classes: Drafts,
    /// NodeOverlays by name.
    pub(super) overlays: Drafts,
    /// kOps' objects.
    pub(super) kops: Kops,
    /// Kubelet settings by NodePool.
    pub(super) kubelets: BTreeMap<String, Kubelet>,
    /// InstanceGroups by the AWSNodeTemplate that names their launch template.
    pub(super) borrowed: BTreeMap<String, String>,
    /// How many objects of each other kind a file has.
    others: BTreeMap<(String, String), usize>,
}

impl Gathered {
    /// Sorts all objects of the files.
    pub(super) fn from_raw(objects: Vec<RawObject>, notes: &mut Notes) -> Self {
        let of_kops =
            objects.iter().filter(|raw| raw.kind == "InstanceGroup" && raw.api_version == KOPS_VERSION);
        let names =
            of_kops.filter_map(|raw| raw.value.pointer("/metadata/name")?.as_str().map(str::to_owned));
        let groups: Vec<String> = names.collect();
        let mut gathered = Self::default();
        for raw in objects {
            gathered.add(raw, &groups, notes);
        }
        for ((file, kind), count) in std::mem::take(&mut gathered.others) {
            let origin = Origin { file, object: kind };
            let found = crate::output::count(count, "object");
            let is_machine =
                ["NodeClaim of ", "Machine of "].iter().any(|kind| origin.object.starts_with(kind));
            let advice = if is_machine {
                "Outrigger takes over no nodes: drain them once its own are there"
            } else {
                "nothing is made of this kind"
            };
            notes.add(Fate::PassedOver, &origin, "", found, advice);
        }
        gathered
    }

    fn add(&mut self, raw: RawObject, groups: &[String], notes: &mut Notes) {
        match (raw.api_version.as_str(), raw.kind.as_str()) {
            POOL | ("karpenter.sh/v1beta1", "NodePool") => self.add_pool(raw, notes),
            CLASS | ("karpenter.k8s.aws/v1beta1", "EC2NodeClass") => self.add_class(raw, notes),
            OVERLAY => {
                let draft = Draft::of(raw, OVERLAY.0, OVERLAY.1, notes);
                if let Some(draft) = draft {
                    draft::add(&mut self.overlays, draft, notes);
                }
            }
            ("karpenter.sh/v1alpha5", "Provisioner") => self.add_provisioner(raw, groups, notes),
            ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate") => {
                if let Some(draft) = Draft::of(raw, CLASS.0, CLASS.1, notes) {
                    self.add_template(draft, groups, notes);
                }
            }
            (KOPS_VERSION, kind @ ("InstanceGroup" | "Cluster")) => {
                let kind = kind.to_owned();
                let Some(draft) = Draft::of(raw, KOPS_VERSION, &kind, notes) else { return };
                let Kops { clusters, groups } = &mut self.kops;
                draft::add(if kind == "Cluster" { clusters } else { groups }, draft, notes);
            }
            _ => self.add_other(&raw, notes),
        }
    }

    fn add_pool(&mut self, raw: RawObject, notes: &mut Notes) {
        let is_v1 = raw.api_version == POOL.0;
        let Some(mut draft) = Draft::of(raw, POOL.0, POOL.1, notes) else { return };
        let (field, settings) = if is_v1 {
            (karpenter_v1::KUBELET_FIELD, karpenter_v1::take_kubelet(&mut draft, notes))
        } else {
            ("spec.template.spec.kubelet", karpenter_v1beta1::convert_pool(&mut draft, notes))
        };
        self.add_converted(draft, settings.map(|settings| Kubelet { field, settings }), notes);
    }

    /// Adds a NodePool, and its kubelet settings where no other has its name.
    fn add_converted(&mut self, pool: Draft, kubelet: Option<Kubelet>, notes: &mut Notes) {
        if let Some(kubelet) = kubelet {
            self.kubelets.entry(pool.name.clone()).or_insert(kubelet);
        }
        draft::add(&mut self.pools, pool, notes);
    }

    fn add_class(&mut self, raw: RawObject, notes: &mut Notes) {
        let is_v1 = raw.api_version == CLASS.0;
        let Some(mut draft) = Draft::of(raw, CLASS.0, CLASS.1, notes) else { return };
        if !is_v1 {
            karpenter_v1beta1::convert_class(&mut draft);
        }
        draft::add(&mut self.classes, draft, notes);
    }

    fn add_provisioner(&mut self, raw: RawObject, groups: &[String], notes: &mut Notes) {
        let Some(draft) = Draft::of(raw, POOL.0, POOL.1, notes) else { return };
        let Some(converted) = karpenter_v1alpha5::convert(draft, notes) else { return };
        let karpenter_v1alpha5::Converted { pool, kubelet, provider } = converted;
        if let Some(provider) = provider {
            let value = json!({
                "apiVersion": CLASS.0, "kind": CLASS.1, "metadata": {"name": pool.name}, "spec": provider,
            });
            let template = Draft { origin: pool.origin.clone(), name: pool.name.clone(), value };
            self.add_template(template, groups, notes);
        }
        let field = "spec.kubeletConfiguration";
        self.add_converted(pool, kubelet.map(|settings| Kubelet { field, settings }), notes);
    }

    fn add_template(&mut self, draft: Draft, groups: &[String], notes: &mut Notes) {
        let name = draft.name.clone();
        match node_template::convert(draft, groups, notes) {
            Some(node_template::Converted::Class(class)) => draft::add(&mut self.classes, *class, notes),
            Some(node_template::Converted::InstanceGroup(group)) => {
                self.borrowed.insert(name, group);
            }
            None => {}
        }
    }

    fn add_other(&mut self, raw: &RawObject, notes: &mut Notes) {
        workloads::note_old_names(raw, notes);
        let group = raw.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind =
            if group.is_empty() { raw.kind.clone() } else { format!("{} of {}", raw.kind, raw.api_version) };
        *self.others.entry((raw.file.clone(), kind)).or_default() += 1;
    }
}
