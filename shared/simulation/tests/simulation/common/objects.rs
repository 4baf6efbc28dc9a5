//! Objects of a test's world, each with what is special about it.

use std::time::Duration;

use outrigger_model::{PodRef, UnhealthyPods, labels};
use outrigger_simulation::{DisruptionBudget, Expect};
use serde_json::{Value, json};

/// A NodePool of the InstanceGroup `nodes`.
#[derive(Clone)]
pub(crate) struct Pool(pub(super) Value);

impl Pool {
    pub(crate) fn new(name: &str) -> Self {
        let class = json!({"group": labels::KOPS_GROUP, "kind": "InstanceGroup", "name": "nodes"});
        Self(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }))
    }

    /// The same of the test's EC2NodeClass.
    pub(crate) fn of_ec2_node_class(self, name: &str) -> Self {
        let class = json!({"group": labels::EC2_GROUP, "kind": "EC2NodeClass", "name": name});
        self.template("nodeClassRef", class)
    }

    pub(crate) fn annotate(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = value.into();
        self
    }

    /// A field of its spec.
    pub(crate) fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["spec"][field] = value.into();
        self
    }

    /// A field of its template's spec.
    pub(crate) fn template(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["spec"]["template"]["spec"][field] = value.into();
        self
    }

    /// An annotation of its template.
    pub(crate) fn annotate_nodes(mut self, key: &str, value: &str) -> Self {
        self.0["spec"]["template"]["metadata"]["annotations"][key] = value.into();
        self
    }

    pub(crate) fn require(self, key: &str, values: &[&str]) -> Self {
        self.requirement(json!({"key": key, "operator": "In", "values": values}))
    }

    pub(crate) fn requirement(mut self, requirement: Value) -> Self {
        let requirements = self.0["spec"]["template"]["spec"]["requirements"].as_array_mut();
        requirements.expect("a pool has requirements").push(requirement);
        self
    }

    pub(crate) fn spot(self) -> Self {
        self.capacity_types(&["spot"])
    }

    pub(crate) fn on_demand(self) -> Self {
        self.capacity_types(&["on-demand"])
    }

    pub(crate) fn capacity_types(self, capacity_types: &[&str]) -> Self {
        self.require(labels::CAPACITY_TYPE, capacity_types)
    }

    pub(crate) fn instance_types(self, types: &[&str]) -> Self {
        self.require(labels::INSTANCE_TYPE, types)
    }

    pub(crate) fn families(self, families: &[&str]) -> Self {
        self.require(labels::INSTANCE_FAMILY, families)
    }

    pub(crate) fn sizes(self, sizes: &[&str]) -> Self {
        self.require("karpenter.k8s.aws/instance-size", sizes)
    }

    /// On demand, and of a type whose machines have two processors and 8 GiB.
    pub(crate) fn of_m6a_large(self) -> Self {
        self.on_demand().instance_types(&["m6a.large"])
    }

    /// Spot machines of a size of which EC2 has several families.
    pub(crate) fn of_spot_large(self) -> Self {
        self.spot().sizes(&["large"]).families(&["m6a", "m6i", "m7g", "m6g"])
    }
}

/// A workload whose pods come two seconds after the world's beginning, and run in the end.
#[derive(Clone)]
pub(crate) struct Workload(pub(super) Value);

impl Workload {
    pub(crate) fn new(name: &str, replicas: u32, cpu: &str, memory: &str) -> Self {
        Self(json!({"name": name, "at": "2s", "replicas": replicas, "template": pods(cpu, memory)}))
    }

    /// When its pods come.
    pub(crate) fn at(self, at: Duration) -> Self {
        self.set("at", span(at))
    }

    /// How many there are later on.
    pub(crate) fn scale(self, scale: &[(Duration, u32)]) -> Self {
        let change = |(at, replicas): &(Duration, u32)| json!({"at": span(*at), "replicas": replicas});
        self.set("scale", scale.iter().map(change).collect::<Vec<_>>())
    }

    pub(crate) fn expect(self, expect: Expect) -> Self {
        self.set("expect", json!(expect))
    }

    /// Another field of the workload.
    pub(crate) fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0[field] = value.into();
        self
    }

    /// Gives its pods the label `app` with its name, for budgets to match.
    pub(crate) fn labelled(self) -> Self {
        let name = self.0["name"].as_str().expect("a workload has a name").to_owned();
        self.label("app", &name)
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0["template"]["metadata"]["labels"][key] = value.into();
        self
    }

    pub(crate) fn annotate(mut self, key: &str, value: &str) -> Self {
        self.0["template"]["metadata"]["annotations"][key] = value.into();
        self
    }

    /// A field of its pods' spec.
    pub(crate) fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["template"]["spec"][field] = value.into();
        self
    }

    pub(crate) fn select(mut self, key: &str, value: &str) -> Self {
        self.0["template"]["spec"]["nodeSelector"][key] = value.into();
        self
    }

    /// The seconds that its pods may take to end.
    pub(crate) fn grace(self, seconds: u64) -> Self {
        self.spec("terminationGracePeriodSeconds", seconds)
    }

    /// Its pods take a port of their node, so that each needs a node of its own.
    pub(crate) fn host_port(mut self) -> Self {
        self.0["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        self
    }
}

/// A template of pods that ask for so much.
pub(crate) fn pods(cpu: &str, memory: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
    json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

/// The same of pods that bear every taint.
pub(crate) fn pods_everywhere(cpu: &str, memory: &str) -> Value {
    let mut template = pods(cpu, memory);
    template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    template
}

/// A PodDisruptionBudget of a workload, which lets so many of its pods be away.
pub(crate) fn max_unavailable(workload: &str, number: u32) -> DisruptionBudget {
    DisruptionBudget { max_unavailable: Some(number), ..budget(workload) }
}

/// A PodDisruptionBudget of a workload, which keeps so many of its pods.
pub(crate) fn min_available(workload: &str, number: u32) -> DisruptionBudget {
    DisruptionBudget { min_available: Some(number), ..budget(workload) }
}

fn budget(workload: &str) -> DisruptionBudget {
    DisruptionBudget {
        id: in_default(workload),
        match_labels: [("app".to_owned(), workload.to_owned())].into(),
        min_available: None,
        max_unavailable: None,
        unhealthy_pods: UnhealthyPods::default(),
    }
}

/// An object of the namespace `default`.
pub(crate) fn in_default(name: &str) -> PodRef {
    PodRef { namespace: "default".into(), name: name.into() }
}

/// The EC2NodeClass `own`, with what such a class needs.
pub(crate) fn ec2_node_class() -> Value {
    let by_team = json!([{"tags": {"team": "web"}}]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own"},
        "spec": {
            "amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}],
            "subnetSelectorTerms": by_team, "securityGroupSelectorTerms": by_team,
            "instanceProfile": "nodes", "userData": "nodeup",
        },
    })
}

/// A time as files write it.
pub(super) fn span(length: Duration) -> String {
    format!("{}s", length.as_secs())
}
