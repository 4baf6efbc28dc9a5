//! EC2 and the services around it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_catalog::Catalog;
use outrigger_model::EC2NodeClass;
use outrigger_model::{FleetRequest, Instance, Invalid, NodeClass, NodeClassRef, NodePool, labels};
use serde::Serialize;

/// EC2 and the services around it.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// The catalogue that `refresh` stored last; the embedded one where there is none.
    async fn catalog(&self) -> Result<Catalog, CloudError>;

    /// Asks EC2 for instance types, offerings and prices. What cannot be had is taken from the
    /// embedded catalogue.
    async fn survey(&self) -> Result<Catalog, CloudError>;

    /// Stores a catalogue for [`Cloud::catalog`].
    async fn store_catalog(&self, catalog: &Catalog) -> Result<(), CloudError>;

    /// The NodePools of the InstanceGroups that are annotated `outrigger.dev/managed: "true"`, and
    /// what is wrong with those that cannot have one. An error means that nothing is known of any.
    async fn managed_pools(&self) -> Result<ManagedPools, CloudError>;

    /// Resolves a node class against the state store and the account. A class that exists but
    /// cannot launch now comes back with `not_ready`; an error means that nothing is known.
    async fn resolve_class(&self, source: &ClassSource) -> Result<NodeClass, CloudError>;

    /// The launch template for a class, written first where it is our own and missing; one whose
    /// instances start in a capacity reservation where that is given.
    async fn ensure_template(
        &self,
        class: &NodeClass,
        reservation: Option<&str>,
    ) -> Result<TemplateRef, CloudError>;

    /// The launch templates that Outrigger wrote for this cluster, in order of id.
    async fn own_templates(&self) -> Result<Vec<WrittenTemplate>, CloudError>;

    /// Deletes a launch template of our own; fine when it is gone.
    async fn delete_template(&self, id: &str) -> Result<(), CloudError>;

    /// Sends one fleet request (type instant) and says what came of it.
    async fn launch(&self, request: &FleetRequest) -> Result<FleetAnswer, CloudError>;

    /// The instances that carry an intent's tag and are not terminated.
    async fn instances_of(&self, intent: &str) -> Result<Vec<Instance>, CloudError>;

    /// Every instance that carries this cluster's tag (`outrigger.dev/cluster`), those that were
    /// terminated lately among them, in order of id. What is not in the answer may still exist: EC2
    /// shows new instances late.
    async fn machines(&self) -> Result<Vec<Machine>, CloudError>;

    /// What is wrong with running instances, by EC2's own checks and plans, in order of id.
    /// Instances that are not ours may be among them: EC2 cannot be asked for those of a cluster
    /// alone.
    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, CloudError>;

    /// Terminates instances, and says of those that EC2 refused to terminate why. One that is gone
    /// already is no refusal.
    async fn terminate(&self, instances: &[String]) -> Result<BTreeMap<String, String>, CloudError>;

    /// What an instance's console tells of its start, in words of our own, since user data may
    /// print secrets there; `None` while it tells nothing.
    async fn boot_progress(&self, instance: &str) -> Result<Option<String>, CloudError>;

    /// Rings other functions' bells. Losing a notice costs time only.
    async fn publish(&self, notice: &Notice) -> Result<(), CloudError>;
}

/// The NodePools that InstanceGroups ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedPools {
    /// The pools, by InstanceGroup in order of name.
    pub node_pools: Vec<NodePool>,
    /// What is wrong with the InstanceGroups that get none.
    pub invalid: Vec<Invalid>,
}

/// What a node class is resolved from.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassSource {
    /// The kOps InstanceGroup of this name.
    InstanceGroup(String),
    /// An EC2NodeClass.
    Ec2(Box<EC2NodeClass>),
}

impl ClassSource {
    /// What a pool's reference names; `None` where it names none of the valid EC2NodeClasses.
    pub fn named(reference: &NodeClassRef, ec2_node_classes: &[EC2NodeClass]) -> Option<Self> {
        if reference.is_instance_group() {
            return Some(Self::InstanceGroup(reference.name.clone()));
        }
        let class = ec2_node_classes.iter().find(|class| class.name == reference.name)?;
        Some(Self::Ec2(Box::new(class.clone())))
    }

    /// How pools refer to it.
    pub fn reference(&self) -> NodeClassRef {
        match self {
            Self::InstanceGroup(name) => NodeClassRef::instance_group(name),
            Self::Ec2(class) => NodeClassRef::ec2(&class.name),
        }
    }
}

/// A launch template as a fleet request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateRef {
    /// Its name.
    pub name: String,
    /// Its version, a number.
    pub version: String,
}

/// A launch template of our own as EC2 keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTemplate {
    /// `lt-…`.
    pub id: String,
    /// Its name, which fleet requests use.
    pub name: String,
    /// When it was written, by EC2's clock.
    pub created_at: Timestamp,
}

/// An instance with the tags by which it is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `i-…`.
    pub id: String,
    /// The launch that it belongs to (tag `outrigger.dev/intent`); an instance without one was not
    /// launched by us.
    pub intent: Option<String>,
    /// Its pool (tag `karpenter.sh/nodepool`).
    pub node_pool: Option<String>,
    /// How it was made (the tag of its EC2NodeClass, or else that of its InstanceGroup).
    pub node_class: Option<NodeClassRef>,
    /// The first tag for which it is not ours to end ([`labels::FOREIGN_TAGS`]).
    pub foreign_tag: Option<&'static str>,
    /// When it was launched, by EC2's clock.
    pub launched_at: Option<Timestamp>,
    /// Its private IPv4 address, after which kOps may name its node.
    pub private_ip: Option<String>,
    /// Where it stands.
    pub state: InstanceState,
}

impl Machine {
    /// An instance with these tags.
    pub fn tagged(id: &str, state: InstanceState, tag: impl Fn(&str) -> Option<String>) -> Self {
        let name = tag(labels::EC2_NODE_CLASS_TAG).or_else(|| tag(labels::EC2_NODE_CLASS));
        let class = name.map(NodeClassRef::ec2);
        Self {
            id: id.to_owned(),
            intent: tag(labels::INTENT),
            foreign_tag: labels::FOREIGN_TAGS.into_iter().find(|key| tag(key).is_some()),
            launched_at: None,
            private_ip: None,
            node_pool: tag(labels::NODE_POOL),
            node_class: class.or_else(|| tag(labels::INSTANCE_GROUP).map(NodeClassRef::instance_group)),
            state,
        }
    }
}

/// Where an instance stands, in EC2's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It boots.
    Pending,
    /// It runs.
    Running,
    /// It is being stopped.
    Stopping,
    /// It is stopped.
    Stopped,
    /// It is being terminated.
    ShuttingDown,
    /// It is no more.
    Terminated,
}

impl InstanceState {
    /// Whether nothing can save it any more.
    pub const fn is_ending(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// Something that is wrong with an instance; one with several problems has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// `i-…`.
    pub id: String,
    /// What.
    pub problem: InstanceProblem,
}

/// What is wrong with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceProblem {
    /// A status check fails. Those of attached EBS volumes are left out, since they may be volumes
    /// of pods.
    Impaired {
        /// Which, as `instance reachability` or `system reachability`.
        check: String,
        /// Since when, by EC2's clock.
        since: Timestamp,
    },
    /// EC2 is going to stop it, to end it, or to work on it.
    Planned {
        /// EC2's code, as `instance-retirement`.
        event: String,
        /// When at the earliest.
        at: Option<Timestamp>,
    },
}

impl InstanceProblem {
    /// Whether a check fails.
    pub const fn is_impairment(&self) -> bool {
        matches!(self, Self::Impaired { .. })
    }
}

/// What EC2 Fleet did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    /// Instances that it launched, perhaps fewer than asked, in order of id.
    pub instances: Vec<Instance>,
    /// What it could not launch.
    pub errors: Vec<FleetError>,
}

/// What EC2 Fleet could not launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetError {
    /// EC2's error code, as `InsufficientInstanceCapacity`.
    pub code: String,
    /// EC2's words.
    pub message: String,
    /// The override's instance type; empty when it names none.
    pub instance_type: String,
    /// The override's zone; empty when it names none.
    pub zone: String,
}

/// Something that happened, for our own functions and for users who subscribe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    /// EventBridge's detail-type, as `NodeClaims Launched`.
    #[serde(skip)]
    pub kind: &'static str,
    /// The cluster.
    pub cluster: String,
    /// The claims that it is about.
    pub claims: Vec<String>,
    /// Anything else.
    #[serde(flatten)]
    pub detail: BTreeMap<String, serde_json::Value>,
}

/// Why a cloud operation failed.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// It was refused: nothing has happened.
    #[error("{service} refused to {attempted}: {code}: {message}")]
    Refused {
        /// The service, as `EC2`.
        service: &'static str,
        /// What was attempted, as `create a fleet`.
        attempted: String,
        /// Its error code.
        code: String,
        /// Its words.
        message: String,
    },
    /// No answer came: it may have happened or not, and may still happen.
    #[error("{service} did not answer the attempt to {attempted}")]
    Unknown {
        /// The service.
        service: &'static str,
        /// What was attempted.
        attempted: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer, or a file of the state store, cannot be used.
    #[error("{what} cannot be used: {why}")]
    Unusable {
        /// What it is, as `s3://store/cluster/config`.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}
