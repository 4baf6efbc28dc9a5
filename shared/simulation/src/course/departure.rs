//! How things leave the world: at our wish, at somebody else's, or by accident. What must not
//! happen on the way is noted.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_engine::ports::{Eviction, InstanceState};
use outrigger_model::{ClaimState, Command, Node, NodeClaim, Pod, labels};

use crate::agenda::Due;
use crate::cloud::Machine;
use crate::faults::Trouble;
use crate::laws::departure as laws;
use crate::random::draw;
use crate::scenario::Function;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::{Kind, count};

/// From an instance being terminated to its kubelet being missed.
pub(super) const MISSED_AFTER: Duration = Duration::from_secs(40);
/// How long a pod hangs at most that has a volume for itself, beyond its grace. Its successor waits
/// for the volume, so that somebody deletes it by force then.
const HANGS_FOR: Duration = Duration::from_mins(10);

impl State {
    /// The Eviction API.
    pub(crate) fn evict(&mut self, owner: &str, pod: &Pod, moment: Moment) -> Eviction {
        let pod = &self.cluster.meant(pod);
        let verdict = self.cluster.judge(pod);
        if verdict == Eviction::Accepted {
            self.broken.extend(laws::asked_as_seen(self, owner, pod));
            self.broken.extend(laws::eviction(self, owner, pod, moment));
            self.broken.extend(laws::eviction_in_turn(self, owner, pod, moment));
            self.ask_to_end(&pod.uid, moment);
        }
        self.refused_evictions += usize::from(matches!(verdict, Eviction::Blocked { .. }));
        verdict
    }

    /// A pod deleted whatever protects it.
    pub(crate) fn delete_pod(&mut self, owner: &str, pod: &Pod, grace: Duration, moment: Moment) {
        let pod = &self.cluster.meant(pod);
        self.broken.extend(laws::asked_as_seen(self, owner, pod));
        self.broken.extend(laws::forced_deletion(self, pod, grace, moment));
        self.timeline.add(moment, Kind::Pods, format!("{} is deleted by force", pod.id));
        self.ask_to_end_within(&pod.uid, grace, moment);
    }

    /// A pod is asked to end, with the grace that it asks for itself.
    pub(super) fn ask_to_end(&mut self, uid: &str, moment: Moment) {
        let grace = self.cluster.pods().get(uid).map(|pod| self.cluster.grace(pod));
        self.ask_to_end_within(uid, grace.unwrap_or_default(), moment);
    }

    /// Somebody deletes the oldest pods of workloads that run, and by force in the end: else
    /// kube-scheduler might wait for their room as long as they hang.
    pub(crate) fn delete_running(&mut self, number: usize, moment: Moment) {
        for uid in self.cluster.oldest_running(number) {
            self.ask_to_end(&uid, moment);
            self.agenda.add(moment.elapsed.saturating_add(HANGS_FOR), Due::PodEnds(uid));
        }
    }

    /// Somebody cordons a node and evicts its pods, but for those that a budget keeps.
    pub(crate) fn drain_by_hand(&mut self, node: &str, moment: Moment) {
        self.cluster.cordon_node(node);
        let on = self.cluster.pods().values().filter(|pod| pod.occupies(node) && pod.is_drainable());
        for pod in on.cloned().collect::<Vec<_>>() {
            if self.cluster.judge(&pod) == Eviction::Accepted {
                self.ask_to_end(&pod.uid, moment);
            }
        }
    }

    fn ask_to_end_within(&mut self, uid: &str, grace: Duration, moment: Moment) {
        let Some(grace) = self.cluster.delete_pod(uid, grace, moment) else { return };
        if !self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::PodsHang) {
            self.end_within(uid, grace, moment);
        } else if self.cluster.has_volume_alone(uid) {
            let given_up = moment.elapsed.saturating_add(grace).saturating_add(HANGS_FOR);
            self.agenda.add(given_up, Due::PodEnds(uid.to_owned()));
        }
    }

    /// A pod must leave for one of a higher priority. It does end: nothing would ever come of the
    /// other one else, since kube-scheduler waits for the room as long as it takes.
    pub(super) fn preempt(&mut self, uid: &str, moment: Moment) {
        let grace = self.cluster.pods().get(uid).map(|pod| self.cluster.grace(pod));
        if let Some(grace) = self.cluster.delete_pod(uid, grace.unwrap_or_default(), moment) {
            self.end_within(uid, grace, moment);
        }
    }

    fn end_within(&mut self, uid: &str, grace: Duration, moment: Moment) {
        let most = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX).clamp(1, 8_000);
        let takes = Duration::from_millis(1 + draw(self.seed, &format!("end/{uid}"), most));
        self.agenda.add(moment.elapsed.saturating_add(takes), Due::PodEnds(uid.to_owned()));
    }

    /// A pod has ended, if there is still a kubelet to end it.
    pub(super) fn pod_ends(&mut self, uid: &str, moment: Moment) {
        let node = self.cluster.pods().get(uid).and_then(|pod| pod.node_name.clone());
        let heard = node.filter(|node| !self.silent.contains(node));
        let machine = heard.and_then(|node| self.cloud.machines().get(&node));
        if machine.is_some_and(Machine::is_running) {
            self.cluster.end_pod(uid, moment);
        }
    }

    /// `TerminateInstances` at our wish.
    pub(crate) fn terminate(&mut self, id: &str, moment: Moment) {
        self.broken.extend(laws::termination(self, id, moment));
        let unclaimed = self.is_unclaimed(id);
        if !self.end(id, moment) {
            return;
        }
        self.given_up.insert(id.to_owned());
        if unclaimed {
            self.broken.extend(crate::laws::health::conclusion(self, id, moment));
            self.orphans_ended.push(moment.elapsed);
            self.broken.extend(laws::orphans(self, moment));
        }
    }

    fn is_unclaimed(&self, id: &str) -> bool {
        !self.ledger.claims().any(|claim| claim.instance_id() == Some(id))
    }

    /// Ends an instance; says whether it did.
    fn end(&mut self, id: &str, moment: Moment) -> bool {
        if self.cloud.end(id, moment).is_none() {
            return false;
        }
        let shuts_down = Duration::from_secs(20 + draw(self.seed, &format!("shutdown/{id}"), 25));
        self.agenda.add(moment.elapsed.saturating_add(shuts_down), Due::Ended(id.to_owned()));
        self.agenda.add(moment.elapsed.saturating_add(MISSED_AFTER), Due::Lost(id.to_owned()));
        self.timeline.add(moment, Kind::Node, format!("{id} is being terminated"));
        self.announce_state(id, InstanceState::ShuttingDown, moment);
        true
    }

    /// EC2 takes a spot instance whose notice is over.
    pub(super) fn fall(&mut self, id: &str, moment: Moment) {
        self.end(id, moment);
    }

    /// EC2 ends the machines of the oldest nodes.
    pub(crate) fn reclaim(&mut self, number: usize, moment: Moment) {
        for id in self.oldest(number) {
            self.end(&id, moment);
        }
    }

    /// Somebody deletes the oldest nodes.
    pub(crate) fn delete_nodes(&mut self, number: usize, moment: Moment) {
        for name in self.oldest(number) {
            self.cluster.delete_node(&name, moment);
        }
    }

    /// Somebody deletes the NodeClaim objects of the oldest nodes.
    pub(crate) fn delete_claims(&mut self, number: usize) {
        for node in self.oldest(number) {
            let claim = self.cluster.nodes().get(&node).and_then(|node| node.annotations.get(labels::CLAIM));
            if let Some(claim) = claim.cloned() {
                self.cluster.delete_mirror(&claim);
            }
        }
    }

    /// The oldest nodes that are ready for pods and stay.
    pub(crate) fn oldest(&self, number: usize) -> Vec<String> {
        let stays = |node: &&Node| node.is_initialized() && !node.deleting && node.ready;
        let mut nodes: Vec<&Node> = self.cluster.nodes().values().filter(stays).collect();
        nodes.sort_by_key(|node| (node.created_at, node.name.as_str()));
        nodes.into_iter().take(number).map(|node| node.name.clone()).collect()
    }

    /// Instances appear late that launches have made which are over: of the first ones.
    pub(crate) fn appear_late(&mut self, number: usize, moment: Moment) {
        let over = self.ledger.intents().filter(|intent| intent.ended_at.is_some());
        let intents: Vec<String> = over.map(|intent| intent.id.clone()).take(number).collect();
        self.timeline.add(
            moment,
            Kind::Trouble,
            format!("{} appeared late", count(intents.len(), "instance")),
        );
        for intent in intents.iter().cycle().take(number.min(intents.len() * number)) {
            self.cloud.appear(our_tags(self.cloud.cluster(), intent), moment);
        }
    }

    /// Instances appear that no launch answers for: with our tags, or with somebody else's.
    pub(crate) fn appear(&mut self, number: usize, is_ours: bool, moment: Moment) {
        for index in 0..number {
            let intent = format!("stray-{}-{index}", moment.elapsed.as_secs());
            let owner = if is_ours { self.cloud.cluster() } else { "somebody-else.example.com" };
            self.cloud.appear(our_tags(owner, &intent), moment);
        }
        self.timeline.add(moment, Kind::Trouble, format!("{} appeared", count(number, "instance")));
    }

    /// Counts the pods that had to leave since this was done last, by why they had to.
    pub(super) fn count_departures(&mut self) {
        for node in std::mem::take(&mut self.cluster.counts.departures) {
            if self.is_taken(&node) {
                self.interruptions += 1;
            } else {
                let claim = self.ledger.claims().find(|claim| claim.instance_id() == Some(&node));
                let end = claim.and_then(|claim| claim.status.termination.as_ref());
                let reason = end.map_or("Unknown", |end| end.reason.as_str());
                *self.evictions.entry(reason).or_default() += 1;
            }
        }
    }

    /// Whether EC2 has taken or will take a node's machine, or an accident has ended it.
    fn is_taken(&self, node: &str) -> bool {
        let lives = self.cloud.machines().get(node).is_some_and(Machine::is_running);
        self.warned.contains(node) || !lives && !self.given_up.contains(node)
    }

    /// A command holds its claims from now on.
    pub(crate) fn committed(
        &mut self,
        (function, owner): (Function, &str),
        command: &Command,
        moment: Moment,
    ) {
        self.last_writes.insert("a command", moment.elapsed);
        let due = moment.elapsed.saturating_add(crate::laws::disruption::LONGEST_COMMAND);
        self.agenda.add(due, Due::CommandEnds(command.id.clone()));
        if function == Function::Disrupt {
            self.agenda.add(moment.elapsed, Due::Committed(command.id.clone()));
            self.broken.extend(crate::laws::pause::commitment(self, owner, moment));
            self.broken.extend(crate::laws::disruption::proposal(self, command, moment));
            self.broken.extend(crate::laws::budgets::commitment(self, owner, command, moment));
        }
    }

    /// What was written of a claim that ends.
    pub(crate) fn tell_of(&mut self, claim: &NodeClaim, moment: Moment) {
        self.broken.extend(laws::closing(self, claim));
        self.broken.extend(crate::laws::health::repair(self, claim, moment));
        let Some(end) = &claim.status.termination else { return };
        if end.tainted_at.is_none() {
            self.last_writes.insert("the end of a claim", moment.elapsed);
        }
        let text = match claim.status.state {
            ClaimState::Draining if end.tainted_at.is_none() => "is to be drained",
            ClaimState::Terminating => "is given up",
            ClaimState::Gone => "is gone",
            _ => return,
        };
        let text = format!("claim {} {text}: {}", claim.name, end.reason);
        self.timeline.add(moment, Kind::Node, text);
    }
}

fn our_tags(cluster: &str, intent: &str) -> BTreeMap<String, String> {
    let tags = [(labels::CLUSTER, cluster), (labels::INTENT, intent)];
    tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
