//! How the result is printed: a stream of YAML documents for kubectl, or one JSON value.

use serde::Serialize;
use serde_json::{Map, Value};

use super::draft::Draft;
use super::note::{Note, Notes};
use crate::error::CliError;
use crate::output::{self, Document, Format, page, yaml};

/// An object as it is printed: in the order in which people write it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    api_version: Value,
    kind: Value,
    metadata: Metadata,
    spec: Value,
}

#[derive(Debug, Serialize)]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    labels: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    annotations: Map<String, Value>,
}

/// The result as other programs read it. Its names are stable.
#[derive(Serialize)]
struct ImportOutput<'a> {
    objects: &'a [Manifest],
    notes: &'a [Note],
}

impl Document for ImportOutput<'_> {
    const KIND: &'static str = "Import";
}

impl Manifest {
    /// The object that a draft has become.
    pub(super) fn of(draft: Draft) -> Self {
        let Draft { name, mut value, .. } = draft;
        let mut take = |pointer: &str| value.pointer_mut(pointer).map(Value::take).unwrap_or_default();
        let (api_version, kind, mut spec) = (take("/apiVersion"), take("/kind"), take("/spec"));
        if let Some(template) = spec.get_mut("template").and_then(Value::as_object_mut) {
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            template.retain(|field, value| field != "metadata" || !is_empty(value));
        }
        let mut map = |pointer: &str| match take(pointer) {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let (labels, annotations) = (map("/metadata/labels"), map("/metadata/annotations"));
        Self { api_version, kind, metadata: Metadata { name, labels, annotations }, spec }
    }
}

/// Prints objects and notes. YAML is for kubectl, so the notes go to standard error beside it.
pub(super) fn print(manifests: &[Manifest], notes: &Notes, format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        return output::print(&ImportOutput { objects: manifests, notes: notes.as_slice() }, format, || ());
    }
    for (index, manifest) in manifests.iter().enumerate() {
        if index > 0 {
            page("---");
        }
        page(&yaml(manifest)?);
    }
    notes.print();
    Ok(())
}
