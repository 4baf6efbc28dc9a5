//! What goes wrong with calls: windows that a scenario opens, and chance.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use outrigger_model::TaintEffect;

use crate::calls::{Call, Service};
use crate::random::draw;
use crate::scenario::Function;
use crate::time::Moment;

/// How much longer a call takes at most while calls are slow.
const SLOWEST_MILLIS: u64 = 4_000;
/// How late a watch shows a change at most.
const LATEST_MILLIS: u64 = 20_000;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done and answered.
    Served,
    /// It is turned away: nothing has happened.
    Refused,
    /// It never arrives, and no answer comes.
    Unheard,
    /// It is done, but the answer is lost.
    AnswerLost,
}

impl Fate {
    /// What went wrong, for the timeline.
    pub(crate) const fn words(self) -> Option<&'static str> {
        match self {
            Self::Served => None,
            Self::Refused => Some("was refused for its rate"),
            Self::Unheard => Some("was not heard"),
            Self::AnswerLost => Some("was heard, its answer lost"),
        }
    }
}

/// What a window does to calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A service does not answer.
    Down(Service),
    /// EC2 refuses calls for their rate: one sort of them, or all.
    Throttle(Option<Call>),
    /// Calls take up to some seconds longer.
    Slow,
    /// Each minute's run of a function is begun twice.
    Duplicate(Function),
    /// The clocks of the API servers are wrong that runs talk to which begin, and that date what is
    /// made.
    SkewClocks,
    /// So many in a hundred changes are shown late or twice by watches, or break them off.
    UnsteadyWatches(u64),
    /// New machines join late.
    LateJoin,
    /// New machines never join.
    NeverJoin,
    /// Nodes that join never become ready.
    NeverReady,
    /// Pods that are asked to end never do, but for those whose successors wait for their volumes.
    PodsHang,
    /// Somebody taints each node that is opened.
    RogueTaint(TaintEffect),
    /// Somebody binds a pod of their own to each node that is registered.
    RogueBinding,
    /// Kubelets admit none of the pods that we bind.
    KubeletsRefuse,
    /// So many in a hundred events of EC2 are lost, come twice, or late.
    EventsAstray(u64),
    /// So many in a hundred calls fail, each in one of three ways.
    Chaos(u64),
    /// The definition of NodeClaims is not there.
    NoDefinition,
    /// The first object that a call writes is never written.
    Stuck(Call),
}

/// How a watch shows a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Showing {
    AtOnce,
    /// Only after so long, and what comes after it later still.
    Late(Duration),
    /// Once more, with so many that came before it.
    Again(u64),
    /// Not at all: the watch ends.
    BrokenOff,
}

/// Trouble for a time.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Duration,
    until: Duration,
    trouble: Trouble,
}

/// All trouble of a world.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    seed: u64,
    windows: Vec<Window>,
    calls: u64,
    /// What each call is stuck on.
    stuck: BTreeMap<Call, String>,
}

impl Faults {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, windows: Vec::new(), calls: 0, stuck: BTreeMap::new() }
    }

    /// Opens a window.
    pub(crate) fn add(&mut self, from: Duration, length: Duration, trouble: Trouble) {
        self.windows.push(Window { from, until: from.saturating_add(length), trouble });
    }

    /// What becomes of the next call.
    pub(crate) fn fate(&mut self, call: Call, moment: Moment) -> Fate {
        self.calls += 1;
        let mut fates = self.open(moment.elapsed).map(|trouble| match trouble {
            Trouble::Down(service) if service == call.service() => Fate::Unheard,
            Trouble::Throttle(only) if only.map_or(call.rate().is_some(), |only| only == call) => {
                Fate::Refused
            }
            Trouble::Chaos(percent) => self.chance(call, percent),
            Trouble::Down(_)
            | Trouble::Throttle(_)
            | Trouble::Slow
            | Trouble::Duplicate(_)
            | Trouble::SkewClocks
            | Trouble::UnsteadyWatches(_)
            | Trouble::LateJoin
            | Trouble::NeverJoin
            | Trouble::NeverReady
            | Trouble::PodsHang
            | Trouble::RogueTaint(_)
            | Trouble::RogueBinding
            | Trouble::KubeletsRefuse
            | Trouble::EventsAstray(_)
            | Trouble::NoDefinition
            | Trouble::Stuck(_) => Fate::Served,
        });
        fates.find(|fate| *fate != Fate::Served).unwrap_or(Fate::Served)
    }

    /// Whether a call never gets an object written now.
    pub(crate) fn is_stuck(&mut self, call: Call, object: &str, moment: Moment) -> bool {
        if !self.open(moment.elapsed).any(|trouble| trouble == Trouble::Stuck(call)) {
            return false;
        }
        self.stuck.entry(call).or_insert_with(|| object.to_owned()) == object
    }

    /// What would become of a call now, chance aside.
    pub(crate) fn outlook(&self, call: Call, moment: Moment) -> Fate {
        let down = self.open(moment.elapsed).any(|trouble| trouble == Trouble::Down(call.service()));
        if down { Fate::Unheard } else { Fate::Served }
    }

    /// How much longer than usual the next call takes.
    pub(crate) fn delay(&self, moment: Moment) -> Duration {
        let slow = self.open(moment.elapsed).any(|trouble| trouble == Trouble::Slow);
        let millis = if slow { draw(self.seed, &format!("slow/{}", self.calls), SLOWEST_MILLIS) } else { 0 };
        Duration::from_millis(millis)
    }

    /// By how much the clock of an API server is ahead: mostly by seconds, at times by minutes, and
    /// once in a while by days. `of` says whose.
    pub(crate) fn clock_ahead(&self, of: &str, elapsed: Duration) -> SignedDuration {
        if !self.open(elapsed).any(|trouble| trouble == Trouble::SkewClocks) {
            return SignedDuration::ZERO;
        }
        let drawn = |what: &str, below: u64| draw(self.seed, &format!("skew/{what}/{of}"), below);
        let worst = match drawn("size", 10) {
            0 => 10 * 24 * 3_600,
            1..4 => 20 * 60,
            _ => 43,
        };
        let ahead = drawn("seconds", 2 * worst + 1).cast_signed() - worst.cast_signed();
        SignedDuration::from_secs(ahead)
    }

    /// What becomes of a change that a watch is to show.
    pub(crate) fn showing(&self, watch: u64, version: u64, elapsed: Duration) -> Showing {
        let percent = self.open(elapsed).find_map(|trouble| match trouble {
            Trouble::UnsteadyWatches(percent) => Some(percent),
            _ => None,
        });
        let percent = percent.unwrap_or(0);
        let drawn =
            |what: &str, below: u64| draw(self.seed, &format!("watch/{what}/{watch}/{version}"), below);
        match drawn("fate", 300) {
            fate if fate < percent => Showing::BrokenOff,
            fate if fate < 2 * percent => Showing::Again(1 + drawn("again", 5)),
            fate if fate < 3 * percent => {
                Showing::Late(Duration::from_millis(1 + drawn("late", LATEST_MILLIS)))
            }
            _ => Showing::AtOnce,
        }
    }

    /// Whether watches may show now what came some time ago.
    pub(crate) fn watches_are_late(&self, moment: Moment) -> bool {
        let late = |trouble: Trouble| matches!(trouble, Trouble::UnsteadyWatches(_));
        let before = moment.elapsed.saturating_sub(Duration::from_millis(LATEST_MILLIS));
        self.open(moment.elapsed).chain(self.open(before)).any(late)
    }

    /// A number for each watch that is opened.
    pub(crate) const fn calls(&self) -> u64 {
        self.calls
    }

    /// The trouble of a moment.
    pub(crate) fn open(&self, elapsed: Duration) -> impl Iterator<Item = Trouble> {
        let open = move |window: &&Window| (window.from..window.until).contains(&elapsed);
        self.windows.iter().filter(open).map(|window| window.trouble)
    }

    fn chance(&self, call: Call, percent: u64) -> Fate {
        let subject = format!("fault/{call:?}/{}", self.calls);
        match draw(self.seed, &subject, 300) {
            drawn if drawn < percent => Fate::Refused,
            drawn if drawn < 2 * percent => Fate::Unheard,
            drawn if drawn < 3 * percent => Fate::AnswerLost,
            _ => Fate::Served,
        }
    }
}
