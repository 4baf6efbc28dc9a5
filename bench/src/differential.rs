//! Random small clusters, put to our planner and to Karpenter's scheduler.
//!
//! Each number of a case is a seed: the same number is the same case. A case on which we do worse
//! is made smaller as long as we still do worse in the same way, and comes back as a [`Finding`].

mod case;
mod cores;
mod describe;
mod foreign;
mod judge;
mod laws;
mod pieces;
mod pods;

use std::fmt;

use anyhow::{Result, anyhow};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

pub use case::Case;
pub use cores::on_all_cores;
pub use judge::{Comparison, Fault, Judge};
pub use laws::broken_laws;

/// A case on which something is wrong, as small as it could be made.
pub struct Finding {
    /// Its number.
    pub number: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// The cluster, as the List that kubectl prints.
    pub list: Value,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "case {}:", self.number)?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "  {fault}"))?;
        describe::describe(&self.list).iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// The case of a number.
pub fn draw(number: u64) -> Result<Case> {
    Ok(tree(number)?.current())
}

/// Draws a case and looks for faults in it; `faults` is asked again about up to `shrinks` smaller
/// ones.
pub fn find(
    number: u64,
    shrinks: usize,
    mut faults: impl FnMut(&Case) -> Result<Vec<Fault>>,
) -> Result<Option<Finding>> {
    let mut tree = tree(number)?;
    let mut smallest = tree.current();
    let mut faults_of_smallest = faults(&smallest)?;
    let Some(first) = faults_of_smallest.first().map(Fault::kind) else { return Ok(None) };
    let mut goes_on = tree.simplify();
    for _ in 0..shrinks {
        if !goes_on {
            break;
        }
        let case = tree.current();
        let again = faults(&case)?;
        goes_on = if again.iter().any(|fault| fault.kind() == first) {
            (smallest, faults_of_smallest) = (case, again);
            tree.simplify()
        } else {
            tree.complicate()
        };
    }
    Ok(Some(Finding { number, faults: faults_of_smallest, list: smallest.list() }))
}

/// A case, and the smaller ones behind it.
fn tree(number: u64) -> Result<impl ValueTree<Value = Case>> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let drawn = case::any_case().new_tree(&mut runner);
    drawn.map_err(|reason| anyhow!("case {number} cannot be drawn: {reason}"))
}
