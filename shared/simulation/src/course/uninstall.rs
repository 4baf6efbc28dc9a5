//! Outrigger is taken out of the cluster.

use crate::scenario::{Cascade, Function, Uninstall};
use crate::state::State;
use crate::time::Moment;

impl State {
    /// Somebody begins to take it out; the command is rung for.
    pub(crate) fn uninstall(&mut self, how: Uninstall, moment: Moment) {
        if how == Uninstall::Drain {
            self.delete_node_pools(usize::MAX, Cascade::Background, moment);
        }
        self.uninstalls = Some(how);
        *self.rings.entry(Function::Uninstall).or_default() += 1;
    }
}
