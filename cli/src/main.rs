//! The `outrigger` command. This file only wires: arguments in, exit code out.

#[cfg(feature = "cluster")]
mod adopt;
mod args;
mod classes;
#[cfg(feature = "cluster")]
mod cluster;
mod consolidate;
mod crds;
#[cfg(feature = "cluster")]
mod doctor;
mod error;
mod explain;
mod import;
mod input;
#[cfg(feature = "cluster")]
mod ledger;
mod live;
mod output;
#[cfg(feature = "cluster")]
mod pause;
mod plan;
mod policy;
mod setup;
mod simulate;
mod snapshot_file;
#[cfg(feature = "cluster")]
mod token;
#[cfg(feature = "cluster")]
mod uninstall;
mod unreadable;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Command::Simulate(command) => simulate::run(&command, args.output),
        Command::Plan(command) => plan::run(&command, args.output),
        Command::Consolidate(command) => consolidate::run(&command, args.output),
        Command::Explain(command) => explain::run(&command, args.output),
        Command::Import(command) => import::run(&command, args.output),
        Command::Crds(command) => crds::run(&command, args.output),
        Command::Policy(command) => policy::run(&command, args.output),
        Command::Setup(command) => setup::run(&command, args.output),
        #[cfg(feature = "cluster")]
        Command::Adopt(command) => adopt::run(&command, args.output),
        #[cfg(feature = "cluster")]
        Command::Doctor(command) => doctor::run(&command, args.output),
        #[cfg(feature = "cluster")]
        Command::Uninstall(command) => uninstall::run(&command, args.output),
        #[cfg(feature = "cluster")]
        Command::Pause(command) => pause::pause(&command, args.output),
        #[cfg(feature = "cluster")]
        Command::Resume(command) => pause::resume(&command, args.output),
        #[cfg(feature = "cluster")]
        Command::Token(command) => token::run(&command, args.output),
    };
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            error.print();
            ExitCode::from(2)
        }
    }
}
