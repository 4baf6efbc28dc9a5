//! Taints and tolerations.

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::taint::TolerationOperator;
use outrigger_model::{Taint, TaintEffect, Toleration};

use super::problem::Problem;

/// A toleration. How long a running pod bears the taint (`tolerationSeconds`) has no part in where
/// it may start.
pub(super) fn toleration(wire: &wire::Toleration) -> Result<Toleration, Problem> {
    let operator = match wire.operator.as_deref() {
        None | Some("" | "Equal") => TolerationOperator::Equal,
        Some("Exists") => TolerationOperator::Exists,
        Some(other) => return Err(Problem::text("operator", other, "Equal or Exists")),
    };
    let effect = wire.effect.as_deref().filter(|effect| !effect.is_empty());
    Ok(Toleration {
        key: wire.key.clone().unwrap_or_default(),
        operator,
        value: wire.value.clone().unwrap_or_default(),
        effect: effect.map(taint_effect).transpose()?,
    })
}

/// A taint of a node.
pub(super) fn taint(wire: &wire::Taint) -> Result<Taint, Problem> {
    Ok(Taint::new(&wire.key, wire.value.clone().unwrap_or_default(), taint_effect(&wire.effect)?))
}

fn taint_effect(effect: &str) -> Result<TaintEffect, Problem> {
    match effect {
        "NoSchedule" => Ok(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Ok(TaintEffect::PreferNoSchedule),
        "NoExecute" => Ok(TaintEffect::NoExecute),
        other => Err(Problem::text("effect", other, "NoSchedule, PreferNoSchedule or NoExecute")),
    }
}
