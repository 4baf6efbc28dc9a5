//! The market: what each pool can launch, where, in which ways to pay, and for how much.
//!
//! A purchase is one instance type paid for in one way. `templates` say what a pool can launch,
//! `selection` which of that meets some labels, `price_order` finds the cheapest that carry some
//! pods, `offers` chooses the types that a node offers, and `shadow_prices` say what room is worth.

pub mod offers;
pub(crate) mod price_order;
pub mod purchases;
pub mod selection;
pub(crate) mod selections;
pub(crate) mod shadow_prices;
pub mod templates;
