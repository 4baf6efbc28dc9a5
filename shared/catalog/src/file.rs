//! Catalogue files, as `--catalog FILE` reads them: a JSON list of instance types whose labels and
//! allocatable are already resolved.

use std::collections::BTreeSet;

use outrigger_model::labels::INSTANCE_TYPE;
use outrigger_model::{InstanceType, Invalid, invalid};
use serde_json::Value;

use crate::error::CatalogError;

/// Reads a catalogue file:
/// `[{"name", "labels", "allocatable", "offerings": [{"zone", "capacityType", "price", "available"}]}]`,
/// and `capacity` where it differs from allocatable. The types come back in order of name.
///
/// A type without the label of its own name gets it. What is wrong is said with entry and field.
pub fn read_file(bytes: &[u8]) -> Result<Vec<InstanceType>, CatalogError> {
    let mut types = read_well_formed(bytes).map_or_else(|| read_entries(bytes), Ok)?;
    let mut problems: Vec<Invalid> = types.iter().enumerate().flat_map(contradictions).collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    problems.extend(types.windows(2).filter(|pair| pair[0].name == pair[1].name).map(|pair| {
        Invalid::new(
            format!("InstanceType/{}", pair[0].name),
            "name",
            "it twice",
            "each name once in the file",
        )
    }));
    for kind in &mut types {
        kind.labels.entry(INSTANCE_TYPE.to_owned()).or_insert_with(|| kind.name.clone());
    }
    if problems.is_empty() { Ok(types) } else { Err(CatalogError::Entries(problems)) }
}

/// The whole file in one pass; none if anything in it is wrong or not known. To say what and where
/// costs four times as long, so that is left to [`read_entries`].
fn read_well_formed(bytes: &[u8]) -> Option<Vec<InstanceType>> {
    let mut is_known = true;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let types = serde_ignored::deserialize(&mut json, |_| is_known = false).ok()?;
    json.end().ok()?;
    is_known.then_some(types)
}

/// Entry by entry, with everything that is wrong with each.
fn read_entries(bytes: &[u8]) -> Result<Vec<InstanceType>, CatalogError> {
    let entries: Vec<Value> = serde_json::from_slice(bytes).map_err(CatalogError::File)?;
    let mut types = Vec::with_capacity(entries.len());
    let mut problems = Vec::new();
    for (index, value) in entries.iter().enumerate() {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        match invalid::read(&object_name(index, name), "", value) {
            Ok(kind) => types.push(kind),
            Err(invalid) => problems.extend(invalid),
        }
    }
    if problems.is_empty() { Ok(types) } else { Err(CatalogError::Entries(problems)) }
}

/// The entry by its name, and by its place for one that has none.
fn object_name(index: usize, name: &str) -> String {
    if name.is_empty() { format!("InstanceType at [{index}]") } else { format!("InstanceType/{name}") }
}

/// What is wrong with an entry although each of its fields can be read.
fn contradictions((index, kind): (usize, &InstanceType)) -> Vec<Invalid> {
    let object = &object_name(index, &kind.name);
    let mut problems = Vec::new();
    if kind.name.is_empty() {
        problems.push(Invalid::new(object, "name", "an empty text", "the name of an instance type"));
    }
    if let Some(label) = kind.labels.get(INSTANCE_TYPE).filter(|label| **label != kind.name) {
        let field = format!("labels[{INSTANCE_TYPE}]");
        problems.push(Invalid::new(object, field, format!("{label:?}"), format!("{:?}", kind.name)));
    }
    for (field, resources) in [("allocatable", &kind.allocatable), ("capacity", &kind.capacity)] {
        let negative = resources.iter().filter(|(_, amount)| amount.is_negative());
        problems.extend(negative.map(|(name, amount)| {
            Invalid::new(object, format!("{field}[{name}]"), amount, "an amount that is not below nothing")
        }));
    }
    let mut seen = BTreeSet::new();
    for (index, offering) in kind.offerings.iter().enumerate() {
        if !seen.insert((&offering.zone, offering.capacity_type)) {
            let actual = format!("{} in {} a second time", offering.capacity_type, offering.zone);
            let allowed = "one offering for each zone and capacity type";
            problems.push(Invalid::new(object, format!("offerings[{index}]"), actual, allowed));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry() -> Value {
        json!({
            "name": "m5.large",
            "labels": {"node.kubernetes.io/instance-type": "m5.large", "kubernetes.io/arch": "amd64"},
            "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29"},
            "offerings": [{"zone": "us-east-1a", "capacityType": "spot", "price": 0.04, "available": true}],
        })
    }

    fn changed(pointer: &str, value: Value) -> Value {
        let mut entry = entry();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        entry.pointer_mut(parent).unwrap()[field] = value;
        entry
    }

    #[test]
    fn files_are_read_in_order_of_name() {
        let mut other = entry();
        other["name"] = json!("c5.large");
        other["labels"] = json!({});
        let types = read_file(json!([entry(), other]).to_string().as_bytes()).unwrap();
        let names: Vec<_> =
            types.iter().map(|kind| (kind.name.as_str(), kind.labels[INSTANCE_TYPE].as_str())).collect();
        assert_eq!(names, [("c5.large", "c5.large"), ("m5.large", "m5.large")]);
        assert_eq!(types[1].offerings[0].price.nanos(), 40_000_000);
        assert_eq!(read_file(b"[]").unwrap(), []);
    }

    #[test]
    fn complaints_name_the_entry_and_the_field() {
        let twice = json!([entry()["offerings"][0], entry()["offerings"][0]]);
        let table = [
            (
                json!([changed("/allocatable/cpu", json!("lots"))]),
                "InstanceType/m5.large: allocatable.cpu: found \"lots\"",
            ),
            (
                json!([changed("/offerings", json!([{"zone": "a"}]))]),
                "InstanceType/m5.large: offerings[0]: found",
            ),
            (json!([changed("/price", json!(1))]), "InstanceType/m5.large: price: found this field"),
            (json!([changed("/name", json!(7))]), "InstanceType at [0]: name: found 7"),
            (
                json!([changed("/name", json!("m5.xlarge"))]),
                "InstanceType/m5.xlarge: labels[node.kubernetes.io",
            ),
            (
                json!([changed("/allocatable/cpu", json!("-1"))]),
                "InstanceType/m5.large: allocatable[cpu]: found -1",
            ),
            (
                json!([changed("/offerings", twice)]),
                "InstanceType/m5.large: offerings[1]: found spot in us-east-1a a second",
            ),
            (json!([entry(), entry()]), "InstanceType/m5.large: name: found it twice"),
            (json!([entry(), "m5.large"]), "InstanceType at [1]"),
        ];
        for (file, expected) in table {
            let message = read_file(file.to_string().as_bytes()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}\nexpected {expected}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for file in ["", "{}", "[", "null"] {
            let message = read_file(file.as_bytes()).unwrap_err().to_string();
            assert!(message.contains("allowed: a JSON list"), "{message}");
        }
    }

    #[test]
    fn many_complaints_are_cut_short() {
        let file = json!(vec![json!({"name": "x"}); 15]);
        let message = read_file(file.to_string().as_bytes()).unwrap_err().to_string();
        assert_eq!(message.lines().count(), 11, "{message}");
        assert!(message.ends_with("and 5 more"), "{message}");
    }
}
