//! From a pod's creation, and from the scheduler's verdict about it, to the fleet request that
//! carries its node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrigger_stack::{Kubernetes, Stack, scheduled_event};
use outrigger_tests::proxy::{Mode, Proxy};
use outrigger_tests::world::{ledger, start};
use serde_json::{Value, json};

use crate::print_burst;
use crate::sight::{lock, watch};

/// Burst sizes and how often each is measured.
const BURSTS: [(usize, usize); 3] = [(1, 5), (50, 3), (500, 3)];
const CREATORS: usize = 4;

const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

/// When each fleet request went by, by its client token.
type Sent = Arc<Mutex<BTreeMap<String, Instant>>>;

/// Seconds until the fleet request of each pod.
struct Burst {
    from_creation: Vec<f64>,
    from_verdict: Vec<f64>,
}

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    for (size, runs) in BURSTS {
        let bursts: Vec<Burst> = (0..runs).map(|_| burst(size)).collect::<Result<_>>()?;
        let of_all = |part: fn(&Burst) -> &Vec<f64>| bursts.iter().flat_map(part).copied().collect();
        print_burst(size, runs, "pod created to CreateFleet sent", of_all(|burst| &burst.from_creation));
        print_burst(size, runs, "verdict to CreateFleet sent", of_all(|burst| &burst.from_verdict));
    }
    Ok(())
}

/// One burst on a fresh stack whose provision function is watching.
fn burst(size: usize) -> Result<Burst> {
    let stack = start()?;
    let proxy = Proxy::start(stack.state().endpoints.door.trim_start_matches("http://"))?;
    let sent = Sent::default();
    let noted = Arc::clone(&sent);
    let note = move |request: &[u8]| {
        let text = String::from_utf8_lossy(request);
        let token = text.split("ClientToken=").nth(1).and_then(|rest| rest.split(['&', '\r', '\n']).next());
        if let Some(token) = token {
            noted.lock().unwrap_or_else(PoisonError::into_inner).insert(token.to_owned(), Instant::now());
        }
    };
    proxy.set(Mode::Note { text: "Action=CreateFleet", then: Arc::new(note) });
    let url = format!("http://127.0.0.1:{}", proxy.port());
    let environment = [("AWS_ENDPOINT_URL_EC2", url.as_str()), ("OUTRIGGER_POLL_WINDOW_SECONDS", "20")];
    let process = stack.start_function("provision", &environment)?;
    let judged = watch(stack.kubernetes(), PODS_PATH, |pod| {
        let conditions = pod["status"]["conditions"].as_array()?;
        let is_judged = conditions.iter().any(|one| one["reason"] == "Unschedulable");
        pod["metadata"]["uid"].as_str().filter(|_| is_judged).map(str::to_owned)
    })?;
    let created = thread::scope(|scope| {
        let invoked = scope.spawn(|| stack.invoke("provision", &scheduled_event("provision")));
        // The tick has listed and is watching by then; what is measured is the watch, not the
        // start.
        thread::sleep(Duration::from_secs(3));
        let created = create(stack.kubernetes(), size);
        let _ = invoked.join();
        created
    })?;
    drop(process);
    let judged = lock(&judged).values().cloned().collect();
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Burst {
        from_creation: per_pod(&stack, &created, &sent)?,
        from_verdict: per_pod(&stack, &judged, &sent)?,
    })
}

/// Creates pods side by side; when each was asked for, by uid.
pub(crate) fn create(kubernetes: &Kubernetes, size: usize) -> Result<BTreeMap<String, Instant>> {
    let parts: Vec<Result<BTreeMap<String, Instant>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..CREATORS.min(size))
            .map(|part| {
                scope.spawn(move || {
                    let numbers = (part..size).step_by(CREATORS);
                    numbers.map(|number| create_one(kubernetes, number)).collect()
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut created = BTreeMap::new();
    for part in parts {
        created.extend(part?);
    }
    Ok(created)
}

fn create_one(kubernetes: &Kubernetes, number: usize) -> Result<(String, Instant)> {
    let shape = number % 10;
    let requests =
        json!({"cpu": format!("{}m", 100 + 50 * shape), "memory": format!("{}Mi", 128 << (shape % 5))});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "namespace": "default"},
        "spec": {"containers": [{
            "name": "main",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": requests},
        }]},
    });
    let asked = Instant::now();
    let made = kubernetes.create(PODS_PATH, &pod)?;
    let uid = made["metadata"]["uid"].as_str().context("the API server gave the pod no uid")?;
    Ok((uid.to_owned(), asked))
}

/// Pod -> claim -> intent -> request. Seconds for each pod since some time of its.
fn per_pod(
    stack: &Stack,
    since: &BTreeMap<String, Instant>,
    sent: &BTreeMap<String, Instant>,
) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for item in ledger(stack, "claim#")? {
        let claim: Value =
            serde_json::from_str(item["body"]["S"].as_str().context("a claim without a body")?)?;
        let at = claim["intent"].as_str().and_then(|intent| sent.get(intent));
        for pod in claim["nominated"].as_array().into_iter().flatten() {
            let since = pod["uid"].as_str().and_then(|uid| since.get(uid));
            if let (Some(at), Some(since)) = (at, since) {
                times.push(at.duration_since(*since).as_secs_f64());
            }
        }
    }
    ensure!(times.len() == since.len(), "only {} of {} pods got a fleet request", times.len(), since.len());
    Ok(times)
}
