//! The rules that a `NodePool` must meet beyond its types (Karpenter 1.14: its CRD and its runtime
//! validation).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::disruption_wishes;
use super::schedule::{self, Schedule};
use super::{Budget, NodeClassRef, NodePool, NodePoolSpec, TemplateMetadata};
use crate::invalid::{Invalid, Problems, shown};
use crate::node_identity::label_restriction;
use crate::resources::NODES;
use crate::{CapacityType, NillableDuration, Operator, RequirementSpec, Resources, Taint, labels, syntax};

const MAX_LABELS: usize = 100;
/// The most requirements that a pool or an overlay may have.
pub(crate) const MAX_REQUIREMENTS: usize = 100;
const MAX_BUDGETS: usize = 50;
const MAX_KEY: usize = 316;
const TEMPLATE: &str = "spec.template.spec";

/// Everything that is wrong with a pool.
pub(super) fn problems(pool: &NodePool) -> Vec<Invalid> {
    let mut problems = Problems::about(format!("NodePool/{}", pool.name));
    let template = &pool.spec.template;
    if !syntax::is_name(&pool.name) {
        problems.refuse("metadata.name", shown(&pool.name), syntax::NAME);
    }
    if let Some(weight) = pool.annotations.get(labels::RISK_WEIGHT) {
        let number = weight.parse::<f64>().ok().filter(|weight| (0.0..=100.0).contains(weight));
        if number.is_none() {
            let field = format!("metadata.annotations[{}]", labels::RISK_WEIGHT);
            problems.refuse(field, shown(weight), "a number from 0 to 100, as 0.2");
        }
    }
    if let Some(cap) = pool.annotations.get(labels::MAX_NEW_NODES_PER_MINUTE)
        && !cap.parse::<u32>().is_ok_and(|cap| cap > 0)
    {
        let field = format!("metadata.annotations[{}]", labels::MAX_NEW_NODES_PER_MINUTE);
        problems.refuse(field, shown(cap), "a whole number from 1, as 50");
    }
    if let Some(headroom) = pool.annotations.get(labels::HEADROOM).filter(|_| pool.headroom().is_none()) {
        let field = format!("metadata.annotations[{}]", labels::HEADROOM);
        problems.refuse(field, shown(headroom), "a whole number of processors from 0 to 1000, as 16");
    }
    let interruption_price = pool.annotations.get(labels::INTERRUPTION_PRICE);
    if let Some(price) = interruption_price.filter(|_| pool.interruption_price().is_none()) {
        let field = format!("metadata.annotations[{}]", labels::INTERRUPTION_PRICE);
        problems.refuse(field, shown(price), "dollars from 0 to 10000, as 5");
    }
    if let Some(value) = pool.annotations.get(labels::MANAGED_ANNOTATION).filter(|value| *value != "true") {
        let field = format!("metadata.annotations[{}]", labels::MANAGED_ANNOTATION);
        problems.refuse(
            field,
            shown(value),
            "\"true\", which makes it ours beside a live Karpenter, or nothing",
        );
    }
    disruption_wishes::check(pool, &mut problems);
    check_size(&pool.spec, &mut problems);
    check_metadata(&template.metadata, &mut problems);
    check_requirements(&template.spec.requirements, &mut problems);
    let (taints, startup_taints) = (&template.spec.taints, &template.spec.startup_taints);
    check_taints(&[("taints", taints), ("startupTaints", startup_taints)], &mut problems);
    if template.spec.termination_grace_period == Some(NillableDuration::NEVER) {
        let field = format!("{TEMPLATE}.terminationGracePeriod");
        problems.refuse(
            field,
            "\"Never\"",
            "a duration such as 1h30m, or nothing, which lets a drain take any time",
        );
    }
    check_class(&template.spec.node_class_ref, &mut problems);
    check_identity(&pool.spec, &mut problems);
    check_annotations(pool, &mut problems);
    check_budgets(&pool.spec.disruption.budgets, &mut problems);
    problems.into_vec()
}

fn check_size(spec: &NodePoolSpec, problems: &mut Problems) {
    if let Some(weight) = spec.weight.filter(|weight| !(1..=100).contains(weight)) {
        problems.refuse("spec.weight", weight, "a whole number from 1 to 100, or nothing, which counts as 0");
    }
    if spec.replicas.is_some() {
        if let Some(weight) = spec.weight {
            problems.refuse("spec.weight", weight, "nothing where spec.replicas fixes the number of nodes");
        }
        let limits = spec.limits.iter().flat_map(Resources::iter);
        for (name, quantity) in limits.filter(|(name, _)| *name != NODES) {
            let allowed = "only nodes where spec.replicas fixes the number of nodes";
            problems.refuse(format!("spec.limits[{name}]"), quantity, allowed);
        }
    }
    let limits = spec.limits.iter().flat_map(Resources::iter);
    for (name, quantity) in limits.filter(|(_, quantity)| quantity.is_negative()) {
        problems.refuse(format!("spec.limits[{name}]"), quantity, "a quantity of 0 or more");
    }
}

fn check_metadata(metadata: &TemplateMetadata, problems: &mut Problems) {
    let field = "spec.template.metadata.labels";
    if metadata.labels.len() > MAX_LABELS {
        problems.refuse(field, format!("{} labels", metadata.labels.len()), format!("at most {MAX_LABELS}"));
    }
    for (key, value) in &metadata.labels {
        let field = format!("{field}[{key}]");
        check_key(&field, key, problems);
        if !syntax::is_value(value) {
            problems.refuse(&field, shown(value), syntax::VALUE);
        } else if labels::normalized(key) == labels::CAPACITY_TYPE {
            check_capacity_type(&field, value, problems);
        }
    }
    // Kubernetes looks at the lower-case form of an annotation's key.
    for key in metadata.annotations.keys().filter(|key| !syntax::is_key(&key.to_ascii_lowercase())) {
        problems.refuse(format!("spec.template.metadata.annotations[{key}]"), shown(key), syntax::KEY);
    }
}

fn check_key(field: &str, key: &str, problems: &mut Problems) {
    if !syntax::is_key(key) {
        problems.refuse(field, shown(&key), syntax::KEY);
    } else if let Some(allowed) = restriction(key) {
        problems.refuse(field, shown(&key), allowed);
    }
}

/// What a pool may name instead of a label key that it may not name; `None` when it may.
fn restriction(key: &str) -> Option<&'static str> {
    let domain = labels::domain(key);
    let within = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    match labels::normalized(key) {
        labels::NODE_POOL => Some("another key: every node gets this label with its pool's name"),
        labels::HOSTNAME => Some("another key: every node has its own value of this label"),
        well_known if labels::is_well_known(well_known) => None,
        _ if within(labels::KARPENTER_DOMAIN) => {
            Some("a key of another domain; of the domain karpenter.sh only karpenter.sh/capacity-type")
        }
        _ if within(labels::EC2_DOMAIN) => Some(
            "a key of another domain; of the domain karpenter.k8s.aws only the labels that describe an instance \
             type, as karpenter.k8s.aws/instance-family",
        ),
        _ => None,
    }
}

fn check_capacity_type(field: &str, value: &str, problems: &mut Problems) {
    if CapacityType::named(value).is_none() {
        problems.refuse(field, shown(&value), "spot, on-demand and reserved");
    }
}

fn check_requirements(requirements: &[RequirementSpec], problems: &mut Problems) {
    let field = format!("{TEMPLATE}.requirements");
    if requirements.len() > MAX_REQUIREMENTS {
        let actual = format!("{} requirements", requirements.len());
        problems.refuse(&field, actual, format!("at most {MAX_REQUIREMENTS}"));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let field = format!("{field}[{index}]");
        check_requirement(&field, requirement, false, problems);
        check_min_values(&field, requirement, problems);
    }
}

/// Checks the key and the values of one requirement; `any_domain` lifts the rules about whose keys
/// may be named.
pub(crate) fn check_requirement(
    field: &str,
    requirement: &RequirementSpec,
    any_domain: bool,
    problems: &mut Problems,
) {
    let key = &requirement.key;
    if key.len() > MAX_KEY {
        let actual = format!("a key of {} characters", key.len());
        problems.refuse(format!("{field}.key"), actual, format!("at most {MAX_KEY}"));
    } else if !any_domain {
        check_key(&format!("{field}.key"), key, problems);
    }
    check_values(field, requirement, problems);
}

fn check_values(field: &str, requirement: &RequirementSpec, problems: &mut Problems) {
    let RequirementSpec { key, operator, values, .. } = requirement;
    let texts = if operator.is_numeric() { &[][..] } else { &values[..] };
    for (index, value) in texts.iter().enumerate() {
        let field = format!("{field}.values[{index}]");
        if !syntax::is_value(value) {
            problems.refuse(field, shown(value), syntax::VALUE);
        } else if labels::normalized(key) == labels::CAPACITY_TYPE && *operator == Operator::In {
            check_capacity_type(&field, value, problems);
        }
    }
    let is_count = |value: &String| value.parse::<i64>().is_ok_and(|number| number >= 0);
    let allowed = match operator {
        Operator::In if values.is_empty() => "at least one value with the operator In",
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => "no values with this operator",
        numeric if numeric.is_numeric() && !matches!(&values[..], [value] if is_count(value)) => {
            "exactly one whole number of 0 or more with the operators Gt, Lt, Gte and Lte"
        }
        _ => return,
    };
    problems.refuse(format!("{field}.values"), shown(values), allowed);
}

fn check_min_values(field: &str, requirement: &RequirementSpec, problems: &mut Problems) {
    let Some(min_values) = requirement.min_values else { return };
    let field = format!("{field}.minValues");
    let distinct = requirement.values.iter().collect::<BTreeSet<_>>().len();
    if !(1..=50).contains(&min_values) {
        problems.refuse(field, min_values, "a whole number from 1 to 50");
    } else if requirement.operator == Operator::In
        && usize::try_from(min_values).is_ok_and(|least| least > distinct)
    {
        problems.refuse(
            field,
            min_values,
            format!("at most {distinct}, the number of distinct values beside it"),
        );
    }
}

fn check_taints(lists: &[(&str, &Vec<Taint>)], problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (list, taints) in lists {
        for (index, taint) in taints.iter().enumerate() {
            let field = format!("{TEMPLATE}.{list}[{index}]");
            if !syntax::is_key(&taint.key) {
                problems.refuse(format!("{field}.key"), shown(&taint.key), syntax::KEY);
            }
            if !syntax::is_value(&taint.value) {
                problems.refuse(format!("{field}.value"), shown(&taint.value), syntax::VALUE);
            }
            if !seen.insert((&taint.key, taint.effect)) {
                let allowed = "each key and effect once among taints and startupTaints together";
                problems.refuse(field, format!("{}:{} again", taint.key, taint.effect), allowed);
            }
        }
    }
}

fn check_class(class: &NodeClassRef, problems: &mut Problems) {
    let field = format!("{TEMPLATE}.nodeClassRef");
    let supported = [(labels::KOPS_GROUP, "InstanceGroup"), (labels::EC2_GROUP, "EC2NodeClass")];
    if !supported.contains(&(&class.group, &class.kind)) {
        let actual = format!("group {} and kind {}", shown(&class.group), shown(&class.kind));
        let allowed =
            "group kops.k8s.io with kind InstanceGroup, or group karpenter.k8s.aws with kind EC2NodeClass";
        problems.refuse(&field, actual, allowed);
    }
    if class.name.is_empty() {
        problems.refuse(format!("{field}.name"), "\"\"", "the name of an InstanceGroup or EC2NodeClass");
    }
}

/// Labels say of no node that it is more than a worker, or of another InstanceGroup: they become
/// tags of its instance, and kops-controller believes these. kOps itself writes the group's name
/// into pools and classes of that name.
fn check_identity(spec: &NodePoolSpec, problems: &mut Problems) {
    let group = &spec.template.spec.node_class_ref.name;
    for (key, value) in &spec.template.metadata.labels {
        if let Some(allowed) = label_restriction(key, value, group) {
            problems.refuse(format!("spec.template.metadata.labels[{key}]"), shown(value), allowed);
        }
    }
    let requirements = spec.template.spec.requirements.iter().enumerate();
    let excludes = [Operator::NotIn, Operator::DoesNotExist];
    for (index, asked) in requirements.filter(|(_, asked)| !excludes.contains(&asked.operator)) {
        let RequirementSpec { key, values, .. } = asked;
        let mut restrictions = values.iter().filter_map(|value| label_restriction(key, value, group));
        let of_key = || label_restriction(key, group, group);
        if let Some(allowed) = restrictions.next().or_else(of_key) {
            problems.refuse(
                format!("{TEMPLATE}.requirements[{index}]"),
                format!("{key}: {}", shown(values)),
                allowed,
            );
        }
    }
}

/// An annotation of ours that we do not know is a slip of the pen.
fn check_annotations(pool: &NodePool, problems: &mut Problems) {
    for (key, value) in &pool.annotations {
        if labels::domain(key) == labels::OUR_GROUP && !labels::POOL_ANNOTATIONS.contains(&key.as_str()) {
            let annotations = labels::POOL_ANNOTATIONS.join(", ");
            problems.refuse(
                format!("metadata.annotations[{key}]"),
                shown(value),
                format!("the annotations {annotations}"),
            );
        }
    }
}

fn check_budgets(budgets: &[Budget], problems: &mut Problems) {
    if budgets.len() > MAX_BUDGETS {
        let actual = format!("{} budgets", budgets.len());
        problems.refuse("spec.disruption.budgets", actual, format!("at most {MAX_BUDGETS}"));
    }
    for (index, budget) in budgets.iter().enumerate() {
        check_budget(&format!("spec.disruption.budgets[{index}]"), budget, problems);
    }
}

fn check_budget(field: &str, budget: &Budget, problems: &mut Problems) {
    if !is_node_count(&budget.nodes) {
        let allowed = "a number of nodes as \"3\", or a percentage from \"0%\" to \"100%\"";
        problems.refuse(format!("{field}.nodes"), shown(&budget.nodes), allowed);
    }
    if let Some((schedule, error)) =
        budget.schedule.as_ref().and_then(|s| Some((s, s.parse::<Schedule>().err()?)))
    {
        problems.refuse(
            format!("{field}.schedule"),
            shown(schedule),
            format!("{}: {error}", schedule::ALLOWED),
        );
    }
    if let Some(duration) = budget.duration.as_ref().filter(|duration| !is_budget_duration(duration)) {
        let allowed = "hours and minutes without seconds, as 8h, 30m or 1h30m";
        problems.refuse(format!("{field}.duration"), shown(duration), allowed);
    }
    match (&budget.schedule, &budget.duration) {
        (Some(_), None) => {
            let allowed = "a duration, since there is a schedule: how long the budget holds each time";
            problems.refuse(format!("{field}.duration"), "nothing", allowed);
        }
        (None, Some(_)) => {
            let allowed = "a schedule, since there is a duration: when the budget begins to hold";
            problems.refuse(format!("{field}.schedule"), "nothing", allowed);
        }
        _ => {}
    }
    let reasons = budget.reasons.as_deref().unwrap_or_default();
    if reasons.iter().enumerate().any(|(index, reason)| reasons[..index].contains(reason)) {
        problems.refuse(format!("{field}.reasons"), shown(&reasons), "each reason once");
    }
}

/// A number of nodes that fits 32 bits, or a percentage.
fn is_node_count(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(percent) => percent == "100" || (percent.len() <= 2 && is_number(percent)),
        None => is_number(text) && text.parse::<u32>().is_ok(),
    }
}

/// `8h`, `30m` or `8h30m`, and the same with the `0s` that Go prints behind them.
fn is_budget_duration(text: &str) -> bool {
    let text = text.strip_suffix("0s").unwrap_or(text);
    let (hours, minutes) = match text.split_once('h') {
        Some((hours, minutes)) => (Some(hours), minutes),
        None => (None, text),
    };
    let minutes_fit = match minutes.strip_suffix('m') {
        Some(minutes) => is_number(minutes),
        None => hours.is_some() && minutes.is_empty(),
    };
    minutes_fit && hours.is_none_or(is_number) && text.parse::<NillableDuration>().is_ok()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
