//! docs/output.schema.json: what `-o json` prints, as the types of the results say it.

use std::path::Path;

use outrigger_simulation::Summary;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::claims::ClaimsOutput;
use crate::consolidate::ConsolidateOutput;
use crate::explain::Explanation;
use crate::output::Document;
use crate::plan::PlanOutput;
use crate::top::Overview;
use crate::what_if::WhatIfOutput;

/// With this variable the file is written anew.
const BLESS: &str = "OUTRIGGER_BLESS";

/// The schema of a document with what stands before its own fields.
fn schema_of<T: Document + JsonSchema>() -> (String, Value) {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = Value::from(generator.into_root_schema_for::<T>());
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
        schema.insert("title".into(), T::KIND.into());
        let properties = schema.entry("properties").or_insert_with(|| Map::new().into());
        properties["apiVersion"] = json!({"const": "outrigger.dev/v1"});
        properties["kind"] = json!({"const": T::KIND});
    }
    (T::KIND.to_owned(), schema)
}

fn reference() -> String {
    let kinds: Map<String, Value> = [
        schema_of::<ClaimsOutput>(),
        schema_of::<ConsolidateOutput>(),
        schema_of::<Explanation>(),
        schema_of::<Overview>(),
        schema_of::<PlanOutput>(),
        schema_of::<Summary>(),
        schema_of::<WhatIfOutput>(),
    ]
    .into_iter()
    .collect();
    let description = "What outrigger prints with -o json, by kind. Fields may be added; none is renamed.";
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "description": description,
        "kinds": kinds});
    format!("{schema:#}\n")
}

#[test]
fn the_schema_in_docs_is_what_the_types_say() -> std::io::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/output.schema.json");
    let (today, written) = (reference(), std::fs::read_to_string(&file).unwrap_or_default());
    if std::env::var_os(BLESS).is_some() {
        return std::fs::write(&file, today);
    }
    assert!(today == written, "docs/output.schema.json is of other types; {BLESS}=1 writes it anew");
    Ok(())
}
