//! Writing the Plan and the Report.

pub(crate) mod commands;
pub(crate) mod explain;
mod naming;
mod writer;

pub(crate) use writer::Writer;
