//! Labels and tags by which kOps tells what a node is. kops-controller gives a node the labels that
//! its instance's tags name, so whoever writes a pool or a class could make a node of the control
//! plane, or one of another InstanceGroup.

use crate::labels;

/// The roles of machines that hold more than pods (kOps `pkg/apis/kops/instancegroup.go`, and the
/// names of before).
const ROLES: [&str; 5] = ["control-plane", "master", "api-server", "apiserver", "etcd"];
/// The label of the nodes that kops-controller runs on.
const KOPS_CONTROLLER: &str = "kops.k8s.io/kops-controller-pki";
const WORKERS_ONLY: &str = "nothing of this kind: only kOps makes nodes that are more than workers";

/// What is allowed in place of a label of the nodes of an InstanceGroup; `None` where it may stand.
pub fn label_restriction(key: &str, value: &str, group: &str) -> Option<String> {
    let has_role = |prefix| key.strip_prefix(prefix).is_some_and(|role| ROLES.contains(&role));
    let is_legacy = key == "kubernetes.io/role" && ROLES.contains(&value);
    if has_role("node-role.kubernetes.io/") || is_legacy || key == KOPS_CONTROLLER {
        return Some(WORKERS_ONLY.to_owned());
    }
    (key == labels::INSTANCE_GROUP && value != group).then(|| match group {
        "" => format!("a label beside the tag {} with the same value", labels::INSTANCE_GROUP),
        group => format!("{group:?}, which its nodes are of"),
    })
}

/// The same of a tag of its instances.
pub fn tag_restriction(key: &str, value: &str, group: &str) -> Option<String> {
    if let Some(label) = key.strip_prefix(labels::NODE_LABEL_TAG) {
        return label_restriction(label, value, group);
    }
    let role = key.strip_prefix("k8s.io/role/");
    if role.is_some_and(|role| ROLES.contains(&role)) {
        return Some(WORKERS_ONLY.to_owned());
    }
    (key == labels::INSTANCE_GROUP).then(|| label_restriction(key, value, group)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_makes_a_node_of_the_control_plane_or_of_another_group() {
        let template = |label: &str| format!("{}{label}", labels::NODE_LABEL_TAG);
        let table = [
            ("team".to_owned(), "red", true),
            ("k8s.io/role/node".to_owned(), "1", true),
            ("k8s.io/role/control-plane".to_owned(), "1", false),
            ("k8s.io/role/master".to_owned(), "1", false),
            (labels::INSTANCE_GROUP.to_owned(), "nodes", true),
            (labels::INSTANCE_GROUP.to_owned(), "control-plane-a", false),
            (template("node-role.kubernetes.io/node"), "", true),
            (template("node-role.kubernetes.io/spot-worker"), "", true),
            (template("node-role.kubernetes.io/control-plane"), "", false),
            (template("node-role.kubernetes.io/api-server"), "", false),
            (template("kubernetes.io/role"), "master", false),
            (template("kops.k8s.io/kops-controller-pki"), "", false),
            (template(labels::INSTANCE_GROUP), "nodes", true),
            (template(labels::INSTANCE_GROUP), "others", false),
        ];
        for (key, value, allowed) in table {
            assert_eq!(tag_restriction(&key, value, "nodes").is_none(), allowed, "{key}: {value}");
        }
        assert!(label_restriction(labels::INSTANCE_GROUP, "nodes", "").is_some());
    }
}
