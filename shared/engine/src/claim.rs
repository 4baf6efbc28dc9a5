//! A node's life, from the launch of its claim to the end of its instance. Each file decides and
//! does one part of it.
//!
//! A node that joins is registered and initialised (`start`), and its planned pods are bound or
//! nominated (`placing`, `nomination`). It must end when its time is up (`liveness`), EC2 takes it
//! back (`interruptions`), somebody deletes it (`deletion`), it does not heal (`repair`), or a
//! command gives it up (`command`). `end` begins its end, `drain` empties its node, and `release`
//! lets its instance and its Node go.
//!
//! `mirror` shows the claim to kubectl, and `wishes` are what people ask for there. `consistency`
//! says how the node differs from what was bought, and `pretenders` are nodes that are not what
//! they say. `change` holds the changes of a Node that several of these make, and `index` leads
//! from instances to nodes. `tick` is what one tick of lifecycle works with.

pub(crate) mod change;
pub(crate) mod command;
pub(crate) mod consistency;
pub(crate) mod deletion;
pub(crate) mod drain;
pub(crate) mod end;
pub(crate) mod index;
mod interruptions;
pub(crate) mod liveness;
pub(crate) mod mirror;
pub(crate) mod nomination;
pub(crate) mod placing;
mod pretenders;
pub(crate) mod release;
pub(crate) mod repair;
pub(crate) mod start;
pub(crate) mod tick;
mod wishes;
