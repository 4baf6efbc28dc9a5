//! All cores at work on cases, each core with its own judge.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

/// What comes of each number, in the order of the numbers. Each core calls `start` once and works
/// with what it gives; the first error ends the work.
pub fn on_all_cores<S, T: Send>(
    numbers: Range<u64>,
    start: impl Fn() -> Result<S> + Sync,
    each: impl Fn(&mut S, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(numbers.start);
    let is_over = AtomicBool::new(false);
    let results = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        let mut state = start()?;
        while !is_over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            let one = each(&mut state, number)?;
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, one));
        }
        Ok(())
    };
    let guarded = || work().inspect_err(|_| is_over.store(true, Ordering::Relaxed));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(guarded)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    Ok(results.into_iter().map(|(_, one)| one).collect())
}
