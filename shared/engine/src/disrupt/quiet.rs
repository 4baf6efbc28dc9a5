//! Quiet minutes: as long as nothing has changed since nothing was to be done, the cluster is not
//! read whole. On 1,000 nodes a glance at it is a twentieth of that.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{DisruptionMemory, Price, Quiet, Rest, Snapshot};
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, KeptName};

use super::rest;
use crate::chain::chain;
use crate::ports::{Glance, LedgerState, Ports};

/// How long a look is good for at most: annotations, what pods ask for and prices may change, of
/// which a glance shows nothing.
pub(super) const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// The same of a large cluster, where a look is dear: all of it is read.
const LONGEST_WHERE_LARGE: SignedDuration = SignedDuration::from_mins(15);
/// A command that begins sooner is waited for by looking each minute.
pub(super) const A_TICK: SignedDuration = SignedDuration::from_mins(1);

/// How the cluster and the ledger look now.
pub(super) struct Sight {
    cluster: Option<Glance>,
    ledger: String,
}

impl Sight {
    /// A glance at the cluster that fails shows nothing: then it is read whole.
    pub(super) async fn new(ports: Ports<'_>, ledger: &LedgerState) -> Self {
        let cluster = match ports.cluster.glance().await {
            Ok(cluster) => Some(cluster),
            Err(error) => {
                tracing::info!(error = chain(&error), "the cluster is read whole");
                None
            }
        };
        Self { cluster, ledger: digest(ledger) }
    }

    /// What all nodes cost in an hour, where nobody need look at them now: all is as it was when
    /// nothing was to be done, and still is, or the last look at a large cluster is good yet.
    pub(super) fn cost_without_a_look(&self, before: &DisruptionMemory, now: Timestamp) -> Option<Price> {
        let quiet = before.quiet.as_ref().filter(|quiet| self.is_quiet(quiet, now));
        let rest = before.rest.as_ref().filter(|rest| self.lets_rest(rest, now));
        quiet.map(|quiet| quiet.cost_per_hour).or(rest.map(|rest| rest.cost_per_hour))
    }

    fn is_quiet(&self, before: &Quiet, now: Timestamp) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.digest == before.cluster)
            && self.ledger == before.ledger
            && now < before.until
    }

    fn lets_rest(&self, rest: &Rest, now: Timestamp) -> bool {
        now < rest.until && self.cluster.as_ref().is_some_and(|cluster| rest::lasts(rest, &cluster.pods))
    }

    /// What the next run must know, after a look that began with this sight.
    pub(super) fn after(self, snapshot: &Snapshot, found: &Consolidation) -> Option<Quiet> {
        let until = quiet_until(snapshot, found)?;
        let cost_per_hour = found.before.instances + found.before.beside;
        Some(Quiet { cluster: self.cluster?.digest, ledger: self.ledger, until, cost_per_hour })
    }
}

/// Claims and commands. Another version of the standard library may come to another digest, which
/// looks like a change.
fn digest(ledger: &LedgerState) -> String {
    let mut hasher = DefaultHasher::new();
    for claim in &ledger.claims {
        (&claim.name, claim.version, claim.status.state as u8).hash(&mut hasher);
    }
    for command in &ledger.commands {
        command.id.hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Until when nothing is to be done, if nothing changes; `None` where something is to be done, or
/// time alone may change what was found.
fn quiet_until(snapshot: &Snapshot, found: &Consolidation) -> Option<Timestamp> {
    let lasts = |kept: &KeptName| kept.reason.lasts() && kept.causes.is_empty();
    if !snapshot.commands.is_empty() || !found.kept.iter().all(lasts) {
        return None;
    }
    let waits: Option<Vec<SignedDuration>> = found.commands.iter().map(wait_of).collect();
    let longest = if rest::is_large(snapshot) { LONGEST_WHERE_LARGE } else { LONGEST };
    let least = waits?.into_iter().min().unwrap_or(longest).min(longest);
    (least > A_TICK).then(|| snapshot.taken_at.saturating_add(least).unwrap_or(snapshot.taken_at))
}

/// How long a command waits yet for what its nodes have wasted; `None` where it begins now, or
/// waits for something else.
pub(super) fn wait_of(command: &ConsolidationCommand) -> Option<SignedDuration> {
    let patience =
        command.patience.as_ref().filter(|_| !command.starts_now && command.waits_for.is_none())?;
    let an_hour = command.saving_nanos as f64 / 1e9;
    let hours = (patience.ends_at - patience.wasted) / an_hour;
    let wait = Duration::try_from_secs_f64(hours * 3_600.0).unwrap_or(Duration::MAX);
    Some(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
}

#[cfg(test)]
mod tests {
    use outrigger_model::fixtures::{at, claim, node};
    use outrigger_model::{Command, TerminationReason};
    use outrigger_policy::disruption::WhyKept;

    use super::super::fixtures::{command, found};
    use super::*;

    #[test]
    fn a_look_at_a_small_cluster_is_good_for_five_minutes_at_most_and_ends_before_a_command_begins() {
        use WhyKept::{HeldByCommand, NothingCheaper, TimeIsUp, UnknownPrice};
        let held = HeldByCommand { command: "c".into() };
        let table = [
            (vec![], vec![], Some(300)),
            (vec![NothingCheaper, UnknownPrice], vec![], Some(300)),
            (vec![NothingCheaper, held], vec![], None),
            (vec![TimeIsUp], vec![], None),
            (vec![], vec![command(None)], None),
            // A dollar an hour is five cents in three minutes.
            (vec![], vec![command(Some(5.0))], Some(180)),
            (vec![], vec![command(Some(50.0)), command(Some(5.0))], Some(180)),
            (vec![], vec![command(Some(50.0))], Some(300)),
            (vec![], vec![command(Some(1.0))], None),
        ];
        let snapshot = Snapshot::empty("c", at(0));
        for (kept, commands, seconds) in table {
            let case = format!("{kept:?} {commands:?}");
            let until = quiet_until(&snapshot, &found(kept, commands));
            assert_eq!(until.map(Timestamp::as_second), seconds, "{case}");
        }
        let mut drifted = found(vec![NothingCheaper], Vec::new());
        drifted.kept[0].causes.push("another image".into());
        assert_eq!(quiet_until(&snapshot, &drifted), None);
        let new = Command::new(TerminationReason::Empty, "test", Vec::new(), at(0));
        let at_work = Snapshot { commands: vec![new], ..snapshot };
        assert_eq!(quiet_until(&at_work, &found(Vec::new(), Vec::new())), None);
    }

    #[test]
    fn a_look_at_a_large_cluster_is_good_for_a_quarter_of_an_hour() {
        let nodes = |count| vec![node(Vec::new()); count];
        for (count, seconds) in [(399, 300), (400, 900)] {
            let snapshot = Snapshot { nodes: nodes(count), ..Snapshot::empty("c", at(0)) };
            let until = quiet_until(&snapshot, &found(vec![WhyKept::NothingCheaper], Vec::new()));
            assert_eq!(until.map(Timestamp::as_second), Some(seconds), "{count}");
        }
    }

    #[test]
    fn it_is_quiet_while_nothing_changes_and_for_no_longer() {
        let ledger = digest(&LedgerState::default());
        let before = Quiet { cluster: "c".into(), ledger, until: at(300), cost_per_hour: Price::ZERO };
        let sight = |cluster: Option<&str>, claims| Sight {
            cluster: cluster.map(|digest| Glance { digest: digest.into(), ..Glance::default() }),
            ledger: digest(&LedgerState { claims, ..LedgerState::default() }),
        };
        let table = [
            (sight(Some("c"), vec![]), Some(&before), 299, true),
            (sight(Some("c"), vec![]), Some(&before), 300, false),
            (sight(Some("other"), vec![]), Some(&before), 1, false),
            (sight(None, vec![]), Some(&before), 1, false),
            (sight(Some("c"), vec![claim()]), Some(&before), 1, false),
            (sight(Some("c"), vec![]), None, 1, false),
        ];
        for (number, (sight, before, second, is_quiet)) in table.into_iter().enumerate() {
            let before = DisruptionMemory { quiet: before.cloned(), ..DisruptionMemory::default() };
            assert_eq!(sight.cost_without_a_look(&before, at(second)).is_some(), is_quiet, "{number}");
        }
    }
}
