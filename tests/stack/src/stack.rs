//! A whole stack: started in order, stopped when dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::aws::Aws;
use crate::cache::Cache;
use crate::control_plane::{self, ControlPlane};
use crate::door::{Door, TOKEN_REVIEWS};
use crate::functions::{FunctionProcess, Server, binary, built};
use crate::kops::Site;
use crate::kubernetes::Kubernetes;
use crate::made::Made;
use crate::node_agent::{NodeAgent, NodeAgentSettings};
use crate::options::{Options, Runner, deployed, environments, prepare_directory};
use crate::process::{Identity, Launch, Process};
use crate::runtime_api::{InvocationResult, RuntimeApi};
use crate::schedule::FUNCTIONS;
use crate::state::{Endpoints, Part, State, reap_stale};
use crate::template::Template;
use crate::ticker::{Rates, Ticker};
use crate::tools::Tools;
use crate::{ports, seed, stand_ins};

/// A running stack. Dropping it ends every process, whether the test passed or panicked.
pub struct Stack {
    // Fields drop in this order: functions first, then servers, then the directory.
    functions: BTreeMap<String, FunctionProcess>,
    /// In this process, where the stack does not outlive it.
    door: Option<Door>,
    processes: Vec<Process>,
    /// What the account holds.
    site: Option<Site>,
    environments: BTreeMap<String, BTreeMap<String, String>>,
    state: State,
    kubernetes: Kubernetes,
    runtime: RuntimeApi,
    emulator_port: u16,
    options: Options,
    tools: Tools,
    cache: Cache,
    _temporary: Option<TempDir>,
}

impl Stack {
    /// Installs what is missing, starts everything and waits until it answers. Whatever had started
    /// when something fails is ended again.
    pub fn start(options: Options) -> Result<Self> {
        let cache = Cache::open()?;
        reap_stale(&cache)?;
        let tools = Tools::ensure(&cache)?;
        let binaries =
            options.functions.iter().map(|name| Ok((name.clone(), binary(&options.checkout, name)?)));
        let binaries = binaries.collect::<Result<Vec<_>>>()?;
        let (directory, temporary) = prepare_directory(&options)?;
        let began = Instant::now();
        let mut stack = Self::start_servers(options, cache, &tools, &directory, temporary)?;
        stack.seed()?;
        for (name, path) in binaries {
            stack.start_standing(&name, &path)?;
        }
        stack.state.save(&stack.cache)?;
        let (seconds, directory) = (began.elapsed().as_secs_f32(), stack.state.directory.display());
        eprintln!("stack: up after {seconds:.1} s in {directory}");
        Ok(stack)
    }

    fn start_servers(
        options: Options,
        cache: Cache,
        tools: &Tools,
        directory: &Path,
        temporary: Option<TempDir>,
    ) -> Result<Self> {
        let ports = Ports::pick()?;
        let tied = !options.detached;
        let plane = ControlPlane::prepare(directory, ports.api, tied)?;
        let endpoints = ports.endpoints(&plane);
        let plane = plane.with_functions(&format!("{}{TOKEN_REVIEWS}", endpoints.door))?;
        let owner = tied.then(|| Identity::of(std::process::id()));
        let (directory, checkout) = (directory.to_owned(), options.checkout.clone());
        let parameters = options.parameters.clone();
        let state = State { directory, owner, parts: Vec::new(), endpoints, checkout, parameters };
        let deployed = deployed(&state)?;
        let mut stack = Self {
            functions: BTreeMap::new(),
            door: None,
            processes: Vec::new(),
            site: None,
            environments: environments(&state, &deployed)?,
            state,
            kubernetes: plane.admin.clone(),
            runtime: RuntimeApi::start(deployed.timeouts()?)?,
            emulator_port: ports.emulator,
            options,
            tools: tools.clone(),
            cache,
            _temporary: temporary,
        };
        stack.launch(&plane, &ports, tools)?;
        Ok(stack)
    }

    /// What takes long to come up starts first; the waits follow.
    fn launch(&mut self, plane: &ControlPlane, ports: &Ports, tools: &Tools) -> Result<()> {
        let (directory, tied) = (self.state.directory.clone(), !self.options.detached);
        self.add(plane.etcd(tools, ports.etcd, ports.peer)?, Some(ports.etcd), Some("/health"))?;
        self.add(plane.api_server(tools, ports.etcd)?, Some(ports.api), Some("/livez"))?;
        let dynamodb = stand_ins::dynamodb(tools, &directory, ports.dynamodb, tied)?;
        self.add(dynamodb, Some(ports.dynamodb), Some("/"))?;
        let moto = stand_ins::moto(tools, &directory, ports.moto, tied)?;
        self.add(moto, Some(ports.moto), Some("/moto-api/"))?;
        self.add(stand_ins::emulator(tools, &directory, ports.emulator, tied)?, Some(ports.emulator), None)?;
        self.open_door(ports.door, tools)?;
        plane.wait(self.process("kube-apiserver")?)?;
        self.add(plane.scheduler(tools)?, None, None)?;
        self.add(plane.controller_manager(tools)?, None, None)?;
        self.add(plane.kwok(tools, ports.kwok)?, Some(ports.kwok), Some("/healthz"))?;
        let rest = [
            ("dynamodb", ports.dynamodb),
            ("moto", ports.moto),
            ("emulator", ports.emulator),
            ("kwok", ports.kwok),
        ];
        for (name, port) in rest {
            self.process(name)?.wait_until(Duration::from_mins(1), || stand_ins::listens(port))?;
        }
        Ok(())
    }

    /// The front door stands in this process, or in one of its own where it is to stay.
    fn open_door(&mut self, port: u16, tools: &Tools) -> Result<()> {
        if self.options.detached {
            let launch = Launch::new("door", built("door")?, &self.state.directory, false);
            let door =
                launch.with(["--dir".into(), self.state.directory.clone().into_os_string()]).start()?;
            self.add(door, Some(port), None)?;
            return self.process("door")?.wait_until(Duration::from_mins(1), || stand_ins::listens(port));
        }
        self.door = Some(Door::in_front_of(&self.state, tools)?);
        Ok(())
    }

    fn seed(&mut self) -> Result<()> {
        self.site = Some(seed::aws(&self.aws(), self.options.proxy)?);
        seed::ledger(&self.dynamodb(), seed::TABLE)?;
        seed::manifests(&self.kubernetes, &self.options.checkout.join("infra/kubernetes"))
    }

    fn start_standing(&mut self, name: &str, path: &Path) -> Result<()> {
        let server = match self.options.runner {
            Runner::Own => Server::Own(self.runtime.clone()),
            Runner::CargoLambda => Server::CargoLambda(self.emulator_port),
        };
        let environment = self.function_environment(name, &[]);
        let tied = !self.options.detached;
        let process = FunctionProcess::start(name, path, environment, &self.state.directory, server, tied)?;
        if let Some(identity) = process.identity() {
            self.note(name, identity, process.log().to_owned(), None, None)?;
        }
        self.functions.insert(name.to_owned(), process);
        Ok(())
    }

    /// Starts one more process of a function on our own Runtime API; `environment` stands over what
    /// every function gets.
    pub fn start_function(&self, name: &str, environment: &[(&str, &str)]) -> Result<FunctionProcess> {
        self.start_binary(name, &binary(&self.options.checkout, name)?, environment)
    }

    /// The same with a binary of the caller's.
    pub fn start_binary(
        &self,
        name: &str,
        path: &Path,
        environment: &[(&str, &str)],
    ) -> Result<FunctionProcess> {
        let environment = self.function_environment(name, environment);
        let server = Server::Own(self.runtime.clone());
        FunctionProcess::start(name, path, environment, &self.state.directory, server, !self.options.detached)
    }

    /// A function that started with the stack.
    pub fn function(&self, name: &str) -> Result<&FunctionProcess> {
        self.functions.get(name).with_context(|| format!("the function {name} did not start with the stack"))
    }

    /// Invokes a function on our own Runtime API and waits for how it ends.
    pub fn invoke(&self, function: &str, event: &Value) -> InvocationResult {
        self.runtime.invoke(function, &event.to_string())
    }

    /// Our own Runtime API.
    pub fn runtime(&self) -> &RuntimeApi {
        &self.runtime
    }

    /// The API server, as an administrator.
    pub fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// moto.
    pub fn aws(&self) -> Aws {
        Aws::new(&self.state.endpoints.aws)
    }

    /// `DynamoDB` Local.
    pub fn dynamodb(&self) -> Aws {
        Aws::new(&self.state.endpoints.dynamodb)
    }

    /// What is written down about it: parts, ports, endpoints, environment.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Everything it writes lies here; the logs under `logs/`.
    pub fn directory(&self) -> &Path {
        &self.state.directory
    }

    pub(crate) fn site(&self) -> Option<&Site> {
        self.site.as_ref()
    }

    /// Lets functions run as `CloudFormation` has deployed them from now on: with the environment
    /// that they have there, under their roles, and with a table in `DynamoDB` Local. Their API
    /// server is this stack's, wherever its name leads.
    pub fn run_as_deployed(&mut self, made: &Made, parameters: &BTreeMap<String, String>) -> Result<()> {
        let template = Template::of_checkout(&self.options.checkout)?;
        let deployed = template.deploy(parameters, made.resources())?;
        seed::ledger(&self.dynamodb(), made.name("Table")?)?;
        self.environments = environments(&self.state, &deployed)?;
        for function in &FUNCTIONS {
            let environment = self.environments.entry(function.name.to_owned()).or_default();
            let there = made.functions.get(function.logical_id);
            environment.extend(there.context("a function is not deployed")?.environment.clone());
            let server = ("OUTRIGGER_API_SERVER".to_owned(), self.state.endpoints.kubernetes.clone());
            environment.extend([server]);
        }
        self.door.as_ref().context("the front door stands elsewhere")?.enforce(&deployed)
    }

    /// Where the programs lie, such as moto's Python with boto3.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The actions of AWS that a function's role allows.
    pub fn actions(&self, function: &str) -> BTreeSet<String> {
        self.door.as_ref().map(|door| door.actions(function)).unwrap_or_default()
    }

    /// Takes an action of AWS from a function's role, and gives back what was taken before.
    pub fn take_action(&self, taken: Option<(&str, &str)>) {
        if let Some(door) = &self.door {
            door.take(taken);
        }
    }

    /// What was refused so far: by the front door and, for want of a right, by the API server.
    pub fn refusals(&self) -> Vec<String> {
        let of_aws = self.door.as_ref().map(Door::refusals).unwrap_or_default();
        of_aws.into_iter().chain(control_plane::refusals(&self.state.directory)).collect()
    }

    /// The environment of a function's process, with `over` on top.
    pub fn function_environment(&self, name: &str, over: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut environment = self.environments.get(name).cloned().unwrap_or_default();
        environment.extend(over.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        environment
    }

    /// Starts the node agent in this process.
    pub fn node_agent(&self, settings: NodeAgentSettings) -> NodeAgent {
        NodeAgent::spawn(self.aws(), self.aws(), self.kubernetes.clone(), settings)
    }

    /// Starts the ticker in this process, against the Runtime API that the standing functions use.
    pub fn ticker(&self, rates: Rates) -> Ticker {
        let url = match self.options.runner {
            Runner::Own => self.runtime.url(),
            Runner::CargoLambda => self.state.endpoints.emulator.clone(),
        };
        Ticker::spawn(&url, &self.aws(), rates)
    }

    /// Kills one server, for tests of what happens without it.
    pub fn kill_part(&self, name: &str) -> Result<()> {
        self.process(name)?.kill();
        Ok(())
    }

    /// Lets a detached stack run on without us. On our own Runtime API nothing would answer the
    /// functions any more.
    pub fn detach(mut self) -> Result<State> {
        if !self.options.detached {
            bail!("only a stack that was started with `detached` can run on by itself");
        }
        for (_, function) in std::mem::take(&mut self.functions) {
            function.release();
        }
        for process in std::mem::take(&mut self.processes) {
            process.release();
        }
        let state = self.state.clone();
        // Drop would end what was just let go; the state file must stay, too.
        self.state.parts.clear();
        Ok(state)
    }

    fn process(&self, name: &str) -> Result<&Process> {
        let process = self.processes.iter().find(|process| process.name == name);
        process.with_context(|| format!("the stack has no part named {name}"))
    }

    fn add(&mut self, process: Process, port: Option<u16>, health: Option<&str>) -> Result<()> {
        let scheme = if process.name == "kube-apiserver" { "https" } else { "http" };
        let health = port.zip(health).map(|(port, path)| format!("{scheme}://127.0.0.1:{port}{path}"));
        let (name, identity, log) = (process.name.clone(), process.identity.clone(), process.log.clone());
        self.processes.push(process);
        self.note(&name, identity, log, port, health)
    }

    /// Written down at once: whoever is killed in the middle of a start leaves a list of what to
    /// end.
    fn note(
        &mut self,
        name: &str,
        process: Identity,
        log: PathBuf,
        port: Option<u16>,
        health: Option<String>,
    ) -> Result<()> {
        self.state.parts.push(Part { name: name.to_owned(), process, port, health, log });
        self.state.save(&self.cache)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.state.parts.is_empty() {
            return;
        }
        self.functions.clear();
        for process in self.processes.iter().rev() {
            process.terminate();
        }
        // etcd and the API server would wait for open connections; there is nothing here that they
        // could lose.
        for process in self.processes.iter().rev() {
            process.kill();
        }
        self.state.forget(&self.cache);
    }
}

/// The ports of one stack.
struct Ports {
    etcd: u16,
    peer: u16,
    api: u16,
    kwok: u16,
    dynamodb: u16,
    moto: u16,
    door: u16,
    emulator: u16,
}

impl Ports {
    fn pick() -> Result<Self> {
        let [etcd, peer, api, kwok, dynamodb, moto, door, emulator] = ports::free()?;
        Ok(Self { etcd, peer, api, kwok, dynamodb, moto, door, emulator })
    }

    fn endpoints(&self, plane: &ControlPlane) -> Endpoints {
        let local = |port: u16| format!("http://127.0.0.1:{port}");
        Endpoints {
            kubernetes: format!("https://127.0.0.1:{}", self.api),
            aws: local(self.moto),
            dynamodb: local(self.dynamodb),
            door: local(self.door),
            emulator: local(self.emulator),
            admin_kubeconfig: plane.admin_kubeconfig.clone(),
        }
    }
}
