//! The definitions hold only what Kubernetes takes in a structural schema.

use std::collections::BTreeSet;

use super::*;

/// The words of a schema that Kubernetes keeps, beside those that begin with `x-kubernetes-`.
const WORDS: [&str; 20] = [
    "type",
    "format",
    "description",
    "default",
    "enum",
    "pattern",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "anyOf",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "uniqueItems",
];

/// Every schema within a schema, with its path.
fn walk<'a>(schema: &'a Value, path: &str, out: &mut Vec<(String, &'a Value)>) {
    out.push((path.to_owned(), schema));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), out);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word) {
            walk(inner, &format!("{path}.{word}"), out);
        }
    }
}

fn schemas() -> Vec<(String, Value)> {
    let crds = crds();
    let mut out = Vec::new();
    for crd in &crds {
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        walk(root, crd["spec"]["names"]["kind"].as_str().unwrap(), &mut out);
    }
    out.into_iter().map(|(path, schema)| (path, schema.clone())).collect()
}

#[test]
fn every_schema_is_structural() {
    let schemas = schemas();
    assert!(schemas.len() > 150, "only {} schemas were found", schemas.len());
    for (path, schema) in &schemas {
        let object = schema.as_object().unwrap_or_else(|| panic!("{path} is {schema}"));
        let strange: Vec<_> = object
            .keys()
            .filter(|word| !WORDS.contains(&word.as_str()) && !word.starts_with("x-kubernetes-"))
            .collect();
        assert!(strange.is_empty(), "{path} says {strange:?}");
        let mixed = schema["x-kubernetes-int-or-string"] == true;
        let kind = schema["type"].as_str();
        let json_types = ["object", "array", "string", "integer", "boolean"];
        assert!(mixed != kind.is_some_and(|kind| json_types.contains(&kind)), "{path} is of type {kind:?}");
        assert_eq!(object.contains_key("anyOf"), mixed, "{path}");
        let values = schema["enum"].as_array().into_iter().flatten();
        assert!(values.clone().all(Value::is_string), "{path} has an enum of other things than texts");
        assert_eq!(kind == Some("array"), object.contains_key("items"), "{path}");
    }
}

#[test]
fn every_required_field_exists() {
    for (path, schema) in schemas() {
        let names = |word: &str| -> BTreeSet<String> {
            match &schema[word] {
                Value::Array(names) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
                Value::Object(names) => names.keys().cloned().collect(),
                _ => BTreeSet::new(),
            }
        };
        assert!(names("required").is_subset(&names("properties")), "{path}");
    }
}

#[test]
fn defaults_are_those_of_version_1() {
    let defaults: Vec<(String, Value)> = schemas()
        .into_iter()
        .filter_map(|(path, schema)| Some((path, schema.get("default")?.clone())))
        .filter(|(_, default)| !default.is_object())
        .collect();
    let defaults: Vec<(&str, Value)> =
        defaults.iter().map(|(path, default)| (path.as_str(), default.clone())).collect();
    let expected = [
        ("CapacityBuffer.spec.provisioningStrategy", json!("buffer.x-k8s.io/active-capacity")),
        ("EC2NodeClass.spec.metadataOptions.httpEndpoint", json!("enabled")),
        ("EC2NodeClass.spec.metadataOptions.httpProtocolIPv6", json!("disabled")),
        ("EC2NodeClass.spec.metadataOptions.httpPutResponseHopLimit", json!(1)),
        ("EC2NodeClass.spec.metadataOptions.httpTokens", json!("required")),
        ("NodeClaim.spec.expireAfter", json!("720h")),
        ("NodePool.spec.disruption.budgets", json!([{"nodes": "10%"}])),
        ("NodePool.spec.disruption.budgets.items.nodes", json!("10%")),
        ("NodePool.spec.disruption.consolidateAfter", json!("0s")),
        ("NodePool.spec.disruption.consolidationPolicy", json!("WhenEmptyOrUnderutilized")),
        ("NodePool.spec.template.spec.expireAfter", json!("720h")),
        ("NodePool.status.nodes", json!(0)),
    ];
    assert_eq!(defaults, expected);
}

#[test]
fn names_and_columns() {
    let summary: Vec<String> = crds()
        .iter()
        .map(|crd| {
            let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
            let columns: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
            format!(
                "{} {}: {}",
                crd["metadata"]["name"],
                crd["spec"]["names"]["shortNames"],
                columns.join(" ")
            )
        })
        .collect();
    assert_eq!(
        summary,
        [
            "\"capacitybuffers.autoscaling.x-k8s.io\" [\"cb\"]: Strategy PodTemplate Replicas Age",
            "\"ec2nodeclasses.karpenter.k8s.aws\" [\"ec2nc\",\"ec2ncs\"]: Ready Age Role InstanceProfile",
            "\"nodeclaims.karpenter.sh\" null: Type Capacity Zone Node Ready Age ImageID ID NodePool NodeClass",
            "\"nodeoverlays.karpenter.sh\" [\"overlays\"]: Ready Age Weight",
            "\"nodepools.karpenter.sh\" null: NodeClass Nodes Ready Age Weight CPU Memory",
        ]
    );
}
