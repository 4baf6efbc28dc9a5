//! Label selectors, and the keys by which a pod's own labels narrow them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as WireSelector;
use outrigger_model::selector::LabelSelector;
use outrigger_model::{Operator, RequirementSpec};

use super::bounds::{self, MAX_TERMS, MAX_VALUES};
use super::problem::{Problem, each};

/// A selector; an absent one selects nothing, an empty one everything, as Kubernetes has it.
pub(super) fn selector(wire: Option<&WireSelector>) -> Result<LabelSelector, Problem> {
    let Some(wire) = wire else { return Ok(nothing()) };
    let match_expressions =
        each("matchExpressions", wire.match_expressions.as_deref(), MAX_TERMS, |expression| {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(Problem::text("operator", other, "In, NotIn, Exists or DoesNotExist")),
            };
            requirement(&expression.key, operator, expression.values.as_deref())
        })?;
    bounds::labels("matchLabels", wire.match_labels.as_ref())?;
    Ok(LabelSelector { match_labels: wire.match_labels.clone().unwrap_or_default(), match_expressions })
}

/// A requirement whose number of values suits its operator.
pub(super) fn requirement(
    key: &str,
    operator: Operator,
    values: Option<&[String]>,
) -> Result<RequirementSpec, Problem> {
    let values = values.unwrap_or_default();
    bounds::key("key", key)?;
    bounds::at_most("values", values, MAX_VALUES)?;
    let allowed = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => "one value or more with In and NotIn",
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            "no values with Exists and DoesNotExist"
        }
        Operator::Gt | Operator::Lt if values.len() != 1 => "exactly one value with Gt and Lt",
        _ => {
            return Ok(RequirementSpec {
                key: key.into(),
                operator,
                values: values.to_vec(),
                min_values: None,
            });
        }
    };
    Err(Problem::new("values", format_args!("{values:?}"), allowed))
}

/// Narrows a selector to pods that share (`In`) or do not share (`NotIn`) the pod's own values of
/// some keys.
///
/// The API server does the same at creation; what it has added already is not added twice. Keys
/// that the pod does not have are passed over, as Kubernetes does.
pub(super) fn narrow(
    selector: &mut LabelSelector,
    keys: Option<&[String]>,
    operator: Operator,
    labels: &BTreeMap<String, String>,
) {
    for key in keys.unwrap_or_default() {
        let Some(value) = labels.get(key) else { continue };
        let spec =
            RequirementSpec { key: key.clone(), operator, values: vec![value.clone()], min_values: None };
        if !selector.match_expressions.contains(&spec) {
            selector.match_expressions.push(spec);
        }
    }
}

/// A selector that selects no pod: no value is in an empty set.
pub(super) fn nothing() -> LabelSelector {
    let never =
        RequirementSpec { key: String::new(), operator: Operator::In, values: Vec::new(), min_values: None };
    LabelSelector { match_labels: BTreeMap::new(), match_expressions: vec![never] }
}
