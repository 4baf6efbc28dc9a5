//! The machines of a pool: instance types and offerings, their prices, and the room that daemonsets
//! and static pods leave on them.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use outrigger_model::labels::ARCH;
use outrigger_model::node_class::Subnet;
use outrigger_model::pod::HostPort;
use outrigger_model::{
    CapacityType, ClassOffer, InstanceType, InterruptionFrequency, NodeClass, NodeOverlay, NodePool,
    Offering, PodSpec, Price, Requirement, Requirements, Reservation, Resources, Snapshot, Taint,
};
use outrigger_policy::Options;
use outrigger_policy::launch_outcomes::LeftAlone;
use outrigger_policy::pods::daemons::Daemon;
use outrigger_policy::pods::static_pods::StaticPods;
use typed_index_collections::{TiSlice, TiVec};

use super::{NANOS_PER_DOLLAR, Zone, zone_set, zones_in};
use crate::amounts::{self, Dimensions};
use crate::fixed_map::FixedMap;
use crate::ids::{DaemonId, PurchaseId, TypeId, ZoneId};
use crate::market::offers;
use crate::market::price_order::{PriceOrder, Steps};
use crate::market::purchases::{CAPACITY_TYPES, Purchases, capacity_of, purchase, type_of};

/// The price of an offering that cannot be had.
const UNAVAILABLE: u64 = u64::MAX;

/// A label, what is asked of it, and the purchases that meet that.
type Meeting = (String, Requirement, Rc<Purchases>);

/// What becomes of taints with the effect `PreferNoSchedule` that a pod does not tolerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoftTaints {
    /// It puts up with them.
    Borne,
    /// It goes where there are none.
    Avoided,
}

impl SoftTaints {
    /// Whether a pod puts up with a taint that it does not tolerate.
    pub(crate) fn bear(self, taint: &Taint) -> bool {
        self == Self::Borne && !taint.is_hard()
    }
}

/// What the machines of every pool are made from.
pub(super) struct Facts<'f, 'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) options: &'f Options<'f>,
    pub(super) left_alone: &'f LeftAlone<'f>,
    pub(super) dimensions: &'f Dimensions,
    pub(super) daemons: &'f TiSlice<DaemonId, Daemon<'a>>,
    pub(super) static_pods: &'f StaticPods<'a>,
}

/// The machines that a pool can launch. Pools that are alike share them.
#[derive(Debug)]
pub struct Machines<'a> {
    /// How they are made.
    pub class: &'a NodeClass,
    /// The instance types of the class, those that the pool excludes among them.
    pub types: &'a TiSlice<TypeId, InstanceType>,
    /// The taints that pods must bear. Startup taints go away by themselves and are not among them.
    pub taints: Vec<Taint>,
    /// The zones of the class; sets of zones are zones_in over this list.
    pub zones: TiVec<ZoneId, Zone<'a>>,
    /// The zones that the pool allows.
    pub allowed_zones: u64,
    /// The purchases that the pool allows and that can be had.
    pub usable: Purchases,
    /// Nano-dollars per hour that a node costs beside its instance.
    pub(crate) node_price: u64,
    /// Labels that instance types carry.
    pub(crate) type_keys: BTreeSet<&'a str>,
    /// Labels that the pool and the class give to nodes.
    pub(crate) node_keys: BTreeSet<String>,
    /// Labels that the pool leaves open between several values.
    pub(crate) open_keys: BTreeSet<String>,
    /// For each daemonset, the purchases that it runs on.
    pub daemon_purchases: TiVec<DaemonId, Purchases>,
    daemon_ports: TiVec<DaemonId, &'a [HostPort]>,
    /// What the static pods of each node ask for, together.
    pub static_requests: Resources,
    static_ports: Vec<HostPort>,
    by_name: BTreeMap<&'a str, TypeId>,
    prices: Vec<u64>,
    /// The reservation behind each reserved purchase in a zone, with how many instances it has room
    /// for.
    reservations: BTreeMap<(PurchaseId, ZoneId), &'a Reservation>,
    /// What overlays add to each type.
    added: BTreeMap<TypeId, Resources>,
    /// The usable purchases in order of price, for each set of zones that was asked for.
    by_price: RefCell<Vec<Rc<PriceOrder>>>,
    /// The purchases whose types meet a requirement, for those that were asked for.
    pub(crate) meeting: RefCell<Vec<Meeting>>,
    /// Types that are metal or have accelerators.
    pub(crate) exotic: TiVec<TypeId, bool>,
    rooms: Vec<i64>,
    /// For each purchase the first of the same capacity type that leaves the same room.
    like: TiVec<PurchaseId, PurchaseId>,
    /// Which purchases have how much room.
    steps: Vec<Steps>,
    width: usize,
}

impl<'a> Machines<'a> {
    /// The machines that a pool can launch, whose nodes meet these requirements.
    pub(super) fn new(
        pool: &'a NodePool,
        offer: &'a ClassOffer,
        requirements: &Requirements,
        facts: &Facts<'_, 'a>,
    ) -> Self {
        let (class, types) = (&offer.class, TiSlice::from_ref(&offer.instance_types));
        let of_pool = pool.spec.template.metadata.labels.keys().map(String::as_str);
        let given = of_pool.chain(class.node_labels().into_keys()).map(str::to_owned);
        let is_open = |(_, requirement): &(&str, &Requirement)| requirement.single().is_none();
        let node_price = facts.options.node_price.unwrap_or_else(|| class.root_volume.price());
        let mut machines = Self {
            class,
            types,
            taints: pool.spec.template.spec.taints.iter().chain(&class.taints).cloned().collect(),
            zones: zone_names(&types.raw)
                .into_iter()
                .map(|name| Zone { name, id: class.zone_id(name) })
                .collect(),
            allowed_zones: 0,
            usable: Purchases::none(0),
            node_price: node_price.nanos(),
            type_keys: type_keys(&types.raw),
            node_keys: given.chain([class.reference.label()]).collect(),
            open_keys: requirements.iter().filter(is_open).map(|(key, _)| key.to_owned()).collect(),
            daemon_purchases: TiVec::new(),
            daemon_ports: TiVec::new(),
            static_requests: Resources::new(),
            static_ports: Vec::new(),
            by_name: types.iter_enumerated().map(|(id, of)| (of.name.as_str(), id)).collect(),
            prices: Vec::new(),
            reservations: BTreeMap::new(),
            added: BTreeMap::new(),
            by_price: RefCell::default(),
            meeting: RefCell::default(),
            exotic: types.iter().map(offers::is_exotic).collect(),
            rooms: Vec::new(),
            like: TiVec::new(),
            steps: Vec::new(),
            width: facts.dimensions.count(),
        };
        machines.read_offerings(requirements, facts.snapshot, facts.left_alone);
        machines.count_interruptions(pool);
        machines.set_rooms(requirements, facts);
        machines
    }

    /// Prices of what can be had, then the purchases that the pool allows.
    fn read_offerings(
        &mut self,
        requirements: &Requirements,
        snapshot: &Snapshot,
        left_alone: &LeftAlone<'_>,
    ) {
        let mut prices = vec![UNAVAILABLE; self.purchases() * self.zones.len()];
        let mut reservations: BTreeMap<(PurchaseId, ZoneId), &'a Reservation> = BTreeMap::new();
        let subnets = left_alone.subnets.get(&self.class.reference);
        for (id, instance_type) in self.types.iter_enumerated() {
            let name = instance_type.name.as_str();
            for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
                let is_spot = offering.capacity_type == CapacityType::Spot;
                let lacking = is_spot && left_alone.spot.covers(name, &offering.zone)
                    || snapshot.unavailable.iter().any(|u| u.covers(name, offering, snapshot.taken_at));
                let is_here = |subnet: &Subnet| subnet.zone == offering.zone;
                let subnet = subnets.is_none_or(|subnets| subnets.iter().any(is_here));
                let Ok(zone) = self.zones.binary_search_by(|zone| zone.name.cmp(offering.zone.as_str()))
                else {
                    continue;
                };
                let purchase = purchase(id, offering.capacity_type);
                let cell = self.cell(purchase, zone);
                let reservation = offering.reservation.as_ref();
                let is_reserved = offering.capacity_type == CapacityType::Reserved;
                if !subnet || lacking || is_reserved && reservation.is_none_or(|r| r.count == 0) {
                    continue;
                }
                prices[cell] = prices[cell].min(offering.price.nanos());
                if let Some(reservation) = reservation.filter(|_| is_reserved) {
                    let listed = reservations.entry((purchase, zone)).or_insert(reservation);
                    if reservation.count > listed.count {
                        *listed = reservation;
                    }
                }
            }
        }
        (self.prices, self.reservations) = (prices, reservations);
        self.lay_over(requirements, &snapshot.overlays);
        let meeting = self.select_labels(requirements);
        self.allowed_zones = meeting.zones;
        self.usable = Purchases::passing(self.purchases(), |purchase| {
            meeting.purchases.contains(purchase)
                && self.has_image(type_of(purchase))
                && self.cheapest(purchase, meeting.zones).is_some()
        });
    }

    /// Adds what interruptions count in the pool to the prices of spot.
    fn count_interruptions(&mut self, pool: &NodePool) {
        if pool.interruption_price().is_none() {
            return;
        }
        for (id, instance_type) in self.types.iter_enumerated() {
            for zone in self.zones.keys() {
                let name = self.zones[zone].name;
                let cell = self.cell(purchase(id, CapacityType::Spot), zone);
                let mut offerings = instance_type.offerings.iter();
                let is_it = |offering: &&Offering| {
                    offering.capacity_type == CapacityType::Spot && offering.zone == name
                };
                if let Some(offering) = offerings.find(is_it).filter(|_| self.prices[cell] != UNAVAILABLE) {
                    self.prices[cell] += pool.interruption_cost(offering).nanos();
                }
            }
        }
    }

    /// How often EC2 takes back what is bought; `None` of what it leaves for good, or where nobody
    /// says.
    pub fn interruption(&self, purchase: PurchaseId) -> Option<InterruptionFrequency> {
        let offerings = &self.types[type_of(purchase)].offerings;
        let is_it = |offering: &&Offering| offering.capacity_type == capacity_of(purchase);
        offerings.iter().find(is_it).and_then(|offering| offering.interruption)
    }

    /// The usable purchases in order of their price in some zones. Between equals that comes first
    /// which EC2 takes back more rarely.
    pub(crate) fn by_price(&self, zones: u64) -> Rc<PriceOrder> {
        let mut orders = self.by_price.borrow_mut();
        if let Some(order) = orders.iter().find(|order| order.zones == zones) {
            return Rc::clone(order);
        }
        let priced =
            self.usable.iter().filter_map(|purchase| Some((self.cheapest(purchase, zones)?, purchase)));
        let mut priced: Vec<(u64, PurchaseId)> = priced.collect();
        let interruption = |purchase| self.interruption(purchase).unwrap_or(InterruptionFrequency::UNKNOWN);
        priced.sort_unstable_by_key(|(price, purchase)| (*price, interruption(*purchase), *purchase));
        let order = Rc::new(PriceOrder::new(zones, priced, self.width, |purchase| self.room(purchase)));
        orders.push(Rc::clone(&order));
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

    /// Puts NodeOverlays over prices and machines: the heaviest counts, between equals the first by
    /// name.
    fn lay_over(&mut self, requirements: &Requirements, overlays: &[NodeOverlay]) {
        let mut overlays: Vec<&NodeOverlay> = overlays.iter().collect();
        overlays.sort_by_key(|overlay| (overlay.weight, Reverse(&overlay.name)));
        let listed = self.prices.clone();
        for overlay in overlays {
            if requirements.meets(&overlay.requirements).is_err() {
                continue;
            }
            let about = self.select_labels(&overlay.requirements);
            for purchase in about.purchases.iter() {
                let added = self.added.entry(type_of(purchase)).or_default();
                overlay.capacity.iter().for_each(|(name, amount)| added.set(name, amount));
                let Some(overlaid) = overlay.price else { continue };
                for zone in zones_in(about.zones) {
                    let cell = self.cell(purchase, zone);
                    if listed[cell] != UNAVAILABLE {
                        self.prices[cell] = overlaid.apply(Price::from_nanos(listed[cell])).nanos();
                    }
                }
            }
        }
        self.added.retain(|_, added| !added.is_empty());
    }

    /// Whether the class has an image for the type's architecture; a class that only plans has none
    /// at all.
    pub fn has_image(&self, instance_type: TypeId) -> bool {
        let arch = || self.label(instance_type, ARCH);
        self.class.images.is_empty() || arch().is_some_and(|arch| self.class.image(arch).is_some())
    }

    /// What is left of each machine beside its static pods and the daemonsets that run on it
    /// (Karpenter's daemon overhead). A daemonset that some of the remaining zones or labels would
    /// admit counts.
    fn set_rooms(&mut self, requirements: &Requirements, facts: &Facts<'_, 'a>) {
        let Facts { dimensions, daemons, .. } = *facts;
        let room = |(id, of): (TypeId, &InstanceType)| {
            let added = self.added.get(&id);
            let row = dimensions.room(&of.allocatable, of.ebs_volumes());
            let row = added.map_or(row, |added| {
                let mut allocatable = of.allocatable.clone();
                added.iter().for_each(|(name, amount)| allocatable.set(name, amount));
                dimensions.room(&allocatable, of.ebs_volumes())
            });
            row.repeat(CAPACITY_TYPES)
        };
        let mut rows: Vec<i64> = self.types.iter_enumerated().flat_map(room).collect();
        for taken in facts.static_pods.of_class(&self.class.reference) {
            let request = dimensions.request(&taken.requests);
            rows.chunks_mut(self.width.max(1)).for_each(|room| amounts::take(room, &request, 1));
            self.static_requests.add(&taken.requests);
            self.static_ports.extend(taken.host_ports.iter().cloned());
        }
        self.daemon_purchases =
            daemons.iter().map(|daemon| self.purchases_of(requirements, daemon)).collect();
        self.daemon_ports = daemons.iter().map(|daemon| daemon.spec.host_ports.as_slice()).collect();
        for (daemon, purchases) in daemons.iter().zip(&self.daemon_purchases) {
            let request = dimensions.request(&daemon.spec.requests);
            for purchase in purchases.iter() {
                amounts::take(&mut rows[self.row_of(purchase)], &request, 1);
            }
        }
        let mut first_like: FixedMap<(CapacityType, &[i64]), PurchaseId> = FixedMap::default();
        let rooms = (0..).map(PurchaseId::from).zip(rows.chunks(self.width.max(1)));
        let like = rooms
            .map(|(purchase, room)| *first_like.entry((capacity_of(purchase), room)).or_insert(purchase));
        self.like = like.collect();
        self.steps = Steps::of_rows(&rows, self.width);
        self.rooms = rows;
    }

    fn purchases_of(&self, requirements: &Requirements, daemon: &Daemon<'_>) -> Purchases {
        let mut purchases = Purchases::none(self.purchases());
        if daemon.tolerates(&self.taints) {
            for wanted in &daemon.alternatives {
                let wanted = &*self.translated(wanted);
                let selection = self.select_labels(wanted);
                if requirements.meets(wanted).is_ok() && selection.zones & self.allowed_zones != 0 {
                    purchases.unite(&selection.purchases);
                }
            }
        }
        purchases
    }

    /// How many purchases there are: each type as each capacity type.
    pub const fn purchases(&self) -> usize {
        self.types.len() * CAPACITY_TYPES
    }

    /// What a machine leaves to pods beside daemonsets and static pods.
    pub fn room(&self, purchase: PurchaseId) -> &[i64] {
        &self.rooms[self.row_of(purchase)]
    }

    /// Where `rooms` has the row of a purchase.
    fn row_of(&self, purchase: PurchaseId) -> Range<usize> {
        let start = usize::from(purchase) * self.width;
        start..start + self.width
    }

    /// Where `prices` has that of a purchase in a zone.
    fn cell(&self, purchase: PurchaseId, zone: ZoneId) -> usize {
        usize::from(purchase) * self.zones.len() + usize::from(zone)
    }

    /// The first purchase of the same capacity type that leaves the same room.
    pub(crate) fn like(&self, purchase: PurchaseId) -> PurchaseId {
        self.like[purchase]
    }

    /// The ports that daemonsets and static pods take on a machine.
    pub fn daemon_ports(&self, purchase: PurchaseId) -> Vec<HostPort> {
        let sets = self.daemon_purchases.iter().zip(&self.daemon_ports);
        sets.filter(|(purchases, _)| purchases.contains(purchase))
            .flat_map(|(_, ports)| ports.iter())
            .chain(&self.static_ports)
            .cloned()
            .collect()
    }

    /// Nano-dollars per hour of a purchase in a zone.
    pub fn price_in(&self, purchase: PurchaseId, zone: ZoneId) -> Option<u64> {
        self.prices.get(self.cell(purchase, zone)).copied().filter(|price| *price != UNAVAILABLE)
    }

    /// Nano-dollars per hour of a purchase's cheapest offering in some zones.
    pub(crate) fn cheapest(&self, purchase: PurchaseId, zones: u64) -> Option<u64> {
        zones_in(zones).filter_map(|zone| self.price_in(purchase, zone)).min()
    }

    /// Dollars per hour of a node whose instance costs so many nano-dollars, its root volume with
    /// it.
    pub(crate) fn with_node(&self, price: f64) -> f64 {
        (price + self.node_price as f64) / NANOS_PER_DOLLAR
    }

    /// The reservation behind a reserved purchase in a zone.
    pub fn reservation(&self, purchase: PurchaseId, zone: ZoneId) -> Option<&'a Reservation> {
        self.reservations.get(&(purchase, zone)).copied()
    }

    /// What overlays add to a purchase's machine.
    pub(crate) fn added(&self, purchase: PurchaseId) -> Option<&Resources> {
        self.added.get(&type_of(purchase))
    }

    /// The reservations that its offerings draw on.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &'a Reservation> {
        self.reservations.values().copied()
    }

    /// Whether pods of some spec may be on its nodes as far as taints say.
    pub(crate) fn bears(&self, spec: &PodSpec, soft_taints: SoftTaints) -> bool {
        self.taints
            .iter()
            .all(|taint| soft_taints.bear(taint) || spec.tolerations.iter().any(|t| t.tolerates(taint)))
    }

    /// The zones out of `zones` in which a purchase can be had.
    pub fn zones_of(&self, purchase: PurchaseId, zones: u64) -> u64 {
        let available = zones_in(zones).filter(|zone| self.price_in(purchase, *zone).is_some());
        zone_set(available)
    }

    /// An instance type by its name.
    pub(crate) fn type_named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// The type of a purchase.
    pub fn instance_type(&self, purchase: PurchaseId) -> &'a InstanceType {
        &self.types[type_of(purchase)]
    }

    /// What a node costs beside its instance.
    pub const fn node_cost(&self) -> Price {
        Price::from_nanos(self.node_price)
    }
}

/// The keys of all labels that instance types carry. Most types have the same keys as the one
/// before.
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
pub(super) fn zone_names(types: &[InstanceType]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for offering in types.iter().flat_map(|t| &t.offerings) {
        if !names.contains(&offering.zone.as_str()) {
            names.push(&offering.zone);
        }
    }
    names.sort_unstable();
    names
}
