//! The scenario file checked and turned into a scenario.

mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_catalog::Catalog;
use outrigger_engine::ports::{Configuration, ManagedPools};
use outrigger_engine::{Guards, MinValuesPolicy, Preferences};
use outrigger_kubernetes::Dump;
use outrigger_model::{
    ConfiguredKind, ConfiguredObject, Invalid, NillableDuration, Pod, PodRef, invalid, labels,
};
use serde_json::{Value, json};

use crate::policy::Policy;

use super::wire::{DaemonSetFile, Document, Spec, WorkloadFile};
use super::{DisruptionBudget, Lifetime, Promises, Scale, Scenario, StaticPodOfNodes, Workload};

const API_VERSION: &str = "outrigger.dev/v1alpha1";
/// More pods than this are more than Kubernetes supports in one cluster.
const MAX_REPLICAS: u32 = 150_000;
/// A month; a longer run is surely a slip of the pen.
const MAX_DURATION: Duration = Duration::from_hours(31 * 24);

/// Reads the text of a scenario file.
pub(super) fn read(text: &str) -> Result<Scenario, Vec<Invalid>> {
    // YAML 1.2: a label with the value no or n is a text.
    let options = serde_saphyr::options! { strict_booleans: true };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| vec![Invalid::new("Scenario", "", "text that is not one YAML document", error)])?;
    let document: Document = invalid::read("Scenario", "", &value)?;
    let object = format!("Scenario/{}", document.metadata.name);
    for (field, found, allowed) in
        [("apiVersion", &document.api_version, API_VERSION), ("kind", &document.kind, "Scenario")]
    {
        if found != allowed {
            return Err(vec![Invalid::new(object, field, format!("{found:?}"), allowed)]);
        }
    }
    let spec: Spec = invalid::read(&object, "spec", &document.spec)?;
    Reader { object, problems: Vec::new() }.scenario(document.metadata.name, &spec)
}

/// The objects that have a status.
fn configured(spec: &Spec) -> Vec<ConfiguredObject> {
    let pools = spec.node_pools.iter().map(|object| (ConfiguredKind::NodePool, object));
    let classes = spec.ec2_node_classes.iter().map(|object| (ConfiguredKind::EC2NodeClass, object));
    pools.chain(classes).filter_map(|(kind, object)| ConfiguredObject::read(kind, object)).collect()
}

struct Reader {
    object: String,
    problems: Vec<Invalid>,
}

impl Reader {
    fn refuse(
        &mut self,
        field: impl Into<String>,
        found: impl std::fmt::Display,
        allowed: impl std::fmt::Display,
    ) {
        self.problems.push(Invalid::new(&self.object, field, found, allowed));
    }

    fn scenario(mut self, name: String, spec: &Spec) -> Result<Scenario, Vec<Invalid>> {
        let zones = self.zones(spec);
        let catalog = match Catalog::embedded(&spec.region, &zones) {
            Ok(catalog) => catalog.with_flat_spot(),
            Err(error) => {
                self.refuse("spec.region", format!("{:?}", spec.region), error);
                return Err(self.problems);
            }
        };
        let catalog = self.sold(spec, catalog);
        if !(50..=100).contains(&spec.memory_percent) {
            self.refuse("spec.memoryPercent", spec.memory_percent, "50 to 100");
        }
        if !(50..=110).contains(&spec.allocatable_percent) {
            self.refuse("spec.allocatablePercent", spec.allocatable_percent, "50 to 110");
        }
        if spec.duration.0.is_zero() || spec.duration.0 > MAX_DURATION {
            self.refuse("spec.duration", NillableDuration::seconds(spec.duration.0.as_secs()), "1s to 744h");
        }
        let dump = self.objects(spec);
        let static_pods = self.static_pods(spec);
        let workloads = self.workloads(spec, &dump.pods);
        let budgets = self.budgets(spec);
        let group_images = self.group_images(spec);
        self.check_reservations(spec);
        let events = self.events(spec, &workloads, &zones, &catalog);
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        Ok(Scenario {
            name,
            seed: spec.seed,
            zones,
            duration: spec.duration.0,
            boot_time: spec.boot_time.0,
            poll_window: spec.poll_window.0,
            allocatable_percent: spec.allocatable_percent,
            memory_percent: spec.memory_percent,
            catalog,
            configuration: Configuration {
                node_pools: dump.node_pools,
                ec2_node_classes: dump.ec2_node_classes,
                overlays: dump.overlays,
                buffers: dump.buffers,
                invalid: Vec::new(),
                objects: configured(spec),
            },
            managed_pools: ManagedPools::default(),
            group_images,
            reservations: spec.capacity_reservations.clone(),
            daemon_sets: dump.daemon_sets,
            daemon_wishes: daemon_wishes(spec),
            static_pods,
            workloads,
            budgets,
            initialization_timeout: spec.initialization_timeout.0,
            node_repair: spec.node_repair,
            rebalance: spec.rebalance,
            guards: Guards::default(),
            promises: Promises::default(),
            paces: true,
            adopt: spec.adopt,
            preferences: Preferences::default(),
            min_values: MinValuesPolicy::default(),
            karpenter_until: spec.karpenter_until.as_ref().map(|until| until.0),
            policy: if spec.disrupt { Policy::Outrigger } else { Policy::None },
            events,
        })
    }

    fn zones(&mut self, spec: &Spec) -> Vec<String> {
        for (index, zone) in spec.zones.iter().enumerate() {
            let letter = zone.strip_prefix(&spec.region);
            if !letter
                .is_some_and(|letter| letter.len() == 1 && letter.bytes().all(|b| b.is_ascii_lowercase()))
            {
                self.refuse(
                    format!("spec.zones[{index}]"),
                    format!("{zone:?}"),
                    format!("zones of {}, as {}a", spec.region, spec.region),
                );
            }
        }
        if spec.zones.is_empty() {
            return outrigger_catalog::offerings::default_zones(&spec.region);
        }
        spec.zones.clone()
    }

    fn group_images(&mut self, spec: &Spec) -> BTreeMap<String, Vec<String>> {
        for (index, group) in spec.instance_groups.iter().enumerate() {
            let is_architecture = |arch: &String| labels::ARCHITECTURES.contains(&arch.as_str());
            if group.images.is_empty() || !group.images.iter().all(is_architecture) {
                let field = format!("spec.instanceGroups[{index}].images");
                self.refuse(field, format!("{:?}", group.images), "amd64, arm64 or both");
            }
        }
        spec.instance_groups.iter().map(|group| (group.name.clone(), group.images.clone())).collect()
    }

    fn check_reservations(&mut self, spec: &Spec) {
        let mut places = BTreeSet::new();
        for (index, reservation) in spec.capacity_reservations.iter().enumerate() {
            if !places.insert((&reservation.instance_type, &reservation.zone)) {
                let found = format!("another one of {} in {}", reservation.instance_type, reservation.zone);
                let field = format!("spec.capacityReservations[{index}]");
                self.refuse(field, found, "one for each type in each zone");
            }
        }
    }

    /// The types that the file names, or all.
    fn sold(&mut self, spec: &Spec, catalog: Catalog) -> Catalog {
        if spec.instance_types.is_empty() {
            return catalog;
        }
        let means = |wanted: &str, name: &str| {
            wanted == name || name.split_once('.').is_some_and(|(family, _)| wanted == family)
        };
        for (index, wanted) in spec.instance_types.iter().enumerate() {
            if !catalog.types.iter().any(|entry| means(wanted, &entry.facts.name)) {
                self.refuse(
                    format!("spec.instanceTypes[{index}]"),
                    format!("{wanted:?}"),
                    format!("families and types of {}, as m6a and m6a.large", spec.region),
                );
            }
        }
        catalog.only(|facts| spec.instance_types.iter().any(|wanted| means(wanted, &facts.name)))
    }

    /// Everything that is a Kubernetes object goes through the one converter, as a List.
    fn objects(&mut self, spec: &Spec) -> Dump {
        let objects = spec.node_pools.iter().chain(&spec.ec2_node_classes).chain(&spec.node_overlays);
        let mut items: Vec<Value> = objects.cloned().collect();
        for set in &spec.daemon_sets {
            items.push(json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": set.name, "namespace": set.namespace},
                "spec": {"selector": {}, "template": set.template},
            }));
        }
        for (index, workload) in spec.workloads.iter().enumerate() {
            let template = &workload.template;
            items.push(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": workload.name, "namespace": workload.namespace, "uid": index.to_string(),
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
                },
                "spec": template.get("spec").cloned().unwrap_or(Value::Null),
            }));
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        match Dump::parse(&[("", &list)]) {
            Ok(mut dump) => {
                self.problems.extend(std::mem::take(&mut dump.invalid).into_iter().map(in_scenario));
                for (kind, count) in &dump.other {
                    let found = format!("{count} of {kind}");
                    self.refuse("spec.nodePools", found, "NodePool of karpenter.sh/v1");
                }
                dump
            }
            Err(error) => {
                self.refuse("spec", error, "Kubernetes objects");
                Dump::default()
            }
        }
    }

    fn static_pods(&mut self, spec: &Spec) -> Vec<StaticPodOfNodes> {
        let mut read = Vec::new();
        for (index, file) in spec.static_pods.iter().enumerate() {
            match file.read(&format!("spec.staticPods[{index}]")) {
                Ok(pod) => read.push(pod),
                Err(problem) => {
                    let field = format!("spec.staticPods[{index}].template.{}", problem.field);
                    self.refuse(field, problem.actual, problem.allowed);
                }
            }
        }
        read
    }

    fn workloads(&mut self, spec: &Spec, pods: &[Pod]) -> Vec<Workload> {
        let mut seen = BTreeSet::new();
        let mut workloads = Vec::new();
        for (index, file) in spec.workloads.iter().enumerate() {
            let field = format!("spec.workloads[{index}]");
            if !seen.insert((&file.namespace, &file.name)) {
                self.refuse(
                    format!("{field}.name"),
                    format!("{:?} twice", file.name),
                    "each name once in a namespace",
                );
            }
            let scale = self.scale(&field, file, spec.duration.0);
            let uid = index.to_string();
            let Some(pod) = pods.iter().find(|pod| pod.uid == uid) else { continue };
            self.simulated(&field, pod);
            self.amounts(pod);
            workloads.push(Workload {
                id: pod.id.clone(),
                labels: Arc::clone(&pod.labels),
                spec: Arc::clone(&pod.spec),
                unreadable: pod.degraded.clone(),
                grace: grace(&file.template),
                do_not_disrupt: do_not_disrupt(&file.template),
                deletion_cost: pod.deletion_cost,
                never_ready: file.never_ready,
                has_volumes: file.volumes,
                has_stable_names: file.stable_names,
                access_mode: file.access_mode,
                lasts: self.lifetime(&field, file),
                scale,
                expect: file.expect,
            });
        }
        workloads
    }

    /// Whether a pod's amounts were read. A later Kubernetes may let new fields in, yet no amount
    /// that is none.
    fn amounts(&mut self, pod: &Pod) {
        let problem = pod.degraded.as_ref().filter(|problem| problem.field.contains("resources."));
        self.problems.extend(problem.map(|problem| in_scenario(problem.as_ref().clone())));
    }

    fn lifetime(&mut self, field: &str, file: &WorkloadFile) -> Option<Lifetime> {
        let (least, most) = (file.lasts.as_ref()?.least.0, file.lasts.as_ref()?.most.0);
        if least.is_zero() || most < least {
            let [found_least, found_most] =
                [least, most].map(|span| NillableDuration::seconds(span.as_secs()));
            self.refuse(
                format!("{field}.lasts"),
                format!("{found_least} to {found_most}"),
                "a time, and one that is not shorter",
            );
        }
        Some(Lifetime { least, most })
    }

    fn budgets(&mut self, spec: &Spec) -> Vec<DisruptionBudget> {
        let mut budgets = Vec::new();
        for (index, file) in spec.pod_disruption_budgets.iter().enumerate() {
            if file.min_available.is_some() == file.max_unavailable.is_some() {
                self.refuse(
                    format!("spec.podDisruptionBudgets[{index}]"),
                    "both or neither of minAvailable and maxUnavailable",
                    "one of them",
                );
            }
            budgets.push(DisruptionBudget {
                id: PodRef { namespace: file.namespace.clone(), name: file.name.clone() },
                match_labels: file.match_labels.clone(),
                min_available: file.min_available,
                max_unavailable: file.max_unavailable,
                unhealthy_pods: file.unhealthy_pod_eviction_policy.clone(),
            });
        }
        budgets
    }

    fn scale(&mut self, field: &str, file: &WorkloadFile, duration: Duration) -> Vec<Scale> {
        let first = Scale { at: file.at.0, replicas: file.replicas };
        let rest = file.scale.iter().map(|scale| Scale { at: scale.at.0, replicas: scale.replicas });
        let scale: Vec<_> = std::iter::once(first).chain(rest).collect();
        for step in &scale {
            if step.replicas > MAX_REPLICAS {
                self.refuse(format!("{field}.replicas"), step.replicas, format!("up to {MAX_REPLICAS}"));
            }
            self.within(field, step.at, duration);
        }
        if scale.windows(2).any(|pair| pair[1].at <= pair[0].at) {
            self.refuse(format!("{field}.scale"), "times out of order", "each later than the one before");
        }
        scale
    }

    fn within(&mut self, field: &str, at: Duration, duration: Duration) {
        if at >= duration {
            let found = NillableDuration::seconds(at.as_secs());
            self.refuse(format!("{field}.at"), found, "times before spec.duration");
        }
    }

    /// The small scheduler does not know everything that kube-scheduler does; what it would get
    /// wrong is refused.
    fn simulated(&mut self, field: &str, pod: &Pod) {
        let spec = &pod.spec;
        let unknown =
            [("volumes", !pod.volume_claims.is_empty()), ("resourceClaims", spec.uses_resource_claims)];
        for (name, _) in unknown.into_iter().filter(|(_, used)| *used) {
            self.refuse(
                format!("{field}.template.spec.{name}"),
                "a hard constraint",
                "what the simulated scheduler knows: requests, taints, node selector, affinity, spread, priority, \
                 host ports",
            );
        }
    }
}

/// What Kubernetes gives a pod that says nothing of it.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

fn grace(template: &Value) -> Duration {
    let seconds = template.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
    seconds.map_or(DEFAULT_GRACE, Duration::from_secs)
}

fn do_not_disrupt(template: &Value) -> Option<String> {
    let annotation = template.pointer("/metadata/annotations/karpenter.sh~1do-not-disrupt");
    annotation.and_then(Value::as_str).map(str::to_owned)
}

/// The annotation of daemonsets' pods, by daemonset.
fn daemon_wishes(spec: &Spec) -> BTreeMap<PodRef, String> {
    let wish = |set: &DaemonSetFile| {
        let id = PodRef { namespace: set.namespace.clone(), name: set.name.clone() };
        do_not_disrupt(&set.template).map(|wish| (id, wish))
    };
    spec.daemon_sets.iter().filter_map(wish).collect()
}

/// Workloads were read as pods; what is wrong with them is told in the words of the file.
fn in_scenario(problem: Invalid) -> Invalid {
    let Some(name) = problem.object.strip_prefix("Pod/") else { return Invalid { file: None, ..problem } };
    let (object, field) = (format!("Workload/{name}"), format!("template.{}", problem.field));
    Invalid { file: None, object, field, ..problem }
}
