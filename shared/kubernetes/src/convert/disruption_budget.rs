//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1 as wire;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use outrigger_model::{Invalid, PodDisruptionBudget};

use super::pod::reference;
use super::problem::Within;
use super::selector::selector;

/// A PodDisruptionBudget; one without a selector covers no pod.
pub fn disruption_budget(wire: wire::PodDisruptionBudget) -> Result<PodDisruptionBudget, Invalid> {
    let id = reference(&wire.metadata);
    let spec = wire.spec.unwrap_or_default();
    let selector = selector(spec.selector.as_ref())
        .within("selector")
        .within("spec")
        .map_err(|problem| problem.about("PodDisruptionBudget", Some(&id.namespace), &id.name))?;
    let is_fully_blocking = match (&spec.max_unavailable, &spec.min_available) {
        (Some(IntOrString::Int(most)), _) => *most == 0,
        (Some(IntOrString::String(most)), _) => most == "0%" || most == "0",
        (None, Some(IntOrString::String(least))) => least == "100%",
        (None, _) => false,
    };
    let allowed = wire.status.map(|status| status.disruptions_allowed);
    // It is never less than zero, whatever the type of the wire says.
    let disruptions_allowed = allowed.map(|allowed| u32::try_from(allowed).unwrap_or(0));
    Ok(PodDisruptionBudget { id, selector, is_fully_blocking, disruptions_allowed })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn budgets_that_let_nobody_go_are_told_from_those_that_may() {
        let table = [
            (json!({"maxUnavailable": 0}), true),
            (json!({"maxUnavailable": "0%"}), true),
            (json!({"maxUnavailable": 1}), false),
            (json!({"maxUnavailable": "10%"}), false),
            (json!({"minAvailable": "100%"}), true),
            (json!({"minAvailable": "90%"}), false),
            (json!({"minAvailable": 3}), false),
            (json!({}), false),
        ];
        for (spec, expected) in table {
            let mut object: Value = json!({"metadata": {"name": "b", "namespace": "n"}, "spec": spec});
            object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
            let budget = disruption_budget(serde_json::from_value(object).unwrap()).unwrap();
            assert_eq!(
                (budget.is_fully_blocking, budget.id.to_string().as_str()),
                (expected, "n/b"),
                "{spec}"
            );
            assert_eq!(budget.selector.match_labels["app"], "web");
        }
    }

    #[test]
    fn only_a_status_says_how_many_may_go() {
        let table = [(None, None), (Some(0), Some(0)), (Some(3), Some(3)), (Some(-1), Some(0))];
        for (allowed, expected) in table {
            let mut object: Value = json!({"metadata": {"name": "b", "namespace": "n"}, "spec": {}});
            if let Some(allowed) = allowed {
                object["status"] = json!({"currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2});
                object["status"]["disruptionsAllowed"] = json!(allowed);
            }
            let budget = disruption_budget(serde_json::from_value(object).unwrap()).unwrap();
            assert_eq!(budget.disruptions_allowed, expected, "{allowed:?}");
        }
    }
}
