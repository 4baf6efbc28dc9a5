//! What is wrong with an object that somebody wrote, said so that they can mend it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// One field of one object that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invalid {
    /// The file that the object came from; `None` for one read from an API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The object, as `Kind/name` or `Kind/namespace/name`.
    pub object: String,
    /// The field, as `spec.template.spec.requirements[0].operator`.
    pub field: String,
    /// What stands there.
    #[serde(rename = "found")]
    pub actual: String,
    /// What may stand there.
    pub allowed: String,
}

impl Invalid {
    /// A complaint about a field of an object. Where `allowed` is the error of a parser, which says
    /// again what it has found, only what it allows is kept.
    pub fn new(
        object: impl Into<String>,
        field: impl Into<String>,
        actual: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Self {
        Self {
            file: None,
            object: object.into(),
            field: field.into(),
            actual: actual.to_string(),
            allowed: only_allowed(&allowed.to_string()),
        }
    }

    /// What is wrong, without the name of the object.
    pub fn complaint(&self) -> String {
        // The complaint may be about the object as a whole.
        let gap = if self.field.is_empty() { "" } else { ": " };
        format!("{}{gap}found {}; allowed: {}", self.field, self.actual, self.allowed)
    }

    /// The same, with the file that the object came from.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }
}

/// What a text allows: the whole of it, or where a parser wrote it, what it expects.
fn only_allowed(said: &str) -> String {
    if let Some((_, allowed)) = said.rsplit_once("; allowed: ") {
        return allowed.to_owned();
    }
    if let Some(field) = said.strip_prefix("missing field ") {
        return format!("the field {}", field.replace('`', ""));
    }
    let Some((_, expected)) = said.split_once(", expected ") else { return said.to_owned() };
    let expected = expected.split(" at line ").next().unwrap_or_default().replace('`', "");
    match expected.as_str() {
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        what if what.starts_with("struct ") => "an object".to_owned(),
        _ => expected,
    }
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        write!(f, "{}: {}", self.object, self.complaint())
    }
}

/// Reads a typed value out of `value`, refusing what does not fit and every field that the type
/// does not have.
///
/// `root` is the path of `value` within the object, as `spec`.
pub fn read<T: DeserializeOwned>(object: &str, root: &str, value: &Value) -> Result<T, Vec<Invalid>> {
    let (read, unknown) = read_noting(object, root, value)?;
    if unknown.is_empty() { Ok(read) } else { Err(unknown) }
}

/// The same, with complaints about unknown fields beside the value, so that they can be told with
/// those about the rest.
pub(crate) fn read_noting<T: DeserializeOwned>(
    object: &str,
    root: &str,
    value: &Value,
) -> Result<(T, Vec<Invalid>), Vec<Invalid>> {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let read = serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
    let read = read.map_err(|error| {
        let path = track.path();
        vec![Invalid::new(object, join(root, &written(&path)), found_at(value, &path), error)]
    })?;
    let refused = |path: &String| {
        Invalid::new(object, join(root, &indexed(path)), "this field", "only fields that Outrigger acts on")
    };
    Ok((read, unknown.iter().map(refused).collect()))
}

/// The complaints about one object, as they are gathered.
pub(crate) struct Problems {
    object: String,
    complaints: Vec<Invalid>,
}

impl Problems {
    /// None yet about the object, which is named as `Kind/name`.
    pub(crate) fn about(object: impl Into<String>) -> Self {
        Self { object: object.into(), complaints: Vec::new() }
    }

    /// Complains about a field.
    pub(crate) fn refuse(
        &mut self,
        field: impl Into<String>,
        actual: impl fmt::Display,
        allowed: impl fmt::Display,
    ) {
        self.complaints.push(Invalid::new(&self.object, field, actual, allowed));
    }

    /// All complaints.
    pub(crate) fn into_vec(self) -> Vec<Invalid> {
        self.complaints
    }
}

/// The complaint that an object says it is of another version than the one that its fields are read
/// as. Objects that do not say a version (items of a list) pass.
pub(crate) fn wrong_version(label: &str, object: &Value, expected: &str) -> Option<Invalid> {
    let version = object.get("apiVersion").filter(|version| !version.is_null() && *version != expected)?;
    Some(Invalid::new(label, "apiVersion", shown(version), expected))
}

/// A value as it is shown to people: as JSON, cut to a readable length.
pub(crate) fn shown(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|error| error.to_string());
    if text.chars().count() > 120 { text.chars().take(117).chain("...".chars()).collect() } else { text }
}

/// The name of an API object.
pub(crate) fn name_of(object: &Value) -> Option<String> {
    object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
}

/// The text at a JSON pointer; empty when there is none.
pub(crate) fn text_at(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The map of texts at a JSON pointer; empty when there is none.
pub(crate) fn texts_at(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| value.as_str().map(|value| (key.clone(), value.to_owned())))
        .collect()
}

fn join(root: &str, path: &str) -> String {
    match (root, path) {
        (_, "") => root.to_owned(),
        ("", _) => path.to_owned(),
        _ if path.starts_with('[') => format!("{root}{path}"),
        _ => format!("{root}.{path}"),
    }
}

/// `serde_ignored` writes `a.0.b` and marks options with `?`; people know `a[0].b`.
fn indexed(path: &str) -> String {
    let mut out = String::new();
    for part in path.split('.').filter(|part| *part != "?") {
        if part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty() {
            out = format!("{out}[{part}]");
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(part);
        }
    }
    out
}

fn found_at(value: &Value, path: &Path) -> String {
    let actual = path.iter().try_fold(value, |value, segment| match segment {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    });
    actual.map_or_else(|| "nothing".to_owned(), shown)
}

/// `a[0].b`, with keys that hold a dot or a slash in brackets, as Kubernetes writes paths.
fn written(path: &Path) -> String {
    path.iter().fold(String::new(), |out, segment| match segment {
        Segment::Seq { index } => format!("{out}[{index}]"),
        Segment::Map { key } if key.contains(['.', '/']) => format!("{out}[{key}]"),
        Segment::Map { key } if out.is_empty() => key.clone(),
        Segment::Map { key } => format!("{out}.{key}"),
        Segment::Enum { .. } | Segment::Unknown => out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequirementSpec;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    struct Holder {
        #[expect(dead_code, reason = "only read through Debug")]
        requirements: Option<Vec<RequirementSpec>>,
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        let value = json!({"requirements": [{"key": "a", "operator": "Inn", "values": ["b"]}]});
        let problems = read::<Holder>("NodePool/x", "spec", &value).unwrap_err();
        let text = problems[0].to_string();
        let expected = "NodePool/x: spec.requirements[0].operator: found \"Inn\"; allowed: one of In";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn what_was_found_is_said_once() {
        let read = |text: &str| read::<crate::NillableDuration>("NodePool/x", "spec.after", &json!(text));
        for text in ["soon", "x; allowed: y"] {
            let problems = read(text).unwrap_err();
            let expected = format!(
                "NodePool/x: spec.after: found {text:?}; allowed: hours, minutes and seconds as 1h30m10s, or Never"
            );
            assert_eq!(problems[0].to_string(), expected);
        }
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        let value = json!({"requirements": [{"key": "a", "operator": "In", "values": ["b"], "valuess": 3}]});
        let problems = read::<Holder>("NodePool/x", "spec", &value).unwrap_err();
        assert_eq!(problems[0].field, "spec.requirements[0].valuess");
    }
}
