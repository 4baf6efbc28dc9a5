//! What the rules about single nodes say of one node: which counted pods it has, and which it bars.

use super::{Rule, RuleKind};
use crate::ids::GroupId;

/// Whether a pod that must be near others may be the first of them on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// It may.
    MayFound,
    /// It may only join one of them.
    MustFollow,
}

/// In which orders of binding the spread of pods must hold that are on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spreads {
    /// In all.
    HoldInAnyOrder,
    /// In those in which these pods are bound first.
    HoldInSomeOrder,
}

/// The rules about single nodes that a pod has, and those that count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRules<'a> {
    pub(crate) rules: &'a [Rule],
    pub(crate) selected_by: &'a [GroupId],
}

/// The pods of one node, as far as rules about single nodes count them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    tallies: Vec<Tally>,
}

#[derive(Clone, Debug)]
struct Tally {
    group: GroupId,
    /// Pods that the group counts.
    counted: u32,
    /// Pods here that have anti-affinity to the counted ones.
    barring: u32,
    /// How many counted pods the spread rules of the pods here allow.
    most: u32,
}

impl Host {
    fn tally(&self, group: GroupId) -> Option<&Tally> {
        self.tallies.iter().find(|tally| tally.group == group)
    }

    fn tally_mut(&mut self, group: GroupId) -> &mut Tally {
        let position = self.tallies.iter().position(|tally| tally.group == group).unwrap_or_else(|| {
            self.tallies.push(Tally { group, counted: 0, barring: 0, most: u32::MAX });
            self.tallies.len() - 1
        });
        &mut self.tallies[position]
    }

    /// How many pods of a group are here.
    pub(crate) fn counted(&self, group: GroupId) -> u32 {
        self.tally(group).map_or(0, |tally| tally.counted)
    }

    /// How many of `wanted` equal pods may join, by their own rules and by those of the pods that
    /// are here. A pod that must be near others may join only where one of them is, unless it may
    /// found their node.
    pub(crate) fn room_for(
        &self,
        pod: HostRules<'_>,
        wanted: u32,
        affinity: Affinity,
        spreads: Spreads,
    ) -> u32 {
        let room = self.room_by_rules(pod, wanted, affinity);
        if spreads == Spreads::HoldInSomeOrder {
            return room;
        }
        let bounding = self.tallies.iter().filter(|tally| pod.selected_by.contains(&tally.group));
        bounding.fold(room, |room, tally| room.min(tally.most.saturating_sub(tally.counted)))
    }

    /// The same, though the spread of pods that are here may be upset: it holds for them if they
    /// are bound first.
    fn room_by_rules(&self, pod: HostRules<'_>, wanted: u32, affinity: Affinity) -> u32 {
        let mut room = wanted;
        for rule in pod.rules.iter().filter(|rule| rule.is_per_host) {
            let counted = self.counted(rule.group);
            room = match rule.kind {
                RuleKind::AntiAffinity if counted > 0 => 0,
                RuleKind::AntiAffinity if rule.selects_itself => room.min(1),
                // Where a new node is always possible the emptiest one has no pods.
                RuleKind::Spread { max_skew, .. } if rule.selects_itself => {
                    room.min(max_skew.saturating_sub(counted))
                }
                RuleKind::Spread { max_skew, .. } if counted > max_skew => 0,
                RuleKind::Affinity if counted == 0 && affinity == Affinity::MustFollow => 0,
                _ => room,
            };
        }
        let is_barred =
            self.tallies.iter().any(|tally| tally.barring > 0 && pod.selected_by.contains(&tally.group));
        if is_barred { 0 } else { room }
    }

    /// How many spreads of pods here hold only if these are bound first.
    pub(crate) fn upset(&self) -> usize {
        self.tallies.iter().filter(|tally| tally.counted > tally.most).count()
    }

    /// Takes in equal pods.
    pub(crate) fn take(&mut self, pod: HostRules<'_>, times: u32) {
        for group in pod.selected_by {
            self.tally_mut(*group).counted += times;
        }
        for rule in pod.rules.iter().filter(|rule| rule.is_per_host && !rule.is_preference) {
            match rule.kind {
                RuleKind::AntiAffinity => self.tally_mut(rule.group).barring += times,
                RuleKind::Spread { max_skew, .. } => {
                    let tally = self.tally_mut(rule.group);
                    tally.most = tally.most.min(max_skew);
                }
                RuleKind::Affinity => {}
            }
        }
    }
}
