//! NodeClaim objects as far as people ask about them. Karpenter writes the same.

use jiff::Timestamp;
use outrigger_model::node_claim_object::{Condition, ConditionStatus};
use outrigger_model::{CapacityType, ClaimState, labels};
use serde_json::Value;

/// What a NodeClaim object shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownClaim {
    /// Its name.
    pub name: String,
    /// Its pool.
    pub node_pool: Option<String>,
    /// Its instance type, once it is launched.
    pub instance_type: Option<String>,
    /// How its instance is paid for.
    pub capacity_type: Option<CapacityType>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its node, once it has joined.
    pub node_name: Option<String>,
    /// When the object was made.
    pub created_at: Option<Timestamp>,
    /// How far it has come.
    pub state: ClaimState,
    /// Why it is not further, in the object's own words.
    pub message: Option<String>,
}

impl ShownClaim {
    /// What of an object is there. A field that is not as it should be is absent.
    pub(super) fn from_object(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let label = |key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let conditions: Vec<Condition> =
            conditions.filter_map(|condition| serde_json::from_value(condition.clone()).ok()).collect();
        let is_going = object["metadata"]["deletionTimestamp"].is_string();
        let message = conditions.iter().find(|condition| condition.status != ConditionStatus::True);
        Self {
            name: text("/metadata/name").unwrap_or_default(),
            node_pool: label(labels::NODE_POOL),
            instance_type: label(labels::INSTANCE_TYPE),
            capacity_type: label(labels::CAPACITY_TYPE).and_then(|way| CapacityType::named(&way)),
            zone: label(labels::ZONE),
            node_name: text("/status/nodeName").filter(|name| !name.is_empty()),
            created_at: text("/metadata/creationTimestamp").and_then(|at| at.parse().ok()),
            state: state(&conditions, is_going),
            message: message.map(|condition| condition.message.clone()).filter(|message| !message.is_empty()),
        }
    }
}

/// Karpenter's conditions in the words of the ledger.
fn state(conditions: &[Condition], is_going: bool) -> ClaimState {
    let holds = |kind: &str| {
        conditions.iter().any(|condition| condition.kind == kind && condition.status == ConditionStatus::True)
    };
    if is_going {
        return ClaimState::Draining;
    }
    let reached = [
        ("Initialized", ClaimState::Initialized),
        ("Registered", ClaimState::Registered),
        ("Launched", ClaimState::Launched),
    ];
    reached.into_iter().find(|(kind, _)| holds(kind)).map_or(ClaimState::Intent, |(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_say_how_far_a_claim_has_come() {
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "lastTransitionTime": "2026-11-20T09:00:00Z",
                "reason": "x", "message": format!("{kind} is {status}")})
        };
        let claim = |conditions: &Value, deleted: bool| {
            let mut object = json!({"metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "p"}},
                "status": {"conditions": conditions}});
            if deleted {
                object["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:00:00Z");
            }
            ShownClaim::from_object(&object)
        };
        let launched = json!([condition("Launched", "True"), condition("Registered", "Unknown")]);
        let table = [
            (json!([]), false, ClaimState::Intent, None),
            (launched.clone(), false, ClaimState::Launched, Some("Registered is Unknown")),
            (json!([condition("Initialized", "True")]), false, ClaimState::Initialized, None),
            (launched, true, ClaimState::Draining, Some("Registered is Unknown")),
            (json!("none"), false, ClaimState::Intent, None),
        ];
        for (conditions, deleted, state, message) in table {
            let shown = claim(&conditions, deleted);
            assert_eq!((shown.state, shown.message.as_deref()), (state, message), "{conditions}");
        }
    }
}
