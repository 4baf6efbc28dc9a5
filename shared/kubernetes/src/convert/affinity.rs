//! Node affinity, pod affinity and pod anti-affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::pod::{NodeSelectorTerm, PodAffinityTerm, Weighted};
use outrigger_model::{Operator, PodSpec};

use super::bounds::{self, MAX_NODE_TERMS, MAX_PARTS, MAX_TERMS};
use super::problem::{Problem, Within, each};
use super::selector::{narrow, requirement, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What pods of one namespace and one set of labels share when their affinity is read.
pub(super) struct Owner<'a> {
    /// The pod's namespace, which is meant where a term names none.
    pub(super) namespace: &'a str,
    /// The pod's labels, whose values `matchLabelKeys` and `mismatchLabelKeys` put into selectors.
    pub(super) labels: &'a BTreeMap<String, String>,
}

/// Reads all of a pod's affinity into its spec.
pub(super) fn read(spec: &mut PodSpec, affinity: &wire::Affinity, owner: &Owner<'_>) -> Result<(), Problem> {
    if let Some(node) = &affinity.node_affinity {
        read_node_affinity(spec, node).within("nodeAffinity")?;
    }
    if let Some(near) = &affinity.pod_affinity {
        let required = near.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = near.preferred_during_scheduling_ignored_during_execution.as_deref();
        (spec.pod_affinity, spec.preferred_pod_affinity) =
            pod_terms(required, preferred, owner).within("podAffinity")?;
    }
    if let Some(away) = &affinity.pod_anti_affinity {
        let required = away.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = away.preferred_during_scheduling_ignored_during_execution.as_deref();
        (spec.pod_anti_affinity, spec.preferred_pod_anti_affinity) =
            pod_terms(required, preferred, owner).within("podAntiAffinity")?;
    }
    Ok(())
}

fn read_node_affinity(spec: &mut PodSpec, affinity: &wire::NodeAffinity) -> Result<(), Problem> {
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        if required.node_selector_terms.is_empty() {
            let field = format!("{REQUIRED}.nodeSelectorTerms");
            return Err(Problem::new(field, "no terms", "one term or more"));
        }
        let terms = each("nodeSelectorTerms", Some(&required.node_selector_terms), MAX_NODE_TERMS, node_term);
        spec.node_affinity = terms.within(REQUIRED)?;
    }
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.as_deref();
    spec.preferred_node_affinity = each(PREFERRED, preferred, MAX_NODE_TERMS, |wire| {
        let weight = weight(wire.weight)?;
        Ok(Weighted { weight, term: node_term(&wire.preference).within("preference")? })
    })?;
    Ok(())
}

/// One alternative of a node affinity.
pub(super) fn node_term(wire: &wire::NodeSelectorTerm) -> Result<NodeSelectorTerm, Problem> {
    let match_expressions =
        each("matchExpressions", wire.match_expressions.as_deref(), MAX_TERMS, |expression| {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                "Gt" => Operator::Gt,
                "Lt" => Operator::Lt,
                other => {
                    return Err(Problem::text(
                        "operator",
                        other,
                        "In, NotIn, Exists, DoesNotExist, Gt or Lt",
                    ));
                }
            };
            requirement(&expression.key, operator, expression.values.as_deref())
        })?;
    let has_match_fields = wire.match_fields.as_ref().is_some_and(|fields| !fields.is_empty());
    Ok(NodeSelectorTerm { match_expressions, has_match_fields })
}

type PodTerms = (Vec<PodAffinityTerm>, Vec<Weighted<PodAffinityTerm>>);

fn pod_terms(
    required: Option<&[wire::PodAffinityTerm]>,
    preferred: Option<&[wire::WeightedPodAffinityTerm]>,
    owner: &Owner<'_>,
) -> Result<PodTerms, Problem> {
    let required = each(REQUIRED, required, MAX_TERMS, |wire| pod_term(wire, owner))?;
    let preferred = each(PREFERRED, preferred, MAX_TERMS, |wire| {
        let weight = weight(wire.weight)?;
        Ok(Weighted { weight, term: pod_term(&wire.pod_affinity_term, owner).within("podAffinityTerm")? })
    })?;
    Ok((required, preferred))
}

/// A term that names no namespace and has no namespaceSelector means the pod's own namespace, which
/// is filled in here.
fn pod_term(wire: &wire::PodAffinityTerm, owner: &Owner<'_>) -> Result<PodAffinityTerm, Problem> {
    bounds::key("topologyKey", &wire.topology_key)?;
    for (field, list) in [
        ("namespaces", &wire.namespaces),
        ("matchLabelKeys", &wire.match_label_keys),
        ("mismatchLabelKeys", &wire.mismatch_label_keys),
    ] {
        bounds::at_most(field, list.as_deref().unwrap_or_default(), MAX_PARTS)?;
    }
    let mut term = PodAffinityTerm {
        topology_key: wire.topology_key.clone(),
        selector: selector(wire.label_selector.as_ref()).within("labelSelector")?,
        namespaces: wire.namespaces.clone().unwrap_or_default(),
        namespace_selector: None,
    };
    if let Some(namespaces) = &wire.namespace_selector {
        term.namespace_selector = Some(selector(Some(namespaces)).within("namespaceSelector")?);
    } else if term.namespaces.is_empty() {
        term.namespaces.push(owner.namespace.to_owned());
    }
    narrow(&mut term.selector, wire.match_label_keys.as_deref(), Operator::In, owner.labels);
    narrow(&mut term.selector, wire.mismatch_label_keys.as_deref(), Operator::NotIn, owner.labels);
    Ok(term)
}

fn weight(weight: i32) -> Result<i32, Problem> {
    if (1..=100).contains(&weight) { Ok(weight) } else { Err(Problem::new("weight", weight, "1 to 100")) }
}
