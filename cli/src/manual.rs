//! `outrigger completions` and `outrigger man`: what shells and `man` want to know of the command.

use std::io;

use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::error::CliError;
use crate::output::{CommandOutcome, page as print};

/// Prints what completes the command's words.
pub(crate) fn completions(command: &Completions) -> CommandOutcome {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Args::command(), "outrigger", &mut script);
    print(&String::from_utf8_lossy(&script));
    CommandOutcome::Done
}

/// Prints the manual page, with all subcommands behind one another.
pub(crate) fn page() -> Result<CommandOutcome, CliError> {
    let mut roff = Vec::new();
    let command = Args::command();
    render(command, &mut roff)
        .map_err(|source| CliError::Write { file: "standard output".into(), source })?;
    print(&String::from_utf8_lossy(&roff));
    Ok(CommandOutcome::Done)
}

fn render(mut command: clap::Command, roff: &mut Vec<u8>) -> io::Result<()> {
    command.build();
    clap_mangen::Man::new(command.clone()).render(roff)?;
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let page = clap_mangen::Man::new(subcommand.clone());
        page.render_name_section(roff)?;
        page.render_synopsis_section(roff)?;
        page.render_description_section(roff)?;
        page.render_options_section(roff)?;
        page.render_extra_section(roff)?;
    }
    Ok(())
}
