//! What a function may do in the cluster: what rbac.yaml gives its group.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What ships with this version.
const RBAC: &str = include_str!("../../../infra/kubernetes/rbac.yaml");

/// One thing that a function may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The verb, as `patch`.
    pub verb: String,
    /// The API group; empty for the core.
    pub group: String,
    /// The resource with its subresource, as `pods/status`.
    pub resource: String,
    /// The one object that it is about; all where there is none.
    pub name: Option<String>,
}

impl Right {
    /// What it is about, as `nodepools/status.karpenter.sh` or `namespaces kube-system`.
    pub fn object(&self) -> String {
        let Self { group, resource, name, .. } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{resource}{group}{name}")
    }

    /// Whether Outrigger works without it: kube-scheduler then places all pods.
    pub fn is_optional(&self) -> bool {
        (self.verb.as_str(), self.resource.as_str()) == ("create", "pods/binding")
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.object())
    }
}

/// The group that a function is a member of, as `outrigger:provision`.
pub fn group(function: &str) -> String {
    format!("outrigger:{function}")
}

/// That rbac.yaml is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("rbac.yaml cannot be read: {0}")]
pub struct UnreadableRbac(String);

/// All that rbac.yaml gives a function; nothing to one that knows no cluster.
pub fn of_function(function: &str) -> Result<BTreeSet<Right>, UnreadableRbac> {
    let group = group(function);
    let bindings = documents::<ClusterRoleBinding>("ClusterRoleBinding")?;
    let of_it = bindings.into_iter().filter(|binding| {
        binding.subjects.iter().flatten().any(|subject| subject.kind == "Group" && subject.name == group)
    });
    let names: BTreeSet<String> = of_it.map(|binding| binding.role_ref.name).collect();
    let roles = documents::<ClusterRole>("ClusterRole")?;
    let roles =
        roles.into_iter().filter(|role| role.metadata.name.as_ref().is_some_and(|name| names.contains(name)));
    Ok(roles.flat_map(|role| role.rules.unwrap_or_default()).flat_map(|rule| rights(&rule)).collect())
}

fn rights(rule: &PolicyRule) -> Vec<Right> {
    let names: Vec<Option<String>> = match rule.resource_names.as_deref() {
        None | Some([]) => vec![None],
        Some(names) => names.iter().cloned().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rights.extend(names.iter().map(|name| Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                }));
            }
        }
    }
    rights
}

/// The objects of a kind.
fn documents<T: DeserializeOwned>(kind: &str) -> Result<Vec<T>, UnreadableRbac> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(RBAC).map_err(|error| UnreadableRbac(error.to_string()))?;
    let of_kind = documents.into_iter().filter(|document| document["kind"] == kind);
    let read = of_kind.map(serde_json::from_value);
    read.map(|read| read.map_err(|error| UnreadableRbac(error.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_rights_of_its_own() {
        let has = |function: &str, words: &str| {
            of_function(function).unwrap().iter().any(|right| right.to_string() == words)
        };
        let table = [
            ("get namespaces kube-system", [true, true, true, true]),
            ("list pods", [true, true, true, false]),
            ("patch nodepools/status.karpenter.sh", [true, false, false, false]),
            ("create pods/eviction", [false, false, true, false]),
            ("get nodes", [false, false, false, true]),
            ("list nodeclaims.karpenter.sh", [false, false, true, false]),
        ];
        for (words, expected) in table {
            let functions = ["provision", "disrupt", "lifecycle", "interrupt"];
            assert_eq!(functions.map(|function| has(function, words)), expected, "{words}");
        }
        assert!(of_function("refresh").unwrap().is_empty());
    }

    #[test]
    fn only_pods_may_be_left_to_the_scheduler() {
        let all = of_function("lifecycle").unwrap();
        let optional: Vec<String> =
            all.iter().filter(|right| right.is_optional()).map(Right::to_string).collect();
        assert_eq!(optional, ["create pods/binding"]);
    }
}
