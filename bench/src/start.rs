//! From starting a function's process, its invocation already waiting, to its first call of the API
//! server.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrigger_stack::{Stack, scheduled_event};
use outrigger_tests::proxy::{Mode, Proxy};
use outrigger_tests::world::{proxied_api_server, start};

use crate::percentile;

const RUNS: usize = 20;

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    let stack = start()?;
    let proxy_and_url = proxied_api_server(&stack)?;
    let mut times = (0..RUNS).map(|_| once(&stack, &proxy_and_url)).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    println!(
        "start of provision to its first call, {RUNS} runs: p50 {:.0} ms, max {:.0} ms",
        percentile(&times, 50),
        percentile(&times, 100)
    );
    Ok(())
}

fn once(stack: &Stack, (proxy, url): &(Proxy, String)) -> Result<f64> {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let note = move |_: &[u8]| {
        // Only the first call counts; nobody listens for the later ones.
        let _ = sender.lock().map(|sender| sender.send(Instant::now()));
    };
    proxy.set(Mode::Note { text: "", then: Arc::new(note) });
    std::thread::scope(|scope| {
        let invoked = scope.spawn(|| stack.invoke("provision", &scheduled_event("provision")));
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        let process = stack.start_function("provision", &[("OUTRIGGER_API_SERVER", url)])?;
        let first = receiver.recv_timeout(Duration::from_secs(20)).context("the function made no call")?;
        let _ = invoked.join();
        drop(process);
        Ok(first.duration_since(began).as_secs_f64() * 1000.0)
    })
}
