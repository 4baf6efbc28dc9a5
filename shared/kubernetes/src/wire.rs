//! Objects as the API writes them, one at a time, so that a broken one spoils nothing beside itself.

use std::borrow::Cow;

use outrigger_model::Invalid;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

/// A list, or a page of one, whose items are left as they are written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope<'a> {
    /// Group and version.
    #[serde(borrow)]
    pub(crate) api_version: Option<Cow<'a, str>>,
    /// Kind.
    #[serde(borrow)]
    pub(crate) kind: Option<Cow<'a, str>>,
    /// The items of a list.
    #[serde(borrow, default)]
    pub(crate) items: Option<Vec<&'a RawValue>>,
}

/// Reads one object. The error names the field by its path, what stands there and what may.
pub(crate) fn read<T: DeserializeOwned>(kind: &str, json: &str) -> Result<T, Invalid> {
    serde_json::from_str(json).map_err(|error| {
        // Reading it again through a value costs time only for broken objects, and finds the path.
        match serde_json::from_str::<Value>(json) {
            Ok(value) => match read_value::<T>(kind, &value) {
                Ok(_) => Invalid::new(label(kind, &value), "the object", "a field twice", error),
                Err(invalid) => invalid,
            },
            Err(_) => Invalid::new(kind, "the object", "something else", error),
        }
    })
}

/// Reads one object out of a value.
pub(crate) fn read_value<T: DeserializeOwned>(kind: &str, value: &Value) -> Result<T, Invalid> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let found = found_at(value, error.path());
        Invalid::new(label(kind, value), error.path().to_string(), found, error.inner())
    })
}

/// `Kind/name` or `Kind/namespace/name`.
pub(crate) fn label(kind: &str, object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind}/{namespace}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn found_at(value: &Value, path: &serde_path_to_error::Path) -> String {
    let mut found = Some(value);
    for segment in path {
        found = match segment {
            Segment::Seq { index } => found.and_then(|value| value.get(index)),
            Segment::Map { key } => found.and_then(|value| value.get(key)),
            Segment::Enum { .. } | Segment::Unknown => found,
        };
    }
    let text = found.map_or_else(|| "nothing".to_owned(), Value::to_string);
    if text.chars().count() > 120 { text.chars().take(117).chain("...".chars()).collect() } else { text }
}
