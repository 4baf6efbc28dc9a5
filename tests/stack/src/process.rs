//! Child processes: each in a process group of its own, with one log file, and never outliving
//! whoever owns it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long a process may take to leave after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// How to start a process.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What people call it; also the name of its log file.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Environment on top of ours, or all of it.
    pub environment: BTreeMap<String, String>,
    /// Whether it has our environment too.
    pub inherits: bool,
    /// Where its output goes; appended to.
    pub log: PathBuf,
    /// Whether the kernel kills it when we die. Parts of a stack that stays up without us are not
    /// tied.
    pub tied: bool,
}

impl Launch {
    /// A launch of `program` that logs under `directory`.
    pub fn new(name: &str, program: impl Into<PathBuf>, directory: &Path, tied: bool) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            inherits: true,
            log: directory.join("logs").join(format!("{name}.log")),
            tied,
        }
    }

    /// Appends arguments.
    #[must_use]
    pub fn with<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Starts it.
    pub fn start(&self) -> Result<Process> {
        let attempt = || format!("starting {} ({})", self.name, self.program.display());
        let log = File::options().create(true).append(true).open(&self.log).with_context(attempt)?;
        let mut command = self.command();
        if !self.inherits {
            command.env_clear();
        }
        command.args(&self.arguments).envs(&self.environment).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = spawn(command).with_context(attempt)?;
        let identity = Identity::of(child.id());
        Ok(Process { name: self.name.clone(), identity, log: self.log.clone(), child: Mutex::new(child) })
    }

    /// `setpriv` replaces itself with the program after asking the kernel to kill it with its
    /// parent; where there is no `setpriv`, the process group, `Drop` and the next start's sweep
    /// have to do.
    fn command(&self) -> Command {
        static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
            Command::new("setpriv").arg("--version").output().is_ok_and(|out| out.status.success())
        });
        if !self.tied || !*SETPRIV {
            return Command::new(&self.program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        command
    }
}

/// Spawns from one thread that lives as long as we do: the kernel's parent-death signal is sent
/// when the *thread* that started a child ends, and a test's thread ends long before a stack that
/// several tests share.
fn spawn(command: Command) -> Result<Child> {
    type Job = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: LazyLock<Mutex<Sender<Job>>> = LazyLock::new(|| {
        let (jobs, queue) = channel::<Job>();
        thread::spawn(move || {
            for (mut command, answer) in queue {
                // A caller that no longer listens has no use for the child's handle; nothing to do
                // then.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(jobs)
    });
    let (answer, result) = channel();
    let sent = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    sent.ok().context("the thread that starts processes is gone")?;
    Ok(result.recv().context("the thread that starts processes gave no answer")??)
}

/// A process that we started.
#[derive(Debug)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its number and start time.
    pub identity: Identity,
    /// Its log file.
    pub log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(child.try_wait(), Ok(None))
    }

    /// SIGKILL to it and its children, at once.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // The only error is that it was waited for already.
        let _ = child.wait();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// SIGTERM, and SIGKILL to whatever is left of its group.
    pub fn stop(&self) {
        self.terminate();
        let until = Instant::now() + GRACE;
        while self.is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    /// Waits until `ready` says yes; an error with the end of the log when the process ends first
    /// or time runs out.
    pub fn wait_until(&self, timeout: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let until = Instant::now() + timeout;
        while !ready() {
            if !self.is_running() {
                bail!(
                    "{} ended while starting; its log {} ends:\n{}",
                    self.name,
                    self.log.display(),
                    self.tail()
                );
            }
            if Instant::now() > until {
                let (name, log) = (&self.name, self.log.display());
                bail!(
                    "{name} was not ready after {} s; its log {log} ends:\n{}",
                    timeout.as_secs(),
                    self.tail()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn tail(&self) -> String {
        let text =
            fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        self.identity.signal_group(signal);
    }
}

impl Drop for Process {
    /// Forgotten by mistake or on a failed start: it goes. A part that stays up is kept with
    /// [`Process::release`].
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    /// Lets it run on without us.
    pub fn release(self) -> Identity {
        let identity = self.identity.clone();
        std::mem::forget(self);
        identity
    }
}

/// A process that may be another program's child: its number, and when it started so that a reused
/// number is told apart.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Process number; also the number of its process group.
    pub pid: u32,
    /// The kernel's start time; `None` where there is no /proc.
    pub started: Option<u64>,
}

impl Identity {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Self {
        Self { pid, started: stat(pid).map(|(_, started)| started) }
    }

    /// Whether that very process still runs; one that has ended and waits for its parent does not
    /// count.
    pub fn is_alive(&self) -> bool {
        match (self.started, stat(self.pid)) {
            (Some(noted), Some((state, started))) => noted == started && state != 'Z',
            (Some(_), None) => false,
            (None, _) => self.raw().is_some_and(|pid| nix::sys::signal::kill(pid, None) != Err(Errno::ESRCH)),
        }
    }

    /// Ends its group: SIGTERM, five seconds, SIGKILL. An error when it is there even then.
    pub fn end(&self, name: &str) -> Result<()> {
        for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, GRACE)] {
            if !self.is_alive() {
                return Ok(());
            }
            self.signal_group(signal);
            let until = Instant::now() + patience;
            while self.is_alive() && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
        }
        if self.is_alive() {
            bail!("{name} (pid {}) is still there after SIGKILL", self.pid);
        }
        Ok(())
    }

    /// Signals the group that the process leads; never group 0 or 1, which would be ours or
    /// everybody's.
    fn signal_group(&self, signal: Signal) {
        if let Some(pid) = self.raw() {
            // The group may be gone already, which is what the caller wants.
            let _ = killpg(pid, signal);
        }
    }

    fn raw(&self) -> Option<Pid> {
        i32::try_from(self.pid).ok().filter(|pid| *pid > 1).map(Pid::from_raw)
    }
}

/// State and start time of a process from /proc; the name in parentheses may hold spaces, so fields
/// count from its end.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(19)?.parse().ok()?))
}
