//! Names of what somebody chooses on a command line.

use std::fmt::Display;

/// A name that nothing to choose from has.
#[derive(Debug, thiserror::Error)]
#[error("found {found:?}; allowed: {allowed}")]
pub struct UnknownName {
    found: String,
    allowed: String,
}

/// The one of these that is shown so.
pub(crate) fn named<T: Copy + Display>(choices: &[T], text: &str) -> Result<T, UnknownName> {
    let names: Vec<String> = choices.iter().map(ToString::to_string).collect();
    let index = names.iter().position(|name| name == text);
    index
        .and_then(|index| choices.get(index))
        .copied()
        .ok_or_else(|| UnknownName { found: text.to_owned(), allowed: names.join(", ") })
}
