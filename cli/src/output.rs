//! How results are printed: text for people, JSON and YAML for programs, aligned tables, and the
//! exit code.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::ProgressBar;
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::error::CliError;

/// How many names of a group are shown.
const NAMES_SHOWN: usize = 3;

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON value
    Json,
    /// One YAML document
    Yaml,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// Everything is as it should be.
    Done,
    /// Some pods have no place, or something was left as it was.
    Unplaced,
    /// Some objects of the input were refused; the result was made without them.
    Refused,
    /// The result breaks a rule that it was checked against.
    Broken,
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Done => Self::SUCCESS,
            CommandOutcome::Unplaced => Self::from(1),
            CommandOutcome::Refused => Self::from(2),
            CommandOutcome::Broken => Self::from(3),
        }
    }
}

/// Prints one line, as `println!` does but for a reader that goes away.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Writes one line to standard output, with colours only on a terminal. Whoever reads may go away
/// early, as `head` does; then there is nobody left to work for.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let Err(error) = writeln!(anstream::stdout(), "{text}") else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    anstream::eprintln!("{} standard output cannot be written: {error}", "error:".red().bold());
    std::process::exit(2);
}

/// Prints a result: `text` for people, or the value itself for programs.
pub(crate) fn print<T: Serialize>(value: &T, format: Format, text: impl FnOnce()) -> Result<(), CliError> {
    match format {
        Format::Text => text(),
        Format::Json => say!("{}", json(value)?),
        Format::Yaml => say!("{}", yaml(value)?.trim_end()),
    }
    Ok(())
}

/// A value as indented JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, CliError> {
    let failed = |source| CliError::Print { format: "JSON", source: Box::new(source) };
    serde_json::to_string_pretty(value).map_err(failed)
}

/// A value as a YAML document.
pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    let failed = |source| CliError::Print { format: "YAML", source: Box::new(source) };
    let text = serde_saphyr::to_string(value).map_err(failed)?;
    Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
}

/// Prints rows under headings, each column as wide as its widest cell; the last column is left
/// ragged.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) {
    for (index, line) in aligned(headings, rows).into_iter().enumerate() {
        if index == 0 { say!("{}", line.dimmed()) } else { say!("{line}") }
    }
}

fn aligned(headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let all_rows =
        || std::iter::once(headings.iter().map(|&h| h.to_owned()).collect()).chain(rows.iter().cloned());
    let width = |column: usize| {
        let cells =
            all_rows().filter_map(|row: Vec<String>| row.get(column).map(|cell| cell.chars().count()));
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |row: Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all_rows().map(line).collect()
}

/// A sign of life on a terminal for what may take seconds; nothing elsewhere.
pub(crate) fn spinner(doing: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(doing);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The first few of some names, and how many more there are.
pub(crate) fn names(names: &[impl ToString]) -> String {
    let shown: Vec<_> = names.iter().take(NAMES_SHOWN).map(ToString::to_string).collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["long one".to_owned(), "c".to_owned()]];
        assert_eq!(aligned(&["X", "Y"], &rows), ["X         Y", "a         b", "long one  c"]);
    }

    #[test]
    fn one_is_singular() {
        assert_eq!((count(1, "node"), count(0, "node")), ("1 node".into(), "0 nodes".into()));
    }
}
