//! What a machine could carry at best, to tell which machines are worth a try.

use super::fill::{FillInputs, Role};
use crate::amounts;

/// What could fill a machine: more room than the pods ask for that are left is worth nothing. Peers
/// come first, then others in layers, those first that pay as much for room as peers do.
pub(super) struct Prospects {
    layers: [Layer; LAYERS],
}

/// What pods of one layer ask for together, and what a unit of each resource is worth to them on
/// average.
#[derive(Clone, Default)]
struct Layer {
    asked: Vec<f64>,
    prices: Vec<f64>,
}

/// The least share of what room is worth to peers that others pay in each of their layers but the
/// last.
const SHARES: [f64; 2] = [0.9, 0.6];
/// Peers, and the layers of others.
const LAYERS: usize = SHARES.len() + 2;

impl Prospects {
    pub(super) fn new(inputs: FillInputs<'_>) -> Self {
        let width = inputs.unit_prices.len();
        let empty = Layer { asked: vec![0.0; width], prices: vec![0.0; width] };
        let mut layers: [Layer; LAYERS] = std::array::from_fn(|_| empty.clone());
        for candidate in inputs.candidates {
            let remaining = f64::from(candidate.item_type.remaining);
            let share = candidate.worth
                / amounts::worth(candidate.item_type.size.request, inputs.unit_prices).max(f64::MIN_POSITIVE);
            let below = SHARES.iter().take_while(|least| share < **least).count();
            let layer = &mut layers[if candidate.role == Role::Peer { 0 } else { 1 + below }];
            for (dimension, amount) in candidate.item_type.size.request.iter().enumerate() {
                let amount = *amount as f64 * remaining;
                layer.asked[dimension] += amount;
                layer.prices[dimension] += amount * candidate.unit_prices[dimension];
            }
        }
        for layer in &mut layers {
            for (price, asked) in layer.prices.iter_mut().zip(&layer.asked) {
                *price = if *asked > 0.0 { *price / asked } else { 0.0 };
            }
        }
        Self { layers }
    }

    /// The least cost for the peers' worth that a perfect filling would reach.
    pub(super) fn ratio(&self, cost: f64, room: &[i64], inputs: FillInputs<'_>) -> f64 {
        let (mut of_peers, mut of_others) = (0.0, 0.0);
        for (dimension, room) in room.iter().enumerate() {
            let mut room = *room as f64;
            let [peers, others @ ..] = &self.layers;
            let taken = room.min(peers.asked[dimension]);
            of_peers += taken * inputs.unit_prices[dimension];
            room -= taken;
            for layer in others {
                let taken = room.min(layer.asked[dimension]).max(0.0);
                of_others += taken * layer.prices[dimension];
                room -= taken;
            }
        }
        (cost - of_others).max(0.0) / of_peers.max(f64::MIN_POSITIVE)
    }
}
