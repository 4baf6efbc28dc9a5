//! The local stack: a real Kubernetes control plane and stand-ins for AWS, installed, started and
//! stopped as one.
//!
//! Tests start one with [`Stack::start`]; people with `cargo xtask stack up`. Everything that runs
//! listens on 127.0.0.1 on free ports, writes under one directory, and ends with the stack.

mod aws;
mod cache;
mod cloudformation;
mod control_plane;
mod door;
mod ec2;
mod event_source;
mod functions;
mod http;
mod keys;
mod kops;
mod kubernetes;
mod made;
mod mirror_pod;
mod node_agent;
mod node_object;
mod options;
mod ports;
mod process;
mod roles;
mod runtime_api;
mod schedule;
mod scheduling;
mod seed;
mod stack;
mod stand_ins;
mod state;
mod state_store;
mod template;
mod ticker;
mod tools;

pub use aws::{ACCOUNT, Aws, REGION, parameter};
pub use cache::Cache;
pub use cloudformation::Packages;
pub use door::Door;
pub use ec2::{Ec2Model, Fault};
pub use event_source::queue_event;
pub use functions::{FunctionProcess, built};
pub use http::{Answer, Http};
pub use kops::{CLUSTER, GROUPS, Group, STATE_BUCKET, ServiceProxy, nodeup_hash};
pub use kubernetes::Kubernetes;
pub use made::{Made, MadeFunction};
pub use node_agent::{NodeAgent, NodeAgentSettings};
pub use options::{Options, Runner, all_functions};
pub use process::{Identity, Launch, Process};
pub use roles::{Account, Call, LaunchTemplate, Need, Role, needs};
pub use runtime_api::{InvocationResult, RuntimeApi};
pub use schedule::{DEAD_INTERRUPTIONS, EVENT_SOURCE, FUNCTIONS, Function, INTERRUPTIONS, doorbell_queue};
pub use scheduling::SchedulingPlane;
pub use seed::{CATALOG_BUCKET, TABLE};
pub use stack::Stack;
pub use state::{Endpoints, Part, PartStatus, State};
pub use state_store::StateStore;
pub use template::{Deployed, Resources, Template};
pub use ticker::{Rates, Ticker, scheduled_event};
pub use tools::Tools;
