//! A test's world: what is special about it, and what most tests want of the rest.

use std::time::Duration;

use outrigger_engine::Guards;
use outrigger_simulation::{DisruptionBudget, Ending, Event, EventKind, Kill, Promises, Scenario};
use serde_json::{Value, json};

use super::events::at;
use super::objects::{Pool, Workload, pods_everywhere, span};

/// A world that is made step by step. Machines take half a minute to join, and the function
/// `disrupt` runs only where a test asks for it: most tests are about nodes that it would end.
#[derive(Clone)]
pub(crate) struct World {
    name: &'static str,
    spec: Value,
    budgets: Vec<DisruptionBudget>,
    events: Vec<Event>,
    guards: Guards,
    promises: Promises,
}

impl World {
    pub(crate) fn new(name: &'static str, duration: Duration) -> Self {
        Self {
            name,
            spec: json!({"duration": span(duration), "bootTime": "30s", "disrupt": false}),
            budgets: Vec::new(),
            events: Vec::new(),
            guards: Guards::default(),
            promises: Promises::default(),
        }
    }

    /// A field of the scenario's spec.
    pub(crate) fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.spec[field] = value.into();
        self
    }

    pub(crate) fn seed(self, seed: u64) -> Self {
        self.set("seed", seed)
    }

    pub(crate) fn duration(self, duration: Duration) -> Self {
        self.set("duration", span(duration))
    }

    /// From launch to a node joining.
    pub(crate) fn boot_time(self, seconds: u64) -> Self {
        self.set("bootTime", format!("{seconds}s"))
    }

    /// The families and types that are sold.
    pub(crate) fn sold(self, types: &[&str]) -> Self {
        self.set("instanceTypes", types)
    }

    /// An InstanceGroup with an image for each architecture.
    pub(crate) fn both_architectures(self, group: &str) -> Self {
        self.listed("instanceGroups", json!({"name": group, "images": ["amd64", "arm64"]}))
    }

    /// The function `disrupt` runs.
    pub(crate) fn disrupts(self) -> Self {
        self.set("disrupt", true)
    }

    pub(crate) fn pool(self, pool: Pool) -> Self {
        self.listed("nodePools", pool.0)
    }

    pub(crate) fn ec2_node_class(self, class: Value) -> Self {
        self.listed("ec2NodeClasses", class)
    }

    pub(crate) fn workload(self, workload: Workload) -> Self {
        self.listed("workloads", workload.0)
    }

    pub(crate) fn workloads(self, workloads: impl IntoIterator<Item = Workload>) -> Self {
        workloads.into_iter().fold(self, Self::workload)
    }

    pub(crate) fn daemon_set(self, name: &str, template: Value) -> Self {
        let mut set = json!({"name": name, "namespace": "kube-system"});
        set["template"] = template;
        self.listed("daemonSets", set)
    }

    /// A daemonset as every cluster has one.
    pub(crate) fn cni(self) -> Self {
        self.daemon_set("cni", pods_everywhere("50m", "64Mi"))
    }

    pub(crate) fn budgets(mut self, budgets: impl IntoIterator<Item = DisruptionBudget>) -> Self {
        self.budgets.extend(budgets);
        self
    }

    pub(crate) fn event(self, time: Duration, kind: EventKind) -> Self {
        self.events([at(time, kind)])
    }

    pub(crate) fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    pub(crate) fn guards(self, guards: Guards) -> Self {
        Self { guards, ..self }
    }

    pub(crate) fn promises(self, promises: Promises) -> Self {
        Self { promises, ..self }
    }

    /// One more of a list of the spec.
    pub(crate) fn listed(mut self, field: &str, item: Value) -> Self {
        match self.spec[field].as_array_mut() {
            Some(items) => items.push(item),
            None => self.spec[field] = json!([item]),
        }
        self
    }

    /// Its file, without budgets and events.
    pub(crate) fn file(&self) -> String {
        let document = json!({
            "apiVersion": "outrigger.dev/v1alpha1", "kind": "Scenario",
            "metadata": {"name": self.name}, "spec": self.spec,
        });
        document.to_string()
    }

    pub(crate) fn scenario(&self) -> Scenario {
        let mut scenario = Scenario::read("test.yaml", &self.file()).expect("the scenario is valid");
        for event in &self.events {
            assert!(event.at < scenario.duration, "{event:?} comes after the end");
        }
        scenario.budgets.extend_from_slice(&self.budgets);
        scenario.events.extend_from_slice(&self.events);
        Scenario { guards: self.guards, promises: self.promises, ..scenario }
    }

    pub(crate) fn play(&self) -> Ending {
        self.play_killing(&[])
    }

    /// Plays it; no law is broken on the way.
    #[track_caller]
    pub(crate) fn play_lawfully(&self) -> Ending {
        let ending = self.play();
        super::check_laws(&ending, "");
        ending
    }

    /// The same, and in the end all pods are as their workloads expect it.
    #[track_caller]
    pub(crate) fn play_as_expected(&self) -> Ending {
        let ending = self.play();
        super::check_expected(&ending, "");
        ending
    }

    /// Plays it with runs of functions that die.
    pub(crate) fn play_killing(&self, kills: &[Kill]) -> Ending {
        super::run_scenario(&self.scenario(), kills)
    }
}
