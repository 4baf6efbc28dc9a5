//! Templates: what each pool can launch.

mod machines;
mod pools;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;

use outrigger_model::labels::{self, HOSTNAME, ZONE};
use outrigger_model::{CapacityType, ClassOffer, NodeClass, NodePool, Operator, Requirement, Requirements};

use crate::ids::ZoneId;
use crate::market::purchases::{capacity_of, type_of};
use crate::market::selection::Aspect;
pub use machines::Machines;
pub(crate) use machines::SoftTaints;
pub use pools::Pools;

/// How many zones one class may offer: a set of zones is one machine word.
const ZONES_MAX: usize = 64;
pub(crate) const NANOS_PER_DOLLAR: f64 = 1e9;
/// The host name of a node that is not there yet: one that no pod can name.
pub(crate) const NEW_HOST: &str = "(a new host)";

/// A zone, with its id where a subnet tells it.
#[derive(Clone, Debug)]
pub struct Zone<'a> {
    /// As `us-east-1a`.
    pub name: &'a str,
    pub(crate) id: Option<&'a str>,
}

/// What a pool can launch.
#[derive(Debug)]
pub struct Template<'a> {
    /// Its place in the order in which pools are tried.
    pub rank: usize,
    /// The pool.
    pub pool: &'a NodePool,
    /// What is true of all of its nodes.
    pub requirements: Requirements,
    /// How much dearer a node counts that would carry all of the plan; one that carries a part, as
    /// much of it.
    pub(crate) risk_weight: f64,
    machines: Rc<Machines<'a>>,
    drift_hashes: OnceCell<Vec<(String, String)>>,
}

impl<'a> Deref for Template<'a> {
    type Target = Machines<'a>;

    fn deref(&self) -> &Self::Target {
        &self.machines
    }
}

impl<'a> Template<'a> {
    fn new(rank: usize, pool: &'a NodePool, requirements: Requirements, machines: Rc<Machines<'a>>) -> Self {
        Self {
            rank,
            pool,
            requirements,
            risk_weight: pool.risk_weight(),
            machines,
            drift_hashes: OnceCell::new(),
        }
    }

    /// The annotations of its nodes by which drift is told later.
    pub fn drift_hashes(&self) -> &[(String, String)] {
        self.drift_hashes.get_or_init(|| {
            let of_pool = (labels::NODE_POOL_HASH.to_owned(), self.pool.template_hash());
            let of_class = self.class.template_hash();
            let of_class = of_class.map(|hash| (labels::NODE_CLASS_HASH.to_owned(), hash));
            std::iter::once(of_pool).chain(of_class).collect()
        })
    }

    /// Its class, with the architectures that the pool allows and the class has no image for.
    pub fn class_shown(&self) -> String {
        let class = self.class;
        let lacks = |arch: &&str| {
            let allowed = self.requirements.allow(labels::ARCH, arch);
            allowed && !class.images.is_empty() && class.image(arch).is_none()
        };
        let lacking = labels::ARCHITECTURES.into_iter().filter(lacks).map(|arch| {
            let remedy = if class.reference.is_instance_group() {
                format!("its annotation {}{arch} names one", labels::IMAGE_ANNOTATION)
            } else {
                "its spec.amiSelectorTerms select one".to_owned()
            };
            format!(", which makes nothing of {arch} until {remedy}")
        });
        std::iter::once(class.reference.to_string()).chain(lacking).collect()
    }

    /// Whether another pool of a class can launch just the same.
    fn is_like(&self, pool: &NodePool, class: &NodeClass) -> bool {
        std::ptr::eq(self.class, class)
            && self.pool.spec.template == pool.spec.template
            && self.pool.interruption_price() == pool.interruption_price()
    }

    /// Whether it launches a fixed number of nodes and nothing else.
    pub(crate) const fn is_static(&self) -> bool {
        self.pool.spec.replicas.is_some()
    }

    /// The values that a label may have on its nodes, as far as they can be listed.
    pub fn values_of(&self, key: &str) -> Vec<String> {
        match self.aspect(key) {
            Aspect::Zone => {
                let usable = |zone: &ZoneId| self.usable.iter().any(|c| self.price_in(c, *zone).is_some());
                let zones =
                    zones_in(self.allowed_zones).filter(usable).filter_map(|zone| self.zones.get(zone));
                let name = |zone: &Zone<'a>| if key == ZONE { Some(zone.name) } else { zone.id };
                zones.filter_map(name).map(str::to_owned).collect()
            }
            Aspect::CapacityType => {
                let usable = |capacity_type: &CapacityType| {
                    self.usable.iter().any(|c| capacity_of(c) == *capacity_type)
                };
                CapacityType::ALL
                    .into_iter()
                    .filter(usable)
                    .map(|capacity_type| capacity_type.to_string())
                    .collect()
            }
            Aspect::InstanceType => {
                let labels = self.usable.iter().filter_map(|purchase| self.label(type_of(purchase), key));
                labels.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
            }
            Aspect::Node => {
                let values = self.requirements.get(key).and_then(Requirement::values);
                values.into_iter().flatten().cloned().collect()
            }
        }
    }
}

/// The zones of a set.
pub fn zones_in(set: u64) -> impl Iterator<Item = ZoneId> {
    bits(set).map(ZoneId::from)
}

/// Some zones as a set.
pub(crate) fn zone_set(zones: impl IntoIterator<Item = ZoneId>) -> u64 {
    zones.into_iter().fold(0, |set, zone| set | 1 << usize::from(zone))
}

/// The places of the bits that are set.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// What is true of each node of a pool: what the pool says, what the class demands, and the class's
/// labels where the pool does not say. Each node has a host name of its own. Burstable types are
/// for those who ask for them.
fn node_requirements(pool: &NodePool, offer: &ClassOffer) -> Requirements {
    let class = &offer.class;
    let mut requirements = pool.requirements();
    requirements.add_all(&class.requirements);
    let mut types = offer.instance_types.iter();
    let have_categories =
        types.next().is_some_and(|kind| kind.labels.contains_key(labels::INSTANCE_CATEGORY));
    if have_categories && !requirements.list_instance_types() {
        requirements.add(labels::INSTANCE_CATEGORY, Requirement::new(Operator::NotIn, [labels::BURSTABLE]));
    }
    let class_label = class.reference.label();
    let fixed_labels = [(class_label.as_str(), class.reference.name.as_str()), (HOSTNAME, NEW_HOST)];
    for (key, value) in class.node_labels().into_iter().chain(fixed_labels) {
        if requirements.get(key).is_none() {
            requirements.add(key, Requirement::exactly(value));
        }
    }
    requirements
}
