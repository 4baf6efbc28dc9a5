//! The selector maps of `karpenter.k8s.aws/v1alpha1`, as the selector terms of v1.
//!
//! All entries of a map must hold, and the values of one entry, between commas, are alternatives.
//! In v1 all tags of a term must hold, and terms are alternatives. So each way to choose one value
//! of every entry is a term.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The keys that stand for ids, not for a tag.
const IDS: [&str; 2] = ["aws-ids", "aws::ids"];
const NAMES: &str = "aws::name";
const OWNERS: &str = "aws::owners";

/// What a map selects.
pub(super) struct Terms {
    /// The terms of v1.
    pub(super) terms: Vec<Value>,
    /// Entries that no term has, since those with an id have nothing beside it.
    pub(super) ignored: Vec<String>,
}

/// The terms for subnets or security groups.
pub(super) fn tag_terms(selector: &BTreeMap<String, String>) -> Terms {
    if let Some(terms) = id_terms(selector) {
        return terms;
    }
    let entries = selector.iter().map(|(key, value)| (Slot::Tag(key), alternatives(value)));
    Terms { terms: chosen(entries), ignored: Vec::new() }
}

/// The terms for images.
pub(super) fn image_terms(selector: &BTreeMap<String, String>) -> Terms {
    if let Some(terms) = id_terms(selector) {
        return terms;
    }
    let entries = selector.iter().map(|(key, value)| {
        let slot = match key.as_str() {
            NAMES => Slot::Field("name"),
            OWNERS => Slot::Field("owner"),
            tag => Slot::Tag(tag),
        };
        (slot, alternatives(value))
    });
    Terms { terms: chosen(entries), ignored: Vec::new() }
}

/// The terms of a map with ids.
fn id_terms(selector: &BTreeMap<String, String>) -> Option<Terms> {
    let is_id = |key: &&String| IDS.contains(&key.as_str());
    let ids = selector.iter().find(|(key, _)| is_id(key)).map(|(_, ids)| alternatives(ids))?;
    let terms = ids.into_iter().map(|id| json!({ "id": id })).collect();
    Some(Terms { terms, ignored: selector.keys().filter(|key| !is_id(key)).cloned().collect() })
}

/// Where a value goes in a term.
#[derive(Clone, Copy)]
enum Slot<'s> {
    Tag(&'s str),
    Field(&'static str),
}

fn chosen<'s>(entries: impl Iterator<Item = (Slot<'s>, Vec<&'s str>)>) -> Vec<Value> {
    let mut terms = vec![Map::new()];
    for (slot, values) in entries {
        let with = |term: &Map<String, Value>, value: &str| {
            let mut term = term.clone();
            match slot {
                Slot::Field(field) => {
                    term.insert(field.to_owned(), value.into());
                }
                Slot::Tag(tag) => {
                    let tags = term.entry("tags").or_insert_with(|| json!({}));
                    if let Some(tags) = tags.as_object_mut() {
                        tags.insert(tag.to_owned(), value.into());
                    }
                }
            }
            term
        };
        terms = terms.iter().flat_map(|term| values.iter().map(|value| with(term, value))).collect();
    }
    terms.into_iter().filter(|term| !term.is_empty()).map(Value::Object).collect()
}

fn alternatives(values: &str) -> Vec<&str> {
    values.split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_choice_of_values_is_a_term() {
        let terms = tag_terms(&map(&[("Name", "a, b"), ("karpenter.sh/discovery", "c")])).terms;
        let tags = |name: &str| json!({"tags": {"Name": name, "karpenter.sh/discovery": "c"}});
        assert_eq!(terms, [tags("a"), tags("b")]);
        assert!(tag_terms(&map(&[])).terms.is_empty());
    }

    #[test]
    fn ids_stand_alone() {
        let Terms { terms, ignored } = tag_terms(&map(&[("aws-ids", "sg-1,sg-2"), ("team", "x")]));
        assert_eq!(
            (terms, ignored),
            (vec![json!({"id": "sg-1"}), json!({"id": "sg-2"})], vec!["team".into()])
        );
    }

    #[test]
    fn names_and_owners_of_images_are_fields() {
        let terms =
            image_terms(&map(&[("aws::name", "ubuntu-*"), ("aws::owners", "self,amazon"), ("a", "b")]));
        let term = |owner: &str| json!({"name": "ubuntu-*", "owner": owner, "tags": {"a": "b"}});
        assert_eq!(terms.terms, [term("self"), term("amazon")]);
    }
}
