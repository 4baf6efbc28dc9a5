//! A complaint that learns its field's path on the way up, so that objects without fault pay
//! nothing for it.

use std::fmt;

use outrigger_model::Invalid;

use super::bounds;

/// What is wrong with a field, and where it is as far as is known yet.
#[derive(Debug)]
pub(super) struct Problem {
    field: String,
    found: String,
    allowed: String,
}

impl Problem {
    pub(super) fn new(
        field: impl Into<String>,
        found: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Self {
        Self { field: field.into(), found: found.to_string(), allowed: allowed.to_string() }
    }

    /// The same for a text, which is quoted.
    pub(super) fn text(field: impl Into<String>, found: &str, allowed: impl fmt::Display) -> Self {
        Self::new(field, format_args!("{found:?}"), allowed)
    }

    /// The complaint about the whole object.
    pub(super) fn about(self, kind: &str, namespace: Option<&str>, name: &str) -> Invalid {
        let object = match namespace {
            Some(namespace) => format!("{kind}/{namespace}/{name}"),
            None => format!("{kind}/{name}"),
        };
        Invalid::new(object, self.field, self.found, self.allowed)
    }
}

/// Adds the name of the part that a problem lies in.
pub(super) trait Within<T> {
    /// The problem's field becomes `part.field`.
    fn within(self, part: &str) -> Result<T, Problem>;
    /// The problem's field becomes `list[index].field`.
    fn within_item(self, list: &str, index: usize) -> Result<T, Problem>;
}

impl<T> Within<T> for Result<T, Problem> {
    fn within(self, part: &str) -> Self {
        self.map_err(|problem| Problem { field: format!("{part}.{}", problem.field), ..problem })
    }

    fn within_item(self, list: &str, index: usize) -> Self {
        self.map_err(|problem| Problem { field: format!("{list}[{index}].{}", problem.field), ..problem })
    }
}

/// Converts each item of an optional list of at most so many; a problem names the list and the
/// index.
pub(super) fn each<W, T>(
    list: &str,
    items: Option<&[W]>,
    most: usize,
    mut convert: impl FnMut(&W) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let items = items.unwrap_or_default();
    bounds::at_most(list, items, most)?;
    let items = items.iter().enumerate();
    items.map(|(index, item)| convert(item).within_item(list, index)).collect()
}
