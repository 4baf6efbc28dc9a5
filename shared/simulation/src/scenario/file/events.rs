//! The events of a scenario file, each kind with its own fields.

use std::time::Duration;

use outrigger_catalog::Catalog;
use outrigger_model::{PauseScope, PodRef};

use super::Reader;
use crate::scenario::wire::{EventFile, KindFile, Spec};
use crate::scenario::{Event, EventKind, Interruption, Mishap, Uninstall, Workload};

impl Reader {
    pub(super) fn events(
        &mut self,
        spec: &Spec,
        workloads: &[Workload],
        zones: &[String],
        catalog: &Catalog,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, file) in spec.events.iter().enumerate() {
            let field = format!("spec.events[{index}]");
            self.within(&field, file.at.0, spec.duration.0);
            self.fields_of_kind(&field, file);
            for name in file.instance_types.iter().flatten().filter(|name| catalog.entry(name).is_none()) {
                self.refuse(format!("{field}.instanceTypes"), format!("{name:?}"), "types of the region");
            }
            for zone in file.zones.iter().flatten().filter(|zone| !zones.contains(zone)) {
                self.refuse(format!("{field}.zones"), format!("{zone:?}"), zones.join(", "));
            }
            if file.percent.is_some_and(|percent| percent > 50) {
                self.refuse(format!("{field}.percent"), file.percent.unwrap_or_default(), "0 to 50");
            }
            if let Some(name) = &file.workload {
                self.rolled(&field, name, workloads);
            }
            events.extend(kind(file).map(|kind| Event { at: file.at.0, kind }));
        }
        events
    }

    /// What can be rolled: pods of a Deployment.
    fn rolled(&mut self, field: &str, name: &str, workloads: &[Workload]) {
        let id = workload_id(name);
        let can_roll = |workload: &&Workload| {
            !workload.has_volumes && !workload.has_stable_names && workload.lasts.is_none()
        };
        if !workloads.iter().filter(can_roll).any(|workload| workload.id == id) {
            let can = workloads.iter().filter(can_roll).map(|workload| workload.id.to_string());
            let can = can.collect::<Vec<_>>().join(", ");
            let allowed = format!(
                "workloads whose pods have no volumes and no stable names and do not end by themselves: {can}"
            );
            self.refuse(format!("{field}.workload"), format!("{name:?}"), allowed);
        }
    }

    /// Each kind of event has its own fields; one that is missing or means nothing is refused.
    fn fields_of_kind(&mut self, field: &str, file: &EventFile) {
        use KindFile::{
            Chaos, DeleteNodePools, Duplicate, EventsAstray, Freeze, Hang, InsufficientCapacity,
            KillFunction, LaunchErrors, Pause, PauseDisruption, RogueTaint, Roll, Stuck, Throttle,
            UnsteadyWatches,
        };
        let kind = file.kind;
        let counts = kind.counts();
        let runs = matches!(kind, KillFunction | Freeze | Hang | Duplicate);
        let lasts = kind != KillFunction && !counts && !kind.happens_once();
        let may_last = lasts || matches!(kind, Pause | PauseDisruption);
        let names = matches!(kind, InsufficientCapacity | LaunchErrors);
        let by_chance = matches!(kind, Chaos | EventsAstray | UnsteadyWatches);
        let rules = [
            ("for", file.length.is_some(), lasts, may_last),
            ("count", file.count.is_some(), counts, counts),
            ("instanceTypes", file.instance_types.is_some(), false, names),
            ("zones", file.zones.is_some(), false, names),
            ("capacityType", file.capacity_type.is_some(), false, names),
            ("code", file.code.is_some(), kind == LaunchErrors, kind == LaunchErrors),
            ("effect", file.effect.is_some(), kind == RogueTaint, kind == RogueTaint),
            (
                "call",
                file.call.is_some(),
                matches!(kind, Freeze | Hang | Stuck),
                matches!(kind, Throttle | Freeze | Hang | Stuck),
            ),
            ("percent", file.percent.is_some(), by_chance, by_chance),
            ("function", file.function.is_some(), runs, runs),
            ("cascade", file.cascade.is_some(), false, kind == DeleteNodePools),
            ("workload", file.workload.is_some(), kind == Roll, kind == Roll),
            ("after", file.after.is_some(), kind == KillFunction, kind == KillFunction),
        ];
        for (name, present, needed, allowed) in rules {
            let field = format!("{field}.{name}");
            match (present, needed, allowed) {
                (true, _, false) => self.refuse(field, "a value", format!("nothing, for {kind:?}")),
                (false, true, _) => self.refuse(field, "nothing", format!("a value, which {kind:?} needs")),
                _ => {}
            }
        }
    }
}

fn kind(file: &EventFile) -> Option<EventKind> {
    let length = file.length.map(|span| span.0);
    Some(match file.kind {
        KindFile::InsufficientCapacity => insufficient_capacity(file, length?),
        KindFile::LaunchErrors => launch_errors(file, length?)?,
        KindFile::RogueTaint => EventKind::RogueTaint { effect: file.effect?, length: length? },
        KindFile::RogueBinding => EventKind::RogueBinding(length?),
        KindFile::KubeletsRefuse => EventKind::KubeletsRefuse(length?),
        KindFile::Throttle => EventKind::Throttle { call: file.call, length: length? },
        KindFile::Stuck => EventKind::Stuck { call: file.call?, length: length? },
        KindFile::ApiServerDown => EventKind::ApiServerDown(length?),
        KindFile::LedgerDown => EventKind::LedgerDown(length?),
        KindFile::CloudDown => EventKind::CloudDown(length?),
        KindFile::Chaos => EventKind::Chaos { percent: file.percent?, length: length? },
        KindFile::KillFunction => EventKind::KillFunction { function: file.function?, after: file.after? },
        KindFile::Slow => EventKind::Slow(length?),
        KindFile::Freeze => {
            EventKind::Freeze { function: file.function?, before: file.call?, length: length? }
        }
        KindFile::Hang => EventKind::Hang { function: file.function?, call: file.call?, length: length? },
        KindFile::Duplicate => EventKind::Duplicate { function: file.function?, length: length? },
        KindFile::SkewClocks => EventKind::SkewClocks(length?),
        KindFile::UnsteadyWatches => EventKind::UnsteadyWatches { percent: file.percent?, length: length? },
        KindFile::NeverJoin => EventKind::NeverJoin(length?),
        KindFile::LateJoin => EventKind::LateJoin(length?),
        KindFile::NeverReady => EventKind::NeverReady(length?),
        KindFile::LoseTable => EventKind::LoseTable,
        KindFile::CopyTable => EventKind::CopyTable,
        KindFile::RestoreTable => EventKind::RestoreTable,
        KindFile::Pause => EventKind::Pause { what: PauseScope::Everything, length },
        KindFile::PauseDisruption => EventKind::Pause { what: PauseScope::Disruption, length },
        KindFile::Resume => EventKind::Resume,
        KindFile::PodsHang => EventKind::PodsHang(length?),
        KindFile::DeleteNodes => EventKind::DeleteNodes(file.count?),
        KindFile::DeleteRunningPods => EventKind::DeleteRunningPods(file.count?),
        KindFile::DeletePods => EventKind::DeletePods(file.count?),
        KindFile::DeleteNodeClaims => EventKind::DeleteNodeClaims(file.count?),
        KindFile::DeleteNodePools => {
            EventKind::DeleteNodePools(file.count?, file.cascade.unwrap_or_default())
        }
        KindFile::DeleteDoubles => EventKind::DeleteDoubles,
        KindFile::ConfirmDeletions => EventKind::ConfirmDeletions,
        KindFile::DeleteDefinition => EventKind::DeleteDefinition(length?),
        KindFile::ReclaimInstances => EventKind::ReclaimInstances(file.count?),
        KindFile::FailStatusChecks
        | KindFile::PlanRetirement
        | KindFile::StopInstances
        | KindFile::SilenceKubelets
        | KindFile::BreakHardware
        | KindFile::CloseNodes
        | KindFile::CordonNodes
        | KindFile::DrainNodes
        | KindFile::DuplicateNodes
        | KindFile::ProtectInstances
        | KindFile::ConfuseNodes
        | KindFile::LockNodeClaims
        | KindFile::AnnotateNodeClaims
        | KindFile::AnnotatePods
        | KindFile::AddBudgets => EventKind::Mishap(Mishap::from_kind(file.kind)?, file.count?),
        KindFile::StrayInstances => EventKind::StrayInstances(file.count?),
        KindFile::LateInstances => EventKind::LateInstances(file.count?),
        KindFile::SurplusInstances => EventKind::SurplusInstances(file.count?),
        KindFile::LateFleet => EventKind::LateFleet(length?),
        KindFile::ForeignInstances => EventKind::ForeignInstances(file.count?),
        KindFile::SpotWarning => EventKind::Interruption(Interruption::SpotWarning, file.count?),
        KindFile::Rebalance => EventKind::Interruption(Interruption::Rebalance, file.count?),
        KindFile::ScheduledChange => EventKind::Interruption(Interruption::ScheduledChange, file.count?),
        KindFile::ForgedTermination => EventKind::Interruption(Interruption::ForgedTermination, file.count?),
        KindFile::Roll => EventKind::Roll(workload_id(file.workload.as_ref()?)),
        KindFile::UpdateImages => EventKind::UpdateImages,
        KindFile::UninstallReleasing => EventKind::Uninstall(Uninstall::Release),
        KindFile::UninstallDraining => EventKind::Uninstall(Uninstall::Drain),
        KindFile::EventsAstray => EventKind::EventsAstray { percent: file.percent?, length: length? },
    })
}

fn insufficient_capacity(file: &EventFile, length: Duration) -> EventKind {
    EventKind::InsufficientCapacity {
        instance_types: file.instance_types.clone().unwrap_or_default(),
        zones: file.zones.clone().unwrap_or_default(),
        capacity_type: file.capacity_type,
        length,
    }
}

fn launch_errors(file: &EventFile, length: Duration) -> Option<EventKind> {
    Some(EventKind::LaunchErrors {
        code: file.code.clone()?,
        instance_types: file.instance_types.clone().unwrap_or_default(),
        zones: file.zones.clone().unwrap_or_default(),
        capacity_type: file.capacity_type,
        length,
    })
}

/// A workload by its name, or by namespace and name.
fn workload_id(text: &str) -> PodRef {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    PodRef { namespace: namespace.to_owned(), name: name.to_owned() }
}

impl KindFile {
    /// Whether it happens once, and to all that there is of its kind.
    const fn happens_once(self) -> bool {
        matches!(
            self,
            Self::LoseTable
                | Self::CopyTable
                | Self::RestoreTable
                | Self::Pause
                | Self::PauseDisruption
                | Self::Resume
                | Self::ConfirmDeletions
                | Self::DeleteDoubles
                | Self::Roll
                | Self::UpdateImages
                | Self::UninstallReleasing
                | Self::UninstallDraining
        )
    }

    /// Whether it happens to a number of things, once.
    const fn counts(self) -> bool {
        matches!(
            self,
            Self::DeleteNodes
                | Self::DeletePods
                | Self::DeleteRunningPods
                | Self::DeleteNodeClaims
                | Self::DeleteNodePools
                | Self::ReclaimInstances
                | Self::StrayInstances
                | Self::LateInstances
                | Self::SurplusInstances
                | Self::ForeignInstances
                | Self::SpotWarning
                | Self::Rebalance
                | Self::ScheduledChange
                | Self::ForgedTermination
        ) || Mishap::from_kind(self).is_some()
    }
}
