//! What the whole-system tests and the benchmarks share: objects to create, clusters of thousands,
//! waiting, the command, and proxies that break things.

pub mod cli;
pub mod faults;
pub mod large_cluster;
pub mod objects;
pub mod proxy;
pub mod world;
