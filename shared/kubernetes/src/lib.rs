//! Kubernetes' API objects turned into the model once, at the edge; and, with the feature `client`,
//! the [`Cluster`](outrigger_engine::ports::Cluster) port on kube-rs.
#![cfg_attr(not(feature = "client"), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "client")]
pub mod client;
pub mod convert;
pub mod dump;
pub mod rights;
mod wire;

#[cfg(feature = "client")]
pub use client::{Access, KubernetesCluster, Token, TokenSource};
pub use convert::Interner;
pub use dump::{Dump, DumpError, DumpReader, RawObject, RawReader, ShownClaim};
