//! What is true of an object that a user wrote, in Karpenter's words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::configured_object::ResolvedSelectors;
use outrigger_model::node_claim_object::{Condition, ConditionStatus};
use outrigger_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS};
use outrigger_model::{
    CapacityBuffer, CapacityType, ConfiguredKind, ConfiguredObject, ConfiguredStatus, Invalid,
    KarpenterLease, LaunchTemplate, NodeClaim, NodeClass, NodeClassRef, NodePool, Quantity, Resources,
    labels,
};
use outrigger_policy::karpenter::Owner;

use crate::launch::fleet_errors::NO_SPOT_ROLE;
use crate::observe::classes::Resolution;
use crate::ports::{Configuration, EventReason, LedgerState};

/// The condition that sums up the others.
pub(super) const READY: &str = "Ready";
/// The one that does so for a CapacityBuffer.
pub(super) const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
const NODE_CLASS_READY: &str = "NodeClassReady";
/// Whether the account can have spot instances at all. A pool shows it once it was false, and is
/// ready nevertheless, as with Karpenter's `NodeRegistrationHealthy`.
const SPOT_AVAILABLE: &str = "SpotAvailable";

const VALIDATION_FAILED: &str = EventReason::ValidationFailed.into_str();
const NODE_CLASS_NOT_FOUND: &str = EventReason::NodeClassNotFound.into_str();
const NODE_CLASS_NOT_READY: &str = EventReason::NodeClassNotReady.into_str();
const KARPENTER_LEASE_UNKNOWN: &str = EventReason::KarpenterLeaseUnknown.into_str();
const SUBNETS_NOT_FOUND: &str = EventReason::SubnetsNotFound.into_str();
const SECURITY_GROUPS_NOT_FOUND: &str = EventReason::SecurityGroupsNotFound.into_str();
const AMI_NOT_FOUND: &str = EventReason::AMINotFound.into_str();
const SPOT_ROLE_MISSING: &str = EventReason::SpotRoleMissing.into_str();
/// Nothing is known yet; the next tick may know it.
const AWAITING: &str = "AwaitingReconciliation";
/// The reasons of which people are told by an event as well.
const TROUBLE: [EventReason; 8] = [
    EventReason::ValidationFailed,
    EventReason::NodeClassNotFound,
    EventReason::NodeClassNotReady,
    EventReason::KarpenterLeaseUnknown,
    EventReason::SubnetsNotFound,
    EventReason::SecurityGroupsNotFound,
    EventReason::AMINotFound,
    EventReason::SpotRoleMissing,
];
/// The API server takes 32,768 characters; a tenth of it is more than anybody reads.
const MAX_MESSAGE_CHARS: usize = 3_000;

/// The reason of an event about a condition; none where people need not hear of it.
pub(super) fn event_reason(condition: &Condition) -> Option<EventReason> {
    let is_true = condition.status == ConditionStatus::True;
    TROUBLE.into_iter().find(|reason| !is_true && condition.reason == reason.into_str())
}

/// What is known of all objects.
pub(super) struct Facts<'a> {
    pub(super) configuration: &'a Configuration,
    /// What classes come to; none where nobody looked, since all were ready and no object has
    /// changed.
    pub(super) classes: Option<&'a BTreeMap<NodeClassRef, Resolution>>,
    pub(super) ledger: &'a LedgerState,
    pub(super) lease: &'a KarpenterLease,
    pub(super) now: Timestamp,
}

/// The status that an object should have.
pub(super) fn status_of(object: &ConfiguredObject, facts: &Facts<'_>) -> ConfiguredStatus {
    let writer = Writer { object, facts };
    match object.reference.kind {
        ConfiguredKind::NodePool => writer.node_pool(),
        ConfiguredKind::EC2NodeClass => writer.ec2_node_class(),
        ConfiguredKind::NodeOverlay => writer.node_overlay(),
        ConfiguredKind::CapacityBuffer => writer.capacity_buffer(),
    }
}

/// Whether a status shows all of another already.
pub(super) fn shows(present: &ConfiguredStatus, wanted: &ConfiguredStatus) -> bool {
    let has = |condition: &Condition| present.condition(&condition.kind) == Some(condition);
    wanted.conditions.iter().all(has)
        && (present.nodes, present.replicas) == (wanted.nodes, wanted.replicas)
        && (&present.resources, &present.resolved) == (&wanted.resources, &wanted.resolved)
}

/// What a condition says beside its name while it is not true.
struct Said {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

impl Said {
    fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::False, reason, message: message.into() }
    }

    fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}

/// A selector of an EC2NodeClass.
struct Selector {
    condition: &'static str,
    not_found: &'static str,
    message: &'static str,
    finds: fn(&NodeClass) -> bool,
}

const SELECTORS: [Selector; 3] = [
    Selector {
        condition: "SubnetsReady",
        not_found: SUBNETS_NOT_FOUND,
        message: "spec.subnetSelectorTerms select no subnet",
        finds: |class| !class.subnets.is_empty(),
    },
    Selector {
        condition: "SecurityGroupsReady",
        not_found: SECURITY_GROUPS_NOT_FOUND,
        message: "spec.securityGroupSelectorTerms select no security group",
        finds: |class| !matches!(&class.launch, LaunchTemplate::Own(template) if template.security_groups.is_empty()),
    },
    Selector {
        condition: "AMIsReady",
        not_found: AMI_NOT_FOUND,
        message: "spec.amiSelectorTerms select no image",
        finds: |class| !class.images.is_empty(),
    },
];

struct Writer<'a> {
    object: &'a ConfiguredObject,
    facts: &'a Facts<'a>,
}

impl Writer<'_> {
    /// Nodes and resources are those of all claims that are not over, as the pool's limits count
    /// them.
    fn node_pool(&self) -> ConfiguredStatus {
        let name = &self.object.reference.name;
        let has = |claim: &&NodeClaim| &claim.spec.node_pool == name && !claim.status.state.is_terminal();
        let names = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];
        let mut resources: Resources = names.into_iter().map(|name| (name, Quantity::units(0))).collect();
        let mut nodes = 0;
        for claim in self.facts.ledger.claims.iter().filter(has) {
            nodes += 1;
            resources.add(&claim.status.reserved);
        }
        resources.set(NODES, Quantity::units(nodes));
        let mut conditions = vec![self.validation(), self.node_class_ready()];
        let root = self.root(&conditions);
        conditions.extend(self.spot_available());
        conditions.push(root);
        ConfiguredStatus {
            conditions,
            nodes: Some(nodes),
            resources: Some(resources),
            ..ConfiguredStatus::default()
        }
    }

    fn ec2_node_class(&self) -> ConfiguredStatus {
        let selectors = SELECTORS.iter().map(|selector| self.finds(selector));
        let mut conditions: Vec<Condition> = selectors.chain([self.validation()]).collect();
        conditions.push(self.root(&conditions));
        let resolved = match self.facts.classes.and_then(|classes| classes.get(&self.as_class())) {
            Some(Resolution::Resolved(class)) => ResolvedSelectors::from_class(class),
            _ => self.object.status.resolved.clone(),
        };
        ConfiguredStatus { conditions, resolved, ..ConfiguredStatus::default() }
    }

    fn node_overlay(&self) -> ConfiguredStatus {
        let validation = self.validation();
        let root = self.root(std::slice::from_ref(&validation));
        ConfiguredStatus { conditions: vec![validation, root], ..ConfiguredStatus::default() }
    }

    fn capacity_buffer(&self) -> ConfiguredStatus {
        let reference = &self.object.reference;
        let is_it = |buffer: &&CapacityBuffer| {
            Some(&buffer.id.namespace) == reference.namespace.as_ref() && buffer.id.name == reference.name
        };
        let sound = self.facts.configuration.buffers.iter().find(is_it);
        ConfiguredStatus {
            conditions: vec![self.condition(READY_FOR_PROVISIONING, self.refused())],
            replicas: sound.map(|buffer| i64::from(buffer.count)),
            ..ConfiguredStatus::default()
        }
    }

    /// How pools refer to an EC2NodeClass.
    fn as_class(&self) -> NodeClassRef {
        NodeClassRef::ec2(&self.object.reference.name)
    }

    fn validation(&self) -> Condition {
        self.condition(VALIDATION_SUCCEEDED, self.refused())
    }

    /// What is wrong with the object itself.
    fn refused(&self) -> Option<Said> {
        let complaints = self.facts.complaints(&self.object.reference.to_string())?;
        Some(Said::no(VALIDATION_FAILED, complaints))
    }

    fn node_class_ready(&self) -> Condition {
        let Self { object, facts } = self;
        let class = object.node_class.as_ref();
        let said = match Owner::of_class(class, object.is_managed, facts.lease, facts.now) {
            Owner::Unknown(why) => Some(Said::unknown(KARPENTER_LEASE_UNKNOWN, why)),
            Owner::Ours | Owner::Karpenter(_) => match (class, facts.classes) {
                (None, _) => {
                    Some(Said::unknown(AWAITING, "spec.template.spec.nodeClassRef cannot be understood"))
                }
                (Some(_), None) => return self.as_before(NODE_CLASS_READY),
                (Some(reference), Some(classes)) => facts.against_class(reference, classes.get(reference)),
            },
        };
        self.condition(NODE_CLASS_READY, said)
    }

    /// Whether a selector of an EC2NodeClass finds anything.
    fn finds(&self, selector: &Selector) -> Condition {
        let Some(classes) = self.facts.classes else { return self.as_before(selector.condition) };
        let said = match classes.get(&self.as_class()) {
            Some(Resolution::Resolved(class)) => {
                (!(selector.finds)(class)).then(|| Said::no(selector.not_found, selector.message))
            }
            Some(Resolution::Unusable(why) | Resolution::Unknown(why)) => Some(Said::unknown(AWAITING, why)),
            Some(Resolution::Missing) | None => Some(Said::unknown(AWAITING, "the class is refused")),
        };
        self.condition(selector.condition, said)
    }

    /// Whether EC2 gives this pool spot instances, where it ever refused them for want of a role:
    /// it is still false while the ledger remembers that, which a spot launch makes it forget.
    fn spot_available(&self) -> Option<Condition> {
        let is_it = |pool: &&NodePool| pool.name == self.object.reference.name;
        let pool = self.facts.configuration.node_pools.iter().find(is_it)?;
        let requirements = pool.requirements();
        let allows_spot = requirements
            .get(labels::CAPACITY_TYPE)
            .is_none_or(|requirement| requirement.has(CapacityType::Spot.as_str()));
        let mut unavailable = self.facts.ledger.unavailable.iter();
        let is_refused = allows_spot && unavailable.any(|offering| offering.reason == NO_SPOT_ROLE);
        let was_shown = self.object.status.condition(SPOT_AVAILABLE).is_some();
        let message = || {
            format!(
                "EC2 answers {NO_SPOT_ROLE}: the account has no role for spot, and Outrigger may not make it; \
                 run `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com` once"
            )
        };
        let said = is_refused.then(|| Said::no(SPOT_ROLE_MISSING, message()));
        (is_refused || was_shown).then(|| self.condition(SPOT_AVAILABLE, said))
    }

    /// The condition that sums up all others, as Karpenter's library does it.
    fn root(&self, conditions: &[Condition]) -> Condition {
        let untrue: Vec<&Condition> =
            conditions.iter().filter(|condition| condition.status != ConditionStatus::True).collect();
        let names = untrue.iter().map(|condition| format!("{}={:?}", condition.kind, condition.status));
        let names = names.collect::<Vec<_>>().join(", ");
        let said = if untrue.is_empty() {
            None
        } else if untrue.iter().any(|condition| condition.status == ConditionStatus::False) {
            Some(Said::no("UnhealthyDependents", names))
        } else {
            Some(Said::unknown("ReconcilingDependents", names))
        };
        self.condition(READY, said)
    }

    /// A condition, which is true where nothing is said against it; its reason is its name then, as
    /// in Karpenter.
    fn condition(&self, kind: &str, said: Option<Said>) -> Condition {
        let (status, reason, message) = match said {
            Some(said) => (said.status, said.reason, said.message),
            None => (ConditionStatus::True, kind, String::new()),
        };
        let before = self.object.status.condition(kind).filter(|before| before.status == status);
        // Kubernetes keeps whole seconds.
        let now = Timestamp::from_second(self.facts.now.as_second()).unwrap_or(self.facts.now);
        Condition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.chars().take(MAX_MESSAGE_CHARS).collect(),
            last_transition_time: before.map_or(now, |before| before.last_transition_time),
            observed_generation: Some(self.object.generation),
        }
    }

    /// A condition about what nobody has looked at this time.
    fn as_before(&self, kind: &str) -> Condition {
        let before = self.object.status.condition(kind).cloned();
        before.unwrap_or_else(|| self.condition(kind, Some(Said::unknown(AWAITING, "nobody has looked yet"))))
    }
}

impl Facts<'_> {
    /// All that is wrong with an object, by the name that complaints have for it.
    fn complaints(&self, label: &str) -> Option<String> {
        let of_it = self.configuration.invalid.iter().filter(|problem| problem.object == label);
        let texts: Vec<String> = of_it.map(Invalid::complaint).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Why no machine can be made of a class now.
    fn against_class(&self, reference: &NodeClassRef, class: Option<&Resolution>) -> Option<Said> {
        match class {
            None => Some(Said::unknown(AWAITING, format!("nobody has looked at {reference} yet"))),
            Some(Resolution::Missing) => Some(match self.complaints(&reference.to_string()) {
                Some(why) => Said::no(NODE_CLASS_NOT_READY, format!("{reference} is refused: {why}")),
                None => Said::no(NODE_CLASS_NOT_FOUND, format!("there is no {reference}")),
            }),
            Some(Resolution::Unusable(why)) => Some(Said::no(NODE_CLASS_NOT_READY, why)),
            Some(Resolution::Unknown(why)) => Some(Said::unknown(AWAITING, why)),
            Some(Resolution::Resolved(class)) => {
                let why = class.not_ready.as_ref()?;
                Some(Said::no(NODE_CLASS_NOT_READY, format!("{reference}: {why}")))
            }
        }
    }
}

#[cfg(test)]
mod tests;
