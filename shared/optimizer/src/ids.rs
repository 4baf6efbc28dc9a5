//! What things are called inside a decision: by their place in the lists of the Problem.

/// A group of pods that rules count: its place among all groups.
pub(crate) type GroupId = usize;
