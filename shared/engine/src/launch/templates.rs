//! Launch templates of our own that nobody uses any more (reliability rule G6): pure rules.
//!
//! A template is written under a name that follows from its content, so each change of a node class
//! leaves one behind. Provision writes down when it last launched from each; while a launch is open
//! its intent names its template. One that is collected a moment before it is needed costs a launch
//! that is tried again: provision writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{Intent, LaunchHealth};

use crate::guards::{Guard, Guards};
use crate::ports::{Sweep, WrittenTemplate};

/// So long after its last use a template is of no use any more.
const UNUSED_AFTER: Duration = Duration::from_hours(1);
/// A template's last use is written down again only after so long.
pub(crate) const NOTED_EVERY: Duration = Duration::from_mins(10);
/// Two looks that confirm each other lie at least so far apart; a little less than the minute
/// between two ticks.
const CONFIRMED_AFTER: Duration = Duration::from_secs(55);
/// One sweep may always delete so many.
const ALWAYS_ALLOWED: usize = 3;
/// Beyond that it may delete one in so many; the others wait for the next sweeps.
const ALLOWED_SHARE: usize = 10;

/// What is known of templates, EC2 having been asked first.
pub(crate) struct Templates<'a> {
    /// Those of our own.
    pub(crate) written: &'a [WrittenTemplate],
    /// Launches that are open.
    pub(crate) intents: &'a [Intent],
    /// When each was last used.
    pub(crate) health: &'a LaunchHealth,
}

impl<'a> Templates<'a> {
    /// Notes in `sweep` which are unused, and since when sweeps have found them so; returns those
    /// to delete now. A ledger that has forgotten nodes, or whose sweep would end too many
    /// instances, is no judge of templates either.
    pub(crate) fn unused(
        &self,
        sweep: &mut Sweep,
        before: &Sweep,
        guards: Guards,
        now: Timestamp,
    ) -> Vec<&'a WrittenTemplate> {
        let needed: BTreeSet<&str> =
            self.intents.iter().map(|intent| intent.request.launch_template.as_str()).collect();
        let mut unused = BTreeMap::new();
        let mut confirmed = Vec::new();
        for template in self.written.iter().filter(|template| !needed.contains(template.name.as_str())) {
            let used_at = self.health.templates.get(&template.name).copied().max(Some(template.created_at));
            let is_idle = used_at.is_none_or(|at| passed(at, now) >= UNUSED_AFTER);
            if guards.has(Guard::TemplateWait) && !is_idle {
                continue;
            }
            let since = before.templates.get(&template.id).copied();
            unused.insert(template.id.clone(), since.unwrap_or(now));
            if !guards.has(Guard::TwoSweeps)
                || since.is_some_and(|since| passed(since, now) >= CONFIRMED_AFTER)
            {
                confirmed.push(template);
            }
        }
        sweep.templates = unused;
        if guards.has(Guard::Breaker) && (sweep.breaker.is_some() || !sweep.forgotten.is_empty()) {
            return Vec::new();
        }
        confirmed.truncate(ALWAYS_ALLOWED.max(self.written.len() / ALLOWED_SHARE));
        confirmed
    }
}

/// Whether the use of a template is to be written down.
pub(crate) fn is_news(template: &str, health: Option<&LaunchHealth>, now: Timestamp) -> bool {
    let noted = health.and_then(|health| health.templates.get(template));
    noted.is_none_or(|at| passed(*at, now) >= NOTED_EVERY)
}

/// Notes that templates were used, and forgets those that were not for so long that they are gone
/// or about to go.
pub(crate) fn note_use<'t>(
    health: &mut LaunchHealth,
    used: impl Iterator<Item = &'t String>,
    now: Timestamp,
) {
    health.templates.extend(used.map(|name| (name.clone(), now)));
    health.templates.retain(|_, at| passed(*at, now) < UNUSED_AFTER * 2);
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use outrigger_model::IntentState;
    use outrigger_model::fixtures::{self, at};

    use super::*;

    fn template(number: usize, created_at: i64) -> WrittenTemplate {
        WrittenTemplate { id: format!("lt-{number}"), name: format!("t{number}"), created_at: at(created_at) }
    }

    fn intent(template: &str) -> Intent {
        let mut intent = fixtures::intent(IntentState::Sent, 0);
        intent.request.launch_template = template.into();
        intent
    }

    #[test]
    fn a_template_goes_when_two_sweeps_find_it_unused_for_an_hour() {
        // Created, last used, named by an open launch, found before, now, and whether it is found
        // and deleted.
        let table = [
            (0, None, false, None, 3_599, (false, false)),
            (0, None, false, None, 3_600, (true, false)),
            (0, None, false, Some(3_600), 3_654, (true, false)),
            (0, None, false, Some(3_600), 3_655, (true, true)),
            (0, Some(10), false, Some(0), 3_609, (false, false)),
            (0, Some(10), false, Some(0), 3_610, (true, true)),
            (0, Some(-9_000), false, Some(0), 3_600, (true, true)),
            (0, None, true, Some(0), 9_000, (false, false)),
            (9_999, None, false, Some(0), 9_000, (false, false)),
        ];
        for (created, used, open, before, now, expected) in table {
            let written = [template(1, created)];
            let intents: Vec<Intent> = open.then(|| intent("t1")).into_iter().collect();
            let mut health = LaunchHealth::default();
            health.templates.extend(used.map(|second| ("t1".to_owned(), at(second))));
            let seen = Templates { written: &written, intents: &intents, health: &health };
            let mut last = Sweep::default();
            last.templates.extend(before.map(|second| ("lt-1".to_owned(), at(second))));
            let mut sweep = Sweep::default();
            let deleted = seen.unused(&mut sweep, &last, Guards::default(), at(now)).len();
            let outcome = (!sweep.templates.is_empty(), deleted == 1);
            assert_eq!(outcome, expected, "created {created} used {used:?} open {open} {before:?} at {now}");
        }
    }

    #[test]
    fn few_go_at_once_and_none_while_the_ledger_is_in_doubt() {
        let (health, last) = (LaunchHealth::default(), |count| Sweep {
            templates: (0..count).map(|number| (template(number, 0).id, at(0))).collect(),
            ..Sweep::default()
        });
        let doubts = [
            Sweep { breaker: Some(9), ..Sweep::default() },
            Sweep { forgotten: [("i-1".to_owned(), at(0))].into(), ..Sweep::default() },
        ];
        for (count, expected) in [(2, 2), (9, 3), (50, 5)] {
            let written: Vec<_> = (0..count).map(|number| template(number, 0)).collect();
            let seen = Templates { written: &written, intents: &[], health: &health };
            let unused = |sweep: &Sweep, guards| {
                let mut sweep = sweep.clone();
                let deleted = seen.unused(&mut sweep, &last(count), guards, at(9_000)).len();
                (sweep.templates.len(), deleted)
            };
            assert_eq!(unused(&Sweep::default(), Guards::default()), (count, expected));
            for doubt in &doubts {
                assert_eq!(unused(doubt, Guards::default()), (count, 0), "{doubt:?}");
                assert_eq!(unused(doubt, Guards::default().without(Guard::Breaker)), (count, expected));
            }
        }
    }

    #[test]
    fn a_use_is_noted_every_ten_minutes_and_forgotten_in_time() {
        let mut health = LaunchHealth::default();
        assert!(is_news("a", None, at(0)) && is_news("a", Some(&health), at(0)));
        note_use(&mut health, ["a".to_owned()].iter(), at(0));
        assert!(!is_news("a", Some(&health), at(599)) && is_news("a", Some(&health), at(600)));
        note_use(&mut health, ["b".to_owned()].iter(), at(7_199));
        assert_eq!(health.templates.len(), 2);
        note_use(&mut health, [].iter(), at(7_200));
        assert_eq!(health.templates.keys().collect::<Vec<_>>(), ["b"]);
    }
}
