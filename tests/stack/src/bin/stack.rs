//! `stack`: starts, stops and shows the local stack; `cargo xtask stack` runs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use outrigger_stack::{
    Cache, Identity, Launch, Options, Part, Runner, Stack, State, Tools, all_functions, built,
};
use serde_json::json;

/// The local stack: a real control plane, stand-ins for AWS, and the functions.
#[derive(Parser)]
#[command(name = "stack")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start it; it stays up until `down`.
    Up {
        /// Where it writes.
        #[arg(long, default_value = ".stack")]
        dir: PathBuf,
        /// How long provision watches in one invocation; 0 is a single pass.
        #[arg(long, default_value_t = 55, value_name = "SECONDS")]
        poll_window: u32,
        /// Start the servers and the node agent only.
        #[arg(long)]
        without_functions: bool,
    },
    /// Stop it.
    Down {
        /// Where it writes.
        #[arg(long, default_value = ".stack")]
        dir: PathBuf,
    },
    /// Show its parts.
    Status {
        /// Where it writes.
        #[arg(long, default_value = ".stack")]
        dir: PathBuf,
        /// How to print.
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Install every program that the stack and the build need, and print where they lie.
    Tools {
        /// How to print.
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn main() -> ExitCode {
    // The error's own words are for people; a backtrace of this program would help nobody.
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Up { dir, poll_window, without_functions } => up(&dir, poll_window, without_functions),
        Command::Down { dir } => down(&dir),
        Command::Status { dir, output } => status(&dir, output),
        Command::Tools { output } => tools(output),
    }
}

fn up(directory: &Path, poll_window: u32, without_functions: bool) -> Result<()> {
    let functions = if without_functions { Vec::new() } else { all_functions() };
    let with_functions = !functions.is_empty();
    let options = Options {
        directory: Some(directory.to_owned()),
        functions,
        runner: Runner::CargoLambda,
        parameters: [("PollWindowSeconds".to_owned(), poll_window.to_string())].into(),
        detached: true,
        ..Options::default()
    };
    let mut state = Stack::start(options)?.detach()?;
    let companions = start_companions(&mut state, with_functions);
    state.save(&Cache::open()?)?;
    if let Err(error) = companions {
        state.end(&Cache::open()?)?;
        return Err(error);
    }
    show(&state);
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nkubectl: export KUBECONFIG={}", state.endpoints.admin_kubeconfig.display())?;
    writeln!(out, "AWS:     export AWS_ENDPOINT_URL={} AWS_REGION=us-east-1", state.endpoints.aws)?;
    writeln!(out, "ledger:  export AWS_ENDPOINT_URL_DYNAMODB={}", state.endpoints.dynamodb)?;
    writeln!(out, "stop it: cargo xtask stack down")?;
    Ok(())
}

/// The node agent, and the ticker where there are functions to wake; their programs lie beside this
/// one.
fn start_companions(state: &mut State, with_functions: bool) -> Result<()> {
    let names: &[&str] = if with_functions { &["node-agent", "ticker"] } else { &["node-agent"] };
    for name in names {
        let launch = Launch::new(name, built(name)?, &state.directory, false);
        let process = launch.with(["--dir".into(), state.directory.clone().into_os_string()]).start()?;
        let log = process.log.clone();
        let process: Identity = process.release();
        state.parts.push(Part { name: (*name).to_owned(), process, port: None, health: None, log });
    }
    Ok(())
}

fn down(directory: &Path) -> Result<()> {
    let Some(state) = State::load(directory)? else {
        eprintln!("no stack is up in {}", directory.display());
        return Ok(());
    };
    state.end(&Cache::open()?)?;
    eprintln!("stopped {} processes; logs stay in {}/logs", state.parts.len(), state.directory.display());
    Ok(())
}

fn status(directory: &Path, output: Output) -> Result<()> {
    let Some(state) = State::load(directory)? else {
        bail!("no stack is up in {}; `cargo xtask stack up` starts one", directory.display());
    };
    if output == Output::Text {
        show(&state);
        return Ok(());
    }
    let status = json!({"directory": state.directory, "parts": state.status(), "endpoints": state.endpoints});
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&status)?)?;
    Ok(())
}

fn show(state: &State) {
    let mut out = std::io::stdout().lock();
    let line =
        |name: &str, pid: &str, port: &str, health: &str| format!("{name:<24} {pid:>8} {port:>6}  {health}");
    // A reader that hangs up, such as `head`, is no failure of ours.
    let _ = writeln!(out, "{}", line("PART", "PID", "PORT", "HEALTHY"));
    for part in state.status() {
        let port = part.port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        let health = if part.healthy { "yes".to_owned() } else { format!("no, see {}", part.log.display()) };
        let _ = writeln!(out, "{}", line(&part.name, &part.pid.to_string(), &port, &health));
    }
}

fn tools(output: Output) -> Result<()> {
    let cache = Cache::open()?;
    let tools = Tools::ensure(&cache)?;
    let sam = Tools::ensure_sam(&cache)?;
    let mut paths = serde_json::to_value(&tools)?;
    paths["sam"] = json!(sam);
    paths["karpenter"] = json!(Tools::ensure_karpenter(&cache)?);
    let mut out = std::io::stdout().lock();
    if output == Output::Json {
        writeln!(out, "{}", serde_json::to_string_pretty(&paths)?)?;
        return Ok(());
    }
    for (name, path) in paths.as_object().into_iter().flatten().filter(|(_, path)| path.is_string()) {
        writeln!(out, "{name:<12} {}", path.as_str().unwrap_or_default())?;
    }
    Ok(())
}
