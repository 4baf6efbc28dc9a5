//! The `outrigger` command. This file only wires: arguments in, exit code out.

#[cfg(feature = "aws")]
mod adopt;
mod args;
mod claims;
mod classes;
mod cluster;
mod consolidate;
mod crds;
#[cfg(feature = "aws")]
mod doctor;
mod error;
mod explain;
mod files;
mod import;
mod input;
#[cfg(feature = "aws")]
mod ledger;
mod live;
mod manual;
mod output;
#[cfg(feature = "aws")]
mod pause;
mod plan;
mod policy;
#[cfg(test)]
mod reference;
mod remarks;
mod setup;
mod simulate;
mod snapshot;
mod snapshot_file;
#[cfg(feature = "aws")]
mod token;
mod top;
mod uninstall;
mod what_if;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
#[cfg(not(feature = "aws"))]
use error::CliError;

fn main() -> ExitCode {
    let args = Args::parse();
    output::set_width(args.output);
    let done = match args.command {
        Command::Simulate(command) => simulate::run(&command, args.output),
        Command::Plan(command) => plan::run(&command, args.output),
        Command::Consolidate(command) => consolidate::run(&command, args.output),
        Command::WhatIf(command) => what_if::run(&command, args.output),
        Command::Top(command) => top::run(&command, args.output),
        Command::Claims(command) => claims::run(&command, args.output),
        Command::Snapshot(command) => snapshot::run(&command, args.output),
        Command::Explain(command) => explain::run(&command, args.output),
        Command::Import(command) => import::run(&command, args.output),
        Command::Crds(command) => crds::run(&command, args.output),
        Command::Completions(command) => Ok(manual::completions(&command)),
        Command::Man => manual::page(),
        Command::Policy(command) => policy::run(&command, args.output),
        Command::Setup(command) => setup::run(&command, args.output),
        #[cfg(feature = "aws")]
        Command::Adopt(command) => adopt::run(&command, args.output),
        #[cfg(feature = "aws")]
        Command::Doctor(command) => doctor::run(&command, args.output),
        Command::Uninstall(command) => uninstall::run(&command, args.output),
        #[cfg(feature = "aws")]
        Command::Pause(command) => pause::pause(&command, args.output),
        #[cfg(feature = "aws")]
        Command::Resume(command) => pause::resume(&command, args.output),
        #[cfg(feature = "aws")]
        Command::Token(command) => token::run(&command, args.output),
        #[cfg(not(feature = "aws"))]
        Command::Adopt(_)
        | Command::Doctor(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Token(_) => Err(CliError::WithoutAws),
    };
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(2)
        }
    }
}
