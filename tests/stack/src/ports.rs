//! Free ports.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;

use anyhow::{Context, Result};

/// Below those from which Linux gives outgoing connections theirs: a server binds its port some
/// time after it was found, and several stacks start at once.
const RANGE: Range<u64> = 20_000..32_000;
const TRIES: usize = 1_000;

/// As many free ports as asked for, all different, drawn so that other processes hardly find the
/// same.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    let mut picked = BTreeSet::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let drawn = (0..TRIES).map(|_| draw());
        let is_free = |port: &u16| !picked.contains(port) && TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let mut free = drawn.filter(is_free);
        *port = free.next().context("no free port on 127.0.0.1 from 20000 to 31999")?;
        picked.insert(*port);
    }
    Ok(ports)
}

/// A port by chance; each `RandomState` has keys of its own.
fn draw() -> u16 {
    let drawn = RANGE.start + RandomState::new().hash_one(()) % (RANGE.end - RANGE.start);
    u16::try_from(drawn).unwrap_or(u16::MAX)
}
