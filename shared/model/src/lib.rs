//! The nouns of Outrigger: quantities, requirements, pools, classes, pods, nodes, claims, and the
//! three values of the loop - [`Snapshot`], [`Plan`] and [`Report`].
//!
//! Nothing here does IO, knows a clock, or depends on tokio, kube or an AWS crate.

pub mod capacity_buffer;
pub mod command;
pub mod configured_object;
pub mod crd;
pub mod deletion_cost;
pub mod demand;
pub mod diagnosis;
pub mod disruption_memory;
pub mod do_not_disrupt;
pub mod duration;
pub mod ec2_node_class;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod instance;
pub mod instance_type;
pub mod intent;
pub mod interruption_frequency;
pub mod invalid;
pub mod karpenter_lease;
pub mod labels;
pub mod launch_health;
pub mod node;
pub mod node_check;
pub mod node_claim;
pub mod node_claim_object;
pub mod node_class;
pub mod node_identity;
pub mod node_overlay;
pub mod node_pool;
pub mod owner_reference;
pub mod pause;
pub mod plan;
pub mod pod;
pub mod pod_disruption_budget;
pub mod price;
pub mod quantity;
pub mod report;
pub mod requirement;
pub mod requirements;
pub mod resources;
mod schema_rules;
pub mod selector;
pub mod snapshot;
pub mod spot_refusal;
mod static_pod;
pub mod syntax;
pub mod taint;
mod template_hash;
pub mod termination;
pub mod vcpu_quota;
pub mod volume;

pub use capacity_buffer::{CapacityBuffer, CapacityBufferObject};
pub use command::Command;
pub use configured_object::{ConfiguredKind, ConfiguredObject, ConfiguredRef, ConfiguredStatus};
pub use deletion_cost::{CostSetter, DeletionCost};
pub use demand::{DemandHistory, DemandSample, Quarter, WeekOfDemand};
pub use diagnosis::{Diagnosis, Finding, Health};
pub use disruption_memory::{DisruptionMemory, PodsSeen, Proposal, Quiet, Rest, Waste};
pub use do_not_disrupt::{DoNotDisrupt, NodeProtection, ProtectedObject, Protection, UnreadableWish};
pub use duration::NillableDuration;
pub use ec2_node_class::{EC2NodeClass, EC2NodeClassSpec};
pub use instance::Instance;
pub use instance_type::{CapacityType, InstanceType, Offering, Reservation, UnavailableOffering};
pub use intent::{FleetOverride, FleetRequest, Intent, IntentState};
pub use interruption_frequency::InterruptionFrequency;
pub use invalid::Invalid;
pub use karpenter_lease::{KarpenterLease, LeaderLease};
pub use launch_health::{Hold, LaunchHealth, NodeOutcome, PodHealth, PoolHealth};
pub use node::{Node, NodeCondition};
pub use node_check::{NodeCheck, SeenResources, Shortfall};
pub use node_claim::spec::NodeClaimSpec;
pub use node_claim::state::ClaimState;
pub use node_claim::status::NodeClaimStatus;
pub use node_claim::{ClaimOutcome, NodeClaim, TerminationCause};
pub use node_claim_object::NodeClaimObject;
pub use node_class::{
    Image, Kubelet, KubeletSettings, LaunchTemplate, NodeClass, OwnTemplate, RootVolume, SpotAllocation,
    Subnet,
};
pub use node_overlay::{NodeOverlay, PriceOverlay};
pub use node_pool::{NodeClassRef, NodePool};
pub use owner_reference::OwnerReference;
pub use pause::{Pause, PauseScope};
pub use plan::{ExistingPlacement, Plan, PlannedNode, PutOff, PutOffReason, RankedType, Target, ZonePrice};
pub use pod::{DaemonSet, NominatedPod, Pod, PodRef, PodSpec, PodState, Readiness};
pub use pod_disruption_budget::{HealthyPods, PodDisruptionBudget, UnhealthyPods};
pub use price::Price;
pub use quantity::Quantity;
pub use report::{
    FilterStep, NodeReport, NodeVerdict, PodsOutcome, PodsReport, PoolRefusal, Refusal, Report, TermRefusal,
};
pub use requirement::{Operator, Requirement, RequirementSpec};
pub use requirements::{Conflict, Requirements};
pub use resources::Resources;
pub use snapshot::{ClassOffer, Snapshot};
pub use spot_refusal::SpotRefusal;
pub use static_pod::StaticPod;
pub use taint::{ForeignTaint, Taint, TaintEffect, Toleration};
pub use termination::{Termination, TerminationReason};
pub use vcpu_quota::vcpu_quota;
pub use volume::VolumeClaim;
