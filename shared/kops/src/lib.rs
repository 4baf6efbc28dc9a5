//! kOps' Cluster and InstanceGroup specs, nodeup's files, and what they say about a node. No IO and
//! no AWS: callers fetch the files ([`StateStoreFiles`]), ask the account what [`account_queries`]
//! names, and get a node class.
//!
//! Facts are kOps' own (`pkg/apis/kops/v1alpha2`, `pkg/model`), checked against its releases 1.34
//! to 1.37.

mod account;
mod account_queries;
mod components;
mod error;
mod fields;
mod images;
mod labels;
mod launch;
mod machine_types;
mod names;
mod node_class;
mod node_pool;
mod nodeup;
mod planning_class;
mod rolling_update;
mod root_volume;
mod spec;
mod state_store;
mod static_pods;
mod taints;
mod user_data;

pub use account::{
    AccountFacts, AccountQueries, ImageFacts, ImageReference, LaunchTemplateFacts, SecurityGroupFacts,
    SubnetFacts,
};
pub use account_queries::account_queries;
pub use components::{FileAsset, KubeProxy};
pub use error::KopsError;
pub use names::node_role;
pub use node_class::node_class;
pub use node_pool::managed_node_pools;
pub use nodeup::{KubeProxyChoice, NodeupConfig};
pub use planning_class::{cluster_of, default_planning_class, planning_class};
pub use spec::{Cluster, ClusterSubnet, InstanceGroup, InstanceGroupSpec, Manager};
pub use state_store::{StateStoreFiles, paths};
pub use user_data::{nodeup_config_hash, sha256_base64};
