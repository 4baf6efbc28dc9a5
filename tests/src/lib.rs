//! What the whole-system tests and the benchmarks share: objects to create, waiting, and a proxy that breaks things.

pub mod faults;
pub mod objects;
pub mod proxy;
pub mod world;
