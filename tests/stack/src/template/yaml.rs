//! CloudFormation's YAML as JSON: the short form of a function (`!Ref X`) becomes its long one
//! (`{"Ref": "X"}`).

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use serde_saphyr::Tagged;

/// Reads a template.
pub(super) fn read(text: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str::<Node>(text).map(|node| node.0)
}

/// A value with its tag taken in.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged(Plain(value), tag) = Tagged::deserialize(deserializer)?;
        Ok(Self(match tag.as_deref().and_then(|tag| tag.strip_prefix('!')) {
            Some("Ref") => json!({ "Ref": value }),
            Some("Condition") => json!({ "Condition": value }),
            Some("GetAtt") => json!({ "Fn::GetAtt": attribute(&value) }),
            Some(function) => json!({ format!("Fn::{function}"): value }),
            None => value,
        }))
    }
}

/// `!GetAtt Table.Arn` names a resource and an attribute.
fn attribute(value: &Value) -> Value {
    match value.as_str().and_then(|text| text.split_once('.')) {
        Some((resource, attribute)) => json!([resource, attribute]),
        None => value.clone(),
    }
}

/// A value whose own tag is its reader's business.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a template")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Node(item)) = sequence.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some((key, Node(value))) = mapping.next_entry::<String, Node>()? {
            entries.insert(key, value);
        }
        Ok(entries.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_form_becomes_the_long_one() {
        let read = |text: &str| read(text).unwrap();
        assert_eq!(read("a: !Ref X"), json!({"a": {"Ref": "X"}}));
        assert_eq!(read("!GetAtt Table.Arn"), json!({"Fn::GetAtt": ["Table", "Arn"]}));
        assert_eq!(
            read("a: !If\n  - B\n  - !Sub \"s3://${C}\"\n  - !Ref AWS::NoValue\nb: 1\nc: \"1\"\nd: true\n"),
            json!({
                "a": {"Fn::If": ["B", {"Fn::Sub": "s3://${C}"}, {"Ref": "AWS::NoValue"}]},
                "b": 1, "c": "1", "d": true,
            })
        );
        assert_eq!(
            read("!Not [!Equals [!Ref A, \"\"]]"),
            json!({"Fn::Not": [{"Fn::Equals": [{"Ref": "A"}, ""]}]})
        );
    }
}
