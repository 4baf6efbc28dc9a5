//! One node, from its registration to its release.
//!
//! It is registered (`register`), its planned pods are bound or nominated (`placing`,
//! `nomination`), and it is initialised (`initialize`). It must end when its time is up
//! (`liveness`), somebody deletes it (`deletion`) or it does not heal (`repair`); `terminate`
//! begins its end, `drain` says who has to leave and `evict` asks them to, and `release` lets its
//! instance and its Node go. `mirror` shows its claim to kubectl, `consistency` says how it differs
//! from what was bought, `change` holds the changes of a Node that several of these make, `index`
//! leads from instances to nodes, and `identity` says which nodes are what they say they are.

pub(crate) mod change;
pub(crate) mod consistency;
pub(crate) mod deletion;
pub(crate) mod drain;
pub(crate) mod evict;
pub(crate) mod index;
pub(crate) mod initialize;
pub(crate) mod liveness;
pub(crate) mod mirror;
pub(crate) mod nomination;
pub(crate) mod placing;
pub(crate) mod register;
pub(crate) mod release;
pub(crate) mod repair;
pub(crate) mod terminate;
