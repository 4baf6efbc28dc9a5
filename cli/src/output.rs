//! How commands answer: text for people, JSON and YAML for programs, and the exit code.

mod screen;
mod table;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::error::CliError;
pub(crate) use screen::{complain, line, page, say, tell, told};
pub(crate) use table::{set_width, table};

/// The version of all that is printed for programs.
const API_VERSION: &str = "outrigger.dev/v1";

/// How many names of a group are shown.
const NAMES_SHOWN: usize = 3;

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; tables fit the terminal
    Text,
    /// For people, with all names, however wide that is
    Wide,
    /// One JSON value
    Json,
    /// One YAML document
    Yaml,
    /// Names alone: the claims of new nodes, or the nodes that are to end
    Name,
}

impl Format {
    /// Whether it is for people.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Wide)
    }
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

/// A result of one kind, which keeps its name. Names and meanings of its fields are stable.
pub(crate) trait Document: Serialize {
    /// What `kind` says.
    const KIND: &'static str;

    /// What `-o name` prints, as `node/i-1`; nothing for what has no names.
    fn names(&self) -> Option<Vec<String>> {
        None
    }
}

/// A result as programs read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'d, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    document: &'d T,
}

/// Prints a result: `text` for people, or the document for programs.
pub(crate) fn print<T: Document>(document: &T, format: Format, text: impl FnOnce()) -> Result<(), CliError> {
    let typed = Typed { api_version: API_VERSION, kind: T::KIND, document };
    match format {
        Format::Text | Format::Wide => text(),
        Format::Json => page(&json(&typed)?),
        Format::Yaml => page(&yaml(&typed)?),
        Format::Name => document.names().ok_or_else(no_names)?.iter().for_each(|name| say!("{name}")),
    }
    Ok(())
}

/// The complaint about names of what has none.
pub(crate) fn no_names() -> CliError {
    CliError::Missing {
        what: "-o name".into(),
        actual: "a result without names".into(),
        allowed: "text, wide, json or yaml".into(),
    }
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

/// A sign of life on a terminal for what may take seconds; nothing elsewhere.
pub(crate) fn spinner(doing: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(doing);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// What is known, or `-`.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The first few of some names, and how many more there are; all of them where room does not
/// matter.
pub(crate) fn names(names: &[impl ToString]) -> String {
    let most = if table::is_wide() { usize::MAX } else { NAMES_SHOWN };
    let shown: Vec<_> = names.iter().take(most).map(ToString::to_string).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!((count(1, "node"), count(0, "node")), ("1 node".into(), "0 nodes".into()));
    }
}
