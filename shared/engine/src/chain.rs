//! Errors in one line.

use std::error::Error;

/// An error and its causes in one line. Some errors of AWS's SDK say what their cause says once
/// more; it is told once.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}
