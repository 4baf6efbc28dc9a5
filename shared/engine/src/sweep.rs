//! What is amiss between EC2, the ledger and the cluster: `collect` finds it, `adoption` makes
//! claims of what the ledger has forgotten.

pub(crate) mod adoption;
pub(crate) mod collect;
