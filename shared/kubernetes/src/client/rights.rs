//! What a function may do in the cluster: what rbac.yaml gives its group, and whether the API
//! server grants it to whoever asks.

use std::collections::BTreeSet;
use std::fmt;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use outrigger_engine::ports::ClusterError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::transport::{Call, Transport};
use super::{parse, unreadable};

/// What ships with this version.
const RBAC: &str = include_str!("../../../../infra/kubernetes/rbac.yaml");
/// How many rights are asked for at once.
const CONCURRENT_REVIEWS: usize = 8;

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
    /// Whether Outrigger works without it: kube-scheduler then places all pods.
    pub fn is_optional(&self) -> bool {
        (self.verb.as_str(), self.resource.as_str()) == ("create", "pods/binding")
    }

    /// A SelfSubjectAccessReview of it.
    fn review(&self) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let mut attributes =
            json!({"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource});
        if let Some(name) = &self.name {
            attributes["name"] = json!(name);
        }
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        })
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

/// What a function's group has that the API server does not grant to us, in order.
pub(super) async fn missing(transport: &Transport, function: &str) -> Result<Vec<Right>, ClusterError> {
    let granted = stream::iter(of_group(&format!("outrigger:{function}"))?.into_iter().map(async |right| {
        let call = Call::post(
            "ask what it may do",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &right.review(),
        );
        let answer: Value = parse(&call, &transport.send(&call).await?)?;
        let is_allowed = answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false);
        Ok::<_, ClusterError>((right, is_allowed))
    }));
    let granted: Vec<(Right, bool)> = granted.buffered(CONCURRENT_REVIEWS).try_collect().await?;
    Ok(granted.into_iter().filter(|(_, is_allowed)| !is_allowed).map(|(right, _)| right).collect())
}

/// All that rbac.yaml gives a group.
fn of_group(group: &str) -> Result<BTreeSet<Right>, ClusterError> {
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
fn documents<T: DeserializeOwned>(kind: &str) -> Result<Vec<T>, ClusterError> {
    let failed = |why: String| unreadable("read rbac.yaml".into(), why.into());
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(RBAC).map_err(|error| failed(error.to_string()))?;
    let of_kind = documents.into_iter().filter(|document| document["kind"] == kind);
    of_kind
        .map(|document| serde_json::from_value(document).map_err(|error| failed(error.to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_rights_of_its_own() {
        let has = |function: &str, words: &str| {
            of_group(&format!("outrigger:{function}")).unwrap().iter().any(|right| right.to_string() == words)
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
        assert!(of_group("outrigger:refresh").unwrap().is_empty());
    }

    #[test]
    fn only_pods_may_be_left_to_the_scheduler() {
        let all = of_group("outrigger:lifecycle").unwrap();
        let optional: Vec<String> =
            all.iter().filter(|right| right.is_optional()).map(Right::to_string).collect();
        assert_eq!(optional, ["create pods/binding"]);
    }

    #[test]
    fn a_right_is_asked_for_as_kubernetes_names_it() {
        let right = Right {
            verb: "get".into(),
            group: "coordination.k8s.io".into(),
            resource: "leases".into(),
            name: Some("karpenter-leader-election".into()),
        };
        let attributes = &right.review()["spec"]["resourceAttributes"];
        assert_eq!(
            (&attributes["resource"], &attributes["name"]),
            (&json!("leases"), &json!("karpenter-leader-election"))
        );
        let patch = Right { resource: "pods/status".into(), name: None, ..right };
        let attributes = &patch.review()["spec"]["resourceAttributes"];
        assert_eq!((&attributes["subresource"], attributes.get("name")), (&json!("status"), None));
    }
}
