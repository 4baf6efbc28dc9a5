//! What the functions cost in a month: what each of them reads, writes and takes in a minute, in
//! clusters of several sizes on the local stack, times AWS' prices.
//!
//! The nodes are not Outrigger's but for two, so that nothing of theirs is touched. The ledger is
//! counted as if they were: each look at all claims, times the size of a claim, times the nodes,
//! and each look at claims that have changed as one at their share of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use outrigger_bench::bill::{Hour, Minute, bills_table, minutes_table};
use outrigger_stack::{Kubernetes, NodeAgentSettings, Stack};
use outrigger_tests::large_cluster::{PodSize, add_unschedulable, load, own_node, peak_memory_mib};
use outrigger_tests::proxy::{Mode, Proxy, Traffic};
use outrigger_tests::world::{ledger, proxied_api_server, start, tick};
use serde_json::{Value, json};

/// How many nodes clusters have unless others are asked for.
const SIZES: [usize; 3] = [100, 1_000, 5_000];
/// How many pods come at once in a busy minute.
const WAITING: usize = 5;
/// How often a process reads all claims though nothing has changed, in minutes.
const ALL_CLAIMS_EVERY: f64 = 15.0;
/// Of how many claims one is read again where one has changed: as many counters there are.
const COUNTERS: f64 = 16.0;
/// How long a machine boots.
const BOOT: Duration = Duration::from_secs(40);
/// How often a kubelet reports that its node is as it was (`nodeStatusReportFrequency`).
const KUBELET_REPORTS: Duration = Duration::from_mins(5);
/// What a window of 55 s is for a function.
const WINDOW: &str = "55";
const NODES_PATH: &str = "/api/v1/nodes";
const CLAIMS_PATH: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// What `cost` takes.
#[derive(Args)]
pub(crate) struct CostOptions {
    /// How many nodes
    #[arg(long, value_delimiter = ',', default_values_t = SIZES)]
    nodes: Vec<usize>,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self { nodes: SIZES.to_vec() }
    }
}

/// Measures and prints.
pub(crate) fn run(options: &CostOptions) -> Result<()> {
    let mut minutes = Vec::new();
    for nodes in &options.nodes {
        let some = Cluster::start(*nodes)?.minutes()?;
        println!("{}", minutes_table(&some));
        minutes.extend(some);
    }
    println!("{}\n{}", minutes_table(&minutes), bills_table(&minutes));
    Ok(())
}

/// A cluster with a node of Outrigger's beside the others.
struct Cluster {
    stack: Stack,
    nodes: usize,
    /// What a claim takes in the ledger, in bytes.
    claim: f64,
}

/// What a tick took.
struct Taken {
    api_server: Traffic,
    seconds: f64,
    asked: Asked,
    /// Bytes from the ledger.
    ledger: u64,
    /// Whether disrupt looked at no node.
    is_quiet: bool,
}

/// What a tick asked of the ledger.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// How often all claims were read.
    looks_at_all: usize,
    /// How often claims were read again that may have changed.
    looks_at_some: usize,
    /// Items that were read by their keys, and queries, each of which takes a unit at least.
    least_units: usize,
    /// Requests that write.
    writes: usize,
}

impl Asked {
    fn note(&mut self, request: &[u8]) {
        let request = String::from_utf8_lossy(request);
        let is_of_claims = request.contains("\"claim#");
        let is = |deed: &str| request.contains(&format!("DynamoDB_20120810.{deed}"));
        if is("Query") {
            self.least_units += 1;
            self.looks_at_all += usize::from(is_of_claims && request.contains("begins_with"));
        } else if is("BatchGetItem") {
            self.least_units += request.matches("\"sk\"").count();
            self.looks_at_some += usize::from(is_of_claims);
        } else if is("GetItem") {
            self.least_units += 1;
        } else if ["Put", "Update", "Delete", "BatchWrite", "TransactWrite"].iter().any(|deed| is(deed)) {
            self.writes += 1;
        }
    }
}

/// What disrupt's two kinds of ticks took.
struct Disrupt {
    look: Taken,
    glance: Taken,
}

impl Cluster {
    fn start(nodes: usize) -> Result<Self> {
        let stack = start()?;
        own_node(&stack)?;
        let items = ledger(&stack, "claim#")?;
        let claim = items.iter().map(bytes).max().context("the ledger has no claim")?;
        eprintln!("{nodes} nodes; a claim takes {claim} bytes of the ledger");
        load(&stack, nodes, PodSize::Real)?;
        Ok(Self { stack, nodes, claim: claim as f64 })
    }

    /// What goes on in each kind of hour.
    fn minutes(&self) -> Result<Vec<Minute>> {
        let ended = Arc::new(AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| report_as_kubelets(self.stack.kubernetes(), self.nodes, &ended));
            let minutes = self.hours();
            ended.store(true, Ordering::Relaxed);
            minutes
        })
    }

    fn hours(&self) -> Result<Vec<Minute>> {
        let provision = self.take("provision", WINDOW)?;
        let lifecycle = self.take("lifecycle", WINDOW)?;
        age(&self.stack)?;
        let disrupt = Disrupt { look: self.take("disrupt", "0")?, glance: self.glance()? };
        let mut minutes = vec![
            self.minute(Hour::Quiet, "provision", &[(1.0, &provision)]),
            self.minute(Hour::Quiet, "lifecycle", &[(1.0, &lifecycle)]),
            // A look is good for five minutes, or fifteen where the cluster is large.
            self.disrupt(Hour::Quiet, &disrupt, if self.nodes < 400 { 5 } else { 15 }),
        ];
        // Where something changes each minute, for a minute for each 200 nodes.
        let rest = (self.nodes / 200).clamp(1, 5);
        for (hour, [provision, lifecycle]) in [(Hour::Busy, self.busy()?), (Hour::Draining, self.draining()?)]
        {
            minutes.extend([
                self.minute(hour, "provision", &[(1.0, &provision)]),
                self.minute(hour, "lifecycle", &[(1.0, &lifecycle)]),
                self.disrupt(hour, &disrupt, rest),
            ]);
        }
        Ok(minutes)
    }

    /// What provision and lifecycle do then. Only a new node has room for the pods that come.
    fn busy(&self) -> Result<[Taken; 2]> {
        let kubernetes = self.stack.kubernetes();
        for node in kubernetes.list(&format!("{NODES_PATH}?labelSelector=karpenter.sh/nodepool"))? {
            let path = format!("{NODES_PATH}/{}", name(&node));
            kubernetes.merge(&path, &json!({"spec": {"unschedulable": true}}))?;
        }
        add_unschedulable(kubernetes, WAITING)?;
        let provision = self.take("provision", WINDOW)?;
        let _agent = self.stack.node_agent(NodeAgentSettings { boot: BOOT, ..NodeAgentSettings::default() });
        Ok([provision, self.take("lifecycle", WINDOW)?])
    }

    /// What they do while a node is drained.
    fn draining(&self) -> Result<[Taken; 2]> {
        let kubernetes = self.stack.kubernetes();
        let claims = kubernetes.list(CLAIMS_PATH)?;
        let claim = claims.last().context("no NodeClaim is there to be deleted")?;
        kubernetes.delete(&format!("{CLAIMS_PATH}/{}", name(claim)))?;
        let lifecycle = self.take("lifecycle", WINDOW)?;
        Ok([self.take("provision", WINDOW)?, lifecycle])
    }

    /// What a tick of disrupt takes that looks at no node. One that looks may be too late to
    /// remember it, so that the next one looks, too.
    fn glance(&self) -> Result<Taken> {
        for _ in 0..3 {
            let taken = self.take("disrupt", "0")?;
            if taken.is_quiet {
                return Ok(taken);
            }
        }
        bail!("disrupt looks at all nodes each time")
    }

    /// Disrupt where one tick in so many looks, and the others glance.
    fn disrupt(&self, hour: Hour, disrupt: &Disrupt, ticks: usize) -> Minute {
        let looks = 1.0 / ticks as f64;
        self.minute(hour, "disrupt", &[(looks, &disrupt.look), (1.0 - looks, &disrupt.glance)])
    }

    /// One tick of a function in a process of its own.
    fn take(&self, function: &str, window: &str) -> Result<Taken> {
        let (api_server, address) = proxied_api_server(&self.stack)?;
        let dynamodb = &self.stack.state().endpoints.dynamodb;
        let ledger = Proxy::start(dynamodb.trim_start_matches("http://"))?;
        let asked = Arc::<Mutex<Asked>>::default();
        let counter = Arc::clone(&asked);
        let then = Arc::new(move |request: &[u8]| {
            counter.lock().unwrap_or_else(PoisonError::into_inner).note(request);
        });
        ledger.set(Mode::Note { text: "}", then });
        let through = format!("http://127.0.0.1:{}", ledger.port());
        let environment = [
            ("OUTRIGGER_API_SERVER", address.as_str()),
            ("OUTRIGGER_POLL_WINDOW_SECONDS", window),
            ("AWS_ENDPOINT_URL_DYNAMODB", through.as_str()),
        ];
        let process = self.stack.start_function(function, &environment)?;
        let began = Instant::now();
        let answer = tick(&self.stack, function)?;
        let seconds = began.elapsed().as_secs_f64();
        let peak = peak_memory_mib(&process)?;
        drop(process);
        let taken = Taken {
            api_server: api_server.take_traffic(),
            seconds,
            asked: asked.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ledger: ledger.take_traffic().received,
            is_quiet: answer["isQuiet"] == true,
        };
        eprintln!(
            "{function}: {seconds:.1} s, {peak} MiB, {:?}, {:?}, {answer}",
            taken.api_server, taken.asked
        );
        Ok(taken)
    }

    /// A minute in which these ticks happen, each so often.
    fn minute(&self, hour: Hour, function: &str, ticks: &[(f64, &Taken)]) -> Minute {
        let sum = |value: &dyn Fn(&Taken) -> f64| ticks.iter().map(|(share, tick)| share * value(tick)).sum();
        let minute = Minute {
            nodes: self.nodes,
            hour,
            function: function.to_owned(),
            received: sum(&|tick| tick.api_server.received as f64),
            sent: sum(&|tick| tick.api_server.sent as f64),
            seconds: sum(&|tick| tick.seconds),
            reads: sum(&|tick| self.read_units(tick)),
            // 1 KB written in a transaction takes two.
            writes: sum(&|tick| 2.0 * tick.asked.writes as f64),
        };
        minute.rounded()
    }

    /// Units of 4 KB, of which an item that is read by its key takes one at least. The process of a
    /// tick is new; that of a function is not, so its first look at all claims is a rare one.
    fn read_units(&self, tick: &Taken) -> f64 {
        let Asked { looks_at_all, looks_at_some, least_units, .. } = tick.asked;
        let all = self.claim * self.nodes as f64 / 4_096.0;
        let looks = looks_at_all.saturating_sub(1) as f64 + 1.0 / ALL_CLAIMS_EVERY;
        let some = (self.nodes as f64 / COUNTERS).max(1.0);
        tick.ledger as f64 / 4_096.0 + least_units as f64 + looks * all + looks_at_some as f64 * some
    }
}

/// Makes the only node of ours one that time does not change any more, as most nodes are: disrupt
/// looks each minute at nodes that are too young.
fn age(stack: &Stack) -> Result<()> {
    let kubernetes = stack.kubernetes();
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    kubernetes.merge("/apis/karpenter.sh/v1/nodepools/default", &annotated("outrigger.dev/patience", "0"))?;
    for node in kubernetes.list("/api/v1/nodes?labelSelector=karpenter.sh/nodepool")? {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap_or_default());
        kubernetes.merge(&path, &annotated("karpenter.sh/do-not-disrupt", "true"))?;
    }
    Ok(())
}

/// Reports of nodes that are as they were, which watches of nodes see.
fn report_as_kubelets(kubernetes: &Kubernetes, nodes: usize, ended: &AtomicBool) {
    let pause = KUBELET_REPORTS / u32::try_from(nodes).unwrap_or(u32::MAX);
    for number in (0..nodes).cycle() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let began = Instant::now();
        let now = jiff::Timestamp::now().to_string();
        let condition = json!([{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": now}]);
        let path = format!("{NODES_PATH}/i-{number:017x}/status");
        if let Err(error) = kubernetes.merge(&path, &json!({"status": {"conditions": condition}})) {
            eprintln!("a kubelet does not report: {error:#}");
        }
        thread::sleep(pause.saturating_sub(began.elapsed()));
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What an item takes, as DynamoDB counts: names and values.
fn bytes(item: &Value) -> usize {
    let attributes = item.as_object().into_iter().flatten();
    attributes
        .map(|(name, value)| name.len() + value["S"].as_str().or(value["N"].as_str()).map_or(0, str::len))
        .sum()
}
