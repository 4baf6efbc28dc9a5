//! Function processes: the very binaries that SAM deploys, started by us against a Runtime API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{Identity, Launch, Process};
use crate::runtime_api::RuntimeApi;
use crate::schedule::FUNCTIONS;

/// Numbers the processes, so that the Runtime API tells them apart.
static COUNT: AtomicU64 = AtomicU64::new(1);

/// The binary of a function: what `sam build` made, or what cargo has made since.
pub(crate) fn binary(checkout: &Path, function: &str) -> Result<PathBuf> {
    let declared = FUNCTIONS.iter().find(|one| one.name == function);
    let declared = declared.with_context(|| format!("there is no function named {function}"))?;
    let deployed = checkout.join(".aws-sam/build").join(declared.logical_id).join("bootstrap");
    let plain = built(function)?;
    let made_at = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let newest =
        [&deployed, &plain].into_iter().filter(|path| path.is_file()).max_by_key(|path| made_at(path));
    if let Some(newest) = newest {
        return Ok(newest.clone());
    }
    bail!(
        "the function {function} is not built: neither {} nor {} exists; run `cargo xtask build` first",
        deployed.display(),
        plain.display()
    )
}

/// A program of the workspace: it lies where the running one does, or above it where that is a
/// test.
pub fn built(program: &str) -> Result<PathBuf> {
    let here = std::env::current_exe().context("finding this program")?;
    let folder = here.parent().context("this program lies in no folder")?;
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(folder.join(program))
}

/// Which Runtime API a process talks to.
#[derive(Clone)]
pub(crate) enum Server {
    /// Ours.
    Own(RuntimeApi),
    /// cargo lambda's, on this port.
    CargoLambda(u16),
}

/// One process of a function. Dropping it kills it.
pub struct FunctionProcess {
    function: String,
    launch: Launch,
    server: Server,
    current: Mutex<Option<Running>>,
}

struct Running {
    process: Arc<Process>,
    name: String,
}

impl FunctionProcess {
    /// Starts the binary with exactly this environment, and where its Runtime API is.
    pub(crate) fn start(
        function: &str,
        binary: &Path,
        environment: BTreeMap<String, String>,
        directory: &Path,
        server: Server,
        tied: bool,
    ) -> Result<Self> {
        let mut launch = Launch::new(function, binary, directory, tied);
        launch.environment = environment;
        launch.inherits = false;
        let this = Self { function: function.to_owned(), launch, server, current: Mutex::new(None) };
        this.restart()?;
        Ok(this)
    }

    /// Kills it if it runs and starts a fresh one, cold.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        let name = format!("p{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut launch = self.launch.clone();
        let address = match &self.server {
            Server::Own(api) => api.address(&self.function, &name),
            Server::CargoLambda(port) => format!("http://127.0.0.1:{port}/.rt/{}", self.function),
        };
        launch.environment.insert("AWS_LAMBDA_RUNTIME_API".to_owned(), address);
        let process = Arc::new(launch.start()?);
        if let Server::Own(api) = &self.server {
            watch(&process, api.clone(), name.clone());
        }
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { process, name });
        Ok(())
    }

    /// SIGKILL, as when Lambda takes a sandbox away. What it worked on fails as
    /// [`crate::InvocationResult::Died`] on our own Runtime API; cargo lambda's emulator leaves its
    /// caller waiting.
    pub fn kill(&self) {
        let running = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.process.kill();
            if let Server::Own(api) = &self.server {
                api.forget(&running.name);
            }
        }
    }

    /// Whether it runs now.
    pub fn is_running(&self) -> bool {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().is_some_and(|running| running.process.is_running())
    }

    /// The process, while there is one.
    pub fn identity(&self) -> Option<Identity> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|running| running.process.identity.clone())
    }

    /// Its log file; every process of one function appends to the same.
    pub fn log(&self) -> &Path {
        &self.launch.log
    }

    /// Lets the process run on without us.
    pub(crate) fn release(self) -> Option<Identity> {
        let running = self.current.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Arc::try_unwrap(running.process).ok().map(Process::release)
    }
}

impl Drop for FunctionProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Tells the Runtime API when the process ends by itself, so that its invocation fails at once.
fn watch(process: &Arc<Process>, api: RuntimeApi, name: String) {
    let process = Arc::downgrade(process);
    thread::spawn(move || {
        while process.upgrade().is_some_and(|process| process.is_running()) {
            thread::sleep(Duration::from_millis(50));
        }
        api.forget(&name);
    });
}
