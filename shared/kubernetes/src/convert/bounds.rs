//! How much of anything an object may hold to be read whole. The API server bounds an object only
//! by its size; a decision's time grows with terms and values, so one hostile object must not be
//! able to stop it for all others. Ordinary objects stay far below. What is beyond is read in part
//! (`readable`), and no object is lost for it.

use std::collections::BTreeMap;

use outrigger_model::syntax;

use super::problem::Problem;

/// Terms of one affinity to pods, constraints of one spread, and requirements of one term. Each of
/// the former is counted over all pods.
pub(super) const MAX_TERMS: usize = 100;
/// Terms of one affinity to nodes, which cost less.
pub(super) const MAX_NODE_TERMS: usize = 1_000;
/// Values of one requirement.
pub(super) const MAX_VALUES: usize = 10_000;
/// Labels of one object or selector.
pub(super) const MAX_LABELS: usize = 10_000;
/// Containers, ports, volumes, tolerations, taints and namespaces of one object or term.
pub(super) const MAX_PARTS: usize = 1_000;

/// Refuses a list that is longer than `most`.
pub(super) fn at_most<T>(field: &str, items: &[T], most: usize) -> Result<(), Problem> {
    if items.len() <= most {
        return Ok(());
    }
    Err(Problem::new(field, format_args!("{} items", items.len()), format_args!("at most {most}")))
}

/// Refuses a map of labels that the API server would not take, or that has too many of them.
pub(super) fn labels(field: &str, labels: Option<&BTreeMap<String, String>>) -> Result<(), Problem> {
    let Some(labels) = labels else { return Ok(()) };
    if labels.len() > MAX_LABELS {
        let count = format!("{} labels", labels.len());
        return Err(Problem::new(field, count, format_args!("at most {MAX_LABELS}")));
    }
    labels.iter().try_for_each(|(name, value)| label(field, name, value))
}

/// Refuses a label that the API server would not take.
pub(super) fn label(field: &str, name: &str, value: &str) -> Result<(), Problem> {
    key(field, name)?;
    if syntax::is_value(value) {
        return Ok(());
    }
    Err(Problem::text(format!("{field}[{name}]"), short(value), syntax::VALUE))
}

/// Refuses what is no label key.
pub(super) fn key(field: &str, key: &str) -> Result<(), Problem> {
    match key {
        "" => Err(Problem::new(field, "nothing", "a label key")),
        _ if syntax::is_key(key) => Ok(()),
        _ => Err(Problem::text(field, short(key), syntax::KEY)),
    }
}

/// The start of a text, so that a complaint about a long one can be read.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}
