//! What keeps the functions from doing harm.

/// One way of guarding against the loss of pods, instances or money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Guard {
    /// After a node was tainted, the scheduler is given time to notice before its pods are looked
    /// at.
    TaintWait,
    /// A drain is written down on its node, so that nobody opens it who saw it before the drain
    /// began.
    DrainMark,
    /// What one sweep finds amiss must be found again by a later one.
    TwoSweeps,
    /// EC2 is asked before the ledger is read, so that every instance that is seen was written
    /// down.
    CloudFirst,
    /// A sweep that would end more than three instances and a tenth of all does nothing.
    Breaker,
    /// While much of the cluster is not ready, sweeps conclude nothing.
    Partition,
    /// Absence of an instance counts for nothing while it may be too young to be shown.
    AbsenceWait,
    /// Repair stops where more than a fifth of a pool is unhealthy: then the fault is not the
    /// nodes'.
    RepairBreaker,
    /// What lifecycle writes is accepted only while its lease holds.
    Fence,
    /// Pools whose nodes come to nothing, and pods that none helps, are left alone for a while.
    PoolBreaker,
    /// Launch templates are collected only when nobody has used them for long.
    TemplateWait,
    /// A disruption is committed only when a later tick finds it again.
    Validation,
    /// A command is carried out only when what its pods wait for is ready.
    Replacements,
    /// Before a command is carried out its nodes and the pods on them are looked at once more.
    LastLook,
    /// That look minds budgets that let no pod go.
    LookAtBudgets,
    /// That look minds pods that ask not to be disrupted.
    LookAtWishes,
    /// What replaces a node stays closed until the pods come that were planned for it.
    ClosedReplacements,
    /// A command is given up whose pods would cost more elsewhere than it saves.
    DearCommands,
    /// Daemons leave after the workload, and what is critical after both.
    DrainTiers,
    /// An operator's pause is heeded.
    PauseHeeded,
    /// Nodes that are to go bear a soft taint, so that new pods go elsewhere.
    SoftTaint,
    /// What EC2 did not have is not asked for again for a while.
    UnavailableMemory,
    /// A pod is asked to end by its uid, so that another that was made under its name is spared.
    PodUid,
    /// A node is changed only as it was read, so that nothing is undone that somebody else did
    /// meanwhile.
    NodeVersion,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::TaintWait,
        Self::DrainMark,
        Self::TwoSweeps,
        Self::CloudFirst,
        Self::Breaker,
        Self::Partition,
        Self::AbsenceWait,
        Self::RepairBreaker,
        Self::Fence,
        Self::PoolBreaker,
        Self::TemplateWait,
        Self::Validation,
        Self::Replacements,
        Self::LastLook,
        Self::LookAtBudgets,
        Self::LookAtWishes,
        Self::ClosedReplacements,
        Self::DearCommands,
        Self::DrainTiers,
        Self::PauseHeeded,
        Self::SoftTaint,
        Self::UnavailableMemory,
        Self::PodUid,
        Self::NodeVersion,
    ];
}

/// Which guards are on: all, but for the breaker where an operator lets a large sweep go on.
/// Whoever compiles with the feature `absences` may take any away, to see that somebody would
/// notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    sweeps_anyway: bool,
    #[cfg(any(test, feature = "absences"))]
    absent: u32,
}

impl Guards {
    /// All but the breaker, by an operator's word.
    pub fn sweeping_anyway() -> Self {
        Self { sweeps_anyway: true, ..Self::default() }
    }

    /// All of these but one.
    #[cfg(any(test, feature = "absences"))]
    #[must_use]
    pub const fn without(self, guard: Guard) -> Self {
        Self { absent: self.absent | 1 << guard as u8, ..self }
    }

    #[cfg(any(test, feature = "absences"))]
    const fn is_absent(self, guard: Guard) -> bool {
        self.absent & (1 << guard as u8) != 0
    }

    #[cfg(not(any(test, feature = "absences")))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    const fn is_absent(self, _: Guard) -> bool {
        false
    }

    /// Whether a guard is on.
    pub fn has(self, guard: Guard) -> bool {
        let is_off = guard == Guard::Breaker && self.sweeps_anyway;
        !is_off && !self.is_absent(guard)
    }
}
