//! Whether the API server grants to whoever asks what rbac.yaml gives a function.

use futures::stream::{self, StreamExt, TryStreamExt};
use outrigger_engine::ports::ClusterError;
use serde_json::{Value, json};

use super::transport::{Call, Transport};
use super::{parse, unreadable};
use crate::rights::{Right, UnreadableRbac, of_function};

/// How many rights are asked for at once.
const CONCURRENT_REVIEWS: usize = 8;

/// What a function's group has that the API server does not grant to us, in order.
pub(super) async fn missing(transport: &Transport, function: &str) -> Result<Vec<Right>, ClusterError> {
    let failed = |error: UnreadableRbac| unreadable("know what it should".to_owned(), Box::new(error));
    let granted = stream::iter(of_function(function).map_err(failed)?.into_iter().map(async |right| {
        let call = Call::post(
            "ask what it may do",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &review(&right),
        );
        let answer: Value = parse(&call, &transport.send(&call).await?)?;
        let is_allowed = answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false);
        Ok::<_, ClusterError>((right, is_allowed))
    }));
    let granted: Vec<(Right, bool)> = granted.buffered(CONCURRENT_REVIEWS).try_collect().await?;
    Ok(granted.into_iter().filter(|(_, is_allowed)| !is_allowed).map(|(right, _)| right).collect())
}

/// A SelfSubjectAccessReview of a right.
fn review(right: &Right) -> Value {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let mut attributes =
        json!({"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource});
    if let Some(name) = &right.name {
        attributes["name"] = json!(name);
    }
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_asked_for_as_kubernetes_names_it() {
        let right = Right {
            verb: "get".into(),
            group: "coordination.k8s.io".into(),
            resource: "leases".into(),
            name: Some("karpenter-leader-election".into()),
        };
        let attributes = &review(&right)["spec"]["resourceAttributes"];
        assert_eq!(
            (&attributes["resource"], &attributes["name"]),
            (&json!("leases"), &json!("karpenter-leader-election"))
        );
        let patch = Right { resource: "pods/status".into(), name: None, ..right };
        let attributes = &review(&patch)["spec"]["resourceAttributes"];
        assert_eq!((&attributes["subresource"], attributes.get("name")), (&json!("status"), None));
    }
}
