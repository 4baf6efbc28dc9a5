//! Templates: what each pool can launch - instance types and offerings, their prices, and the room that daemonsets
//! leave on them.

mod pools;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::labels::{NODE_POOL, ZONE};
use outrigger_model::pod::HostPort;
use outrigger_model::{
    CapacityType, ClassOffer, InstanceType, NodeClass, NodeOverlay, NodePool, PodSpec, Price, Requirement,
    Requirements, Reservation, Resources, Snapshot, Taint,
};

use crate::Options;
use crate::launch_outcomes::SpotShortage;
use crate::market::offers;
use crate::market::price_order::{PriceOrder, Steps};
use crate::market::purchases::{CAPACITY_TYPES, Purchases, capacity_of, purchase, type_of};
use crate::market::selection::Aspect;
use crate::problem::amounts::{self, Dimensions};
use crate::problem::classes::FixedMap;
use crate::problem::daemons::Daemon;
use crate::solution::Shape;
pub(crate) use pools::Pools;

/// How many zones one class may offer: a set of zones is one machine word.
const ZONES_MAX: usize = 64;
/// The price of an offering that cannot be had.
pub(crate) const NANOS_PER_DOLLAR: f64 = 1e9;
const UNAVAILABLE: u64 = u64::MAX;

/// A zone, with its id where a subnet tells it.
#[derive(Clone, Debug)]
pub(crate) struct Zone<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: Option<&'a str>,
}

/// A label, what is asked of it, and the purchases that meet that.
type Meeting = (String, Requirement, Rc<Purchases>);

/// What a pool can launch. Pools that are alike share what is large.
#[derive(Clone, Debug)]
pub(crate) struct Template<'a> {
    /// Its place in the order in which pools are tried.
    pub(crate) rank: usize,
    /// The pool.
    pub(crate) pool: &'a NodePool,
    /// How its machines are made.
    pub(crate) class: &'a NodeClass,
    /// The instance types of the class, those that the pool excludes among them.
    pub(crate) types: &'a [InstanceType],
    /// What is true of all of its nodes.
    pub(crate) requirements: Requirements,
    /// The taints that pods must bear. Startup taints go away by themselves and are not among them.
    pub(crate) taints: Vec<Taint>,
    /// The zones of the class; sets of zones are bits over this list.
    pub(crate) zones: Vec<Zone<'a>>,
    /// The zones that the pool allows.
    pub(crate) allowed_zones: u64,
    /// The purchases that the pool allows and that can be had.
    pub(crate) usable: Purchases,
    /// Nano-dollars per hour that a node costs beside its instance.
    pub(crate) node_price: u64,
    /// How much dearer a node counts that would carry all of the plan; one that carries a part, as much of it.
    pub(crate) risk_weight: f64,
    /// Labels that instance types carry.
    pub(crate) type_keys: BTreeSet<&'a str>,
    /// Labels that the pool and the class give to nodes.
    pub(crate) node_keys: BTreeSet<String>,
    /// For each daemonset, the purchases that it runs on.
    pub(crate) daemon_purchases: Vec<Purchases>,
    daemon_ports: Vec<&'a [HostPort]>,
    index: Rc<BTreeMap<&'a str, usize>>,
    prices: Rc<Vec<u64>>,
    /// The reservation behind each price of a reserved purchase, with how many instances it has room for.
    reservations: Rc<BTreeMap<usize, &'a Reservation>>,
    /// What overlays add to each type.
    added: Rc<BTreeMap<usize, Resources>>,
    /// The usable purchases in order of price, for each set of zones that was asked for.
    by_price: Rc<RefCell<Vec<Rc<PriceOrder>>>>,
    /// The purchases whose types meet a requirement, for those that were asked for.
    pub(crate) meeting: Rc<RefCell<Vec<Meeting>>>,
    /// Types that are metal or have accelerators.
    pub(crate) exotic: Rc<Vec<bool>>,
    rooms: Rc<Vec<i64>>,
    /// For each purchase the first of the same capacity type that leaves the same room.
    like: Rc<Vec<usize>>,
    /// Which purchases have how much room.
    steps: Rc<Vec<Steps>>,
    width: usize,
}

/// The keys of all labels that instance types carry. Most types have the same keys as the one before.
fn type_keys(types: &[InstanceType]) -> BTreeSet<&str> {
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    let mut before: Option<&InstanceType> = None;
    for instance_type in types {
        if before.is_none_or(|before| !before.labels.keys().eq(instance_type.labels.keys())) {
            keys.extend(instance_type.labels.keys().map(String::as_str));
        }
        before = Some(instance_type);
    }
    keys
}

/// The names of all zones, in order.
fn zone_names(types: &[InstanceType]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for offering in types.iter().flat_map(|t| &t.offerings) {
        if !names.contains(&offering.zone.as_str()) {
            names.push(&offering.zone);
        }
    }
    names.sort_unstable();
    names
}

impl<'a> Template<'a> {
    fn new(rank: usize, pool: &'a NodePool, offer: &'a ClassOffer, options: &Options<'_>) -> Self {
        let (class, types) = (&offer.class, offer.instance_types.as_slice());
        let zone_id = |name: &str| {
            let subnet =
                class.subnets.iter().find(|subnet| subnet.zone == name && !subnet.zone_id.is_empty());
            subnet.map(|subnet| subnet.zone_id.as_str())
        };
        let requirements = node_requirements(pool, class);
        let given = pool.spec.template.metadata.labels.keys().chain(class.labels.keys());
        let node_keys = given.cloned().chain([node_class_label(class)]).collect();
        Self {
            rank,
            pool,
            class,
            types,
            requirements,
            taints: pool.spec.template.spec.taints.iter().chain(&class.taints).cloned().collect(),
            zones: zone_names(types).into_iter().map(|name| Zone { name, id: zone_id(name) }).collect(),
            allowed_zones: 0,
            usable: Purchases::none(0),
            node_price: options.node_price.unwrap_or_else(|| class.root_volume.price()).nanos(),
            risk_weight: pool.risk_weight(),
            type_keys: type_keys(types),
            node_keys,
            daemon_purchases: Vec::new(),
            daemon_ports: Vec::new(),
            index: Rc::new(types.iter().enumerate().map(|(index, t)| (t.name.as_str(), index)).collect()),
            prices: Rc::default(),
            reservations: Rc::default(),
            added: Rc::default(),
            by_price: Rc::default(),
            meeting: Rc::default(),
            exotic: Rc::new(types.iter().map(offers::is_exotic).collect()),
            rooms: Rc::default(),
            like: Rc::default(),
            steps: Rc::default(),
            width: 0,
        }
    }

    /// Whether another pool of a class can launch just the same.
    fn is_like(&self, pool: &NodePool, class: &NodeClass) -> bool {
        std::ptr::eq(self.class, class) && self.pool.spec.template == pool.spec.template
    }

    /// The same for another pool that is like this one.
    fn shared_with(&self, rank: usize, pool: &'a NodePool) -> Self {
        let mut requirements = self.requirements.clone();
        requirements.remove(NODE_POOL);
        requirements.add(NODE_POOL, Requirement::exactly(&pool.name));
        Self { rank, pool, requirements, risk_weight: pool.risk_weight(), ..self.clone() }
    }

    /// Prices of what can be had, then the purchases that the pool allows.
    fn read_offerings(&mut self, snapshot: &Snapshot, shortage: &SpotShortage<'_>) {
        let mut prices = vec![UNAVAILABLE; self.purchases() * self.zones.len()];
        let mut reservations: BTreeMap<usize, &'a Reservation> = BTreeMap::new();
        let subnets = &self.class.subnets;
        for (index, instance_type) in self.types.iter().enumerate() {
            let name = instance_type.name.as_str();
            for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
                let is_spot = offering.capacity_type == CapacityType::Spot;
                let lacking = is_spot && shortage.covers(name, &offering.zone)
                    || snapshot.unavailable.iter().any(|u| u.covers(name, offering, snapshot.taken_at));
                let subnet = subnets.is_empty() || subnets.iter().any(|subnet| subnet.zone == offering.zone);
                let Ok(zone) = self.zones.binary_search_by(|zone| zone.name.cmp(offering.zone.as_str()))
                else {
                    continue;
                };
                let cell = purchase(index, offering.capacity_type) * self.zones.len() + zone;
                let reservation = offering.reservation.as_ref();
                let is_reserved = offering.capacity_type == CapacityType::Reserved;
                if !subnet || lacking || is_reserved && reservation.is_none_or(|r| r.count == 0) {
                    continue;
                }
                prices[cell] = prices[cell].min(offering.price.nanos());
                if let Some(reservation) = reservation.filter(|_| is_reserved) {
                    let known = reservations.entry(cell).or_insert(reservation);
                    if reservation.count > known.count {
                        *known = reservation;
                    }
                }
            }
        }
        (self.prices, self.reservations) = (Rc::new(prices), Rc::new(reservations));
        self.lay_over(&snapshot.overlays);
        let own = self.select_labels(&self.requirements);
        self.allowed_zones = own.zones;
        self.usable = Purchases::of(self.purchases(), |purchase| {
            own.purchases.contains(purchase)
                && self.has_image(type_of(purchase))
                && self.cheapest(purchase, own.zones).is_some()
        });
    }

    /// The usable purchases in order of their price in some zones.
    pub(crate) fn by_price(&self, zones: u64) -> Rc<PriceOrder> {
        let mut known = self.by_price.borrow_mut();
        if let Some(order) = known.iter().find(|order| order.zones == zones) {
            return Rc::clone(order);
        }
        let priced =
            self.usable.iter().filter_map(|purchase| Some((self.cheapest(purchase, zones)?, purchase)));
        let order =
            Rc::new(PriceOrder::new(zones, priced.collect(), self.width, |purchase| self.room(purchase)));
        known.push(Rc::clone(&order));
        order
    }

    /// The usable purchases that have room for a request.
    pub(crate) fn carriers(&self, request: &[i64]) -> Purchases {
        let mut carriers = self.usable.clone();
        for (steps, amount) in self.steps.iter().zip(request) {
            match steps.at_least(*amount) {
                Some(holders) => carriers.intersect_words(holders),
                None => return Purchases::none(self.purchases()),
            }
        }
        carriers
    }

    /// Puts NodeOverlays over prices and machines: the heaviest counts, between equals the first by name.
    fn lay_over(&mut self, overlays: &[NodeOverlay]) {
        let mut overlays: Vec<&NodeOverlay> = overlays.iter().collect();
        overlays.sort_by_key(|overlay| (overlay.weight, Reverse(&overlay.name)));
        let listed = Rc::clone(&self.prices);
        for overlay in overlays {
            if self.requirements.meets(&overlay.requirements).is_err() {
                continue;
            }
            let about = self.select_labels(&overlay.requirements);
            for purchase in about.purchases.iter() {
                let added = Rc::make_mut(&mut self.added).entry(type_of(purchase)).or_default();
                overlay.capacity.iter().for_each(|(name, amount)| added.set(name, amount));
                let Some(overlaid) = overlay.price else { continue };
                for zone in bits(about.zones) {
                    let cell = purchase * self.zones.len() + zone;
                    if listed[cell] != UNAVAILABLE {
                        Rc::make_mut(&mut self.prices)[cell] =
                            overlaid.apply(Price::from_nanos(listed[cell])).nanos();
                    }
                }
            }
        }
        Rc::make_mut(&mut self.added).retain(|_, added| !added.is_empty());
    }

    /// Whether the class has an image for the type's architecture; a class that only plans has none at all.
    pub(crate) fn has_image(&self, instance_type: usize) -> bool {
        let images = &self.class.images;
        images.is_empty()
            || self
                .label(instance_type, outrigger_model::labels::ARCH)
                .is_some_and(|arch| images.iter().any(|image| image.arch == arch))
    }

    /// What is left of each machine beside the daemonsets that run on it (Karpenter's daemon overhead). A daemonset
    /// that some of the remaining zones or labels would admit counts.
    fn set_rooms(&mut self, dimensions: &Dimensions, daemons: &[Daemon<'a>]) {
        self.width = dimensions.count();
        let room = |(index, of): (usize, &InstanceType)| {
            let added = self.added.get(&index);
            let row = dimensions.room(&of.allocatable);
            let row = added.map_or(row, |added| {
                let mut allocatable = of.allocatable.clone();
                added.iter().for_each(|(name, amount)| allocatable.set(name, amount));
                dimensions.room(&allocatable)
            });
            row.repeat(CAPACITY_TYPES)
        };
        let mut all: Vec<i64> = self.types.iter().enumerate().flat_map(room).collect();
        self.daemon_purchases = daemons.iter().map(|daemon| self.purchases_of(daemon)).collect();
        self.daemon_ports = daemons.iter().map(|daemon| daemon.spec.host_ports.as_slice()).collect();
        for (daemon, purchases) in daemons.iter().zip(&self.daemon_purchases) {
            let request = dimensions.request(&daemon.spec.requests);
            for purchase in purchases.iter() {
                let room = &mut all[purchase * self.width..(purchase + 1) * self.width];
                amounts::take(room, &request, 1);
            }
        }
        let mut known: FixedMap<(CapacityType, &[i64]), usize> = FixedMap::default();
        let rooms = all.chunks(self.width.max(1)).enumerate();
        let like =
            rooms.map(|(purchase, room)| *known.entry((capacity_of(purchase), room)).or_insert(purchase));
        self.like = Rc::new(like.collect());
        self.steps = Rc::new(Steps::of_rows(&all, self.width));
        self.rooms = Rc::new(all);
    }

    fn purchases_of(&self, daemon: &Daemon<'_>) -> Purchases {
        let mut purchases = Purchases::none(self.purchases());
        if daemon.tolerates(&self.taints) {
            for wanted in &daemon.alternatives {
                let selection = self.select_labels(wanted);
                if self.requirements.meets(wanted).is_ok() && selection.zones & self.allowed_zones != 0 {
                    purchases.unite(&selection.purchases);
                }
            }
        }
        purchases
    }

    /// How many purchases there are: each type as each capacity type.
    pub(crate) const fn purchases(&self) -> usize {
        self.types.len() * CAPACITY_TYPES
    }

    /// What a machine leaves to pods beside daemonsets.
    pub(crate) fn room(&self, purchase: usize) -> &[i64] {
        &self.rooms[purchase * self.width..(purchase + 1) * self.width]
    }

    /// The first purchase of the same capacity type that leaves the same room.
    pub(crate) fn like(&self, purchase: usize) -> usize {
        self.like[purchase]
    }

    /// The ports that daemonsets take on a machine.
    pub(crate) fn daemon_ports(&self, purchase: usize) -> Vec<HostPort> {
        let sets = self.daemon_purchases.iter().zip(&self.daemon_ports);
        sets.filter(|(purchases, _)| purchases.contains(purchase))
            .flat_map(|(_, ports)| ports.iter().cloned())
            .collect()
    }

    /// Nano-dollars per hour of a purchase in a zone.
    pub(crate) fn price_in(&self, purchase: usize, zone: usize) -> Option<u64> {
        self.prices.get(purchase * self.zones.len() + zone).copied().filter(|price| *price != UNAVAILABLE)
    }

    /// Nano-dollars per hour of a purchase's cheapest offering in some zones.
    pub(crate) fn cheapest(&self, purchase: usize, zones: u64) -> Option<u64> {
        bits(zones).filter_map(|zone| self.price_in(purchase, zone)).min()
    }

    /// Dollars per hour of a node whose instance costs so many nano-dollars, its root volume with it.
    pub(crate) fn with_node(&self, price: f64) -> f64 {
        (price + self.node_price as f64) / NANOS_PER_DOLLAR
    }

    /// The reservation behind a reserved purchase in a zone.
    pub(crate) fn reservation(&self, purchase: usize, zone: usize) -> Option<&'a Reservation> {
        self.reservations.get(&(purchase * self.zones.len() + zone)).copied()
    }

    /// What overlays add to a purchase's machine.
    pub(crate) fn added(&self, purchase: usize) -> Option<&Resources> {
        self.added.get(&type_of(purchase))
    }

    /// The reservations that its offerings draw on.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &'a Reservation> {
        self.reservations.values().copied()
    }

    /// Whether pods of some spec may be on its nodes as far as taints say, with or without those of the effect
    /// `PreferNoSchedule`.
    pub(crate) fn bears(&self, spec: &PodSpec, bears_soft_taints: bool) -> bool {
        self.taints.iter().all(|taint| {
            (bears_soft_taints && !taint.is_hard()) || spec.tolerations.iter().any(|t| t.tolerates(taint))
        })
    }

    /// Whether it launches a fixed number of nodes and nothing else.
    pub(crate) const fn is_static(&self) -> bool {
        self.pool.spec.replicas.is_some()
    }

    /// The values that a label may have on its nodes, as far as they can be listed.
    pub(crate) fn values_of(&self, key: &str) -> Vec<String> {
        if self.is_static() {
            return Vec::new();
        }
        match self.aspect(key) {
            Aspect::Zone => {
                let usable = |zone: &usize| self.usable.iter().any(|c| self.price_in(c, *zone).is_some());
                let zones = bits(self.allowed_zones).filter(usable).filter_map(|zone| self.zones.get(zone));
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

    /// Whether a node of some shape may have a value of a label.
    pub(crate) fn may_have(&self, shape: &Shape, zones: u64, key: &str, value: &str) -> bool {
        let wanted = Requirement::exactly(value);
        match self.aspect(key) {
            Aspect::Zone => self.zones_meeting(key, &wanted) & zones != 0,
            Aspect::CapacityType | Aspect::InstanceType => {
                let wanted = Requirements::new().with(key, wanted);
                let meeting = self.select_labels(&wanted).purchases;
                shape.purchases.iter().any(|purchase| meeting.contains(purchase))
            }
            Aspect::Node => {
                let own = shape.node.get(key).or_else(|| self.requirements.get(key));
                own.is_none_or(|own| own.has(value))
            }
        }
    }

    /// The zones out of `zones` in which a purchase can be had.
    pub(crate) fn zones_of(&self, purchase: usize, zones: u64) -> u64 {
        let available = bits(zones).filter(|zone| self.price_in(purchase, *zone).is_some());
        available.fold(0, |set, zone| set | 1 << zone)
    }

    /// The place of an instance type in the class's list.
    pub(crate) fn type_index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The type of a purchase.
    pub(crate) fn instance_type(&self, purchase: usize) -> &'a InstanceType {
        &self.types[type_of(purchase)]
    }

    /// What a node costs beside its instance.
    pub(crate) const fn node_cost(&self) -> Price {
        Price::from_nanos(self.node_price)
    }
}

/// The places of a set of zones.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(place)
    })
}

/// What is true of each node of a pool: what the pool says, what the class demands, and the class's labels where the
/// pool does not say.
fn node_requirements(pool: &NodePool, class: &NodeClass) -> Requirements {
    let mut requirements = pool.requirements();
    requirements.add_all(&class.requirements);
    let own = node_class_label(class);
    let labels = class.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in labels.chain([(own.as_str(), class.reference.name.as_str())]) {
        if requirements.get(key).is_none() {
            requirements.add(key, Requirement::exactly(value));
        }
    }
    requirements
}

/// The label by which Karpenter names a node's class: group, slash, kind in lower case.
pub(crate) fn node_class_label(class: &NodeClass) -> String {
    format!("{}/{}", class.reference.group, class.reference.kind.to_lowercase())
}
