//! The NodePool that an annotated InstanceGroup gets when nobody wrote one.

use std::collections::BTreeMap;

use outrigger_model::node_pool::{
    Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, NodePoolSpec, TemplateMetadata,
};
use outrigger_model::resources::NODES;
use outrigger_model::{
    CapacityType, Invalid, NillableDuration, NodeClassRef, NodePool, Operator, Quantity, RequirementSpec,
    Resources, labels,
};

use crate::error::{KopsError, refuse};
use crate::machine_types;
use crate::spec::{InstanceGroup, InstanceGroupSpec, Manager};

/// The default NodePool of an InstanceGroup.
///
/// Capacity types and limits follow from the fields as in kOps' own NodePools (`template_functions_karpenter.go`,
/// 1.36): maxPrice asks for spot, onDemandAboveBase below 100 for both kinds, anything else for on demand; maxSize of
/// a group with manager Karpenter limits the nodes. Its nodes live as long as an Auto Scaling group would let them,
/// for ever unless maxInstanceLifetime is set. The instance types that the group names are its only ones. Its
/// annotation `outrigger.dev/managed` tells it from a pool that a user wrote.
pub fn default_node_pool(group: &InstanceGroup) -> Result<NodePool, KopsError> {
    let karpenter = group.manager() == Manager::Karpenter;
    let mut problems = Vec::new();
    let mut refuse_field = |field: &str, found: String, allowed: &str| {
        problems.push(Invalid::new(group.label(), field, found, allowed));
    };
    if let Some(size) = group.spec.min_size.filter(|size| karpenter && *size > 0) {
        refuse_field(
            "spec.minSize",
            size.to_string(),
            "0 or nothing: fixed-size pools are not supported yet",
        );
    }
    let policy = group.spec.mixed_instances_policy.as_ref();
    if let Some(base) = policy.and_then(|policy| policy.on_demand_base).filter(|base| *base > 0) {
        let allowed = "0 or nothing: write a NodePool with both capacity types instead";
        refuse_field("spec.mixedInstancesPolicy.onDemandBase", base.to_string(), allowed);
    }
    let lifetime = group.spec.max_instance_lifetime.as_deref();
    let expire_after = lifetime.map_or(Ok(NillableDuration::NEVER), str::parse);
    if let (Err(why), Some(lifetime)) = (&expire_after, lifetime) {
        refuse_field("spec.maxInstanceLifetime", format!("{lifetime:?}"), why);
    }
    refuse(problems)?;
    let mut requirements =
        vec![one_of(labels::CAPACITY_TYPE, capacity_types(&group.spec)), one_of(labels::OS, &["linux"])];
    let types = machine_types::listed(group);
    if !types.is_empty() {
        requirements
            .push(one_of(labels::INSTANCE_TYPE, &types.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    let max_nodes = group.spec.max_size.filter(|_| karpenter);
    Ok(NodePool {
        name: group.metadata.name.clone(),
        uid: String::new(),
        annotations: BTreeMap::from([(labels::MANAGED_ANNOTATION.to_owned(), "true".to_owned())]),
        deleting: false,
        not_ready: None,
        spec: NodePoolSpec {
            template: NodeClaimTemplate {
                metadata: TemplateMetadata::default(),
                spec: NodeClaimTemplateSpec {
                    requirements,
                    taints: Vec::new(),
                    startup_taints: Vec::new(),
                    expire_after: expire_after.unwrap_or(NillableDuration::NEVER),
                    termination_grace_period: None,
                    node_class_ref: NodeClassRef::instance_group(&group.metadata.name),
                },
            },
            disruption: Disruption::default(),
            limits: max_nodes.map(|nodes| Resources::new().with(NODES, Quantity::units(i64::from(nodes)))),
            weight: None,
            replicas: None,
        },
    })
}

fn capacity_types(spec: &InstanceGroupSpec) -> &'static [&'static str] {
    const SPOT: &str = CapacityType::Spot.as_str();
    const ON_DEMAND: &str = CapacityType::OnDemand.as_str();
    let above_base = spec.mixed_instances_policy.as_ref().and_then(|policy| policy.on_demand_above_base);
    if spec.max_price.is_some() || spec.spot_duration_in_minutes.is_some() {
        &[SPOT]
    } else if above_base.is_some_and(|percent| percent < 100) {
        &[ON_DEMAND, SPOT]
    } else {
        &[ON_DEMAND]
    }
}

fn one_of(key: &str, values: &[&str]) -> RequirementSpec {
    RequirementSpec {
        key: key.to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}
