//! Worlds drawn from a seed: what the cluster is like, what it asks for, and all that goes wrong
//! for a quarter of an hour.

mod company;
mod disruption;
mod pools;
mod protection;
mod standing;
mod static_pods;
mod unreadable;
mod volumes;

use std::time::Duration;

use outrigger_engine::interruption::RebalancePolicy;
use outrigger_model::{
    CapacityType, CostSetter, DeletionCost, Invalid, NillableDuration, NodeClassRef, PauseScope, TaintEffect,
};

use super::dice::Dice;
use super::{Asks, Trial};
use crate::calls::Call;
use crate::policy::Policy;
use crate::scenario::{Event, EventKind, Function, Interruption, Mishap, Scale, Scenario, Uninstall};

/// One pool of one type on demand, whose pods move between few nodes.
const STEADY: &str = concat!(include_str!("steady.yaml"), include_str!("own_class.yaml"));
/// Two pools, spot and on demand, of several families, with limits and startup taints.
const MIXED: &str = concat!(include_str!("mixed.yaml"), include_str!("own_class.yaml"));
/// Demand changes and trouble begins before this.
const CALM_AFTER: u64 = 12 * 60;
/// Calls before which a function may stand still, or after which it may die.
const FATEFUL: [(Function, Call); 22] = [
    (Function::Provision, Call::Acquire),
    (Function::Provision, Call::Prepare),
    (Function::Provision, Call::MarkSent),
    (Function::Provision, Call::CreateFleet),
    (Function::Provision, Call::Resolve),
    (Function::Provision, Call::DescribeInstances),
    (Function::Provision, Call::WriteCommand),
    (Function::Lifecycle, Call::DescribeMachines),
    (Function::Lifecycle, Call::ChangeNode),
    (Function::Lifecycle, Call::BindPod),
    (Function::Lifecycle, Call::UpdateClaim),
    (Function::Lifecycle, Call::ForgetInterruption),
    (Function::Lifecycle, Call::EndCommand),
    (Function::Lifecycle, Call::Evict),
    (Function::Lifecycle, Call::PutSweep),
    (Function::Lifecycle, Call::TerminateInstances),
    (Function::Lifecycle, Call::ReleaseNode),
    (Function::Lifecycle, Call::Load),
    (Function::Disrupt, Call::Load),
    (Function::Disrupt, Call::List),
    (Function::Disrupt, Call::WriteCommand),
    (Function::Disrupt, Call::PutDisruptionMemory),
];

/// Calls after which whoever hears of interruptions may die.
const HEARING: [Call; 6] = [
    Call::Handled,
    Call::PutUnavailable,
    Call::Interrupt,
    Call::WriteCommand,
    Call::ChangeNode,
    Call::PutEvents,
];

/// Calls after which the command that takes Outrigger out may die.
const REMOVING: [Call; 4] = [Call::Mirrors, Call::Nodes, Call::ChangeNode, Call::RemoveMirror];

/// What is refused for its rate: all of EC2, or one call.
const THROTTLED: [Option<Call>; 6] = [
    None,
    Some(Call::CreateFleet),
    Some(Call::TerminateInstances),
    Some(Call::Evict),
    Some(Call::ChangeNode),
    Some(Call::UpdateClaim),
];
/// What EC2 may say to launches beside having no capacity.
const CODES: [&str; 6] = [
    "InternalError",
    "UnauthorizedOperation",
    "VcpuLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "InsufficientFreeAddressesInSubnet",
    "InvalidLaunchTemplateName.NotFoundException",
];
/// What users give their pods for a deletion cost.
const DELETION_COSTS: [i32; 4] = [i32::MIN, -1, 0, 100];
/// An event that lasts, by the name of its draw.
type Lasting = (&'static str, fn(Duration) -> EventKind);
/// An event that happens to a number of things, by the name of its draw, with how often it does.
type Counted = (&'static str, fn(usize) -> EventKind, u64);

/// The worlds of chance.
#[derive(Clone, Debug)]
pub struct Chance {
    steady: Scenario,
    mixed: Scenario,
}

impl Chance {
    pub(super) fn new() -> Result<Self, Vec<Invalid>> {
        let read = |name: &str, text: &str| Scenario::read(name, text);
        Ok(Self { steady: read("steady.yaml", STEADY)?, mixed: read("mixed.yaml", MIXED)? })
    }

    /// The world of a seed.
    pub(super) fn trial(&self, seed: u64) -> Trial {
        let dice = Dice { seed };
        let base = if dice.below("base", 2) == 0 { &self.steady } else { &self.mixed };
        let mut scenario = Scenario { seed, ..base.clone() };
        scenario.boot_time = dice.seconds("boot", 10, 60);
        if dice.happens("single pass", 25) {
            scenario.poll_window = Duration::ZERO;
        }
        if dice.happens("small", 20) {
            scenario.allocatable_percent = 97;
        }
        if dice.happens("little memory", 15) {
            scenario.memory_percent = 85;
        }
        scenario.node_repair = dice.happens("repair", 50);
        scenario.policy = if dice.happens("disrupt", 50) { Policy::Outrigger } else { Policy::None };
        if dice.happens("follows", 50) {
            scenario.rebalance = RebalancePolicy::Drain;
        }
        if dice.happens("own template", 30) {
            for pool in &mut scenario.configuration.node_pools {
                pool.spec.template.spec.node_class_ref = NodeClassRef::ec2("own");
            }
        }
        let patience = pools(&dice, &mut scenario);
        let is_crowded = crowd(&dice, &mut scenario);
        company::company(&dice, &mut scenario);
        standing::standing(&dice, &mut scenario);
        demand(&dice, &mut scenario);
        volumes::volumes(&dice, &mut scenario);
        static_pods::static_pods(&dice, &mut scenario);
        let patience = protection::protection(&dice, &mut scenario, patience);
        scenario.events = trouble(&dice, &scenario);
        let is_rogue = |event: &Event| matches!(event.kind, EventKind::RogueTaint { .. });
        if scenario.policy == Policy::None && scenario.events.iter().any(is_rogue) {
            // Nobody ends the nodes that the rogue has made useless, and they count.
            unlimited(&mut scenario);
        }
        let some_wait = unreadable::unreadable(&dice, &mut scenario);
        let patience = pools::departures(&dice, &mut scenario, patience);
        let patience = disruption::disruption(&dice, &mut scenario, patience, is_crowded);
        let patience = volumes::in_quiet_times(&dice, &mut scenario, patience);
        confirm_deletions(&mut scenario.events);
        scenario.adopt = scenario.events.iter().any(|event| forgets(&event.kind));
        if scenario.adopt {
            // Who adopts leaves alone what has no tags of a pool, and what is of no claim of its
            // launch.
            let is_of_none = |kind: &EventKind| {
                matches!(kind, EventKind::LateInstances(_) | EventKind::SurplusInstances(_))
            };
            scenario.events.retain(|event| !is_of_none(&event.kind));
        }
        let heals = scenario.events.iter().all(|event| !leaves_a_mark(&event.kind));
        let asks = match (heals, patience) {
            (false, _) => Asks::Laws,
            // Their budgets hold up drains as long as they wait.
            (true, Asks::Rest) if some_wait && !scenario.budgets.is_empty() => Asks::Laws,
            (true, Asks::Rest) if some_wait => Asks::Settled,
            (true, asks) => asks,
        };
        Trial { scenario, asks }
    }
}

/// Somebody says that what was deleted is meant, three minutes after it was.
fn confirm_deletions(events: &mut Vec<Event>) {
    use EventKind::{DeleteNodeClaims, DeleteNodePools, DeleteNodes};
    let deletes =
        |kind: &EventKind| matches!(kind, DeleteNodes(_) | DeleteNodeClaims(_) | DeleteNodePools(..));
    let deletions = events.iter().filter(|event| deletes(&event.kind));
    let confirmed = deletions
        .map(|event| Event { at: event.at + Duration::from_mins(3), kind: EventKind::ConfirmDeletions });
    let confirmed: Vec<Event> = confirmed.collect();
    events.extend(confirmed);
    events.sort_by_key(|event| event.at);
}

/// Whether it makes the ledger forget.
fn forgets(kind: &EventKind) -> bool {
    matches!(kind, EventKind::LoseTable | EventKind::RestoreTable)
}

/// Whether the world is not all as it was when this is over: people must mend it.
fn leaves_a_mark(kind: &EventKind) -> bool {
    use EventKind::{Mishap as Befalls, Uninstall};
    let stays = matches!(kind, Uninstall(_) | Befalls(Mishap::SilenceKubelets | Mishap::DuplicateNodes, _));
    stays || forgets(kind)
}

/// How patient the pools are. Where nodes expire all the time the world never comes to rest.
fn pools(dice: &Dice, scenario: &mut Scenario) -> Asks {
    let patience = match dice.below("patience", 4) {
        0 => Some(NillableDuration::seconds(60)),
        1 => Some(NillableDuration::seconds(180)),
        _ => None,
    };
    let expires = dice.happens("expires", 12);
    for pool in &mut scenario.configuration.node_pools {
        let template = &mut pool.spec.template.spec;
        template.termination_grace_period = patience;
        if expires {
            template.expire_after = NillableDuration::seconds(60 * (9 + dice.below("expiry", 15)));
        }
    }
    if expires { Asks::Laws } else { Asks::Rest }
}

/// In some worlds there are many more pods, and no limits of pools; whether this is one.
fn crowd(dice: &Dice, scenario: &mut Scenario) -> bool {
    let is_crowded = dice.happens("crowd", 2);
    if is_crowded {
        let times = 4 + u32::try_from(dice.below("crowd/times", 9)).unwrap_or_default();
        let steps = scenario.workloads.iter_mut().flat_map(|workload| &mut workload.scale);
        steps.for_each(|step| step.replicas *= times);
        unlimited(scenario);
    }
    is_crowded
}

/// Takes the limits off all pools.
fn unlimited(scenario: &mut Scenario) {
    for pool in &mut scenario.configuration.node_pools {
        pool.spec.limits = None;
    }
}

/// Workloads grow and shrink.
fn demand(dice: &Dice, scenario: &mut Scenario) {
    for (index, workload) in scenario.workloads.iter_mut().enumerate() {
        if dice.happens(&format!("deletion cost/{index}"), 25) {
            let cost = *dice.pick(&format!("deletion cost/{index}/of"), &DELETION_COSTS);
            workload.deletion_cost = Some(DeletionCost { cost, set_by: CostSetter::Others });
        }
        let Some(first) = workload.scale.first().copied() else { continue };
        for step in 1..=dice.few(&format!("steps/{index}"), 60, 3) {
            let subject = format!("step/{index}/{step}");
            let at = Duration::from_secs(150 * step as u64) + dice.seconds(&subject, 0, 140);
            let most = u64::from(first.replicas) * 2;
            let replicas = u32::try_from(dice.below(&format!("{subject}/to"), most + 1)).unwrap_or_default();
            if workload.scale.last().is_some_and(|last| last.at < at) {
                workload.scale.push(Scale { at, replicas });
            }
        }
    }
}

/// All that goes wrong.
fn trouble(dice: &Dice, scenario: &Scenario) -> Vec<Event> {
    let mut drawn = Drawn { dice, events: Vec::new() };
    drawn.calls();
    drawn.capacity(scenario);
    drawn.refusals();
    drawn.functions();
    drawn.clocks();
    drawn.machines();
    drawn.people();
    drawn.tidings();
    drawn.table();
    drawn.pauses();
    drawn.removal();
    drawn.events.sort_by_key(|event| event.at);
    drawn.events
}

struct Drawn<'a> {
    dice: &'a Dice,
    events: Vec<Event>,
}

impl Drawn<'_> {
    fn add(&mut self, subject: &str, kind: EventKind) {
        let at = self.dice.seconds(&format!("{subject}/at"), 0, CALM_AFTER);
        self.events.push(Event { at, kind });
    }

    fn length(&self, subject: &str, least: u64, most: u64) -> Duration {
        self.dice.seconds(&format!("{subject}/for"), least, most)
    }

    /// Calls that fail, that are refused, and that take long.
    fn calls(&mut self) {
        if self.dice.happens("chaos", 70) {
            let length = self.length("chaos", 60, 8 * 60);
            let percent = 2 + self.dice.below("chaos/percent", 12);
            self.add("chaos", EventKind::Chaos { percent, length });
        }
        let kinds: [Lasting; 4] = [
            ("api", EventKind::ApiServerDown),
            ("ledger", EventKind::LedgerDown),
            ("cloud", EventKind::CloudDown),
            ("slow", EventKind::Slow),
        ];
        for (name, kind) in kinds {
            if self.dice.happens(name, 22) {
                let length = self.length(name, 10, 180);
                self.add(name, kind(length));
            }
        }
        if self.dice.happens("throttle", 30) {
            let call = *self.dice.pick("throttle/call", &THROTTLED);
            let length = self.length("throttle", 20, 150);
            self.add("throttle", EventKind::Throttle { call, length });
        }
    }

    /// Pools of EC2 that run dry.
    fn capacity(&mut self, scenario: &Scenario) {
        for number in 0..self.dice.few("dry", 35, 3) {
            let subject = format!("dry/{number}");
            let zones = if self.dice.happens(&format!("{subject}/zone"), 50) {
                vec![self.dice.pick(&format!("{subject}/which"), &scenario.zones).clone()]
            } else {
                Vec::new()
            };
            let kinds = [None, Some(CapacityType::Spot), Some(CapacityType::OnDemand)];
            let capacity_type = *self.dice.pick(&format!("{subject}/kind"), &kinds);
            let length = self.length(&subject, 20, 5 * 60);
            let instance_types = Vec::new();
            self.add(
                &subject,
                EventKind::InsufficientCapacity { instance_types, zones, capacity_type, length },
            );
        }
    }

    /// Launches that EC2 refuses, all of them or those of one capacity type.
    fn refusals(&mut self) {
        if self.dice.happens("refusal", 20) {
            let code = (*self.dice.pick("refusal/code", &CODES)).to_owned();
            let kinds = [None, Some(CapacityType::Spot), Some(CapacityType::OnDemand)];
            let capacity_type = *self.dice.pick("refusal/kind", &kinds);
            let length = self.length("refusal", 20, 4 * 60);
            let (instance_types, zones) = (Vec::new(), Vec::new());
            let kind = EventKind::LaunchErrors { code, instance_types, zones, capacity_type, length };
            self.add("refusal", kind);
        }
    }

    /// Functions that die, stand still, and run twice at once.
    fn functions(&mut self) {
        for number in 0..self.dice.few("kill", 50, 4) {
            let subject = format!("kill/{number}");
            let (function, after) = *self.dice.pick(&subject, &FATEFUL);
            self.add(&subject, EventKind::KillFunction { function, after });
        }
        for number in 0..self.dice.few("freeze", 35, 3) {
            let subject = format!("freeze/{number}");
            let (function, before) = *self.dice.pick(&subject, &FATEFUL);
            let length = self.length(&subject, 5, 120);
            self.add(&subject, EventKind::Freeze { function, before, length });
        }
        if self.dice.happens("hesitates", 12) {
            // As the first pods come, so that nodes are launched while it stands still.
            let (function, before) = (Function::Lifecycle, Call::DescribeMachines);
            let length = self.length("hesitates", 5, 15);
            self.events
                .push(Event { at: Duration::ZERO, kind: EventKind::Freeze { function, before, length } });
        }
        for number in 0..self.dice.few("hang", 20, 2) {
            let subject = format!("hang/{number}");
            let (function, call) = *self.dice.pick(&subject, &FATEFUL);
            let length = self.length(&subject, 10, 70);
            self.add(&subject, EventKind::Hang { function, call, length });
        }
        for function in [Function::Provision, Function::Lifecycle, Function::Disrupt] {
            let subject = format!("twice/{function}");
            if self.dice.happens(&subject, 25) {
                let length = self.length(&subject, 60, 6 * 60);
                self.add(&subject, EventKind::Duplicate { function, length });
            }
        }
    }

    /// API servers whose clocks are wrong, and whose watches are unsteady.
    fn clocks(&mut self) {
        if self.dice.happens("clocks", 25) {
            let length = self.length("clocks", 60, 8 * 60);
            self.add("clocks", EventKind::SkewClocks(length));
        }
        if self.dice.happens("watches", 30) {
            let length = self.length("watches", 60, 8 * 60);
            let percent = 5 + self.dice.below("watches/percent", 40);
            self.add("watches", EventKind::UnsteadyWatches { percent, length });
        }
    }

    /// Machines that do not join or join late, nodes that are not ready, pods that do not end.
    fn machines(&mut self) {
        let kinds: [(Lasting, u64); 6] = [
            (("refuse", EventKind::KubeletsRefuse), 40),
            (("strangers", EventKind::RogueBinding), 60),
            (("mute", EventKind::NeverJoin), 60),
            (("late", EventKind::LateJoin), 90),
            (("unready", EventKind::NeverReady), 60),
            (("hang", EventKind::PodsHang), 150),
        ];
        if self.dice.happens("rogue", 8) {
            let effects = [TaintEffect::NoSchedule, TaintEffect::NoExecute, TaintEffect::PreferNoSchedule];
            let effect = *self.dice.pick("rogue/effect", &effects);
            let length = self.length("rogue", 5, 60);
            self.add("rogue", EventKind::RogueTaint { effect, length });
        }
        for ((name, kind), most) in kinds {
            if self.dice.happens(name, 18) {
                let length = self.length(name, 5, most);
                self.add(name, kind(length));
            }
        }
    }

    /// Events that come late, twice or not at all, and whoever hears them dies.
    fn tidings(&mut self) {
        if self.dice.happens("astray", 40) {
            let length = self.length("astray", 60, 8 * 60);
            let percent = 5 + self.dice.below("astray/percent", 40);
            self.add("astray", EventKind::EventsAstray { percent, length });
        }
        for number in 0..self.dice.few("deaf", 30, 3) {
            let subject = format!("deaf/{number}");
            let after = *self.dice.pick(&subject, &HEARING);
            self.add(&subject, EventKind::KillFunction { function: Function::Interrupt, after });
        }
    }

    /// A table that is lost, or becomes again what it was.
    fn table(&mut self) {
        if self.dice.happens("lose", 3) {
            self.add("lose", EventKind::LoseTable);
        }
        if self.dice.happens("restore", 5) {
            self.add("copy", EventKind::CopyTable);
            self.add("restore", EventKind::RestoreTable);
        }
    }

    /// An operator pauses the functions, or a part of what they do.
    fn pauses(&mut self) {
        if self.dice.happens("pause", 15) {
            let what = *self.dice.pick("pause/what", &[PauseScope::Everything, PauseScope::Disruption]);
            let length = Some(self.length("pause", 60, 6 * 60));
            self.add("pause", EventKind::Pause { what, length });
        }
    }

    /// Outrigger is taken out of the cluster, and the command dies on the way.
    fn removal(&mut self) {
        if self.dice.happens("removal", 4) {
            let how = *self.dice.pick("removal/how", &[Uninstall::Drain, Uninstall::Release]);
            self.add("removal", EventKind::Uninstall(how));
            let after = *self.dice.pick("removal/death", &REMOVING);
            self.add("removal/death", EventKind::KillFunction { function: Function::Uninstall, after });
        }
    }

    /// What others do: users, EC2, and whoever else has an account.
    fn people(&mut self) {
        // More than three of them would open the breaker, which waits for a person.
        let count = self.dice.few("strays", 35, 2);
        if count > 0 {
            self.add("strays", EventKind::LateInstances(count));
        }
        if self.dice.happens("too many", 10) {
            self.add("too many", EventKind::SurplusInstances(1));
        }
        if self.dice.happens("late fleet", 10) {
            let length = self.length("late fleet", 5, 300);
            self.add("late fleet", EventKind::LateFleet(length));
        }
        let forge = |count| EventKind::Interruption(Interruption::ForgedTermination, count);
        let warn = |count| EventKind::Interruption(Interruption::SpotWarning, count);
        let rebalance = |count| EventKind::Interruption(Interruption::Rebalance, count);
        let stop = |count| EventKind::Mishap(Mishap::StopInstances, count);
        let schedule = |count| EventKind::Interruption(Interruption::ScheduledChange, count);
        let kinds: [Counted; 20] = [
            ("forgery", forge, 10),
            ("delete pods", EventKind::DeletePods, 30),
            ("warning", warn, 50),
            ("rebalance", rebalance, 35),
            ("stop", stop, 20),
            ("schedule", schedule, 20),
            ("delete nodes", EventKind::DeleteNodes, 55),
            ("delete claims", EventKind::DeleteNodeClaims, 45),
            ("reclaim", EventKind::ReclaimInstances, 50),
            ("foreign", EventKind::ForeignInstances, 30),
            ("forged", EventKind::StrayInstances, 20),
            ("fail checks", |count| EventKind::Mishap(Mishap::FailStatusChecks, count), 25),
            ("retire", |count| EventKind::Mishap(Mishap::PlanRetirement, count), 20),
            ("close", |count| EventKind::Mishap(Mishap::CloseNodes, count), 25),
            ("silence", |count| EventKind::Mishap(Mishap::SilenceKubelets, count), 8),
            ("break", |count| EventKind::Mishap(Mishap::BreakHardware, count), 12),
            ("protect", |count| EventKind::Mishap(Mishap::ProtectInstances, count), 12),
            ("lock", |count| EventKind::Mishap(Mishap::LockNodeClaims, count), 12),
            ("annotate", |count| EventKind::Mishap(Mishap::AnnotateNodeClaims, count), 15),
            ("double", |count| EventKind::Mishap(Mishap::DuplicateNodes, count), 6),
        ];
        if self.dice.happens("definition", 8) {
            let length = self.length("definition", 60, 5 * 60);
            self.add("definition", EventKind::DeleteDefinition(length));
        }
        for (name, kind, percent) in kinds {
            let times = if self.dice.happens(&format!("{name}/again"), 30) { 2 } else { 1 };
            for time in 0..times {
                let count = self.dice.few(&format!("{name}/{time}"), percent, 2);
                if count > 0 {
                    self.add(&format!("{name}/{time}"), kind(count));
                }
            }
        }
    }
}
