//! EC2 as a launcher meets it: capacity pools that run dry, fleets that are fulfilled in part,
//! client tokens, and instances that a describe call sees late.

mod buckets;
mod classes;
mod health;
mod market;
mod mishaps;
mod refusals;
mod reservations;
mod standing;
mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_catalog::Catalog;
use outrigger_engine::ports::{
    CloudError, FleetAnswer, FleetError, InstanceProblem, InstanceState, ManagedPools,
};
use outrigger_model::node_class::CapacityReservation;
use outrigger_model::{
    CapacityType, FleetOverride, FleetRequest, Instance, InstanceType, NodeClass, NodeClassRef, Price,
    StaticPod, labels,
};

use crate::random::draw;
use crate::scenario::{Promises, Scenario};
use crate::time::Moment;

pub(crate) use buckets::Buckets;
pub use market::Market;
use mishaps::Mishaps;
pub(crate) use refusals::Refusal;
use templates::Templates;

/// EC2 Fleet takes at most this many overrides in one request.
const MAX_OVERRIDES: usize = 300;
/// How long a new instance may stay unseen by describe calls, usually and on a bad day.
const USUAL_LAG_MILLIS: u64 = 4_000;
const WORST_LAG_MILLIS: u64 = 90_000;
/// The token of instances that none of our launches made.
pub(crate) const NO_LAUNCH: &str = "none";
/// What EC2 says of a pool that has run dry.
pub(crate) const NO_CAPACITY: &str = "InsufficientInstanceCapacity";
/// What EC2 says of a capacity reservation without room.
const NO_ROOM: &str = "ReservationCapacityExceeded";
/// How many machines an on-demand pool has; enough that only events empty it.
const ON_DEMAND_DEPTH: u64 = 1_000;

/// One account in one region.
pub(crate) struct Ec2 {
    seed: u64,
    cluster: String,
    region: String,
    zones: Vec<String>,
    catalog: Catalog,
    types: Arc<Vec<InstanceType>>,
    taken: BTreeMap<Pool, u64>,
    droughts: Vec<Drought>,
    refusals: Vec<Refusal>,
    buckets: Buckets,
    machines: BTreeMap<String, Machine>,
    tokens: BTreeMap<String, (FleetRequest, FleetAnswer)>,
    /// What the root volumes of each class cost per hour.
    volumes: BTreeMap<String, Price>,
    fleets: u64,
    /// How long a new instance may stay unseen by describe calls.
    describe_lag_millis: u64,
    /// Whether new machines never join.
    is_mute: bool,
    promises: Promises,
    /// What is wrong with machines, by id.
    problems: BTreeMap<String, Vec<InstanceProblem>>,
    /// The launch templates that Outrigger wrote.
    templates: Templates,
    /// Until when machines are protected from termination, by id.
    protected: BTreeMap<String, Duration>,
    /// How often node classes have got new images.
    image_updates: u32,
    /// The pools that InstanceGroups ask for.
    managed_pools: ManagedPools,
    /// Capacity reservations, each as it is while nothing runs in it.
    reservations: Vec<CapacityReservation>,
    /// The architectures of the images of InstanceGroups that are not like the rest.
    group_images: BTreeMap<String, Vec<String>>,
    /// The static pods that kOps' files tell of.
    static_pods: Vec<StaticPod>,
    /// What EC2 is to do wrong with the next fleets.
    mishaps: Mishaps,
}

/// A capacity pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    instance_type: String,
    zone: String,
    capacity_type: &'static str,
}

/// Pools that have nothing left for a time. An empty list means all.
#[derive(Clone, Debug)]
pub(crate) struct Drought {
    /// What EC2 says about them.
    pub code: String,
    /// Instance types.
    pub instance_types: Vec<String>,
    /// Zones.
    pub zones: Vec<String>,
    /// Capacity types.
    pub capacity_type: Option<CapacityType>,
    /// When it begins.
    pub from: Duration,
    /// When it is over.
    pub until: Duration,
}

impl Drought {
    fn covers(&self, pool: &Pool, elapsed: Duration) -> bool {
        let among = |list: &[String], value: &String| list.is_empty() || list.contains(value);
        (self.from..self.until).contains(&elapsed)
            && self.capacity_type.is_none_or(|kind| kind.as_str() == pool.capacity_type)
            && among(&self.instance_types, &pool.instance_type)
            && among(&self.zones, &pool.zone)
    }
}

/// An instance.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// What describe calls say of it.
    pub instance: Instance,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// What its root volume costs per hour.
    pub volume: Price,
    /// Its fleet's client token.
    pub token: String,
    /// When it was launched.
    pub launched: Moment,
    /// Where it stands.
    pub state: InstanceState,
    /// When it stopped costing anything.
    pub ended: Option<Duration>,
    /// Whether its fleet was not asked for it.
    pub is_surplus: bool,
    /// Whether its kubelet will ever register.
    pub joins: bool,
    /// From when on describe calls see it.
    visible: Duration,
}

impl Machine {
    /// Whether it is there and will stay.
    pub(crate) const fn is_live(&self) -> bool {
        !self.state.is_ending()
    }

    /// Whether somebody works on it.
    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.state, InstanceState::Running)
    }

    /// Whether one of ours launched it for this cluster.
    pub(crate) fn is_ours(&self, cluster: &str) -> bool {
        self.tags.contains_key(labels::INTENT)
            && self.tags.get(labels::CLUSTER).is_some_and(|name| name == cluster)
    }
}

impl Ec2 {
    pub(crate) fn new(scenario: &Scenario, cluster: &str) -> Self {
        let catalog = scenario.catalog.clone();
        let types = catalog.instance_types(&NodeClass::for_planning(NodeClassRef::instance_group("nodes")));
        Self {
            seed: scenario.seed,
            cluster: cluster.to_owned(),
            region: catalog.region.clone(),
            zones: scenario.zones.clone(),
            catalog,
            types,
            taken: BTreeMap::new(),
            droughts: Vec::new(),
            refusals: Vec::new(),
            buckets: Buckets::default(),
            machines: BTreeMap::new(),
            tokens: BTreeMap::new(),
            volumes: BTreeMap::new(),
            fleets: 0,
            describe_lag_millis: USUAL_LAG_MILLIS,
            is_mute: false,
            promises: scenario.promises,
            problems: BTreeMap::new(),
            templates: Templates::default(),
            protected: BTreeMap::new(),
            image_updates: 0,
            managed_pools: scenario.managed_pools.clone(),
            group_images: scenario.group_images.clone(),
            static_pods: classes::static_pods_of_kops(scenario),
            mishaps: Mishaps::default(),
            reservations: scenario.reservations.clone(),
        }
    }

    /// What is sold, and for how much.
    pub(crate) const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn store_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// The pools that InstanceGroups ask for.
    pub(crate) const fn managed_pools(&self) -> &ManagedPools {
        &self.managed_pools
    }

    /// Whether new machines never join.
    pub(crate) const fn set_mute(&mut self, is_mute: bool) {
        self.is_mute = is_mute;
    }

    /// The region.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Instances by id, those that have ended among them.
    pub(crate) const fn machines(&self) -> &BTreeMap<String, Machine> {
        &self.machines
    }

    /// Instances that are there and will stay.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Machine> {
        self.machines.values().filter(|machine| machine.is_live())
    }

    /// How many fleet requests launched something.
    pub(crate) const fn fleets(&self) -> u64 {
        self.fleets
    }

    /// The facts of a type.
    pub(crate) fn instance_type(&self, name: &str) -> Option<&InstanceType> {
        let index = self.types.binary_search_by(|kind| kind.name.as_str().cmp(name)).ok()?;
        self.types.get(index)
    }

    /// What the catalogue is under a class.
    pub(crate) fn instance_types_of(&self, class: &NodeClass) -> Arc<Vec<InstanceType>> {
        self.catalog.instance_types(class)
    }

    /// Lets describe calls lie further behind, or no longer.
    pub(crate) fn set_bad_day(&mut self, bad: bool) {
        self.describe_lag_millis = if bad { WORST_LAG_MILLIS } else { USUAL_LAG_MILLIS };
    }

    /// Empties pools for a time.
    pub(crate) fn add_drought(&mut self, drought: Drought) {
        self.droughts.push(drought);
    }

    pub(crate) fn instances_of(&self, tag: &str, value: &str, moment: Moment) -> Vec<Instance> {
        if !self.promises.tags {
            return Vec::new();
        }
        let seen = |machine: &&Machine| machine.visible <= moment.elapsed;
        let tagged = |machine: &&Machine| machine.tags.get(tag).is_some_and(|text| text == value);
        let there = |machine: &&Machine| machine.state != InstanceState::Terminated;
        let machines = self.machines.values().filter(seen).filter(there).filter(tagged);
        machines.map(|machine| machine.instance.clone()).collect()
    }

    /// `CreateFleet` of type instant.
    pub(crate) fn create_fleet(
        &mut self,
        request: &FleetRequest,
        moment: Moment,
    ) -> Result<FleetAnswer, CloudError> {
        if let Some((first, answer)) = self.tokens.get(&request.token).filter(|_| self.promises.tokens) {
            if first == request {
                return Ok(answer.clone());
            }
            return Err(refused(
                "IdempotentParameterMismatch",
                "the client token was used with another request",
            ));
        }
        self.turn_away(moment)?;
        self.check(request)?;
        self.check_reservation(request)?;
        let mut answer = FleetAnswer { errors: self.profile_errors(request), ..FleetAnswer::default() };
        if !answer.errors.is_empty() {
            self.tokens.insert(request.token.clone(), (request.clone(), answer.clone()));
            return Ok(answer);
        }
        let mut dry = BTreeSet::new();
        let surplus = self.mishaps.take_surplus();
        for index in 0..u64::from(request.count) + surplus {
            let Some(chosen) = self.choose(request, moment, &mut dry) else { break };
            let is_surplus = index >= u64::from(request.count);
            let machine = Machine { is_surplus, ..self.machine(request, chosen, moment) };
            answer.instances.push(machine.instance.clone());
            self.machines.insert(machine.instance.id.clone(), machine);
        }
        answer.errors = dry.into_iter().map(|pool| lacking(pool, request.capacity_type)).collect();
        self.use_template(&request.launch_template, moment);
        self.fleets += u64::from(!answer.instances.is_empty());
        self.tokens.insert(request.token.clone(), (request.clone(), answer.clone()));
        Ok(answer)
    }

    fn check(&self, request: &FleetRequest) -> Result<(), CloudError> {
        if self.class_of(&request.launch_template).is_none() || request.launch_template_version != "1" {
            let message = format!("{} version {}", request.launch_template, request.launch_template_version);
            return Err(refused("InvalidLaunchTemplateName.NotFoundException", &message));
        }
        let count = request.overrides.len();
        if count == 0 || count > MAX_OVERRIDES {
            let message = format!("{count} overrides, allowed are 1 to {MAX_OVERRIDES}");
            return Err(refused("InvalidFleetConfiguration", &message));
        }
        for wanted in &request.overrides {
            let arch =
                self.instance_type(&wanted.instance_type).and_then(|kind| kind.labels.get(labels::ARCH));
            let right = arch.is_some_and(|arch| self.has_image(arch, &wanted.image))
                && classes::subnet_id(&wanted.zone) == wanted.subnet
                && self.zones.contains(&wanted.zone);
            if !right {
                let FleetOverride { instance_type, zone, image, subnet, .. } = wanted;
                let message = format!("{instance_type} with image {image} in {zone}, subnet {subnet}");
                return Err(refused("InvalidParameterValue", &message));
            }
        }
        Ok(())
    }

    /// The override that EC2 takes next: the lowest price on demand, the best mix of price and
    /// depth on spot; where the request has priorities, what comes first.
    fn choose<'a>(
        &mut self,
        request: &'a FleetRequest,
        moment: Moment,
        dry: &mut BTreeSet<(String, String, String)>,
    ) -> Option<&'a FleetOverride> {
        let mut ranked: Vec<_> = request
            .overrides
            .iter()
            .filter_map(|wanted| {
                let rank = match request.capacity_type {
                    CapacityType::Reserved => wanted.price,
                    kind => self.rank(&wanted.instance_type, &wanted.zone, kind)?,
                };
                Some((rank, wanted))
            })
            .collect();
        if !request.prioritized {
            ranked.sort_by(|(a, x), (b, y)| {
                (a, &x.instance_type, &x.zone).cmp(&(b, &y.instance_type, &y.zone))
            });
        }
        for (_, wanted) in ranked {
            let pool = Pool {
                instance_type: wanted.instance_type.clone(),
                zone: wanted.zone.clone(),
                capacity_type: request.capacity_type.as_str(),
            };
            let depth = self.depth(&pool);
            let drought = self.droughts.iter().find(|drought| drought.covers(&pool, moment.elapsed));
            let is_reserved = request.capacity_type == CapacityType::Reserved;
            let dry_code = if is_reserved { NO_ROOM } else { NO_CAPACITY };
            let code = drought.map_or(dry_code, |drought| drought.code.as_str()).to_owned();
            let empty = drought.is_some();
            let taken = self.taken.entry(pool).or_default();
            if !empty && *taken < depth {
                *taken += 1;
                return Some(wanted);
            }
            dry.insert((wanted.instance_type.clone(), wanted.zone.clone(), code));
        }
        None
    }

    /// Lower is better; `None` when the pool does not exist.
    fn rank(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<Price> {
        let price = self.price(instance_type, zone, capacity_type)?;
        if capacity_type == CapacityType::OnDemand {
            return Some(price);
        }
        let shallowness = draw(self.seed, &format!("rank/{instance_type}/{zone}"), 40);
        Some(price.percent(100 + shallowness))
    }

    fn price(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<Price> {
        let offerings = &self.instance_type(instance_type)?.offerings;
        let offering =
            offerings.iter().find(|offer| offer.zone == zone && offer.capacity_type == capacity_type)?;
        Some(offering.price)
    }

    /// How many machines a pool has in all.
    fn depth(&self, pool: &Pool) -> u64 {
        if pool.capacity_type == CapacityType::OnDemand.as_str() {
            return ON_DEMAND_DEPTH;
        }
        if pool.capacity_type == CapacityType::Reserved.as_str() {
            return self.reserved_depth(pool);
        }
        4 + draw(self.seed, &format!("depth/{}/{}", pool.instance_type, pool.zone), 60)
    }

    fn machine(&self, request: &FleetRequest, chosen: &FleetOverride, moment: Moment) -> Machine {
        let id = format!("i-{:017x}", self.machines.len() + 1);
        let lag = draw(self.seed, &format!("visible/{id}"), self.describe_lag_millis);
        let class = self.class_of(&request.launch_template).unwrap_or_default();
        Machine {
            instance: Instance {
                instance_type: chosen.instance_type.clone(),
                zone: chosen.zone.clone(),
                capacity_type: request.capacity_type,
                image_id: chosen.image.clone(),
                price: self
                    .price(&chosen.instance_type, &chosen.zone, request.capacity_type)
                    .unwrap_or(chosen.price),
                id,
            },
            tags: request.tags.clone(),
            volume: self.volumes.get(class).copied().unwrap_or_default(),
            token: request.token.clone(),
            launched: moment,
            state: InstanceState::Running,
            ended: None,
            is_surplus: false,
            joins: !self.is_mute,
            visible: moment.elapsed + Duration::from_millis(lag),
        }
    }
}

fn lacking((instance_type, zone, code): (String, String, String), capacity_type: CapacityType) -> FleetError {
    FleetError {
        code,
        message: format!("there is no {capacity_type} capacity for {instance_type} in {zone}"),
        instance_type,
        zone,
    }
}

fn refused(code: &str, message: &str) -> CloudError {
    CloudError::Refused {
        service: "EC2",
        attempted: "create a fleet".into(),
        code: code.into(),
        message: message.into(),
    }
}
