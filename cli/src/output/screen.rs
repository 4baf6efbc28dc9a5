//! Lines on standard output and standard error. What objects and files hold may be anything, so
//! nothing of it moves the cursor, rings the bell, or begins a line of its own.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

use owo_colors::OwoColorize;

use crate::error::CliError;

/// The colours and weights that the command itself uses (ECMA-48, SGR).
const OWN_STYLES: [&str; 9] = ["0", "1", "2", "22", "31", "32", "33", "36", "39"];

/// Prints one line, as `println!` does but for a reader that goes away.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Prints one line on standard error.
macro_rules! tell {
    ($($text:tt)*) => { $crate::output::told(format_args!($($text)*)) };
}
pub(crate) use tell;

/// Writes one line to standard output, with colours only on a terminal.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    write(&format!("{}\n", visible(&text.to_string())));
}

/// Writes lines that a serializer made, which has escaped what objects hold.
pub(crate) fn page(text: &str) {
    write(&format!("{}\n", text.trim_end()));
}

/// Writes one line to standard error, with colours only on a terminal.
pub(crate) fn told(text: fmt::Arguments<'_>) {
    anstream::eprintln!("{}", visible(&text.to_string()));
}

/// Says why a command stopped, with all causes.
pub(crate) fn complain(error: &CliError) {
    if let CliError::Scenario(problems) | CliError::Objects(problems) = error {
        for problem in problems {
            tell!("{} {problem}", "error:".red().bold());
        }
        return;
    }
    tell!("{} {error}", "error:".red().bold());
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        // A parser may draw what it complains of over many lines, which its first line has said.
        let cause = cause.to_string();
        tell!("  {} {}", "because:".dimmed(), cause.lines().next().unwrap_or_default());
    }
}

/// Whoever reads may go away early, as `head` does; then there is nobody left to work for.
fn write(text: &str) {
    let Err(error) = anstream::stdout().write_all(text.as_bytes()) else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    told(format_args!("{} standard output cannot be written: {error}", "error:".red().bold()));
    std::process::exit(2);
}

/// The text with all control characters as Rust writes them, but for the command's own styles.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(style) = own_style(rest) {
            shown.push_str(style);
            rest = &rest[style.len()..];
            continue;
        }
        if next.is_control() {
            // A string takes all that is written.
            let _ = write!(shown, "{}", next.escape_default());
        } else {
            shown.push(next);
        }
        rest = &rest[next.len_utf8()..];
    }
    Cow::Owned(shown)
}

/// The style that a text begins with, if it is one of the command's own.
fn own_style(text: &str) -> Option<&str> {
    let end = text.strip_prefix("\u{1b}[")?.find('m')? + 2;
    let is_own = text[2..end].split(';').all(|code| OWN_STYLES.contains(&code));
    is_own.then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_objects_hold_cannot_act_on_a_terminal() {
        let table = [
            ("plain ä", "plain ä"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("bell\u{7} and\nline", "bell\\u{7} and\\nline"),
            ("hidden\u{1b}[8m", "hidden\\u{1b}[8m"),
            ("unfinished\u{1b}[", "unfinished\\u{1b}["),
            ("c1 \u{9b}31m", "c1 \\u{9b}31m"),
        ];
        for (text, expected) in table {
            assert_eq!(visible(text), expected);
        }
        let styled = format!("{} {}", "error:".red().bold(), "x".dimmed());
        assert_eq!(visible(&styled), styled);
    }
}
