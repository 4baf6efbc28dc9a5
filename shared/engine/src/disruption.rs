//! Nodes that go of our own accord, once what their pods move to is ready.

pub(crate) mod command;
