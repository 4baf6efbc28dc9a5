//! The node agent: stands for nodeup, kubelet's registration, the cloud controller and
//! kops-controller.
//!
//! It sees an instance, waits its boot time, and registers its Node; when the instance is gone, so
//! is the Node.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::Document;
use serde::Deserialize;

use crate::aws::{Aws, parameter};
use crate::kops::{CLUSTER, STATE_BUCKET, nodeup_hash};
use crate::kubernetes::Kubernetes;
use crate::mirror_pod::{KubeProxy, kube_proxy};
use crate::node_object::{Instance, Kubelet, Machine, node};
use crate::seed::{filter, text};

/// How many Nodes register at once.
const WORKERS: usize = 8;
/// An instance must be missing this often in a row before its Node goes; EC2's lists are only
/// eventually consistent.
const MISSES: u32 = 2;
/// After a failed try to join; nodeup itself waits 30 s.
const RETRY: Duration = Duration::from_secs(2);
const GROUP_TAG: &str = "kops.k8s.io/instancegroup";

/// How the agent behaves.
#[derive(Clone, Debug)]
pub struct NodeAgentSettings {
    /// From an instance's first sight until its Node registers.
    pub boot: Duration,
    /// Up to this much more, by a hash of the instance's id.
    pub jitter: Duration,
    /// How often it looks.
    pub poll: Duration,
    /// The kOps cluster whose instances it plays.
    pub cluster: String,
    /// The bucket of that cluster's state store.
    pub state_bucket: String,
}

impl Default for NodeAgentSettings {
    fn default() -> Self {
        Self {
            boot: Duration::from_secs(5),
            jitter: Duration::from_secs(1),
            poll: Duration::from_millis(500),
            cluster: CLUSTER.to_owned(),
            state_bucket: STATE_BUCKET.to_owned(),
        }
    }
}

/// A running agent; stops when dropped.
pub struct NodeAgent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NodeAgent {
    /// Starts it: `ec2` answers for instances, `s3` holds the state store.
    pub fn spawn(ec2: Aws, s3: Aws, kubernetes: Kubernetes, settings: NodeAgentSettings) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let mut agent =
            Agent { ec2, s3, kubernetes, settings, machines: Mutex::default(), seen: BTreeMap::new() };
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = agent.turn() {
                    eprintln!("node-agent: {error:#}");
                }
                thread::sleep(agent.settings.poll);
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Waits for as long as it runs, which is until the process ends.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said why on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for NodeAgent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // As in `join`.
            let _ = thread.join();
        }
    }
}

struct Agent {
    ec2: Aws,
    s3: Aws,
    kubernetes: Kubernetes,
    settings: NodeAgentSettings,
    machines: Mutex<BTreeMap<String, Machine>>,
    seen: BTreeMap<String, Sight>,
}

/// An instance that the agent knows.
struct Sight {
    /// When it is to register.
    due: Instant,
    registered: bool,
    misses: u32,
}

impl Agent {
    fn turn(&mut self) -> Result<()> {
        let instances = self.instances()?;
        let now = Instant::now();
        let mut due = Vec::new();
        for instance in &instances {
            let wait = self.boot_time(&instance.id);
            let new = Sight { due: now + wait, registered: false, misses: 0 };
            let sight = self.seen.entry(instance.id.clone()).or_insert(new);
            sight.misses = 0;
            if !sight.registered && now >= sight.due {
                sight.due = now + RETRY;
                due.push(instance);
            }
        }
        for id in self.register(&due) {
            if let Some(sight) = self.seen.get_mut(&id) {
                sight.registered = true;
            }
        }
        self.forget_missing(&instances.iter().map(|instance| instance.id.as_str()).collect())
    }

    fn boot_time(&self, id: &str) -> Duration {
        let mut hash = DefaultHasher::new();
        id.hash(&mut hash);
        let share = u32::try_from(hash.finish() % 1000).unwrap_or_default();
        self.settings.boot + self.settings.jitter * share / 1000
    }

    /// Registers what is due, several at a time; returns the ids that need no second try.
    fn register(&self, due: &[&Instance]) -> Vec<String> {
        if due.is_empty() {
            return Vec::new();
        }
        let configs = Mutex::new(BTreeMap::new());
        let done = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for part in due.chunks(due.len().div_ceil(WORKERS)) {
                let (configs, done) = (&configs, &done);
                scope.spawn(move || {
                    for instance in part {
                        match self.join_cluster(instance, configs) {
                            Ok(()) => lock(done).push(instance.id.clone()),
                            Err(error) => eprintln!("node-agent: {} cannot join yet: {error:#}", instance.id),
                        }
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn join_cluster(&self, instance: &Instance, configs: &Mutex<BTreeMap<String, String>>) -> Result<()> {
        let group = instance.tags.get(GROUP_TAG).map_or("", String::as_str);
        let read = lock(configs).get(group).cloned();
        let config = if let Some(config) = read { config } else { self.nodeup_config(group)? };
        lock(configs).insert(group.to_owned(), config.clone());
        self.check_hash(instance, &config)?;
        let machine = self.machine(&instance.machine_type)?;
        let NodeupConfig { kubelet, kube_proxy } =
            serde_saphyr::from_str(&config).context("reading nodeupconfig.yaml")?;
        let object = node(instance, &machine, &kubelet);
        let answer = self.kubernetes.try_create("/api/v1/nodes", &object)?;
        // A Node of that name: kOps' own server answers 409 then, and nodeup ends content.
        if answer.status != 409 {
            answer.ok(&format!("registering {}", instance.id))?;
            eprintln!("node-agent: {} ({}, {}) joined", instance.id, instance.machine_type, group);
        }
        kube_proxy.map_or(Ok(()), |settings| self.run_kube_proxy(instance, &settings))
    }

    /// The kubelet runs kube-proxy from nodeup's manifest, and shows it as soon as its Node is
    /// there.
    fn run_kube_proxy(&self, instance: &Instance, settings: &KubeProxy) -> Result<()> {
        // A Node that is gone again runs nothing.
        let Some(node) = self.kubernetes.find(&format!("/api/v1/nodes/{}", instance.id))? else {
            return Ok(());
        };
        let pod = kube_proxy(settings, &node);
        let answer = self.kubernetes.try_create("/api/v1/namespaces/kube-system/pods", &pod)?;
        if answer.status != 409 {
            answer.ok(&format!("the mirror pod {}", pod["metadata"]["name"]))?;
        }
        Ok(())
    }

    /// nodeup stops, and tries again for ever, when its user data was made for another
    /// nodeupconfig.yaml.
    fn check_hash(&self, instance: &Instance, config: &str) -> Result<()> {
        let ask = [parameter("InstanceId", &instance.id), parameter("Attribute", "userData")];
        let Ok(xml) = self.ec2.ec2("DescribeInstanceAttribute", &ask) else {
            // A stand-in that does not serve the attribute: nothing to compare.
            return Ok(());
        };
        let document = Document::parse(&xml)?;
        let value = document
            .descendants()
            .find(|one| one.tag_name().name() == "userData")
            .map(|one| text(one, "value"));
        let script = value.and_then(|value| STANDARD.decode(value).ok()).unwrap_or_default();
        let script = String::from_utf8_lossy(&script);
        let promised = script.lines().find_map(|line| line.trim().strip_prefix("NodeupConfigHash: "));
        let actual = nodeup_hash(config);
        if let Some(promised) = promised.filter(|promised| *promised != actual) {
            anyhow::bail!(
                "its user data promises nodeupconfig.yaml {promised}, the state store has {actual}"
            );
        }
        Ok(())
    }

    fn nodeup_config(&self, group: &str) -> Result<String> {
        let key = format!("{}/igconfig/node/{group}/nodeupconfig.yaml", self.settings.cluster);
        let object = self.s3.object(&self.settings.state_bucket, &key)?;
        object.with_context(|| format!("there is no s3://{}/{key}", self.settings.state_bucket))
    }

    fn machine(&self, instance_type: &str) -> Result<Machine> {
        if let Some(machine) = lock(&self.machines).get(instance_type) {
            return Ok(machine.clone());
        }
        let xml = self.ec2.ec2("DescribeInstanceTypes", &[parameter("InstanceType.1", instance_type)])?;
        let document = Document::parse(&xml)?;
        let find = |name: &str| document.descendants().find(|one| one.tag_name().name() == name);
        let number = |name: &str| find(name).and_then(|one| one.text()?.trim().parse::<u64>().ok());
        let arm = find("supportedArchitectures")
            .is_some_and(|architectures| architectures.children().any(|one| one.text() == Some("arm64")));
        let machine = Machine {
            architecture: if arm { "arm64" } else { "amd64" }.to_owned(),
            cpus: number("defaultVCpus")
                .with_context(|| format!("EC2 says no processors of {instance_type}"))?,
            memory_mib: number("sizeInMiB")
                .with_context(|| format!("EC2 says no memory of {instance_type}"))?,
        };
        lock(&self.machines).insert(instance_type.to_owned(), machine.clone());
        Ok(machine)
    }

    /// The cluster's instances that are pending or running.
    fn instances(&self) -> Result<Vec<Instance>> {
        let mut instances = Vec::new();
        let mut token = String::new();
        loop {
            let mut ask = filter(1, "tag:KubernetesCluster", &[&self.settings.cluster]);
            ask.extend(filter(2, "instance-state-name", &["pending", "running"]));
            ask.push(parameter("MaxResults", "1000"));
            if !token.is_empty() {
                ask.push(parameter("NextToken", &token));
            }
            let xml = self.ec2.ec2("DescribeInstances", &ask)?;
            let document = Document::parse(&xml).context("reading DescribeInstances")?;
            let sets = document.descendants().filter(|one| one.tag_name().name() == "instancesSet");
            let items = sets.flat_map(|set| set.children().filter(|one| one.tag_name().name() == "item"));
            instances.extend(items.map(instance).filter(|one| one.tags.contains_key(GROUP_TAG)));
            token = text(document.root_element(), "nextToken");
            if token.is_empty() {
                return Ok(instances);
            }
        }
    }

    /// Deletes the Nodes whose instance is gone, as the cloud controller does; also those that an
    /// agent before this one registered.
    fn forget_missing(&mut self, live: &BTreeSet<&str>) -> Result<()> {
        for one in self.kubernetes.list("/api/v1/nodes")? {
            let provider =
                one.pointer("/spec/providerID").and_then(|value| value.as_str()).unwrap_or_default();
            if let Some((_, id)) = provider.strip_prefix("aws:///").and_then(|rest| rest.rsplit_once('/')) {
                let joined = Sight { due: Instant::now(), registered: true, misses: 0 };
                self.seen.entry(id.to_owned()).or_insert(joined);
            }
        }
        let mut gone = Vec::new();
        for (id, sight) in &mut self.seen {
            if !live.contains(id.as_str()) {
                sight.misses += 1;
                if sight.misses >= MISSES {
                    gone.push((id.clone(), sight.registered));
                }
            }
        }
        for (id, registered) in gone {
            if registered {
                self.kubernetes.delete(&format!("/api/v1/nodes/{id}"))?;
                eprintln!("node-agent: {id} is gone, and so is its Node");
            }
            self.seen.remove(&id);
        }
        Ok(())
    }
}

fn instance(item: roxmltree::Node<'_, '_>) -> Instance {
    let child = |name: &str| item.children().find(|one| one.tag_name().name() == name);
    let tags = child("tagSet").into_iter().flat_map(|set| set.children().filter(roxmltree::Node::is_element));
    Instance {
        id: text(item, "instanceId"),
        machine_type: text(item, "instanceType"),
        zone: child("placement").map(|placement| text(placement, "availabilityZone")).unwrap_or_default(),
        address: text(item, "privateIpAddress"),
        spot: text(item, "instanceLifecycle") == "spot",
        tags: tags.map(|tag| (text(tag, "key"), text(tag, "value"))).collect(),
    }
}

/// The parts of nodeupconfig.yaml that show in the cluster.
#[derive(Deserialize)]
struct NodeupConfig {
    #[serde(rename = "KubeletConfig", default)]
    kubelet: Kubelet,
    /// None where kube-proxy is switched off.
    #[serde(rename = "KubeProxy")]
    kube_proxy: Option<KubeProxy>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
