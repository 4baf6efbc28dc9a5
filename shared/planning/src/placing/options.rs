//! Options: the domains in which nodes can be made for a class, and which of them the rules leave.

use std::rc::Rc;

use outrigger_model::{Requirement, Requirements};

use super::{Domains, Order, Work};
use crate::amounts;
use crate::topology::{GroupId, Rule, RuleKind, Standing};

/// How many combinations of domains are looked at for one class.
const OPTIONS_MAX: usize = 512;

/// How much an option takes from others, how many spreads count it, and how many counted pods it has.
type Crowd = (usize, usize, u64);

/// One domain for each key that matters to a class.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Key and domain.
    pub(super) domains: Domains,
    /// The same as requirements on the node.
    pub(super) pins: Requirements,
    /// Whether a pod fits a machine there.
    pub(super) fits: bool,
    /// The groups that may not count a node there.
    pub(super) doubts: Vec<(GroupId, Standing)>,
    /// What a pod costs there at least, in dollars per hour.
    price: f64,
}

impl Choice {
    /// Its domain by a key; none where the key does not matter.
    pub(super) fn domain(&self, key: usize) -> Option<usize> {
        self.domains.iter().find(|(other, _)| *other == key).map(|(_, domain)| *domain)
    }
}

impl Work<'_, '_> {
    /// The option that the rules allow with the fewest pods that are counted, and of those the cheapest.
    pub(super) fn find_option(&mut self, class: usize, way: usize) -> Option<Choice> {
        let rules = &self.of.classes[class].ways[way].rules;
        let joins = |rule: &Rule| {
            self.on_new[rule.group] > 0 || (rule.selects_itself && self.of.counts.total(rule.group) == 0)
        };
        let lonely = rules
            .iter()
            .find(|rule| rule.is_per_host && rule.kind == RuleKind::Near && !joins(rule))
            .copied();
        if lonely.is_some() {
            self.progress[class].blocked_by = lonely;
            return None;
        }
        let options = self.options(class, way);
        let mut blocked_by = None;
        let is_aside = self.stands_aside(class, way);
        let mut best: Option<(Crowd, &Choice)> = None;
        for (crowd, option) in self.allowed(class, way, &options, &mut blocked_by) {
            if best.is_none_or(|(least, _)| crowd < least || is_aside && crowd == least) {
                best = Some((crowd, option));
            }
        }
        let best = best.map(|(_, option)| option.clone());
        if best.is_none() && blocked_by.is_some() {
            self.progress[class].blocked_by = blocked_by;
        }
        best
    }

    /// All options that the rules allow, those with the fewest pods that are counted first, and of those the cheapest.
    pub(super) fn open_options(&mut self, class: usize, way: usize) -> Vec<Choice> {
        let options = self.options(class, way);
        let mut blocked_by = None;
        let mut allowed: Vec<_> = self.allowed(class, way, &options, &mut blocked_by).collect();
        allowed.sort_by_key(|(crowd, _)| *crowd);
        let allowed: Vec<Choice> = allowed.into_iter().map(|(_, option)| option.clone()).collect();
        if allowed.is_empty() && blocked_by.is_some() {
            self.progress[class].blocked_by = blocked_by;
        }
        allowed
    }

    /// Those of some options that the rules allow, with how crowded they are; and a rule that does not allow one.
    fn allowed<'o>(
        &self,
        class: usize,
        way: usize,
        options: &'o [Choice],
        blocked_by: &mut Option<Rule>,
    ) -> impl Iterator<Item = (Crowd, &'o Choice)> {
        let has_room = move |option: &Choice| {
            let key = (class, option.domains.clone());
            self.of.quotas.get(&key).is_none_or(|quota| self.given.get(&key).unwrap_or(&0) < quota)
        };
        options.iter().filter_map(move |option| {
            if !option.fits || !self.of.quotas.is_empty() && !has_room(option) {
                return None;
            }
            let domain = |key: usize| option.domain(key);
            if let Some(rule) = self.broken(class, way, domain).or_else(|| self.upset(class, domain)) {
                *blocked_by = Some(rule);
                return None;
            }
            let taken = self.taken_from_others(class, domain);
            let crowd = (taken, self.in_reach_of_spreads(class, option), self.crowd(class, way, option));
            (!self.sparing || taken == 0).then_some((crowd, option))
        })
    }

    /// The domains in which nodes can be made for a class in one way, the cheapest first.
    pub(super) fn options(&mut self, class: usize, way: usize) -> Rc<Vec<Choice>> {
        if let Some(options) = &self.progress[class].options[way] {
            return Rc::clone(options);
        }
        let keys = self.keys(class, way);
        let mut options = vec![(Domains::new(), self.of.classes[class].ways[way].requirements.clone())];
        for key in keys {
            let it = &self.of.counts.keys[key];
            let wider = options.iter().flat_map(|(domains, wanted)| {
                let values = it.values.iter().enumerate().filter(|(_, value)| wanted.allow(it.name, value));
                values.map(move |(domain, value)| {
                    let domains = domains.iter().copied().chain([(key, domain)]).collect();
                    (domains, wanted.clone().with(it.name, Requirement::exactly(value)))
                })
            });
            options = wider.take(OPTIONS_MAX).collect();
        }
        let mut found: Vec<Choice> = options
            .into_iter()
            .filter_map(|(domains, wanted)| self.option(class, way, domains, &wanted))
            .collect();
        found.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| a.domains.cmp(&b.domains)));
        let found = Rc::new(found);
        self.progress[class].options[way] = Some(Rc::clone(&found));
        found
    }

    /// The keys by which a class needs a domain: those of its rules, and of rules of others that count it.
    fn keys(&self, class: usize, way: usize) -> Vec<usize> {
        let of = &self.of.classes[class];
        let counts = &self.of.counts;
        let own = of.ways[way].rules.iter().map(|rule| rule.group);
        let of_others = of.selected_by.iter().copied().filter(|group| counts.binds[*group]);
        let mut keys: Vec<usize> = own.chain(of_others).filter_map(|group| counts.key_of[group]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// An option, when some pool makes nodes like that.
    fn option(
        &mut self,
        class: usize,
        way: usize,
        domains: Domains,
        wanted: &Requirements,
    ) -> Option<Choice> {
        let of = &self.of.classes[class];
        let mut found = None;
        for (index, template) in self.of.templates.iter().enumerate().filter(|(_, t)| !t.is_static()) {
            if !template.bears(of.spec, of.ways[way].bears_soft_taints) {
                continue;
            }
            let selected = self.of.selections.find(self.of.templates, index, wanted, &self.of.demand);
            let Some(selected) = selected.map(|selected| &self.of.selections.all[selected]) else { continue };
            let fits = |column: usize| amounts::fits(&of.request, template.room(column));
            let fits = selected.selection.columns.iter().any(fits);
            let price = amounts::worth(&of.request, &selected.unit_prices);
            let option = found.get_or_insert((fits, price));
            if fits && !option.0 {
                *option = (fits, price);
            }
            if fits {
                break;
            }
        }
        let (fits, price) = found?;
        let mut pins = Requirements::new();
        for (key, domain) in &domains {
            let key = &self.of.counts.keys[*key];
            pins.add(key.name, Requirement::exactly(&key.values[*domain]));
        }
        let doubts = self.doubts_about(class, way, wanted);
        if self.of.settles
            && let Some(settled) = self.settled(class, way, &domains, wanted, &doubts)
        {
            return Some(settled);
        }
        Some(Choice { domains, pins, fits, doubts, price })
    }

    /// How many more rules would keep their pods out of these domains; where those come first, nobody asks.
    pub(super) fn taken_from_others(&self, class: usize, domain: impl Fn(usize) -> Option<usize>) -> usize {
        if self.of.order != Order::KeptApart {
            return 0;
        }
        let counts = &self.of.counts;
        let takes = |group: &&GroupId| {
            let domain = counts.key_of[**group].and_then(&domain);
            self.keeps_apart[**group] && domain.is_some_and(|domain| counts.counted(**group, domain) == 0)
        };
        self.of.classes[class].selected_by.iter().filter(takes).count()
    }

    /// How many spreads count a class in domains which the pods that have the spread can be in too.
    fn in_reach_of_spreads(&self, class: usize, option: &Choice) -> usize {
        if self.in_reach.is_empty() {
            return 0;
        }
        let counts = &self.of.counts;
        let reached = |group: &&GroupId| {
            let domain = counts.key_of[**group].and_then(|key| option.domain(key));
            domain.is_some_and(|domain| self.in_reach.contains(&(**group, domain)))
        };
        self.of.classes[class].selected_by.iter().filter(reached).count()
    }

    /// Finds out where pods with a required spread can be, where others are to lift the domains that are out of their reach.
    pub(super) fn find_reach(&mut self) {
        if self.of.order != Order::Lifting {
            return;
        }
        for class in 0..self.of.classes.len() {
            let Some(way) = self.of.classes[class].ways.len().checked_sub(1) else { continue };
            let spreads = |rule: &&Rule| !rule.is_wish && matches!(rule.kind, RuleKind::Spread { .. });
            let rules = self.of.classes[class].ways[way].rules.iter().filter(spreads);
            let keys: Vec<(GroupId, usize)> =
                rules.filter_map(|rule| Some((rule.group, self.of.counts.key_of[rule.group]?))).collect();
            if keys.is_empty() {
                continue;
            }
            let options = self.options(class, way);
            let rooms = self.admitted(class, way);
            for (group, key) in keys {
                let of_options = options.iter().filter(|option| option.fits).filter_map(|o| o.domain(key));
                let of_rooms = rooms.iter().filter_map(|room| self.domains[*room][key]);
                self.in_reach.extend(of_options.chain(of_rooms).map(|domain| (group, domain)));
            }
        }
    }

    /// The same option with nodes that a group counts for certain, where it may or may not.
    fn settled(
        &mut self,
        class: usize,
        way: usize,
        domains: &Domains,
        wanted: &Requirements,
        doubts: &[(GroupId, Standing)],
    ) -> Option<Choice> {
        let (group, _) = doubts.iter().find(|(_, standing)| *standing == Standing::Unsure)?;
        let alternatives = self.of.counts.site(*group).alternatives.clone()?;
        alternatives.iter().filter(|alternative| !wanted.contradict(alternative)).find_map(|alternative| {
            let mut both = wanted.clone();
            both.add_all(alternative);
            let mut option = self.option(class, way, domains.clone(), &both).filter(|option| option.fits)?;
            option.pins.add_all(alternative);
            Some(option)
        })
    }

    /// The groups that select a class and may not count its nodes. Those of its own rules do.
    fn doubts_about(&self, class: usize, way: usize, wanted: &Requirements) -> Vec<(GroupId, Standing)> {
        let of = &self.of.classes[class];
        let counts = &self.of.counts;
        let way = &of.ways[way];
        let is_own = |group: &GroupId| way.rules.iter().any(|rule| rule.group == *group);
        let in_question = of.selected_by.iter().copied().filter(|group| {
            counts.binds[*group]
                && counts.key_of[*group].is_some()
                && !counts.site(*group).is_everywhere()
                && !is_own(group)
        });
        let standing = |group: GroupId| {
            let all = self.of.templates.iter();
            let bearing = all.filter(|t| !t.is_static() && t.bears(of.spec, way.bears_soft_taints));
            (group, counts.site(group).standing(bearing, wanted))
        };
        in_question.map(standing).filter(|(_, standing)| *standing != Standing::Counted).collect()
    }

    /// Whether pods of a group are to be everywhere, since others must be near them.
    fn is_wanted_near(&self, group: GroupId) -> bool {
        self.of.order == Order::NearEverywhere && self.wanted_near[group]
    }

    /// Whether a class leaves the cheapest domains to the pods that its spread counts.
    fn stands_aside(&self, class: usize, way: usize) -> bool {
        let spreads =
            |rule: &Rule| !rule.is_wish && !rule.is_per_host && matches!(rule.kind, RuleKind::Spread { .. });
        self.of.order == Order::SpreadAside && self.of.classes[class].ways[way].rules.iter().any(spreads)
    }

    /// How many pods that spread rules count are there already.
    fn crowd(&self, class: usize, way: usize, option: &Choice) -> u64 {
        let of = &self.of.classes[class];
        let counts = &self.of.counts;
        if self.stands_aside(class, way) {
            return 0;
        }
        let is_free = self.of.order.frees_counted();
        let spreads = |group: &GroupId| {
            let wished = |rule: &Rule| rule.group == *group && matches!(rule.kind, RuleKind::Spread { .. });
            counts.spreads[*group] && !is_free
                || self.is_wanted_near(*group)
                || of.ways[way].rules.iter().any(wished)
        };
        let counted = of.selected_by.iter().filter(|group| spreads(group)).filter_map(|group| {
            let domain = option.domain(counts.key_of[*group]?)?;
            Some(u64::from(counts.counted(*group, domain)))
        });
        counted.sum()
    }

    /// The first rule that a place in these domains would break, the class's own or that of pods which bar it.
    pub(super) fn broken(
        &self,
        class: usize,
        way: usize,
        domain: impl Fn(usize) -> Option<usize>,
    ) -> Option<Rule> {
        let of = &self.of.classes[class];
        let counts = &self.of.counts;
        let own = of.ways[way].rules.iter().find(|rule| {
            let Some(key) = counts.key_of[rule.group] else { return false };
            let Some(domain) = domain(key) else { return true };
            let counted = counts.counted(rule.group, domain);
            match rule.kind {
                RuleKind::Spread { max_skew, min_domains } => {
                    let least = counts.least(rule.group, min_domains);
                    counted + u32::from(rule.selects_itself) > max_skew.saturating_add(least)
                }
                RuleKind::Near => counted == 0 && !(rule.selects_itself && counts.total(rule.group) == 0),
                RuleKind::Apart => counted > 0,
            }
        });
        own.copied().or_else(|| {
            let barred = of.selected_by.iter().find(|group| {
                let domain = counts.key_of[**group].and_then(&domain);
                domain.is_some_and(|domain| counts.is_barred(**group, domain))
            })?;
            let kind = RuleKind::Apart;
            Some(Rule { group: *barred, kind, selects_itself: false, is_per_host: false, is_wish: false })
        })
    }
}
