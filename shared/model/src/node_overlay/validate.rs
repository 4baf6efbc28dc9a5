//! The rules that a `NodeOverlay` must meet beyond its types (Karpenter 1.14: its CRD and its
//! runtime validation).

use super::{NodeOverlaySpec, PriceOverlay, amount};
use crate::invalid::{Invalid, Problems, shown};
use crate::node_pool::validate::{MAX_REQUIREMENTS, check_requirement};
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use crate::{Operator, RequirementSpec, labels};

/// The resources of which a machine has what it has.
const FIXED: [&str; 4] = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];

/// What it does to prices, and everything that is wrong with it.
pub(super) fn check(label: &str, name: &str, spec: &NodeOverlaySpec) -> (Option<PriceOverlay>, Vec<Invalid>) {
    let mut problems = Problems::about(label);
    if name.is_empty() {
        problems.refuse("metadata.name", "nothing", "a name");
    }
    if let Some(weight) = spec.weight.filter(|weight| !(1..=10_000).contains(weight)) {
        let allowed = "a whole number from 1 to 10000, or nothing, which counts as 0";
        problems.refuse("spec.weight", weight, allowed);
    }
    check_requirements(spec, &mut problems);
    check_capacity(spec, &mut problems);
    let price = price(spec, &mut problems);
    (price, problems.into_vec())
}

fn check_requirements(spec: &NodeOverlaySpec, problems: &mut Problems) {
    let count = spec.requirements.len();
    if count > MAX_REQUIREMENTS {
        let allowed = format!("at most {MAX_REQUIREMENTS}");
        return problems.refuse("spec.requirements", format!("{count} requirements"), allowed);
    }
    for (index, wanted) in spec.requirements.iter().enumerate() {
        let field = format!("spec.requirements[{index}]");
        let requirement = RequirementSpec {
            key: wanted.key.clone(),
            operator: wanted.operator,
            values: wanted.values.clone(),
            min_values: None,
        };
        // An overlay may be about the offerings of one pool, which a pool's own requirements may
        // not name.
        check_requirement(&field, &requirement, wanted.key == labels::NODE_POOL, problems);
        if wanted.operator == Operator::NotIn && wanted.values.is_empty() {
            problems.refuse(
                format!("{field}.values"),
                shown(&wanted.values),
                "at least one value with the operator NotIn",
            );
        }
    }
}

fn check_capacity(spec: &NodeOverlaySpec, problems: &mut Problems) {
    for (name, quantity) in spec.capacity.iter() {
        let field = format!("spec.capacity[{name}]");
        if FIXED.contains(&name) {
            problems.refuse(&field, quantity, "extended resources only, as example.com/device");
        }
        if quantity.is_negative() {
            problems.refuse(&field, quantity, "a quantity of 0 or more");
        }
    }
}

fn price(spec: &NodeOverlaySpec, problems: &mut Problems) -> Option<PriceOverlay> {
    let written = [
        (
            "spec.price",
            &spec.price,
            amount::price as fn(&str) -> Option<PriceOverlay>,
            "dollars per hour as 0.25, at most 1000000",
        ),
        (
            "spec.priceAdjustment",
            &spec.price_adjustment,
            amount::adjustment,
            "dollars per hour as +0.5 or -0.5, or a share of the price as +10% or -10%, not below -100%",
        ),
    ];
    if spec.price.is_some() && spec.price_adjustment.is_some() {
        let allowed = "nothing beside price: an overlay has one of the two";
        problems.refuse("spec.priceAdjustment", shown(&spec.price_adjustment), allowed);
    }
    let mut price_overlay = None;
    for (field, text, read, allowed) in written {
        let Some(text) = text else { continue };
        match read(text) {
            Some(price) => price_overlay = Some(price),
            None => problems.refuse(field, shown(text), allowed),
        }
    }
    price_overlay
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{NodeOverlay, PriceOverlay};

    fn read(spec: &Value) -> Result<NodeOverlay, String> {
        let object = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": "x"}, "spec": spec});
        NodeOverlay::read(&object)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn an_overlay_is_read() {
        let overlay = read(&json!({
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
                {"key": "karpenter.sh/nodepool", "operator": "Exists"},
            ],
            "priceAdjustment": "-10%", "capacity": {"example.com/device": 2}, "weight": 10,
        }))
        .unwrap();
        assert_eq!((overlay.weight, overlay.price), (10, Some(PriceOverlay::Scale(-100_000))));
        assert_eq!(overlay.capacity.to_string(), "example.com/device 2");
        let expected = "karpenter.sh/nodepool Exists, node.kubernetes.io/instance-type In [m5.large]";
        assert_eq!(overlay.requirements.to_string(), expected);
        assert_eq!(read(&json!({"requirements": []})).unwrap().weight, 0);
    }

    #[test]
    fn every_problem_is_named() {
        let broken = |spec: &Value, complaints: &[&str]| {
            let lines: Vec<String> =
                complaints.iter().map(|complaint| format!("NodeOverlay/x: {complaint}")).collect();
            assert_eq!(read(spec).unwrap_err(), lines.join("\n"));
        };
        let fixed = "allowed: extended resources only, as example.com/device";
        broken(
            &json!({"requirements": [], "price": "1", "priceAdjustment": "+1", "weight": 0,
                "capacity": {"cpu": 4, "pods": 1, "example.com/x": "-1"}}),
            &[
                "spec.weight: found 0; allowed: a whole number from 1 to 10000, or nothing, which counts as 0",
                &format!("spec.capacity[cpu]: found 4; {fixed}"),
                "spec.capacity[example.com/x]: found -1; allowed: a quantity of 0 or more",
                &format!("spec.capacity[pods]: found 1; {fixed}"),
                "spec.priceAdjustment: found \"+1\"; allowed: nothing beside price: an overlay has one of the two",
            ],
        );
        broken(
            &json!({"requirements": [{"key": "a", "operator": "NotIn"},
                {"key": "kubernetes.io/hostname", "operator": "Exists"},
                {"key": "b", "operator": "Gt", "values": ["x"]}], "price": "free", "minValues": 3}),
            &[
                "spec.minValues: found this field; allowed: only fields that Outrigger acts on",
                "spec.requirements[0].values: found []; allowed: at least one value with the operator NotIn",
                "spec.requirements[1].key: found \"kubernetes.io/hostname\"; allowed: another key: every \
                 node has its own value of this label",
                "spec.requirements[2].values: found [\"x\"]; allowed: exactly one whole number of 0 or more with the \
                 operators Gt, Lt, Gte and Lte",
                "spec.price: found \"free\"; allowed: dollars per hour as 0.25, at most 1000000",
            ],
        );
        let many = vec![json!({"key": "a", "operator": "Exists"}); 101];
        broken(
            &json!({ "requirements": many }),
            &["spec.requirements: found 101 requirements; allowed: at most 100"],
        );
        assert!(
            read(&json!({})).unwrap_err().starts_with("NodeOverlay/x: spec: found {}; allowed: the field ")
        );
        let old = NodeOverlay::read(&json!({"apiVersion": "karpenter.sh/v2", "metadata": {"name": "x"}}));
        assert_eq!(old.unwrap_err()[0].field, "apiVersion");
    }
}
