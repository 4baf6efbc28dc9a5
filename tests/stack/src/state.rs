//! What is written down about a running stack (`stack.json`), so that another process can look at
//! it and stop it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::http::Http;
use crate::process::Identity;

/// A running stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Directory of everything it writes.
    pub directory: PathBuf,
    /// The process that it must not outlive; `None` when it stays up until `down`.
    pub owner: Option<Identity>,
    /// Its parts, in the order of their start.
    pub parts: Vec<Part>,
    /// Where things are reached.
    pub endpoints: Endpoints,
    /// The checkout that it was started from.
    pub checkout: PathBuf,
    /// The parameters that template.yaml is deployed with, beside those that only the stack knows.
    pub parameters: BTreeMap<String, String>,
}

/// One process of a stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its process.
    pub process: Identity,
    /// The port it listens on, if any.
    pub port: Option<u16>,
    /// An address that answers below 500 when it is well; without one, running is well.
    pub health: Option<String>,
    /// Its log file.
    pub log: PathBuf,
}

/// Where the parts of a stack are reached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Endpoints {
    /// The API server.
    pub kubernetes: String,
    /// moto.
    pub aws: String,
    /// `DynamoDB` Local.
    pub dynamodb: String,
    /// The front door before both, which the functions call.
    pub door: String,
    /// cargo lambda's emulator: its Invoke API.
    pub emulator: String,
    /// Kubeconfig of an administrator.
    pub admin_kubeconfig: PathBuf,
}

/// How a part does.
#[derive(Clone, Debug, Serialize)]
pub struct PartStatus {
    /// Its name.
    pub name: String,
    /// Its process number.
    pub pid: u32,
    /// Its port.
    pub port: Option<u16>,
    /// Whether it runs and answers.
    pub healthy: bool,
    /// Its log file.
    pub log: PathBuf,
}

impl State {
    /// Where a stack in `directory` keeps its state.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join("stack.json")
    }

    /// Reads the state of the stack in `directory`; `None` when there is none.
    pub fn load(directory: &Path) -> Result<Option<Self>> {
        let path = Self::path(directory);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let state = serde_json::from_str(&text);
        state.map(Some).with_context(|| format!("{} is no state of a stack", path.display()))
    }

    /// Writes it down in its directory and in the cache's list of running stacks.
    pub fn save(&self, cache: &Cache) -> Result<()> {
        let path = Self::path(&self.directory);
        // Renamed into place, so that a reader never sees half of it.
        let draft = path.with_extension("json.new");
        fs::write(&draft, serde_json::to_string_pretty(self)?)
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("writing {}", path.display()))?;
        let entry = self.entry(cache);
        fs::create_dir_all(running(cache))?;
        fs::write(&entry, self.directory.to_string_lossy().as_bytes())
            .with_context(|| format!("writing {}", entry.display()))
    }

    /// Ends every process, last started first, and forgets the stack.
    pub fn end(&self, cache: &Cache) -> Result<()> {
        let mut failed = None;
        for part in self.parts.iter().rev() {
            if let Err(error) = part.process.end(&part.name) {
                failed.get_or_insert(error);
            }
        }
        self.forget(cache);
        failed.map_or(Ok(()), Err)
    }

    /// Takes it off the list of running stacks.
    pub fn forget(&self, cache: &Cache) {
        // Either may be gone already: a test's directory is removed as a whole.
        let _ = fs::remove_file(Self::path(&self.directory));
        let _ = fs::remove_file(self.entry(cache));
    }

    /// How each part does.
    pub fn status(&self) -> Vec<PartStatus> {
        let ca = fs::read_to_string(self.directory.join("pki/ca.crt")).unwrap_or_default();
        let tls = Http::trusting(&ca, Duration::from_secs(3)).ok();
        let plain = Http::plain(Duration::from_secs(3));
        let answers = |url: &String| {
            let http = if url.starts_with("https") { tls.as_ref() } else { Some(&plain) };
            http.is_some_and(|http| http.send("GET", url, &[], None).is_ok_and(|answer| answer.status < 500))
        };
        let one = |part: &Part| PartStatus {
            name: part.name.clone(),
            pid: part.process.pid,
            port: part.port,
            healthy: part.process.is_alive() && part.health.as_ref().is_none_or(answers),
            log: part.log.clone(),
        };
        self.parts.iter().map(one).collect()
    }

    fn entry(&self, cache: &Cache) -> PathBuf {
        let name = self.directory.to_string_lossy().replace(['/', '\\', ':'], "_");
        running(cache).join(name.trim_matches('_'))
    }
}

/// Ends the stacks whose owner is dead; a test that was killed leaves one where the kernel did not
/// clear it away.
pub(crate) fn reap_stale(cache: &Cache) -> Result<()> {
    let Ok(entries) = fs::read_dir(running(cache)) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?.path();
        let directory = PathBuf::from(fs::read_to_string(&entry).unwrap_or_default());
        match State::load(&directory) {
            Ok(Some(state)) => {
                if state.owner.as_ref().is_some_and(|owner| !owner.is_alive()) {
                    eprintln!("stack: ending the stack that a dead process left in {}", directory.display());
                    state.end(cache)?;
                    // Only a test's own temporary directory: an owner is written down for no other.
                    let _ = fs::remove_dir_all(&directory);
                }
            }
            // Its directory is gone, so nothing can be known about it.
            _ => drop(fs::remove_file(&entry)),
        }
    }
    Ok(())
}

fn running(cache: &Cache) -> PathBuf {
    cache.root().join("running")
}
