//! Peak memory of provision on a cluster of 1,000 nodes and 30,000 pods, with 500 more that wait
//! for nodes.

use std::time::Instant;

use anyhow::Result;
use outrigger_tests::large_cluster::{PODS_A_NODE, PodSize, add_unschedulable, load, peak_memory_mib};
use outrigger_tests::world::{start, tick};

const NODES: usize = 1_000;
const WAITING: usize = 500;

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    let stack = start()?;
    load(&stack, NODES, PodSize::Real)?;
    add_unschedulable(stack.kubernetes(), WAITING)?;
    let process = stack.start_function("provision", &[])?;
    let began = Instant::now();
    let answer = tick(&stack, "provision")?;
    println!(
        "provision on {NODES} nodes and {} pods, {WAITING} waiting: peak memory {} MiB, tick {:.1} s, planned {}",
        NODES * PODS_A_NODE,
        peak_memory_mib(&process)?,
        began.elapsed().as_secs_f64(),
        answer["pods"]
    );
    Ok(())
}
