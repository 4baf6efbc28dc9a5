//! The best subset of some nodes to end, by trying all: what their pods then cost elsewhere, packed
//! in several orders. Where nothing is bought for them, they must find room as kube-scheduler
//! spreads them.

use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{Node, Pod, Resources, labels};

use crate::fixtures::{catalogue, cluster};

/// Thousandths of a cpu, MiB, and pods.
type Amounts = [i64; 3];

/// An instance type on demand.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) room: Amounts,
    /// Nano-dollars per hour, the root volume with them.
    pub(crate) nanos: u64,
}

impl Machine {
    /// How many pods of a size it carries.
    pub(crate) fn pods(&self, size: (i64, i64)) -> usize {
        usize::try_from((self.room[0] / size.0).min(self.room[1] / size.1).min(self.room[2])).unwrap()
    }
}

/// Instance types by their names.
pub(crate) fn machines(names: &[&str]) -> Vec<Machine> {
    let volume = cluster().classes[0].class.root_volume.price().nanos();
    let machine = |name: &&str| {
        let kind = catalogue().into_iter().find(|kind| kind.name == **name).unwrap();
        let price = kind
            .offerings
            .iter()
            .find(|offering| offering.capacity_type.as_str() == "on-demand")
            .unwrap()
            .price;
        Machine { room: amounts(&kind.allocatable), nanos: price.nanos() + volume }
    };
    names.iter().map(machine).collect()
}

fn amounts(resources: &Resources) -> Amounts {
    let mebibytes = resources.get(MEMORY).value() >> 20;
    [resources.get(CPU).milli_value(), mebibytes, resources.get(PODS).value()]
}

/// Nano-dollars per hour of the best subset, with an eviction at so many.
pub(crate) fn best_subset(nodes: &[(Node, Vec<Pod>)], types: &[&str], eviction: u64) -> u64 {
    let offered = machines(types);
    let loads: Vec<(Machine, Vec<Amounts>)> = nodes
        .iter()
        .map(|(node, pods)| {
            let [machine] = machines(&[node.labels[labels::INSTANCE_TYPE].as_str()])[..] else { panic!() };
            (machine, pods.iter().map(|pod| amounts(&pod.spec.requests)).collect())
        })
        .collect();
    let subsets = 0..1_u32 << nodes.len();
    subsets.map(|ended| cost(&loads, ended, &offered, eviction)).min().unwrap()
}

/// What it costs to end a subset, given as bits.
fn cost(nodes: &[(Machine, Vec<Amounts>)], ended: u32, offered: &[Machine], eviction: u64) -> u64 {
    let (mut nanos, mut free, mut moved) = (0, Vec::new(), Vec::new());
    for (at, (machine, pods)) in nodes.iter().enumerate() {
        if ended >> at & 1 == 1 {
            moved.extend(pods.iter().copied());
        } else {
            nanos += machine.nanos;
            free.push(pods.iter().fold(machine.room, |free, pod| minus(&free, pod)));
        }
    }
    nanos += eviction * moved.len() as u64;
    let orders: [fn(&Amounts) -> i64; 3] = [|pod| pod[0] * 4 + pod[1], |pod| pod[0], |pod| pod[1]];
    let packed = orders.map(|size| {
        let mut pods = moved.clone();
        pods.sort_by_key(|pod| -size(pod));
        let (mut packed, mut unpacked) = (free.clone(), Vec::new());
        unpacked.extend(pods.iter().filter(|pod| !put(pod, &mut packed)).copied());
        if unpacked.is_empty() && !is_spread(&pods, &free) { u64::MAX } else { on_new(&unpacked, offered) }
    });
    nanos.saturating_add(packed.into_iter().min().unwrap())
}

/// What new nodes for some pods cost, the largest pods first: nodes of one type, each of which then
/// is as small as it can be.
fn on_new(pods: &[Amounts], offered: &[Machine]) -> u64 {
    let smallest = |asked: &Amounts| {
        let carrying =
            offered.iter().filter(|machine| minus(&machine.room, asked).iter().all(|free| *free >= 0));
        carrying.map(|machine| machine.nanos).min()
    };
    let of_type = |machine: &Machine| -> Option<u64> {
        let mut free: Vec<Amounts> = Vec::new();
        for pod in pods {
            if !put(pod, &mut free) {
                free.push(machine.room);
                put(pod, &mut free).then_some(())?;
            }
        }
        free.iter().map(|free| smallest(&minus(&machine.room, free))).sum()
    };
    offered.iter().filter_map(of_type).min().unwrap_or(u64::MAX)
}

/// Whether pods find room where each goes to the node with most room for its like, in an order and
/// in the opposite one.
fn is_spread(pods: &[Amounts], free: &[Amounts]) -> bool {
    let room = |free: &Amounts, pod: &Amounts| (0..3).map(|at| free[at] / pod[at]).min().unwrap_or(0);
    let spread = |pods: Vec<&Amounts>| {
        let mut free = free.to_vec();
        pods.into_iter().all(|pod| {
            let Some(most) = free.iter_mut().max_by_key(|free| room(free, pod)) else { return false };
            let fits = room(most, pod) > 0;
            *most = minus(most, pod);
            fits
        })
    };
    spread(pods.iter().collect()) && spread(pods.iter().rev().collect())
}

/// Puts a pod where least is left then; false where it fits nowhere.
fn put(pod: &Amounts, free: &mut [Amounts]) -> bool {
    let fits = |free: &&mut Amounts| minus(free, pod).iter().all(|free| *free >= 0);
    let Some(best) = free.iter_mut().filter(fits).min_by_key(|free| free[0] * 4 + free[1]) else {
        return false;
    };
    *best = minus(best, pod);
    true
}

fn minus(from: &Amounts, pod: &Amounts) -> Amounts {
    [from[0] - pod[0], from[1] - pod[1], from[2] - pod[2]]
}
