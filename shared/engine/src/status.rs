//! What people see of the objects that they wrote: conditions, numbers, and an event where one is
//! refused.
//!
//! `provision` alone writes it, under its lease. `conditions` says what is true; here it is
//! compared with what stands there already, since nothing is written that has not changed.

mod conditions;

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use outrigger_model::node_claim_object::{Condition, ConditionStatus};
use outrigger_model::{ConfiguredKind, ConfiguredObject, ConfiguredStatus, KarpenterLease, NodeClassRef};
use outrigger_policy::karpenter::Owner;
use tokio::time::Instant;

use crate::chain::chain;
use crate::observe::classes::{Resolution, resolution};
use crate::observe::karpenter::karpenter_lease;
use crate::ports::{Configuration, Event, EventReason, LedgerState, Ports, Subject};
use conditions::{Facts, READY, shows, status_of};

/// How many objects are written at once.
const CONCURRENT_WRITES: usize = 8;
/// Classes that are ready, of objects that nobody has changed, are looked at again in each minute
/// that this divides.
const LOOK_AGAIN_MINUTES: i64 = 10;

/// Makes the objects show what has become of them. Errors cost nothing but the news: the next tick
/// tries again. After a decision their classes have been looked at just now, and are known.
pub(crate) async fn show(
    ports: Ports<'_>,
    configuration: &Configuration,
    ledger: &LedgerState,
    has_decided: bool,
    deadline: Instant,
) {
    if configuration.objects.is_empty() {
        return;
    }
    let lease = karpenter_lease(ports, configuration).await;
    let now = ports.now();
    let ours = configuration.objects.iter().filter(|object| is_ours(object, &lease, now));
    let ours: Vec<&ConfiguredObject> = ours.collect();
    let minute = now.as_second().div_euclid(60);
    let is_due = has_decided || minute % LOOK_AGAIN_MINUTES == 0 || ours.iter().any(|object| is_open(object));
    let classes = if is_due { Some(resolve_all(ports, configuration, &ours).await) } else { None };
    let facts = Facts { configuration, classes: classes.as_ref(), ledger, lease: &lease, now };
    let changed = ours.into_iter().filter_map(|object| {
        let status = status_of(object, &facts);
        (!shows(&object.status, &status)).then_some((object, status))
    });
    let mut writes = Vec::new();
    for (object, status) in changed {
        writes.push(write(ports, object, status, deadline).boxed());
    }
    futures::stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).collect::<Vec<()>>().await;
}

/// Whether nobody else writes the object's status. Where it is not known whether a Karpenter lives,
/// its word stands.
fn is_ours(object: &ConfiguredObject, lease: &KarpenterLease, now: jiff::Timestamp) -> bool {
    match Owner::of_class(object.node_class.as_ref(), object.is_managed, lease, now) {
        Owner::Ours => true,
        Owner::Karpenter(_) => false,
        Owner::Unknown(_) => !object.is_others,
    }
}

/// Whether the object has changed since it was looked at last, or is not ready.
fn is_open(object: &ConfiguredObject) -> bool {
    let root = if object.reference.kind == ConfiguredKind::CapacityBuffer {
        conditions::READY_FOR_PROVISIONING
    } else {
        READY
    };
    object.status.condition(root).is_none_or(|ready| {
        ready.status != ConditionStatus::True || ready.observed_generation != Some(object.generation)
    })
}

/// What the classes of these objects come to.
async fn resolve_all(
    ports: Ports<'_>,
    configuration: &Configuration,
    objects: &[&ConfiguredObject],
) -> BTreeMap<NodeClassRef, Resolution> {
    let mut classes = BTreeMap::new();
    for object in objects {
        let reference = match object.reference.kind {
            ConfiguredKind::NodePool => object.node_class.clone(),
            ConfiguredKind::EC2NodeClass => Some(NodeClassRef::ec2(&object.reference.name)),
            ConfiguredKind::NodeOverlay | ConfiguredKind::CapacityBuffer => None,
        };
        let Some(reference) = reference.filter(|reference| !classes.contains_key(reference)) else {
            continue;
        };
        let resolved = resolution(ports, configuration, &reference).await;
        classes.insert(reference, resolved);
    }
    classes
}

/// Writes the status, then tells what is new in it.
async fn write(ports: Ports<'_>, object: &ConfiguredObject, status: ConfiguredStatus, deadline: Instant) {
    if Instant::now() >= deadline {
        return;
    }
    let reference = &object.reference;
    if let Err(error) = ports.cluster.write_status(reference, &status).await {
        tracing::warn!(object = %reference, error = chain(&error), "its status could not be written");
        return;
    }
    for event in news(object, &status) {
        tracing::info!(object = %reference, reason = %event.reason, message = event.message, "its status changed");
        ports.publish(&event).await;
    }
}

/// What people should hear of: what is refused or missing, once for each change, and that it has
/// been mended.
fn news(object: &ConfiguredObject, status: &ConfiguredStatus) -> Vec<Event> {
    let about = || Subject::Configured(object.reference.clone());
    let before = |kind: &str| object.status.condition(kind);
    let is_new = |now: &&Condition| {
        before(&now.kind)
            .is_none_or(|before| (&before.reason, &before.message) != (&now.reason, &now.message))
    };
    let of_trouble = |condition: &Condition| {
        let reason = conditions::event_reason(condition)?;
        Some(Event { about: about(), reason, message: condition.message.clone() })
    };
    let mut events: Vec<Event> = status.conditions.iter().filter(is_new).filter_map(of_trouble).collect();
    let root = status.conditions.last();
    let is_mended = root.is_some_and(|now| {
        now.status == ConditionStatus::True
            && before(&now.kind).is_some_and(|before| before.status == ConditionStatus::False)
    });
    if is_mended {
        let message = "Outrigger uses it from now on".to_owned();
        events.push(Event { about: about(), reason: EventReason::Ready, message });
    }
    events
}

#[cfg(test)]
mod tests {
    use outrigger_model::LeaderLease;
    use outrigger_model::fixtures::at;
    use serde_json::{Value, json};

    use super::*;

    fn pool(class_kind: &str, metadata: &Value) -> ConfiguredObject {
        let group = if class_kind == "InstanceGroup" { "kops.k8s.io" } else { "karpenter.k8s.aws" };
        let class = json!({"group": group, "kind": class_kind, "name": "a"});
        let mut object = json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {"template": {"spec": {"nodeClassRef": class}}},
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        ConfiguredObject::read(ConfiguredKind::NodePool, &object).unwrap()
    }

    fn condition(kind: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
        Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: message.into(),
            last_transition_time: at(0),
            observed_generation: Some(2),
        }
    }

    #[test]
    fn the_status_of_what_is_or_may_be_karpenters_is_left_alone() {
        let live = LeaderLease { holder: "karpenter-0".into(), renewed_at: Some(at(100)), seconds: 15 };
        let leases =
            [KarpenterLease::Absent, KarpenterLease::Known(live), KarpenterLease::Unreadable("403".into())];
        let written_by =
            |manager: &str| json!({"managedFields": [{"manager": manager, "subresource": "status"}]});
        let table = [
            (pool("InstanceGroup", &Value::Null), [true, true, true]),
            (pool("EC2NodeClass", &Value::Null), [true, false, true]),
            (pool("EC2NodeClass", &written_by("outrigger")), [true, false, true]),
            (pool("EC2NodeClass", &written_by("karpenter")), [true, false, false]),
            (
                pool("EC2NodeClass", &json!({"annotations": {"outrigger.dev/managed": "true"}})),
                [true, true, true],
            ),
        ];
        for (pool, expected) in table {
            assert_eq!(leases.each_ref().map(|lease| is_ours(&pool, lease, at(110))), expected, "{pool:?}");
        }
    }

    #[test]
    fn people_hear_of_trouble_once_for_each_change_and_of_its_end() {
        use ConditionStatus::{False, True, Unknown};
        let status = |status, reason: &str, message: &str| {
            let root = condition("Ready", status, "UnhealthyDependents", "");
            let conditions = vec![condition("NodeClassReady", status, reason, message), root];
            ConfiguredStatus { conditions, ..ConfiguredStatus::default() }
        };
        let missing = status(False, "NodeClassNotFound", "there is no a");
        let none = ConfiguredStatus::default();
        let table: [(&ConfiguredStatus, ConfiguredStatus, &[&str]); 6] = [
            (&none, status(True, "NodeClassReady", ""), &[]),
            (&none, missing.clone(), &["NodeClassNotFound there is no a"]),
            (&missing, missing.clone(), &[]),
            (&missing, status(False, "NodeClassNotReady", "no subnet"), &["NodeClassNotReady no subnet"]),
            (&missing, status(Unknown, "AwaitingReconciliation", "no answer"), &[]),
            (&missing, status(True, "NodeClassReady", ""), &["Ready Outrigger uses it from now on"]),
        ];
        for (before, now, expected) in table {
            let object = ConfiguredObject { status: before.clone(), ..pool("InstanceGroup", &Value::Null) };
            let words: Vec<String> = news(&object, &now)
                .into_iter()
                .map(|event| format!("{} {}", event.reason, event.message))
                .collect();
            assert_eq!(words, expected, "{now:?}");
        }
    }

    #[test]
    fn what_has_changed_or_is_not_ready_is_looked_at_again() {
        let mut object = pool("InstanceGroup", &Value::Null);
        assert!(is_open(&object), "nobody has looked yet");
        object.status.conditions = vec![condition("Ready", ConditionStatus::True, "Ready", "")];
        assert!(!is_open(&object));
        object.generation = 3;
        assert!(is_open(&object), "it has changed");
        object.status.conditions = vec![condition("Ready", ConditionStatus::False, "x", "")];
        object.generation = 2;
        assert!(is_open(&object), "it may have been mended");
    }
}
