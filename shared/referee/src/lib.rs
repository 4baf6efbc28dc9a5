//! An independent check of plans: whether Kubernetes and the pools' owners would accept a finished
//! plan. It is written for clarity before speed. With those who decide it shares plain facts only:
//! which host ports clash, what a daemonset asks of a node, the pods of a buffer.
//!
//! `cluster_state` indexes the snapshot, `market` says what may be bought, and `nodes` lists nodes,
//! claims in flight and planned nodes as `node_info`: what each may become, with its pods. Then
//! each is judged for itself (`fit`, `volumes`), each planned node as a purchase (`planned_nodes`),
//! all of a pool, reservation or pod group together (`pools`), and all nodes for the rules of pods
//! about other pods (`spread`, `affinity` and `anti_affinity`, with `daemon_pods`, `pod_index` and
//! `topology`). `consolidation` judges the commands that give nodes up, and what they lead to.

mod affinity;
mod anti_affinity;
mod cluster_state;
mod consolidation;
mod daemon_pods;
mod eligible_domains;
mod fit;
mod market;
mod node_info;
mod nodes;
mod plan;
mod planned_nodes;
mod pod_index;
mod pools;
mod spread;
mod topology;
mod violation;
mod volumes;

pub use consolidation::{CarriedOut, carried_out, check_consolidation};
pub use plan::{check, check_with_report};
pub use violation::Violation;
