//! The NodePools that an annotated InstanceGroup gets when nobody wrote one.

use std::collections::BTreeMap;

use outrigger_model::resources::NODES;
use outrigger_model::{
    CapacityType, Invalid, NillableDuration, NodeClassRef, NodePool, Operator, Quantity, RequirementSpec,
    Resources, labels,
};

use crate::error::KopsError;
use crate::machine_types;
use crate::spec::{InstanceGroup, InstanceGroupSpec, Manager};

/// What the name of the pool that keeps minSize nodes ends in.
const LEAST: &str = "-min";

/// The NodePools of an InstanceGroup: one of its name, and where it has a minSize one of a fixed
/// number of nodes.
///
/// Sizes count with manager Karpenter alone, since an Auto Scaling group launches its nodes itself:
/// minSize nodes are always there, and the pods that ask for more get them up to maxSize. Capacity
/// types follow from the fields as in kOps' own NodePools (`template_functions_karpenter.go`,
/// 1.36): maxPrice asks for spot, onDemandAboveBase 0 for both kinds, anything else for on demand.
/// Nodes live as long as an Auto Scaling group would let them, for ever unless maxInstanceLifetime
/// is set. The instance types that the group names are its only ones. Drift goes at the pace of
/// rollingUpdate. The annotation `outrigger.dev/managed` tells its pools from those that a user
/// wrote.
pub fn managed_node_pools(group: &InstanceGroup) -> Result<Vec<NodePool>, KopsError> {
    let karpenter = group.manager() == Manager::Karpenter;
    let least = group.spec.min_size.filter(|_| karpenter).unwrap_or(0);
    let most = group.spec.max_size.filter(|_| karpenter);
    if let Some(most) = most.filter(|most| least > *most) {
        let allowed = format!("at most {most}, which is spec.maxSize");
        return Err(KopsError::Invalid {
            problems: vec![Invalid::new(group.label(), "spec.minSize", least, allowed)],
        });
    }
    let expire_after = expire_after(group)?;
    let budgets = group.spec.rolling_update.map(|update| update.budgets(&group.label())).transpose();
    let budgets = budgets.map_err(|problem| KopsError::Invalid { problems: vec![problem] })?;
    let pool = |name: String| {
        let mut pool = NodePool::bare(name, NodeClassRef::instance_group(&group.metadata.name));
        pool.annotations = BTreeMap::from([(labels::MANAGED_ANNOTATION.to_owned(), "true".to_owned())]);
        pool.spec.template.spec.requirements = requirements(group);
        pool.spec.template.spec.expire_after = expire_after;
        if let Some(budgets) = &budgets {
            pool.spec.disruption.budgets.clone_from(budgets);
        }
        pool
    };
    let name = &group.metadata.name;
    let mut pools = Vec::new();
    if least > 0 {
        let mut fixed = pool(format!("{name}{LEAST}"));
        fixed.spec.replicas = Some(least);
        pools.push(fixed);
    }
    if most != Some(least) || least == 0 {
        let mut grown = pool(name.clone());
        let nodes = |most: u32| Resources::new().with(NODES, Quantity::units(i64::from(most - least)));
        grown.spec.limits = most.map(nodes);
        grown.spec.weight = Some(group.spec.autoscale_priority).filter(|priority| *priority > 0);
        pools.push(grown);
    }
    Ok(pools)
}

/// How long nodes live; 0 means for ever, as with an Auto Scaling group.
fn expire_after(group: &InstanceGroup) -> Result<NillableDuration, KopsError> {
    let Some(lifetime) = group.spec.max_instance_lifetime.as_deref() else {
        return Ok(NillableDuration::NEVER);
    };
    match lifetime.parse() {
        Ok(zero) if zero == NillableDuration::zero() => Ok(NillableDuration::NEVER),
        Ok(lifetime) => Ok(lifetime),
        Err(why) => {
            let value = format!("{lifetime:?}");
            let problem = Invalid::new(group.label(), "spec.maxInstanceLifetime", value, why);
            Err(KopsError::Invalid { problems: vec![problem] })
        }
    }
}

fn requirements(group: &InstanceGroup) -> Vec<RequirementSpec> {
    let mut requirements =
        vec![one_of(labels::CAPACITY_TYPE, capacity_types(&group.spec)), one_of(labels::OS, &["linux"])];
    let types = machine_types::listed(group);
    if !types.is_empty() {
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        requirements.push(one_of(labels::INSTANCE_TYPE, &types));
    }
    requirements
}

fn capacity_types(spec: &InstanceGroupSpec) -> &'static [&'static str] {
    const SPOT: &str = CapacityType::Spot.as_str();
    const ON_DEMAND: &str = CapacityType::OnDemand.as_str();
    let above_base = spec.mixed_instances_policy.as_ref().and_then(|policy| policy.on_demand_above_base);
    if spec.max_price.is_some() {
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
