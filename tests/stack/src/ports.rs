//! Free ports.

use std::net::TcpListener;

use anyhow::{Context, Result};

/// As many free ports as asked for, all different: the listeners are held until the last one is known.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port on 127.0.0.1")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
