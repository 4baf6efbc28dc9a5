//! `nodepool.yaml`: a first NodePool, whose nodes are as those of Outrigger's InstanceGroup.

use serde_json::{Value, json};

use super::group::OwnGroup;
use crate::error::CliError;
use crate::output::yaml;

/// The file's text. Any capacity type of general families since the fifth generation will do, so
/// that there is much to choose from.
pub(crate) fn text(group: &OwnGroup) -> Result<String, CliError> {
    let one_of = |key: &str, values: &[&str]| json!({ "key": key, "operator": "In", "values": values });
    let mut requirements = vec![
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        json!({ "key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"] }),
    ];
    if let Some(architecture) = group.architecture() {
        requirements.insert(0, one_of("kubernetes.io/arch", &[architecture]));
    }
    let class = json!({ "group": "kops.k8s.io", "kind": "InstanceGroup", "name": group.name });
    let pool: Value = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": "default" },
        "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": requirements } } },
    });
    yaml(&pool)
}
