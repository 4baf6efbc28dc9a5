//! Instances as they stand: shown, ended, and such that nobody of ours launched.

use std::collections::BTreeMap;

use outrigger_engine::ports::{self, InstanceState};
use outrigger_model::{Instance, labels};

use super::{Ec2, Machine, NO_LAUNCH, Pool};
use crate::time::Moment;

impl Ec2 {
    /// `DescribeInstances` for the cluster's tag.
    pub(crate) fn describe(&self, moment: Moment) -> Vec<ports::Machine> {
        let seen = |machine: &&Machine| machine.visible <= moment.elapsed;
        let tagged = |machine: &&Machine| machine.tags.get(labels::CLUSTER) == Some(&self.cluster);
        let shown = self.machines.values().filter(seen).filter(tagged);
        shown
            .map(|machine| {
                let tag = |key: &str| machine.tags.get(key).cloned();
                ports::Machine {
                    launched_at: Some(machine.launched.at),
                    ..ports::Machine::tagged(&machine.instance.id, machine.state, tag)
                }
            })
            .collect()
    }

    /// An instance begins to end; `None` when it does so already, or is not to be seen yet.
    pub(crate) fn end(&mut self, id: &str, moment: Moment) -> Option<&Machine> {
        let machine = self.machines.get_mut(id)?;
        if machine.state.is_ending() || machine.visible > moment.elapsed {
            return None;
        }
        machine.state = InstanceState::ShuttingDown;
        machine.ended = Some(moment.elapsed);
        let pool = Pool {
            instance_type: machine.instance.instance_type.clone(),
            zone: machine.instance.zone.clone(),
            capacity_type: machine.instance.capacity_type.as_str(),
        };
        if let Some(taken) = self.taken.get_mut(&pool) {
            *taken = taken.saturating_sub(1);
        }
        Some(machine)
    }

    /// An instance has ended.
    pub(crate) fn terminated(&mut self, id: &str) {
        if let Some(machine) = self.machines.get_mut(id) {
            machine.state = InstanceState::Terminated;
        }
    }

    /// An instance that no launch of ours answers for appears: like one that runs already, under
    /// other tags.
    pub(crate) fn appear(&mut self, tags: BTreeMap<String, String>, moment: Moment) -> Option<String> {
        let like = self.machines.values().next()?.clone();
        let id = format!("i-{:017x}", self.machines.len() + 1);
        let instance = Instance { id: id.clone(), ..like.instance };
        let machine = Machine {
            instance,
            tags,
            token: NO_LAUNCH.into(),
            launched: moment,
            state: InstanceState::Running,
            ended: None,
            visible: moment.elapsed,
            ..like
        };
        self.machines.insert(id.clone(), machine);
        Some(id)
    }

    /// The cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }
}
