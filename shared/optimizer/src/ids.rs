//! What things are called inside a decision: by their place in the lists of the Problem.
//!
//! Each list has an index of its own type, so that what stands for one thing finds nothing among
//! others.

use derive_more::{From, Into};

/// Declares types of indices. They come from numbers and become numbers only where a list is
/// counted through.
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
    /// What is asked of a new node for pods of a variant: its place among the variant's lots.
    LotId;
    /// What a pool can launch: its place among the templates, in the order in which pools are
    /// tried.
    TemplateId;
    /// A node that exists, or is on its way: its place among the existing ones.
    NodeId;
    /// A node that is to be opened: its place among the new ones of a solution.
    NewNodeId;
    /// A node that consolidation opens: its place among those of all disruptions, in the order of
    /// opening.
    OpenedId;
    /// An instance type: its place among those of its class.
    TypeId;
    /// An instance type paid for in one way: its place among the purchases of a template, type by
    /// type.
    PurchaseId;
    /// A daemonset: its place among all of them.
    DaemonId;
    /// A zone: its place among those of a template, and its bit in a set of them.
    ZoneId;
    /// What of a template meets some requirements: its number among all such selections.
    SelectionId;
    /// Lots that are packed as one: their place among the item types.
    ItemTypeId;
    /// A lot with pods that wait for a node: its place among all of them.
    PendingLotId;
    /// An item type whose pods may join a node: its place among the candidates of one filling.
    CandidateId;
    /// A candidate that may join a machine: its place in the columns.
    EntryId;
    /// What candidates ask of labels: its place among all that they ask.
    SampleId;
    /// An existing node that may be ended: its place among them by what they are worth.
    ValuedId;
    /// What existing nodes were bought as: its place among all kinds.
    KindId;
}

/// The pods of a class as one of its relaxations has them placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// The class.
    pub class: ClassId,
    /// Which of its relaxations.
    pub relaxation: RelaxationId,
}
