//! `cargo xtask`: the project's chores, each one command.

mod build;
mod check;
mod command;
mod crds;
mod dependencies;
mod package;
mod prose;
mod sources;
mod stack;
mod steps;
mod target;
mod template;
mod tests;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Checks, builds, tests, and the local stack.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything in order: tools, checks, build, tests; or one step of that, with a filter for its
    /// tests: `test system crashes`.
    Test {
        /// The step's name, as the table at the end of a run shows it.
        step: Option<String>,
        /// What its test program takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, requires = "step")]
        arguments: Vec<String>,
    },
    /// What is drawn at random, in its full size: worlds, clusters, plans. Half an hour on two
    /// cores.
    Soak,
    /// Format, lints, forbidden dependencies, and the rules for sources.
    Check,
    /// Build the functions with `sam build`, and the command `outrigger`.
    Build,
    /// Make a release that deploys without Rust, in the folder dist: packages, template, the
    /// cluster's side, a list of what is in it, checksums.
    Package {
        /// The processors that its functions run on
        #[arg(long = "architecture", value_enum, default_values = ["x86_64", "arm64"])]
        architectures: Vec<template::Architecture>,
    },
    /// Check template.yaml with SAM and cfn-lint.
    Validate,
    /// Compare infra/kubernetes/crds with what the command prints, or write it.
    Crds {
        /// Write instead of comparing.
        #[arg(long)]
        write: bool,
    },
    /// Install every program that the stack and the build need.
    Tools,
    /// Measure: `planner` beside Karpenter's scheduler; `start`, `latency`, `memory` on the local
    /// stack, which need `build` first; all without a word. See `cargo xtask bench --help`.
    #[command(disable_help_flag = true)]
    Bench {
        /// What the bench's own command takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Virtual weeks of a cluster beside what they cost at least: `play` plays them, `frontier`
    /// makes a table and a picture of many. See `cargo xtask week --help`.
    #[command(disable_help_flag = true)]
    Week {
        /// What the player's own command takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Play simulated worlds from seeds, as many as asked for: `--seeds 100000`, one with its
    /// story: `--from 17`. See `cargo xtask simulate --help`.
    #[command(disable_help_flag = true)]
    Simulate {
        /// What the player's own command takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Take each guard of the functions away, and play simulated worlds until one of them notices:
    /// the table of tests/ABSENCES.md. See `cargo xtask absences --help`.
    #[command(disable_help_flag = true)]
    Absences {
        /// What the player's own command takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The local stack: `up`, `down`, `status`; see `cargo xtask stack --help`.
    #[command(disable_help_flag = true)]
    Stack {
        /// What the stack's own command takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    // The error's own words are for people; a backtrace of this program would help nobody.
    match run(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let _ours = target::take()?;
    match chore {
        Chore::Test { step: Some(step), arguments } => steps::one(&step, &arguments),
        Chore::Test { step: None, .. } => steps::run(&steps::whole(), &[]),
        Chore::Soak => steps::soak(),
        Chore::Check => steps::run(&steps::CHECK.iter().collect::<Vec<_>>(), &[]),
        Chore::Build => build::programs(),
        Chore::Package { architectures } => package::run(&architectures),
        Chore::Validate => template::validate(),
        Chore::Crds { write } => crds::run(write),
        Chore::Tools => stack::tools(),
        Chore::Bench { arguments } => build::bench(&arguments),
        Chore::Week { arguments } => build::week(&arguments),
        Chore::Simulate { arguments } => build::simulate(&arguments),
        Chore::Absences { arguments } => build::absences(&arguments),
        Chore::Stack { arguments } => stack::run(&arguments),
    }
}
