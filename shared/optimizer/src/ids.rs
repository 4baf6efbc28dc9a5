//! What things are called inside a decision: by their place in the lists of the Problem.
//!
//! Each list has an index of its own type, so that what stands for one thing finds nothing among others.

use derive_more::{From, Into};

/// Declares types of indices. They come from numbers and become numbers only where a list is counted through.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, From, Into)]
        pub struct $name(usize);
    )*};
}

ids! {
    /// A group of pods that rules count: its place among all groups.
    GroupId;
    /// A label whose values are domains: its place among all of them.
    KeyId;
    /// A domain: its place among the values of its key.
    DomainId;
    /// The nodes on which some groups count: their place among all such sets.
    SiteId;
    /// A node of the cluster: its place in the order of names.
    ClusterNodeId;
    /// Pods that ask for the same: their place among the classes.
    ClassId;
    /// What may be asked for pods of a class: its place among the class's relaxations.
    RelaxationId;
    /// What a pool can launch: its place among the templates, in the order in which pools are tried.
    TemplateId;
    /// A node that exists, or is on its way: its place among the existing ones.
    NodeId;
    /// A node that is to be opened: its place among the new ones of a solution.
    NewNodeId;
    /// A node that consolidation opens: its place among those of all steps, in the order in which they are opened.
    OpenedId;
    /// An instance type: its place among those of its class.
    TypeId;
    /// An instance type paid for in one way: its place among the purchases of a template, type by type.
    PurchaseId;
    /// A daemonset: its place among all of them.
    DaemonId;
    /// A zone: its place among those of a template, and its bit in a set of them.
    ZoneId;
}

/// The pods of a class as one of its relaxations has them placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// The class.
    pub class: ClassId,
    /// Which of its relaxations.
    pub relaxation: RelaxationId,
}
