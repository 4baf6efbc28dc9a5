//! Objects as the API writes them, one at a time, so that a broken one spoils nothing beside
//! itself.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use outrigger_model::Invalid;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

/// One object of a file: as text, where it was JSON, or as a value.
#[derive(Debug)]
pub(crate) enum Object {
    /// JSON.
    Text(String),
    /// What YAML was read into.
    Value(Value),
}

impl Object {
    /// Reads it as a type.
    pub(crate) fn read<T: DeserializeOwned>(&self, kind: &str) -> Result<T, Invalid> {
        match self {
            Self::Text(json) => read(kind, json),
            Self::Value(value) => read_value(kind, value),
        }
    }

    /// Reads as much of it as can be read.
    pub(crate) fn read_in_part<T: DeserializeOwned>(&self, kind: &str) -> Result<Part<T>, Invalid> {
        match self {
            Self::Text(json) => read_in_part(kind, json),
            Self::Value(value) => read_value_in_part(kind, value),
        }
    }

    /// The whole of it as a value.
    pub(crate) fn into_value(self, kind: &str) -> Result<Value, Invalid> {
        match self {
            Self::Text(json) => serde_json::from_str(&json).map_err(|error| unreadable(kind, &json, error)),
            Self::Value(value) => Ok(value),
        }
    }

    /// Tells objects apart that were written by the same hand. One of JSON is never like one of
    /// YAML.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Text(json) => json.hash(&mut hasher),
            Self::Value(value) => value.hash(&mut hasher),
        }
        hasher.finish()
    }

    /// `Kind/name` or `Kind/namespace/name`.
    pub(crate) fn label(&self, kind: &str) -> String {
        match self {
            Self::Text(json) => label_in(kind, json),
            Self::Value(value) => label(kind, value),
        }
    }
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
            Err(cause) => unreadable(kind, json, cause),
        }
    })
}

/// Reads one object out of a value.
pub(crate) fn read_value<T: DeserializeOwned>(kind: &str, value: &Value) -> Result<T, Invalid> {
    // Following the path costs time, which only broken objects are worth.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let seen = found_at(value, error.path());
            Invalid::new(label(kind, value), error.path().to_string(), seen, error.inner())
        })
    })
}

/// As much of an object as can be read.
pub(crate) struct Part<T> {
    /// What was read.
    pub(crate) object: T,
    /// The first value that could not be, where one had to be left out.
    pub(crate) left_out: Option<Invalid>,
}

/// How many values of one object are left out before all of it is.
const MAX_LEFT_OUT: usize = 32;

/// Reads one object, without the values that do not fit.
pub(crate) fn read_in_part<T: DeserializeOwned>(kind: &str, json: &str) -> Result<Part<T>, Invalid> {
    if let Ok(object) = serde_json::from_str(json) {
        return Ok(Part { object, left_out: None });
    }
    let value = serde_json::from_str(json).map_err(|cause| unreadable(kind, json, cause))?;
    let twice = || Invalid::new(label(kind, &value), "the object", "a field twice", "each field once");
    let part = read_value_in_part(kind, &value)?;
    Ok(Part { left_out: part.left_out.or_else(|| Some(twice())), ..part })
}

/// The same out of a value.
pub(crate) fn read_value_in_part<T: DeserializeOwned>(kind: &str, value: &Value) -> Result<Part<T>, Invalid> {
    if let Ok(object) = T::deserialize(value) {
        return Ok(Part { object, left_out: None });
    }
    let (mut rest, mut left_out) = (value.clone(), None);
    for _ in 0..MAX_LEFT_OUT {
        let error = match serde_path_to_error::deserialize(&rest) {
            Ok(object) => return Ok(Part { object, left_out }),
            Err(error) => error,
        };
        let error: serde_path_to_error::Error<serde_json::Error> = error;
        left_out.get_or_insert_with(|| {
            let seen = found_at(&rest, error.path());
            Invalid::new(label(kind, value), error.path().to_string(), seen, error.inner())
        });
        if !leave_out(&mut rest, error.path()) {
            break;
        }
    }
    read_value(kind, value).map(|object| Part { object, left_out: None })
}

/// Takes out what stands at a path; says whether something did.
fn leave_out(value: &mut Value, path: &serde_path_to_error::Path) -> bool {
    let steps: Vec<&Segment> =
        path.iter().filter(|segment| !matches!(segment, Segment::Enum { .. } | Segment::Unknown)).collect();
    let Some((last, before)) = steps.split_last() else { return false };
    let parent = before.iter().try_fold(value, |inner, step| match step {
        Segment::Seq { index } => inner.get_mut(*index),
        Segment::Map { key } => inner.get_mut(key),
        Segment::Enum { .. } | Segment::Unknown => Some(inner),
    });
    match (parent, last) {
        (Some(Value::Array(items)), Segment::Seq { index }) if *index < items.len() => {
            items.remove(*index);
            true
        }
        (Some(Value::Object(fields)), Segment::Map { key }) => fields.remove(key).is_some(),
        _ => false,
    }
}

/// `Kind/name` or `Kind/namespace/name`.
pub(crate) fn label(kind: &str, object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    joined(kind, text("/metadata/namespace"), text("/metadata/name").unwrap_or_default())
}

/// A text of any length as it is shown to people.
pub(crate) fn short(text: impl fmt::Display) -> String {
    let text = text.to_string();
    if text.chars().count() > 120 { text.chars().take(117).chain("...".chars()).collect() } else { text }
}

/// The complaint about an object that is no value, which is one that is nested too deeply.
fn unreadable(kind: &str, json: &str, error: serde_json::Error) -> Invalid {
    Invalid::new(label_in(kind, json), "the object", short(json), error)
}

/// The name of an object without reading the rest of it.
fn label_in(kind: &str, json: &str) -> String {
    #[derive(Default, Deserialize)]
    struct Named {
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        namespace: Option<String>,
        #[serde(default)]
        name: Option<String>,
    }
    let Named { metadata } = serde_json::from_str(json).unwrap_or_default();
    joined(kind, metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}

fn joined(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind}/{namespace}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn found_at(value: &Value, path: &serde_path_to_error::Path) -> String {
    let mut part = Some(value);
    for segment in path {
        part = match segment {
            Segment::Seq { index } => part.and_then(|value| value.get(index)),
            Segment::Map { key } => part.and_then(|value| value.get(key)),
            Segment::Enum { .. } | Segment::Unknown => part,
        };
    }
    part.map_or_else(|| "nothing".to_owned(), short)
}
