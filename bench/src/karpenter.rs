//! Karpenter's scheduler: the program of `bench/karpenter`, kept running and asked line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use outrigger_policy::Preferences;
use outrigger_stack::{Cache, Tools};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Figures;
use crate::figures::repeat;

/// A running scheduler.
pub struct Karpenter {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// A plan as `outrigger plan -o json` prints it, as far as it is looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignPlan {
    /// New nodes.
    pub nodes: Vec<ForeignNode>,
    /// Nodes that exist, with the pods that they have room for.
    pub existing: Vec<ForeignPlacement>,
    /// Pods without a place, with the reason.
    pub unplaced: Vec<Value>,
}

/// A planned node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignNode {
    /// Its pool.
    pub node_pool: String,
    /// How it is paid for.
    pub capacity_type: outrigger_model::CapacityType,
    /// Its zone, where only one remains.
    pub zone: Option<String>,
    /// What it may be, cheapest first.
    pub instance_types: Vec<String>,
    /// Dollars per hour of its cheapest offering.
    pub price_per_hour: f64,
    /// Its pods, as namespace/name.
    pub pods: Vec<String>,
    /// What it must be like.
    pub requirements: Vec<outrigger_model::RequirementSpec>,
}

/// Pods on a node that exists.
#[derive(Clone, Debug, Deserialize)]
pub struct ForeignPlacement {
    /// The node.
    pub node: String,
    /// Its pods, as namespace/name.
    pub pods: Vec<String>,
}

impl Karpenter {
    /// Builds the program where that has not been done, and says where it lies.
    pub fn install() -> Result<PathBuf> {
        Tools::ensure_karpenter(&Cache::open()?)
    }

    /// Starts the program.
    pub fn start(program: &Path) -> Result<Self> {
        let started =
            Command::new(program).arg("-serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.with_context(|| format!("starting {}", program.display()))?;
        let requests = process.stdin.take();
        let answers = process.stdout.take().context("the program has no output")?;
        Ok(Self { process, requests, answers: BufReader::new(answers) })
    }

    /// Its decision about a file, the fastest of a few; given up when one takes longer than
    /// `limit`.
    pub fn measure(&mut self, snapshot: &Path, catalogue: &Path, limit: Duration) -> Result<Figures> {
        let request =
            json!({"snapshot": snapshot, "catalog": catalogue, "limitSeconds": limit.as_secs_f64()});
        let mut measured: Vec<Figures> = Vec::new();
        repeat(|| {
            measured.push(serde_json::from_value(self.ask(&request)?)?);
            Ok(())
        })?;
        // Later runs of one process hold more than a decision needs.
        let peak_memory_bytes = measured.first().map_or(0, |first| first.peak_memory_bytes);
        let fastest = measured.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok(Figures { peak_memory_bytes, ..fastest.context("no decision was made")? })
    }

    /// Its plan for a List, with soft rules respected or not.
    pub fn plan(
        &mut self,
        list: &Value,
        catalogue: &Path,
        preferences: Preferences,
    ) -> Result<(Figures, ForeignPlan)> {
        let ignore = preferences == Preferences::Ignore;
        let request =
            json!({"snapshot": list, "catalog": catalogue, "plan": true, "ignorePreferences": ignore});
        let answer = self.ask(&request)?;
        let plan = ForeignPlan::deserialize(&answer["plan"]).context("reading Karpenter's plan")?;
        Ok((serde_json::from_value(answer)?, plan))
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        let requests = self.requests.as_mut().context("the program takes no more requests")?;
        writeln!(requests, "{request}").context("Karpenter's scheduler has ended")?;
        requests.flush()?;
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "Karpenter's scheduler ended without an answer");
        let answer: Value =
            serde_json::from_str(&line).context("reading an answer of Karpenter's scheduler")?;
        if let Some(error) = answer["error"].as_str() {
            bail!("Karpenter's scheduler: {error}");
        }
        Ok(answer)
    }
}

impl Drop for Karpenter {
    /// It ends when its input does; a decision under way is not waited for.
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
