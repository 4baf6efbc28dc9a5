//! Peak memory of provision on a cluster of 1,000 nodes and 30,000 pods, with 500 more that wait
//! for nodes.

use std::time::Instant;

use anyhow::Result;
use outrigger_tests::world::{start, tick};

use crate::large_cluster::{NODES, PODS, add_unschedulable, load, peak_memory};

const WAITING: usize = 500;

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    let stack = start()?;
    load(&stack)?;
    add_unschedulable(stack.kubernetes(), WAITING)?;
    let process = stack.start_function("provision", &[])?;
    let began = Instant::now();
    let answer = tick(&stack, "provision")?;
    println!(
        "provision on {NODES} nodes and {PODS} pods, {WAITING} waiting: peak memory {}, tick {:.1} s, planned {}",
        peak_memory(&process)?,
        began.elapsed().as_secs_f64(),
        answer["pods"]
    );
    Ok(())
}
