//! `cargo xtask bench`: the stack's numbers - from a pod to its fleet request, a function's start, its memory.

mod latency;
mod memory;
mod start;

use anyhow::Result;

fn main() -> Result<()> {
    let chosen = std::env::args().nth(1);
    let wanted = |name: &str| chosen.as_deref().is_none_or(|chosen| chosen == name);
    if wanted("start") {
        start::run()?;
    }
    if wanted("latency") {
        latency::run()?;
    }
    if wanted("memory") {
        memory::run()?;
    }
    Ok(())
}

/// The value below which `percent` of the sorted values lie.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
