//! From JSON Schema, as schemars writes it, to the structural schemas that Kubernetes takes in a
//! custom resource definition.
//!
//! Kubernetes knows no references, no `null`, no `const`, and only some formats; it stores defaults
//! with the object, so that empty ones would show up as noise in every object.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The formats that schemars writes for our types and Kubernetes knows.
const KNOWN_FORMATS: [&str; 3] = ["int32", "int64", "date-time"];

/// The structural schema of a type.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for word in ["$schema", "title", "definitions"] {
        schema.remove(word);
    }
    for word in ["items", "additionalProperties"] {
        schema.get_mut(word).into_iter().for_each(simplify);
    }
    schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(Map::values_mut)
        .for_each(simplify);
    for word in ["anyOf", "oneOf"] {
        schema.get_mut(word).and_then(Value::as_array_mut).into_iter().flatten().for_each(simplify);
    }
    if let Some(only) = schema.remove("const") {
        schema.insert("enum".into(), Value::Array(vec![only]));
    }
    drop_null(schema);
    for word in ["anyOf", "oneOf"] {
        join_enums(schema, word);
    }
    schema.retain(|word, value| match word.as_str() {
        "format" => value.as_str().is_some_and(|format| KNOWN_FORMATS.contains(&format)),
        "default" => !is_empty(value),
        _ => true,
    });
}

/// A field that may be null may as well be absent.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for word in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = schema.get_mut(word) else { continue };
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            schema.remove(word);
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// A choice between constants is an `enum`.
fn join_enums(schema: &mut Map<String, Value>, word: &str) {
    let Some(Value::Array(choices)) = schema.get(word) else { return };
    let values: Option<Vec<&Vec<Value>>> =
        choices.iter().map(|choice| choice.get("enum")?.as_array()).collect();
    let Some(values) = values else { return };
    let values: Vec<Value> = values.into_iter().flatten().cloned().collect();
    let kind = choices.first().and_then(|choice| choice.get("type")).cloned();
    schema.remove(word);
    schema.insert("enum".into(), Value::Array(values));
    if let Some(kind) = kind {
        schema.insert("type".into(), kind);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
