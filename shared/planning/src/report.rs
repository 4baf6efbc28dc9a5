//! Writing the Plan and the Report.

mod explain;
mod naming;
mod writer;

pub(crate) use writer::Writer;
