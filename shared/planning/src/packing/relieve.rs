//! Relieving nodes: pods that find room in the gaps of others leave a node that can then be a cheaper machine.

use super::Packer;
use super::draft::{Draft, Portion};
use crate::topology::RuleKind;

/// Up to how many nodes are looked at together.
const NODES_MAX: usize = 48;
/// How often each is looked at.
const ROUNDS_MAX: usize = 3;

impl Packer<'_> {
    /// Makes nodes smaller whose pods have room elsewhere, where the nodes are few.
    pub(super) fn relieve_all(&mut self, drafts: &mut [Draft]) {
        if drafts.len() > NODES_MAX {
            return;
        }
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            for node in self.wasteful(drafts) {
                if (self.options.time_is_up)() {
                    return;
                }
                moved |= self.relieve(drafts, node);
            }
            if !moved {
                break;
            }
        }
    }

    /// Moves what it can from one node to others; false, and nothing is moved, when the node costs no less without it.
    fn relieve(&mut self, drafts: &mut [Draft], node: usize) -> bool {
        let before = drafts[node].clone();
        let (rest, moved) = self.spread_out(drafts, node);
        if moved.is_empty() || rest.is_empty() || !self.has_companions(&rest) {
            return false;
        }
        self.limits[before.template].release(&before.reserved);
        let smaller = self.with_pods(drafts, node, &rest);
        if let Some(smaller) =
            smaller.filter(|it| self.cost(it) + self.cost(&before) / 1_000 < self.cost(&before))
        {
            self.limits[smaller.template].reserve(&smaller.reserved);
            drafts[node] = smaller;
            for (home, draft) in moved {
                drafts[home] = draft;
            }
            return true;
        }
        self.limits[before.template].reserve(&before.reserved);
        false
    }

    /// What stays on a node when its pods go where there is room, and the nodes that take them.
    fn spread_out(&self, drafts: &[Draft], node: usize) -> (Vec<Portion>, Vec<(usize, Draft)>) {
        let of = &drafts[node];
        let mut rest = Vec::new();
        let mut moved: Vec<(usize, Draft)> = Vec::new();
        for portion in &of.pods {
            let mut left = portion.count;
            for home in
                (0..drafts.len()).filter(|home| *home != node && drafts[*home].template == of.template)
            {
                if left == 0 {
                    break;
                }
                let known = moved.iter().position(|(other, _)| *other == home);
                let current = known.map_or(&drafts[home], |known| &moved[known].1);
                if let Some((changed, count)) = self.with_more(current, portion, left) {
                    left -= count;
                    match known {
                        Some(known) => moved[known].1 = changed,
                        None => moved.push((home, changed)),
                    }
                }
            }
            if left > 0 {
                rest.push(Portion { count: left, ..*portion });
            }
        }
        (rest, moved)
    }

    /// Whether pods that must be near others on their node still are.
    fn has_companions(&self, pods: &[Portion]) -> bool {
        let members = &self.bins.members;
        pods.iter().all(|portion| {
            let near = members[portion.member].rules.iter().filter(|rule| rule.kind == RuleKind::Near);
            near.into_iter().all(|rule| {
                let counts = |other: &&Portion| members[other.member].on_hosts.contains(&rule.group);
                let counted: u32 = pods.iter().filter(counts).map(|other| other.count).sum();
                counted > u32::from(rule.selects_itself)
            })
        })
    }

    /// A node like another with some of its pods only.
    fn with_pods(&self, drafts: &[Draft], node: usize, pods: &[Portion]) -> Option<Draft> {
        let of = &self.templates[drafts[node].template];
        let mut filling = super::improve::empty(&drafts[node]);
        for portion in pods {
            let selection = &self.selections.all[self.bins.all[portion.bin].selected].selection;
            filling.zones &= selection.zones;
            filling.node = of.narrow(&filling.node, &selection.node)?;
            self.add(&mut filling, portion)?;
        }
        self.bought_cheapest(drafts, &[node], drafts[node].template, &filling, pods)
    }
}
