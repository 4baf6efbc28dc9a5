//! Which instance types and zones an InstanceGroup allows: machineType, mixedInstancesPolicy, its
//! requirements, zones.

use outrigger_model::{Invalid, Operator, Quantity, Requirement, Requirements, labels};

use crate::error::{KopsError, refuse};
use crate::spec::{Bounds, InstanceGroup, InstanceRequirements, Manager};

const CPU: &str = "karpenter.k8s.aws/instance-cpu";
const MEMORY_MIB: &str = "karpenter.k8s.aws/instance-memory";

/// The requirements of an InstanceGroup on its instance types and zones.
///
/// A group with manager CloudGroup must name a machineType, whatever launches from its template; it
/// binds us only where a mixedInstancesPolicy shows that types were chosen. A group that describes
/// types by what they are like is not bound to its machineType either, which kOps then only uses as
/// a default.
pub(crate) fn requirements(group: &InstanceGroup) -> Result<Requirements, KopsError> {
    let mut requirements = Requirements::new().with(labels::OS, Requirement::exactly("linux"));
    if !group.spec.zones.is_empty() {
        requirements.add(labels::ZONE, Requirement::any_of(group.spec.zones.clone()));
    }
    let policy = group.spec.mixed_instances_policy.as_ref();
    let types = listed(group);
    let chosen = policy.is_some() || group.manager() == Manager::Karpenter;
    if chosen && !types.is_empty() {
        requirements.add(labels::INSTANCE_TYPE, Requirement::any_of(types));
    }
    if let Some(described) = policy.and_then(|policy| policy.instance_requirements.as_ref()) {
        add_described(&mut requirements, &group.label(), described)?;
    }
    Ok(requirements)
}

/// The instance types that a group names; none when it describes them instead.
pub(crate) fn listed(group: &InstanceGroup) -> Vec<String> {
    let policy = group.spec.mixed_instances_policy.as_ref();
    let mut types: Vec<String> = policy.map(|policy| policy.instances.clone()).unwrap_or_default();
    if policy.is_none_or(|policy| policy.instance_requirements.is_none()) {
        let machine_types = group.spec.machine_type.split(',').map(str::trim).filter(|name| !name.is_empty());
        types.extend(machine_types.map(str::to_owned));
    }
    types
}

fn add_described(
    requirements: &mut Requirements,
    object: &str,
    described: &InstanceRequirements,
) -> Result<(), KopsError> {
    const MIB: i64 = 1 << 20;
    let mut add = |key: &str, bounds: Option<&Bounds>, unit: i64| {
        let count = |amount: Quantity| amount.value() / unit;
        let Some(bounds) = bounds else { return };
        if let Some(min) = bounds.min {
            // A lower bound between two whole units is met by the upper one.
            let rounded = count(min) + i64::from(min.value() % unit != 0);
            requirements.add(key, Requirement::new(Operator::Gte, [rounded.to_string()]));
        }
        if let Some(max) = bounds.max {
            requirements.add(key, Requirement::new(Operator::Lte, [count(max).to_string()]));
        }
    };
    add(CPU, described.cpu.as_ref(), 1);
    add(MEMORY_MIB, described.memory.as_ref(), MIB);
    let mut problems = Vec::new();
    for (index, pattern) in described.excluded_instance_types.iter().enumerate() {
        match pattern.split_once('.') {
            _ if !pattern.contains('*') && !pattern.is_empty() => {
                requirements.add(labels::INSTANCE_TYPE, Requirement::new(Operator::NotIn, [pattern]));
            }
            Some((family, "*")) if !family.is_empty() && !family.contains('*') => {
                requirements.add(labels::INSTANCE_FAMILY, Requirement::new(Operator::NotIn, [family]));
            }
            _ => problems.push(Invalid::new(
                object,
                format!("spec.mixedInstancesPolicy.instanceRequirements.excludedInstanceTypes[{index}]"),
                format!("{pattern:?}"),
                "an instance type as \"m5.large\" or a family as \"m5.*\"; use the NodePool's requirements for others",
            )),
        }
    }
    refuse(problems)
}
