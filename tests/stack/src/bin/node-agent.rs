//! `node-agent`: registers the Nodes of a running stack's instances, until it is ended.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use outrigger_stack::{Aws, Kubernetes, NodeAgent, NodeAgentSettings, State};

/// Plays nodeup for the stack in a directory.
#[derive(Parser)]
struct Arguments {
    /// Directory of the stack.
    #[arg(long, default_value = ".stack")]
    dir: PathBuf,
    /// Seconds from an instance's first sight until its Node registers.
    #[arg(long, default_value_t = 5)]
    boot: u64,
    /// Up to this many seconds more, by a hash of the instance's id.
    #[arg(long, default_value_t = 1)]
    jitter: u64,
    /// Another EC2 than the stack's moto.
    #[arg(long, value_name = "URL")]
    ec2: Option<String>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let state = State::load(&arguments.dir)?;
    let state = state.with_context(|| format!("no stack is up in {}", arguments.dir.display()))?;
    let kubernetes = Kubernetes::from_kubeconfig(&state.endpoints.admin_kubeconfig)?;
    let settings = NodeAgentSettings {
        boot: Duration::from_secs(arguments.boot),
        jitter: Duration::from_secs(arguments.jitter),
        ..NodeAgentSettings::default()
    };
    let ec2 = Aws::new(arguments.ec2.as_deref().unwrap_or(&state.endpoints.aws));
    NodeAgent::spawn(ec2, Aws::new(&state.endpoints.aws), kubernetes, settings).join();
    Ok(())
}
