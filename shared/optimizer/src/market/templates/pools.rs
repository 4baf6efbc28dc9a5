//! The pools of a snapshot, in their order.

use std::rc::Rc;

use outrigger_model::labels::NODE_POOL;
use outrigger_model::{ClassOffer, NodePool, Refusal, Requirements, Snapshot};
use outrigger_policy::Options;
use outrigger_policy::karpenter::Owner;
use outrigger_policy::launch_outcomes::LeftAlone;
use outrigger_policy::pods::daemons::Daemon;
use outrigger_policy::pods::static_pods::StaticPods;
use typed_index_collections::{TiSlice, TiVec};

use super::machines::{Facts, Machines, zone_names};
use super::{Template, ZONES_MAX, node_requirements};
use crate::amounts::Dimensions;
use crate::ids::{DaemonId, TemplateId};

/// The pools in the order in which they are tried: those that can launch, and those that cannot
/// with the reason.
pub struct Pools<'a> {
    pub(crate) templates: TiVec<TemplateId, Template<'a>>,
    /// Pools that can launch nothing, with their place among all, and why.
    pub refused: Vec<(usize, &'a NodePool, Refusal)>,
    /// For each template, how many heavier weights there are.
    pub(crate) heavier: TiVec<TemplateId, u64>,
}

impl<'a> Pools<'a> {
    /// The pools of a snapshot.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        options: &Options<'_>,
        left_alone: &LeftAlone<'_>,
        dimensions: &Dimensions,
        daemons: &TiSlice<DaemonId, Daemon<'a>>,
        static_pods: &StaticPods<'a>,
    ) -> Self {
        let mut pools: Vec<&NodePool> = snapshot.node_pools.iter().collect();
        pools.sort_by_key(|pool| pool.precedence());
        let mut launchable = Self { templates: TiVec::new(), refused: Vec::new(), heavier: TiVec::new() };
        // A daemonset or an overlay may mean one pool by its name.
        let names_pool = |wanted: &Requirements| wanted.get(NODE_POOL).is_some();
        let share = !daemons.iter().flat_map(|daemon| &daemon.alternatives).any(names_pool)
            && !snapshot.overlays.iter().any(|overlay| names_pool(&overlay.requirements));
        let facts = Facts { snapshot, options, left_alone, dimensions, daemons, static_pods };
        for (rank, pool) in pools.into_iter().enumerate() {
            match offer_of(snapshot, left_alone, pool) {
                Ok(offer) => {
                    let mut earlier = launchable.templates.iter();
                    let like = earlier.find(|template| share && template.is_like(pool, &offer.class));
                    let requirements = node_requirements(pool, offer);
                    let machines = match like {
                        Some(like) => Rc::clone(&like.machines),
                        None => Rc::new(Machines::new(pool, offer, &requirements, &facts)),
                    };
                    launchable.templates.push(Template::new(rank, pool, requirements, machines));
                }
                Err(refusal) => launchable.refused.push((rank, pool, *refusal)),
            }
        }
        let mut heavier = 0;
        let weight = |template: &Template<'_>| template.pool.spec.weight.unwrap_or(0);
        let mut before: Option<&Template<'_>> = None;
        for template in &launchable.templates {
            heavier += u64::from(before.is_some_and(|before| weight(template) < weight(before)));
            before = Some(template);
            launchable.heavier.push(heavier);
        }
        launchable
    }
}

fn offer_of<'a>(
    snapshot: &'a Snapshot,
    left_alone: &LeftAlone<'_>,
    pool: &NodePool,
) -> Result<&'a ClassOffer, Box<Refusal>> {
    if pool.deleting {
        return Err(Box::new(Refusal::PoolDeleting));
    }
    if let Owner::Karpenter(why) | Owner::Unknown(why) = Owner::of_pool(pool, snapshot) {
        return Err(Box::new(Refusal::Karpenter(why)));
    }
    if let Some(why) = &pool.not_ready {
        return Err(Box::new(Refusal::PoolNotReady(why.clone())));
    }
    if let Some(why) = left_alone.paused.get(&pool.name) {
        return Err(Box::new(Refusal::Paused(why.clone())));
    }
    let missing = || Box::new(Refusal::ClassNotReady(format!("{} was not found", pool.node_class())));
    let offer = snapshot.offer_for(pool).ok_or_else(missing)?;
    if let Some(reason) = &offer.class.not_ready {
        return Err(Box::new(Refusal::ClassNotReady(reason.clone())));
    }
    if left_alone.subnets.get(&offer.class.reference).is_some_and(Vec::is_empty) {
        return Err(Box::new(Refusal::ClassNotReady("none of its subnets has free addresses".into())));
    }
    let zones = zone_names(&offer.instance_types).len();
    if zones > ZONES_MAX {
        return Err(Box::new(Refusal::Unsupported(format!(
            "{zones} zones in one class; allowed: {ZONES_MAX}"
        ))));
    }
    Ok(offer)
}
