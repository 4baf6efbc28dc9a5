//! Machines that are not well, as `DescribeInstanceStatus` shows them, and machines that are
//! stopped.

use std::time::Duration;

use outrigger_engine::ports::{InstanceProblem, InstanceState, InstanceStatus};

use super::Ec2;
use crate::time::{Moment, after};

/// For how long a machine is protected from termination.
const PROTECTED_FOR: Duration = Duration::from_mins(5);
/// From EC2 telling of a retirement to the day itself.
const NOTICE: Duration = Duration::from_hours(14 * 24);

impl Ec2 {
    /// `DescribeInstanceStatus`: running instances, of whomever, that are not well.
    pub(crate) fn statuses(&self, moment: Moment) -> Vec<InstanceStatus> {
        let running = |id: &&String| {
            let machine = self.machines.get(*id);
            machine.is_some_and(|m| m.state == InstanceState::Running && m.visible <= moment.elapsed)
        };
        let unwell = self.problems.iter().filter(|(id, _)| running(id));
        unwell
            .flat_map(|(id, problems)| {
                problems.iter().map(|problem| InstanceStatus { id: id.clone(), problem: problem.clone() })
            })
            .collect()
    }

    /// Whether a check of a machine has failed for so long; only one that runs has checks.
    pub(crate) fn is_impaired(&self, id: &str, length: Duration, moment: Moment) -> bool {
        let runs = self.machines.get(id).is_some_and(super::Machine::is_running);
        let lasts = |problem: &InstanceProblem| match problem {
            InstanceProblem::Impaired { since, .. } => after(*since, length) <= moment.at,
            InstanceProblem::Planned { .. } => false,
        };
        runs && self.problems.get(id).is_some_and(|problems| problems.iter().any(lasts))
    }

    /// A check of a machine fails from now on.
    pub(crate) fn fail_check(&mut self, id: &str, moment: Moment) {
        let problem = InstanceProblem::Impaired { check: "system reachability".into(), since: moment.at };
        self.problems.entry(id.to_owned()).or_default().push(problem);
    }

    /// EC2 plans to retire a machine.
    pub(crate) fn plan_retirement(&mut self, id: &str, moment: Moment) {
        let at = Some(after(moment.at, NOTICE));
        let problem = InstanceProblem::Planned { event: "instance-retirement".into(), at };
        self.problems.entry(id.to_owned()).or_default().push(problem);
    }

    /// Somebody protects a machine from termination (`disableApiTermination`).
    pub(crate) fn protect(&mut self, id: &str, moment: Moment) {
        self.protected.insert(id.to_owned(), moment.elapsed.saturating_add(PROTECTED_FOR));
    }

    /// Why a machine may not be terminated now, in EC2's words.
    pub(crate) fn protection(&self, id: &str, moment: Moment) -> Option<String> {
        let is_protected = self.protected.get(id).is_some_and(|until| *until > moment.elapsed);
        let words =
            "may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.";
        is_protected.then(|| format!("OperationNotPermitted: The instance '{id}' {words}"))
    }

    /// A machine is stopped; says whether it ran.
    pub(crate) fn stop(&mut self, id: &str) -> bool {
        match self.machines.get_mut(id) {
            Some(machine) if machine.state == InstanceState::Running => {
                machine.state = InstanceState::Stopped;
                true
            }
            _ => false,
        }
    }
}
