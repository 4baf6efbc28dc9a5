//! `cargo xtask absences`: takes each guard away and plays drawn worlds until one of them notices.

mod worlds;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Parser;
use outrigger_engine::{Guard, Guards};
use outrigger_simulation::{Failure, Worlds};

/// Takes each guard away in turn and plays drawn worlds until a law notices.
#[derive(Parser)]
#[command(name = "cargo xtask absences")]
struct Arguments {
    /// How many worlds are played at most without each guard.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first world that is played
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Guards to take away, by name; default: each.
    #[arg(long, value_delimiter = ',')]
    guards: Vec<String>,
    /// Where the table is written, in place of the terminal.
    #[arg(long, value_name = "FILE.md")]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    worlds::exit(run(&Arguments::parse()))
}

/// Whether each guard is missed by somebody.
fn run(arguments: &Arguments) -> Result<bool> {
    let worlds = worlds::valid(Worlds::chance())?;
    let wanted = guards(&arguments.guards)?;
    let mut rows = vec![HEAD.to_owned()];
    let mut is_complete = true;
    for guard in wanted {
        let noticed = first_to_notice(&worlds, guard, arguments.from, arguments.seeds)?;
        is_complete &= noticed.is_some();
        let row = noticed.map_or_else(
            || format!("| {guard:?} | none of {} | {} |", arguments.seeds, world_made_for(guard)),
            |failure| format!("| {guard:?} | {} | {} |", failure.seed, law(&failure).replace('|', "/")),
        );
        eprintln!("{row}");
        rows.push(row);
    }
    let table = rows.join("\n") + "\n";
    match &arguments.write {
        None => print!("{table}"),
        Some(path) => {
            std::fs::write(path, table).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(is_complete)
}

const HEAD: &str = "\
# What drawn worlds notice

`cargo xtask absences --write tests/ABSENCES.md` makes this table. It takes each guard away in turn
and plays the worlds of seeds 1, 2, 3 and so on, until one fails that is clean with the guard. The
suite plays these seeds with and without it. Where no drawn world notices, one does that was made
for the guard.

| guard | seed | what is noticed |
|---|---|---|";

fn guards(names: &[String]) -> Result<Vec<Guard>> {
    if names.is_empty() {
        return Ok(Guard::ALL.to_vec());
    }
    let of_name = |name: &String| Guard::ALL.into_iter().find(|guard| format!("{guard:?}") == *name);
    let chosen = names.iter().map(|name| {
        let allowed: Vec<_> = Guard::ALL.iter().map(|guard| format!("{guard:?}")).collect();
        of_name(name).with_context(|| format!("found {name}; allowed: {}", allowed.join(", ")))
    });
    chosen.collect()
}

/// The first world that notices. Worlds are played on all processors, and the one of the least seed
/// counts.
fn first_to_notice(worlds: &Worlds, guard: Guard, from: u64, seeds: u64) -> Result<Option<Failure>> {
    let (next, least) = (AtomicU64::new(from), AtomicU64::new(u64::MAX));
    let play = || -> Result<Vec<Failure>> {
        let mut noticed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(seeds) || seed > least.load(Ordering::Relaxed) {
                return Ok(noticed);
            }
            let failure = worlds.judge_without(seed, Guards::default().without(guard))?;
            // What is wrong with the guard, too, says nothing about it.
            if !failure.complaints.is_empty() && worlds.judge(seed)?.complaints.is_empty() {
                least.fetch_min(seed, Ordering::Relaxed);
                noticed.push(failure);
            }
        }
    };
    let noticed: Result<Vec<Vec<Failure>>> = thread::scope(|scope| {
        let players: Vec<_> = (0..worlds::threads().get()).map(|_| scope.spawn(play)).collect();
        let joined = players.into_iter().map(|player| match player.join() {
            Ok(noticed) => noticed,
            Err(_) => bail!("a world without {guard:?} panicked"),
        });
        joined.collect()
    });
    Ok(noticed?.into_iter().flatten().min_by_key(|failure| failure.seed))
}

/// The test whose world misses a guard that drawn worlds hardly ever miss.
fn world_made_for(guard: Guard) -> &'static str {
    match guard {
        Guard::DrainMark => "guards.rs::who_saw_a_node_before_its_drain_began_does_not_open_it_any_more",
        _ => "",
    }
}

/// What was noticed, without the names of this world.
fn law(failure: &Failure) -> String {
    let complaint = failure.complaints.first().map(String::as_str).unwrap_or_default();
    complaint.chars().take(100).collect()
}
