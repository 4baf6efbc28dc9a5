//! What a unit of each resource is worth: the shadow prices of the linear relaxation of the packing
//! problem.
//!
//! If nodes could be bought in fractions, the cheapest purchase that covers a demand would be a
//! linear program. Its dual asks for the highest unit prices at which no machine is worth more than
//! it costs. They tell how dear cpu and memory are to each other in this catalogue and for this
//! mix, and what a pod costs when nothing is wasted.

const PIVOTS_MAX: usize = 64;
const TINY: f64 = 1e-9;

/// Unit prices that maximise the worth of `demand` while no machine's room is worth more than its
/// cost.
///
/// `machines` are costs and room. A demand that no machine can meet is worth nothing.
pub(crate) fn shadow_prices(demand: &[f64], machines: &[(f64, &[i64])]) -> Vec<f64> {
    Dictionary::new(demand, machines).solved().prices(demand)
}

/// Shadow prices, averaged over the demand and demands that have more of one resource each, by the
/// share `tilt`.
///
/// Prices for one demand alone jump: what it has enough of is worth nothing at all, and is then
/// wasted until it is scarce. An average keeps what prices are for, since no machine is worth more
/// than it costs at any of those that go into it.
pub(crate) fn smooth_shadow_prices(demand: &[f64], machines: &[(f64, &[i64])], tilt: f64) -> Vec<f64> {
    let best = Dictionary::new(demand, machines).solved();
    let mut sum = best.prices(demand);
    for tilted in 0..best.width {
        let prices = best.tilted(tilted, tilt).solved().prices(demand);
        sum.iter_mut().zip(prices).for_each(|(sum, price)| *sum += price);
    }
    sum.into_iter().map(|sum| sum / (best.width + 1) as f64).collect()
}

/// The simplex method's dictionary: each row a machine, each column a resource. The origin is
/// feasible, since costs are not negative, so no first phase is needed. Amounts are scaled by the
/// demand, which makes all numbers of one size.
#[derive(Clone)]
struct Dictionary {
    width: usize,
    /// The resources that are asked for: the first variables.
    wanted: Vec<usize>,
    cells: Vec<f64>,
    bounds: Vec<f64>,
    gains: Vec<f64>,
    basic: Vec<usize>,
    free: Vec<usize>,
}

impl Dictionary {
    fn new(demand: &[f64], machines: &[(f64, &[i64])]) -> Self {
        let wanted: Vec<usize> = (0..demand.len()).filter(|d| demand[*d] > 0.0).collect();
        let width = wanted.len();
        let scaled = |room: &[i64], d: usize| room[d].max(0) as f64 / demand[d];
        let cells = machines.iter().flat_map(|(_, room)| wanted.iter().map(|d| scaled(room, *d))).collect();
        Self {
            width,
            wanted,
            cells,
            bounds: machines.iter().map(|(cost, _)| *cost).collect(),
            gains: vec![1.0; width],
            basic: (width..width + machines.len()).collect(),
            free: (0..width).collect(),
        }
    }

    fn solved(mut self) -> Self {
        for _ in 0..PIVOTS_MAX {
            let Some((row, column)) = self.next_pivot() else { break };
            self.pivot(row, column);
        }
        self
    }

    /// The same with more of one resource asked for: what it has at its optimum is where the search
    /// goes on.
    fn tilted(&self, variable: usize, tilt: f64) -> Self {
        let mut tilted = self.clone();
        if let Some(column) = self.free.iter().position(|free| *free == variable) {
            tilted.gains[column] += tilt;
        } else if let Some(row) = self.basic.iter().position(|basic| *basic == variable) {
            let line = &self.cells[row * self.width..(row + 1) * self.width];
            tilted.gains.iter_mut().zip(line).for_each(|(gain, cell)| *gain -= tilt * cell);
        }
        tilted
    }

    fn prices(&self, demand: &[f64]) -> Vec<f64> {
        let mut prices = vec![0.0; demand.len()];
        for (row, variable) in self.basic.iter().enumerate() {
            if let Some(dimension) = self.wanted.get(*variable) {
                prices[*dimension] = self.bounds[row].max(0.0) / demand[*dimension];
            }
        }
        prices
    }

    /// The column that gains most and the row that bounds it first; none at the optimum.
    fn next_pivot(&self) -> Option<(usize, usize)> {
        let best = |best: Option<usize>, column: usize| match best {
            Some(other) if self.gains[other] >= self.gains[column] => Some(other),
            _ => Some(column),
        };
        let column = (0..self.width).filter(|column| self.gains[*column] > TINY).fold(None, best)?;
        let mut bound: Option<(f64, usize)> = None;
        for (row, limit) in self.bounds.iter().enumerate() {
            let slope = self.cells[row * self.width + column];
            if slope > TINY * TINY {
                let ratio = limit / slope;
                if bound.is_none_or(|(least, _)| ratio < least) {
                    bound = Some((ratio, row));
                }
            }
        }
        bound.map(|(_, row)| (row, column))
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let width = self.width;
        let pivot = self.cells[row * width + column];
        let mut line: Vec<f64> =
            self.cells[row * width..(row + 1) * width].iter().map(|c| c / pivot).collect();
        line[column] = 1.0 / pivot;
        let bound = self.bounds[row] / pivot;
        let reduce = |cells: &mut [f64]| {
            let factor = std::mem::replace(&mut cells[column], 0.0);
            cells.iter_mut().zip(&line).for_each(|(cell, line)| *cell -= factor * line);
            factor
        };
        for (other, limit) in self.bounds.iter_mut().enumerate() {
            if other != row {
                *limit -= reduce(&mut self.cells[other * width..(other + 1) * width]) * bound;
            }
        }
        reduce(&mut self.gains);
        self.cells[row * width..(row + 1) * width].copy_from_slice(&line);
        self.bounds[row] = bound;
        std::mem::swap(&mut self.basic[row], &mut self.free[column]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_kinds_of_machine_price_two_resources() {
        // 2 cpu and 4 GiB for 1.0, 2 cpu and 8 GiB for 1.2: memory is worth 0.05 a GiB and a cpu
        // 0.4.
        let prices = shadow_prices(&[10.0, 30.0], &[(1.0, &[2, 4]), (1.2, &[2, 8])]);
        assert!((prices[0] - 0.4).abs() < 1e-9 && (prices[1] - 0.05).abs() < 1e-9, "{prices:?}");
    }

    #[test]
    fn what_nobody_asks_for_is_worth_nothing() {
        assert_eq!(shadow_prices(&[1.0, 0.0], &[(1.0, &[2, 4])]), [0.5, 0.0]);
        assert_eq!(shadow_prices(&[], &[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn no_machine_is_worth_more_than_it_costs(
            demand in prop::collection::vec(0.0..1e4_f64, 3),
            machines in prop::collection::vec((0.01..10.0_f64, prop::collection::vec(0..1_000_i64, 3)), 1..40),
        ) {
            let listed: Vec<(f64, &[i64])> = machines.iter().map(|(cost, room)| (*cost, room.as_slice())).collect();
            for prices in [shadow_prices(&demand, &listed), smooth_shadow_prices(&demand, &listed, 0.3)] {
                prop_assert!(prices.iter().all(|price| *price >= 0.0));
                for (cost, room) in &listed {
                    let worth = crate::amounts::worth(room, &prices);
                    prop_assert!(worth <= cost * (1.0 + 1e-6) + 1e-9, "{worth} for {cost}");
                }
            }
        }

        #[test]
        fn going_on_from_an_optimum_finds_what_beginning_anew_finds(
            demand in prop::collection::vec(1.0..1e4_f64, 3),
            machines in prop::collection::vec((0.01..10.0_f64, prop::collection::vec(1..1_000_i64, 3)), 1..40),
        ) {
            let listed: Vec<(f64, &[i64])> = machines.iter().map(|(cost, room)| (*cost, room.as_slice())).collect();
            let best = Dictionary::new(&demand, &listed).solved();
            for dimension in 0..3 {
                let mut tilted = demand.clone();
                tilted[dimension] *= 1.3;
                let worth = |prices: Vec<f64>| tilted.iter().zip(prices).map(|(d, price)| d * price).sum::<f64>();
                let anew = worth(shadow_prices(&tilted, &listed));
                let on = worth(best.tilted(dimension, 0.3).solved().prices(&demand));
                prop_assert!((anew - on).abs() <= 1e-6 * anew, "{anew} and {on}");
            }
        }
    }
}
