//! From a node being Ready to the last of its planned pods being bound: functions that the ticker
//! wakes, the node agent, kube-scheduler beside them.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use outrigger_stack::{NodeAgentSettings, Rates, all_functions};
use outrigger_tests::world::start;

use crate::latency::create;
use crate::print_burst;
use crate::sight::{lock, watch};

/// Burst sizes and how often each is measured.
const BURSTS: [(usize, usize); 2] = [(50, 3), (500, 3)];
const LONGEST: Duration = Duration::from_mins(3);

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    for (size, runs) in BURSTS {
        let times: Vec<Vec<f64>> = (0..runs).map(|_| burst(size)).collect::<Result<_>>()?;
        print_burst(size, runs, "Ready to the last pod bound", times.concat());
    }
    Ok(())
}

/// One burst on a fresh stack; seconds for each node.
fn burst(size: usize) -> Result<Vec<f64>> {
    let stack = start()?;
    let window = [("OUTRIGGER_POLL_WINDOW_SECONDS", "55")];
    let provision = stack.start_function("provision", &window)?;
    let lifecycle = stack.start_function("lifecycle", &window)?;
    let agent = stack.node_agent(NodeAgentSettings::default());
    let silent =
        all_functions().into_iter().filter(|name| !["provision", "lifecycle"].contains(&name.as_str()));
    let ticker = stack.ticker(Rates { silent: silent.collect(), ..Rates::default() });
    let ready = watch(stack.kubernetes(), "/api/v1/nodes", |node| {
        let conditions = node["status"]["conditions"].as_array()?;
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
    })?;
    let bound = watch(stack.kubernetes(), "/api/v1/namespaces/default/pods", |pod| {
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    })?;
    create(stack.kubernetes(), size)?;
    let began = Instant::now();
    while lock(&bound).len() < size {
        ensure!(began.elapsed() < LONGEST, "only {} of {size} pods were bound", lock(&bound).len());
        thread::sleep(Duration::from_millis(20));
    }
    drop((ticker, agent, lifecycle, provision));
    let mut last: BTreeMap<String, Instant> = BTreeMap::new();
    for (node, at) in lock(&bound).values() {
        let entry = last.entry(node.clone()).or_insert(*at);
        *entry = (*entry).max(*at);
    }
    let ready = lock(&ready);
    let times = last.iter().filter_map(|(node, at)| {
        let ((), since) = ready.get(node)?;
        Some(at.saturating_duration_since(*since).as_secs_f64())
    });
    Ok(times.collect())
}
