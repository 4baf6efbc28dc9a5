//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1 as wire;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as WireSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use outrigger_model::selector::LabelSelector;
use outrigger_model::{HealthyPods, Invalid, PodDisruptionBudget, UnhealthyPods};
use serde::Deserialize;
use serde_json::Value;

use super::pod::reference;
use super::problem::{Problem, Within};
use super::selector::selector;

/// A PodDisruptionBudget; one without a selector covers no pod. What cannot be read of it is for
/// [`unreadable_budget`].
pub fn disruption_budget(wire: wire::PodDisruptionBudget) -> Result<PodDisruptionBudget, Invalid> {
    let id = reference(&wire.metadata);
    let about = |problem: Problem| problem.about("PodDisruptionBudget", Some(&id.namespace), &id.name);
    let spec = wire.spec.unwrap_or_default();
    let selector = selector(spec.selector.as_ref()).within("selector").within("spec").map_err(about)?;
    let is_fully_blocking = is_fully_blocking(&spec).within("spec").map_err(about)?;
    let unhealthy_pods = match spec.unhealthy_pod_eviction_policy.as_deref() {
        None | Some("IfHealthyBudget") => UnhealthyPods::IfHealthyBudget,
        Some("AlwaysAllow") => UnhealthyPods::AlwaysAllow,
        Some(other) => UnhealthyPods::Unknown(other.to_owned()),
    };
    // They are never less than zero, whatever the type of the wire says.
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    let is_counted_anew = wire.status.as_ref().is_some_and(|status| {
        status.observed_generation.zip(wire.metadata.generation).is_some_and(|(seen, now)| seen < now)
    });
    let allowed = wire.status.as_ref().map(|status| count(status.disruptions_allowed));
    let healthy = wire.status.map(|status| HealthyPods {
        current: count(status.current_healthy),
        desired: count(status.desired_healthy),
    });
    Ok(PodDisruptionBudget {
        id,
        selector,
        is_fully_blocking,
        // The Eviction API refuses while a changed budget has not been counted anew.
        disruptions_allowed: allowed.map(|allowed| if is_counted_anew { 0 } else { allowed }),
        unhealthy_pods,
        healthy,
        unreadable: None,
    })
}

fn is_fully_blocking(spec: &wire::PodDisruptionBudgetSpec) -> Result<bool, Problem> {
    if spec.max_unavailable.is_some() && spec.min_available.is_some() {
        return Err(Problem::new("maxUnavailable", "minAvailable beside it", "one of them"));
    }
    let most = amount("maxUnavailable", spec.max_unavailable.as_ref())?;
    let least = amount("minAvailable", spec.min_available.as_ref())?;
    Ok(matches!(most, Some(Amount::Number(0) | Amount::Percent(0)))
        || matches!(least, Some(Amount::Percent(100))))
}

/// How many pods a budget speaks of.
enum Amount {
    Number(u32),
    Percent(u8),
}

fn amount(field: &str, wire: Option<&IntOrString>) -> Result<Option<Amount>, Problem> {
    let Some(wire) = wire else { return Ok(None) };
    let (read, shown) = match wire {
        IntOrString::Int(number) => (u32::try_from(*number).ok().map(Amount::Number), number.to_string()),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<u8>().ok());
            (percent.filter(|percent| *percent <= 100).map(Amount::Percent), format!("{text:?}"))
        }
    };
    let refused = || Problem::new(field, shown, "a number from 0 on, or a percentage from 0% to 100%");
    read.map(Some).ok_or_else(refused)
}

/// A PodDisruptionBudget that cannot be read, and why: nobody knows how many of its pods may go, so
/// none of those may that it can cover. Where its selector cannot be read either, these are all
/// pods of its namespace.
pub fn unreadable_budget(object: &Value, problem: &Invalid) -> PodDisruptionBudget {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let metadata = ObjectMeta {
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        ..Default::default()
    };
    PodDisruptionBudget {
        id: reference(&metadata),
        selector: may_cover(object.get("spec").unwrap_or(&Value::Null)),
        is_fully_blocking: true,
        disruptions_allowed: None,
        unhealthy_pods: UnhealthyPods::default(),
        healthy: None,
        unreadable: Some(problem.complaint()),
    }
}

/// The pods that a budget with this spec may cover.
fn may_cover(spec: &Value) -> LabelSelector {
    let wire = match spec {
        Value::Null => Ok(None),
        Value::Object(fields) => {
            Option::<WireSelector>::deserialize(fields.get("selector").unwrap_or(&Value::Null))
        }
        _ => return LabelSelector::default(),
    };
    wire.ok().and_then(|wire| selector(wire.as_ref()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert::Interner;

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

    #[test]
    fn it_says_what_becomes_of_pods_that_are_not_ready() {
        let table = [
            (json!(null), UnhealthyPods::IfHealthyBudget),
            (json!("IfHealthyBudget"), UnhealthyPods::IfHealthyBudget),
            (json!("AlwaysAllow"), UnhealthyPods::AlwaysAllow),
            (json!("Sometimes"), UnhealthyPods::Unknown("Sometimes".into())),
        ];
        for (policy, expected) in table {
            let object = json!({
                "metadata": {"name": "b", "namespace": "n"},
                "spec": {"unhealthyPodEvictionPolicy": policy},
                "status": {"currentHealthy": 2, "desiredHealthy": 3, "expectedPods": 4, "disruptionsAllowed": 0},
            });
            let budget = disruption_budget(serde_json::from_value(object).unwrap()).unwrap();
            assert_eq!(budget.unhealthy_pods, expected, "{policy}");
            assert_eq!(budget.healthy, Some(HealthyPods { current: 2, desired: 3 }));
        }
    }

    #[test]
    fn nobody_goes_until_a_changed_budget_is_counted_anew() {
        for (seen, expected) in [(json!(1), Some(0)), (json!(2), Some(1)), (json!(null), Some(1))] {
            let object = json!({
                "metadata": {"name": "b", "namespace": "n", "generation": 2},
                "spec": {"maxUnavailable": 1},
                "status": {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1,
                    "observedGeneration": seen},
            });
            let budget = disruption_budget(serde_json::from_value(object).unwrap()).unwrap();
            assert_eq!(budget.disruptions_allowed, expected, "{seen}");
        }
    }

    #[test]
    fn a_budget_that_cannot_be_read_keeps_all_pods_that_it_may_cover() {
        let app = json!({"matchLabels": {"app": "web"}});
        let odd = json!({"matchExpressions": [{"key": "app", "operator": "Near"}]});
        // What the spec says, whether pods of web and of other apps are covered, and the field that
        // is told.
        let table = [
            (
                json!({"selector": app, "minAvailable": "ten"}),
                (true, false),
                "spec.minAvailable: found \"ten\"",
            ),
            (json!({"selector": app, "maxUnavailable": "150%"}), (true, false), "spec.maxUnavailable"),
            (json!({"selector": app, "maxUnavailable": -1}), (true, false), "spec.maxUnavailable: found -1"),
            (json!({"selector": app, "minAvailable": {"of": 1}}), (true, false), "minAvailable"),
            (json!({"selector": app, "minAvailable": 1, "maxUnavailable": 1}), (true, false), "minAvailable"),
            (
                json!({"selector": odd, "minAvailable": 1}),
                (true, true),
                "spec.selector.matchExpressions[0].operator",
            ),
            (json!({"selector": "app=web", "minAvailable": 1}), (true, true), "spec.selector"),
            (json!({"minAvailable": "ten"}), (false, false), "spec.minAvailable"),
            (json!("none"), (true, true), "spec"),
        ];
        for (spec, covered, complaint) in table {
            let object = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec});
            let read = crate::wire::read_value::<wire::PodDisruptionBudget>("PodDisruptionBudget", &object);
            let problem = read.and_then(disruption_budget).unwrap_err();
            let budget = unreadable_budget(&object, &problem);
            let covers = |app: &str| {
                let pod =
                    json!({"metadata": {"name": "p", "labels": {"app": app}}, "spec": {"containers": []}});
                let pod = crate::convert::pod(serde_json::from_value(pod).unwrap(), &mut Interner::default());
                budget.covers(&pod.unwrap())
            };
            assert_eq!((covers("web"), covers("api")), covered, "{spec}");
            assert!(budget.is_fully_blocking && budget.id.to_string() == "default/b", "{spec}");
            assert!(
                budget.unreadable.as_ref().unwrap().contains(complaint),
                "{spec}: {:?}",
                budget.unreadable
            );
        }
    }
}
