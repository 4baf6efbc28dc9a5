//! `operators`: each operator and each tuned number of the optimiser is taken out of its sources in
//! turn, and the same decisions are made without it. What nobody misses has no reason to be there.

mod measured;
mod report;
mod scenes;
mod workspace;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use outrigger_bench::Mutation;

use measured::{Effect, Figures};
use scenes::Scene;
use workspace::Workspace;

/// What `operators` takes.
#[derive(Args)]
pub(crate) struct OperatorsOptions {
    /// Only the mutations of these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Show the mutations and end
    #[arg(long)]
    list: bool,
    /// How often each decision is made in each build; the fastest counts
    #[arg(long, default_value_t = 1)]
    passes: usize,
    /// What is printed
    #[arg(short, long, default_value = "text")]
    output: Output,
    /// Write the rows into bench/OPERATORS.md, too, each as soon as it is measured
    #[arg(long)]
    write: bool,
    /// Where the changed sources are built; what is there already is used again
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Measures each mutation and prints a row for it.
pub(crate) fn run(options: &OperatorsOptions) -> Result<()> {
    let mutations = Mutation::listed()?;
    let wanted = wanted(&mutations, &options.only)?;
    if options.list {
        for (_, mutation) in wanted {
            anstream::println!("{}: {}", mutation.name, mutation.missing);
        }
        return Ok(());
    }
    let workspace = Workspace::new(options.scratch.as_deref(), &mutations)?;
    anstream::eprintln!("building in {} ...", workspace.folder().display());
    let program = workspace.build()?;
    let scenes = scenes::all(workspace.folder())?;
    if options.output == Output::Text {
        report::print_head();
    }
    let decide = |scene: &Scene, missing: Option<usize>| -> Result<Figures> {
        let mut figures = scene.decide(&program, missing)?;
        for _ in 1..options.passes {
            figures.keep_faster(&scene.decide(&program, missing)?);
        }
        Ok(figures)
    };
    let whole = scenes.iter().map(|scene| decide(scene, None)).collect::<Result<Vec<_>>>()?;
    for (done, (number, mutation)) in wanted.iter().enumerate() {
        anstream::eprintln!("{} of {}: {}", done + 1, wanted.len(), mutation.name);
        let row = |(scene, before): (&Scene, &Figures)| -> Result<(String, Figures, Figures)> {
            Ok((scene.name.clone(), before.clone(), decide(scene, Some(*number))?))
        };
        let rows = scenes.iter().zip(&whole).map(row).collect::<Result<Vec<_>>>()?;
        let effect = Effect::new(&rows);
        match options.output {
            Output::Text => report::print(mutation, &effect),
            Output::Json => anstream::println!("{}", report::json(mutation, &effect, &rows)?),
        }
        if options.write {
            report::write(&workspace.root().join("bench/OPERATORS.md"), mutation, &effect)?;
        }
    }
    Ok(())
}

/// The mutations of some names, or all, with their numbers.
fn wanted<'m>(mutations: &'m [Mutation], names: &[String]) -> Result<Vec<(usize, &'m Mutation)>> {
    for name in names {
        let is_listed = mutations.iter().any(|mutation| mutation.name == *name);
        ensure!(is_listed, "found {name}; allowed: a name that `--list` shows");
    }
    let is_wanted = |mutation: &Mutation| names.is_empty() || names.contains(&mutation.name);
    Ok(mutations.iter().enumerate().filter(|(_, mutation)| is_wanted(mutation)).collect())
}
