//! Objects without what their reader refuses: each field that goes is noted, and an object that
//! cannot do without it is left out.

use std::collections::BTreeSet;

use outrigger_model::Invalid;
use serde_json::Value;

use super::note::{Fate, Notes};
use super::path;

/// What the readers say of a field that they do not know.
const UNKNOWN: &str = "this field";

/// Whether an object makes sense without what a complaint is about.
pub(super) type Removable = fn(&Invalid) -> bool;

/// Reads an object, and takes out what is refused and can be spared. It is read again after that,
/// since one complaint may hide others. `None` where the object is left out; then the notes have
/// all complaints.
pub(super) fn carry<T>(
    object: &mut Value,
    file: &str,
    read: impl Fn(&Value) -> Result<T, Vec<Invalid>>,
    is_removable: Removable,
    notes: &mut Notes,
) -> Option<T> {
    loop {
        let problems = match read(object) {
            Ok(sound) => return Some(sound),
            Err(problems) => problems,
        };
        let fields: BTreeSet<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        let fields: Vec<&str> = fields.into_iter().collect();
        let sparable = problems.iter().all(|problem| is_unknown(problem) || is_removable(problem));
        let removed = sparable && path::remove(object, &fields).is_empty();
        let fate = if removed { Fate::NotCarried } else { Fate::LeftOut };
        for problem in &problems {
            notes.complain(fate, file, problem);
        }
        if !removed {
            return None;
        }
    }
}

/// Whether nobody knows the field.
fn is_unknown(problem: &Invalid) -> bool {
    problem.actual == UNKNOWN
}

/// Nothing but unknown fields can be spared.
pub(super) fn only_unknown(_: &Invalid) -> bool {
    false
}
