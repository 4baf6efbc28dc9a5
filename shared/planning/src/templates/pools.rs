//! The pools of a snapshot, in their order.

use std::collections::BTreeSet;

use outrigger_model::resources::CPU;
use outrigger_model::{ClassOffer, InstanceType, NodePool, Quantity, Refusal, Snapshot};

use super::{Template, ZONES_MAX, zone_names};
use crate::Options;
use crate::amounts::Dimensions;
use crate::columns::ColumnSet;
use crate::daemons::Daemon;

/// The pools in the order in which they are tried: those that can launch, and those that cannot with the reason.
pub(crate) struct Pools<'a> {
    pub(crate) templates: Vec<Template<'a>>,
    pub(crate) refused: Vec<(usize, &'a NodePool, Refusal)>,
}

impl<'a> Pools<'a> {
    /// The pools of a snapshot.
    pub(crate) fn of(
        snapshot: &'a Snapshot,
        options: &Options<'_>,
        dimensions: &Dimensions,
        daemons: &[Daemon<'a>],
    ) -> Self {
        let mut pools: Vec<&NodePool> = snapshot.node_pools.iter().collect();
        pools.sort_by_key(|pool| pool.precedence());
        let mut all = Self { templates: Vec::new(), refused: Vec::new() };
        for (rank, pool) in pools.into_iter().enumerate() {
            match offer_of(snapshot, pool) {
                Ok(offer) => {
                    let mut template = Template::new(rank, pool, offer, options);
                    template.read_offerings(snapshot);
                    template.set_rooms(dimensions, daemons);
                    all.templates.push(template);
                }
                Err(refusal) => all.refused.push((rank, pool, *refusal)),
            }
        }
        all
    }

    /// The same without some types, by name, and without machines that have more cpu than this.
    pub(crate) fn without(mut self, types: &BTreeSet<String>, larger_than: Option<Quantity>) -> Self {
        if types.is_empty() && larger_than.is_none() {
            return self;
        }
        let is_left = |of: &InstanceType| {
            !types.contains(&of.name) && larger_than.is_none_or(|largest| of.counted().get(CPU) <= largest)
        };
        for template in &mut self.templates {
            let mut usable = std::mem::replace(&mut template.usable, ColumnSet::none(0));
            usable.retain(|column| is_left(template.instance_type(column)));
            template.usable = usable;
            template.by_price.borrow_mut().clear();
        }
        self
    }

    /// The same with some of them, by rank, after all others.
    pub(crate) fn with_last(mut self, last: &BTreeSet<usize>) -> Self {
        self.templates.sort_by_key(|template| (last.contains(&template.rank), template.rank));
        self
    }

    /// The same where limited resources cost more, by rank of the pool, as so many times their least price.
    pub(crate) fn with(mut self, surcharges: &[(usize, String, u64)]) -> Self {
        for (rank, resource, times) in surcharges {
            if let Some(template) = self.templates.iter_mut().find(|template| template.rank == *rank) {
                template.surcharge(resource, *times);
            }
        }
        self
    }
}

fn offer_of<'a>(snapshot: &'a Snapshot, pool: &NodePool) -> Result<&'a ClassOffer, Box<Refusal>> {
    if pool.deleting {
        return Err(Box::new(Refusal::PoolDeleting));
    }
    if let Some(why) = &pool.not_ready {
        return Err(Box::new(Refusal::PoolNotReady(why.clone())));
    }
    if let Some(why) = snapshot.paused.get(&pool.name) {
        return Err(Box::new(Refusal::Paused(why.clone())));
    }
    let missing = || Box::new(Refusal::ClassNotReady(format!("{} was not found", pool.node_class())));
    let offer = snapshot.offer_for(pool).ok_or_else(missing)?;
    if let Some(reason) = &offer.class.not_ready {
        return Err(Box::new(Refusal::ClassNotReady(reason.clone())));
    }
    let zones = zone_names(&offer.instance_types).len();
    if zones > ZONES_MAX {
        return Err(Box::new(Refusal::Unsupported(format!(
            "{zones} zones in one class; allowed: {ZONES_MAX}"
        ))));
    }
    Ok(offer)
}
