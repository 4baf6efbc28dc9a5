//! The search for a good solution: construct one, then ruin a part of it and recreate that, again
//! and again.
//!
//! `construct` gives domains to pods (`assign`) and opens nodes for them (`open`), each filled by
//! what its room is worth (`fill`, guided by `prices`); `insert` places what is left, pod by pod,
//! where it costs least. `improve` is the loop and `ruin` its operators.

mod assign;
pub mod consolidate;
mod construct;
mod fill;
mod headroom;
mod improve;
mod insert;
mod item_types;
mod open;
mod order;
mod prices;
mod prospects;
mod random;
mod ruin;
mod worst_fit;
mod worth;

use crate::problem::Problem;
use crate::solution::Solution;
use prices::Prices;

/// The best solution that the search finds within its budget and the caller's time.
pub fn solve<'p, 'a>(problem: &'p Problem<'a>) -> Solution<'p, 'a> {
    let mut solution = Solution::empty(problem);
    let order = order::classes_in_order(problem);
    let mut prices = Prices::default();
    construct::open_static(&mut solution);
    assign::place_nominated(&mut solution);
    construct::construct(&mut solution, &order, &mut prices);
    solution.is_complete = !(problem.options.time_is_up)();
    improve::improve(&mut solution, &order, &mut prices);
    headroom::grow(&mut solution);
    solution
}
