//! Static pods of the scenario: what the kubelet of each node runs by itself.

use outrigger_kubernetes::convert::static_pod;
use outrigger_model::{Invalid, StaticPod};
use serde::Deserialize;
use serde_json::{Value, json};

/// A static pod that each node runs.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticPodOfNodes {
    /// The pod.
    pub pod: StaticPod,
    /// Who writes its manifest.
    pub written_by: WrittenBy,
}

/// Who writes the manifest of a static pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WrittenBy {
    /// nodeup, as kOps' files say, so that the class of an InstanceGroup tells of it.
    #[default]
    Nodeup,
    /// A hook, which nobody can read: only nodes show it.
    Hook,
}

/// A static pod as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StaticPodFile {
    name: String,
    #[serde(default = "kube_system")]
    namespace: String,
    #[serde(default)]
    written_by: WrittenBy,
    template: Value,
}

impl StaticPodFile {
    /// The pod; `field` names it in complaints.
    pub(super) fn read(&self, field: &str) -> Result<StaticPodOfNodes, Invalid> {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self.template.get("spec").cloned().unwrap_or(Value::Null),
        });
        let pod = static_pod(field, &manifest.to_string())?;
        Ok(StaticPodOfNodes { pod, written_by: self.written_by })
    }
}

impl StaticPodOfNodes {
    /// Whether kOps' files tell of it.
    pub(crate) fn is_in_kops_files(&self) -> bool {
        self.written_by == WrittenBy::Nodeup
    }
}

fn kube_system() -> String {
    "kube-system".into()
}
