//! What the whole-system tests and the benchmarks share: objects to create, clusters of thousands,
//! waiting, the command, who follows a README, and proxies that break things.

pub mod cli;
pub mod faults;
pub mod large_cluster;
pub mod objects;
pub mod operator;
pub mod proxy;
pub mod world;
