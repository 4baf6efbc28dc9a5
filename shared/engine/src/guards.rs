//! What keeps the functions from doing harm.

/// Each of these guards against one way of losing pods or instances. All are on; a test switches one off to prove that
/// the simulation would notice, and an operator switches the breaker off to let a large sweep go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Guards {
    /// After a node was tainted, the scheduler is given time to notice before its pods are looked at.
    pub taint_wait: bool,
    /// A drain is written down on its node, so that nobody opens it who saw it before the drain began.
    pub drain_mark: bool,
    /// What one sweep finds amiss must be found again by a later one.
    pub two_sweeps: bool,
    /// EC2 is asked before the ledger is read, so that every instance that is seen was written down.
    pub cloud_first: bool,
    /// A sweep that would end more than three instances and a tenth of all does nothing.
    pub breaker: bool,
    /// While much of the cluster is not ready, sweeps conclude nothing.
    pub partition: bool,
    /// Absence of an instance counts for nothing while it may be too young to be shown.
    pub absence_wait: bool,
    /// Repair stops where more than a fifth of a pool is unhealthy: then the fault is not the nodes'.
    pub repair_breaker: bool,
    /// What lifecycle writes is accepted only while its lease holds.
    pub fence: bool,
    /// Pools whose nodes come to nothing, and pods that none helps, are left alone for a while.
    pub pool_breaker: bool,
    /// Launch templates are collected only when nobody has used them for long.
    pub template_wait: bool,
    /// A disruption is committed only when a later tick finds it again.
    pub validation: bool,
    /// A command is carried out only when what its pods wait for is ready.
    pub replacements: bool,
    /// Before a command is carried out its nodes and the pods on them are looked at once more.
    pub last_look: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            taint_wait: true,
            drain_mark: true,
            two_sweeps: true,
            cloud_first: true,
            breaker: true,
            partition: true,
            absence_wait: true,
            repair_breaker: true,
            fence: true,
            pool_breaker: true,
            template_wait: true,
            validation: true,
            replacements: true,
            last_look: true,
        }
    }
}
