//! `outrigger simulate`: a scenario played under the real functions.

mod text;

use std::io::IsTerminal;

use outrigger_simulation::{Scenario, Summary, play};

use crate::args;
use crate::error::CliError;
use crate::files::read;
use crate::live::{Live, Paced};
use crate::output::{CommandOutcome, Document, Format, print};

impl Document for Summary {
    const KIND: &'static str = "Simulation";
}

/// Runs the command.
pub(crate) fn run(command: &args::Simulate, format: Format) -> Result<CommandOutcome, CliError> {
    let text = read(command.file())?;
    let mut scenario =
        Scenario::read(&command.file().display().to_string(), &text).map_err(CliError::Scenario)?;
    if let Some(seed) = command.seed {
        scenario.seed = seed;
    }
    scenario.preferences = command.policies.preferences.into();
    scenario.min_values = command.policies.min_values.into();
    let shown = format.is_text() && !command.quiet;
    let live = shown && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    let pace = Paced::new(command.speed, live, scenario.duration);
    let mut observer = Live::new(shown, live, pace);
    let ending = play(&scenario, &[], &mut observer)?;
    observer.finish();
    print(&ending.summary, format, || text::print(&ending.summary))?;
    Ok(outcome(&ending.summary))
}

fn outcome(summary: &Summary) -> CommandOutcome {
    let sound = summary.unexpected.is_empty() && summary.broken_laws.is_empty();
    if sound { CommandOutcome::Done } else { CommandOutcome::Unplaced }
}
