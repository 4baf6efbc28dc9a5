//! Outrigger is taken out of the cluster.

use super::State;
use crate::scenario::{Cascade, Function, Uninstall};
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

    /// Whether the functions are gone, so that no run begins any more.
    pub(crate) fn is_without_functions(&self) -> bool {
        self.uninstalls == Some(Uninstall::Release)
    }
}
