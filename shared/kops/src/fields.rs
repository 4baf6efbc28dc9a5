//! The fields of an InstanceGroup's spec, and what becomes of each: nothing that somebody writes is
//! passed over in silence.

mod table;
#[cfg(test)]
mod tests;

use outrigger_model::Invalid;
use serde_json::Value;

use table::FIELDS;

/// The kOps releases whose fields the table has.
const KNOWN: &str = "kOps 1.34 to 1.37";

/// A field and what becomes of it. A row stands for all that is below it too, unless there are rows
/// for that.
struct Field {
    /// Where it stands in the spec, as `mixedInstancesPolicy.onDemandBase`.
    path: &'static str,
    fate: Fate,
}

/// What becomes of a field.
#[cfg_attr(not(test), expect(dead_code, reason = "the test of the documentation reads the texts"))]
enum Fate {
    /// Outrigger acts on it, so.
    Honoured(&'static str),
    /// kOps' launch template or nodeup carries it to the machine, so.
    Carried(&'static str),
    /// It is refused, unless it holds a value that asks for nothing else.
    Refused { unless: fn(&Value) -> bool, allowed: &'static str },
}

/// What is wrong with the fields of a spec: those that the table does not have, and those that
/// cannot be honoured.
pub(crate) fn problems(object: &str, spec: &Value) -> Vec<Invalid> {
    let mut problems = Vec::new();
    below(object, "", spec, &mut problems);
    problems
}

fn below(object: &str, path: &str, value: &Value, problems: &mut Vec<Invalid>) {
    for (key, value) in value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let field = format!("spec.{path}");
        let prefix = format!("{path}.");
        match FIELDS.iter().find(|entry| entry.path == path).map(|entry| &entry.fate) {
            Some(Fate::Refused { unless, allowed }) if !unless(value) => {
                problems.push(Invalid::new(object, field, value, allowed));
            }
            Some(_) => {}
            None if FIELDS.iter().any(|entry| entry.path.starts_with(&prefix)) => {
                below(object, &path, value, problems);
            }
            None => {
                let allowed = format!("the fields of {KNOWN}, which this version of Outrigger knows");
                problems.push(Invalid::new(object, field, "this field", allowed));
            }
        }
    }
}
