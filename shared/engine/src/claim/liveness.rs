//! Claims that take too long, or have lived long enough: pure rules.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{
    ClaimState, NillableDuration, Node, NodeClaim, TerminationCause, TerminationReason, labels,
};
use outrigger_policy::disruption::GracefulExpiry;

/// How long a node may take to join (Karpenter's registrationTimeout).
pub(crate) const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

/// Why a claim must end by now; `None` while it may go on.
///
/// `initialization_timeout` counts from registration, and is none of Karpenter's: without one a
/// node that never becomes ready is paid for until it expires. While much of the cluster is not
/// ready, nodes are not to blame.
pub(crate) fn overdue(
    claim: &NodeClaim,
    nodes: &[&Node],
    initialization_timeout: Option<Duration>,
    is_partitioned: bool,
    now: Timestamp,
) -> Option<TerminationCause> {
    match claim.status.state {
        ClaimState::Launched if nodes.is_empty() => {
            let since = claim.status.launched_at.unwrap_or(claim.created_at);
            passed(since, REGISTRATION_TIMEOUT, now).then(|| {
                TerminationCause::new(
                    TerminationReason::NotRegistered,
                    "its node has not joined in 15 minutes",
                )
            })
        }
        ClaimState::Registered | ClaimState::Initialized if has_expired(claim, now) => {
            let message = format!("it is older than expireAfter, {}", claim.spec.expire_after);
            Some(TerminationCause::new(TerminationReason::Expired, message))
        }
        // Several nodes in the place of one are for people to sort out.
        ClaimState::Registered if !is_partitioned && nodes.len() < 2 => {
            let (since, timeout) = (claim.status.registered_at?, initialization_timeout?);
            passed(since, timeout, now).then(|| {
                let timeout = NillableDuration::seconds(timeout.as_secs());
                let message = format!("its node was not ready for pods within {timeout}");
                TerminationCause::new(TerminationReason::NotInitialized, message)
            })
        }
        _ => None,
    }
}

/// Whether so many nodes are not ready that the fault is not theirs (Cluster Autoscaler's rule:
/// more than three, and more than 45 %). Nodes of ours that have never been ready for pods say
/// nothing about the others: they may all have the same fault, and would otherwise be paid for
/// until they expire.
pub(crate) fn is_partitioned<'a>(nodes: impl Iterator<Item = &'a Node>) -> bool {
    let (mut total, mut unready) = (0_usize, 0_usize);
    for node in nodes.filter(|node| !is_starting(node)) {
        total += 1;
        unready += usize::from(!node.ready);
    }
    unready > 3 && unready * 100 > total * 45
}

/// Whether a node of ours, or of Karpenter's, is on its way to being ready for the first time.
fn is_starting(node: &Node) -> bool {
    let is_joining = node.taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT);
    !node.is_initialized() && (is_joining || node.node_pool().is_some())
}

/// Whether a node has lived as long as it may. One that is replaced before it expires has some time
/// more for that.
fn has_expired(claim: &NodeClaim, now: Timestamp) -> bool {
    let Some(expiry) = GracefulExpiry::for_lifetime(claim.created_at, claim.spec.expire_after) else {
        return false;
    };
    now >= if GracefulExpiry::is_asked_for(claim) { expiry.forced_at } else { expiry.at }
}

fn passed(since: Timestamp, length: Duration, now: Timestamp) -> bool {
    SignedDuration::try_from(length).is_ok_and(|length| now.duration_since(since) >= length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{at, claim, node};
    use outrigger_model::{Taint, TaintEffect};

    #[test]
    fn each_state_has_its_time() {
        use ClaimState::{Draining, Initialized, Intent, Launched, Registered};
        use TerminationReason::{Expired, NotInitialized, NotRegistered};
        // State, nodes, whether the cluster is partitioned, seconds, and what must end.
        let table = [
            (Intent, 0, false, 1_000_000, None),
            (Launched, 0, false, 899, None),
            (Launched, 0, false, 900, Some(NotRegistered)),
            (Launched, 1, false, 10_000, None),
            (Launched, 2, false, 10_000, None),
            (Registered, 1, false, 1_799, None),
            (Registered, 1, false, 1_800, Some(NotInitialized)),
            (Registered, 1, true, 1_800, None),
            (Registered, 2, false, 1_800, None),
            (Registered, 1, true, 20_000, Some(Expired)),
            (Initialized, 1, false, 19_999, None),
            (Initialized, 1, false, 20_000, Some(Expired)),
            (Draining, 1, false, 20_000, None),
        ];
        let node = node(Vec::new());
        for (state, nodes, partitioned, second, expected) in table {
            let mut claim = claim().with_status(|status| {
                status.state = state;
                status.launched_at = Some(at(0));
                status.registered_at = Some(at(0));
            });
            claim.spec.expire_after = NillableDuration::seconds(20_000);
            let nodes = vec![&node; nodes];
            let timeout = Some(Duration::from_mins(30));
            let cause = overdue(&claim, &nodes, timeout, partitioned, at(second));
            assert_eq!(cause.map(|cause| cause.reason), expected, "{state:?} at {second}");
            claim.spec.expire_after = NillableDuration::NEVER;
            let cause = overdue(&claim, &nodes, None, partitioned, at(second));
            let without = expected.filter(|reason| *reason == NotRegistered);
            assert_eq!(cause.map(|cause| cause.reason), without, "{state:?} at {second} for ever");
        }
    }

    #[test]
    fn few_nodes_that_are_not_ready_are_no_partition() {
        let (ready, unready) = (node(Vec::new()), Node { ready: false, ..node(Vec::new()) });
        for (good, bad, expected) in
            [(0, 3, false), (0, 4, true), (5, 4, false), (4, 4, true), (100, 45, false)]
        {
            let nodes = std::iter::repeat_n(&ready, good).chain(std::iter::repeat_n(&unready, bad));
            assert_eq!(is_partitioned(nodes), expected, "{good} {bad}");
        }
        let mut young = unready;
        young.labels.insert(labels::NODE_POOL.into(), "web".into());
        assert!(!is_partitioned(std::iter::repeat_n(&young, 9)), "none of them was ever ready");
        young.labels.insert(labels::INITIALIZED.into(), "true".into());
        assert!(is_partitioned(std::iter::repeat_n(&young, 9)));
        let gate = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let joining = Node { taints: vec![gate], ready: false, ..node(Vec::new()) };
        assert!(!is_partitioned(std::iter::repeat_n(&joining, 9)), "they are about to be registered");
    }
}
