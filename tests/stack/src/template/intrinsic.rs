//! CloudFormation's functions: `Ref`, `Fn::GetAtt`, `Fn::Sub`, `Fn::Join`, `Fn::Split`,
//! `Fn::Select`, `Fn::If` and the conditions.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use super::functions::Deployed;

/// What has no value is left out of its list or mapping.
const NO_VALUE: &str = "AWS::NoValue";

impl Deployed {
    /// What a value of the template comes to; `None` where it has none.
    pub(super) fn resolve(&self, value: &Value) -> Result<Option<Value>> {
        match value {
            Value::Array(items) => self.all(items).map(|items| Some(items.into())),
            Value::Object(entries) => match single(entries) {
                Some((function, argument)) => self.call(function, argument),
                None => self.mapping(entries).map(Some),
            },
            plain => Ok(Some(plain.clone())),
        }
    }

    /// What a value comes to that must be a text, a number or a truth; as text.
    pub(super) fn text(&self, value: &Value) -> Result<String> {
        match self.resolve(value)? {
            Some(Value::String(text)) => Ok(text),
            Some(plain @ (Value::Number(_) | Value::Bool(_))) => Ok(plain.to_string()),
            other => bail!("{value} comes to {other:?}; allowed: a text"),
        }
    }

    fn all(&self, items: &[Value]) -> Result<Vec<Value>> {
        let items: Result<Vec<_>> = items.iter().map(|item| self.resolve(item)).collect();
        Ok(items?.into_iter().flatten().collect())
    }

    fn mapping(&self, entries: &Map<String, Value>) -> Result<Value> {
        let mut resolved = Map::new();
        for (key, value) in entries {
            if let Some(value) = self.resolve(value)? {
                resolved.insert(key.clone(), value);
            }
        }
        Ok(resolved.into())
    }

    fn call(&self, function: &str, argument: &Value) -> Result<Option<Value>> {
        Ok(Some(match function {
            "Ref" if argument == NO_VALUE => return Ok(None),
            "Ref" => self.reference(argument.as_str().context("Ref takes a name")?)?,
            "Fn::GetAtt" => self.attribute(argument)?.into(),
            "Fn::Sub" => match argument {
                Value::Array(parts) => {
                    let text = parts[0].as_str().context("Fn::Sub begins with a text")?;
                    self.substitute(text, parts[1].as_object())?.into()
                }
                text => self.substitute(text.as_str().context("Fn::Sub takes a text")?, None)?.into(),
            },
            "Fn::Join" => self.texts(&argument[1])?.join(&self.text(&argument[0])?).into(),
            "Fn::Split" => {
                let (at, text) = (self.text(&argument[0])?, self.text(&argument[1])?);
                text.split(at.as_str()).map(Value::from).collect::<Vec<_>>().into()
            }
            "Fn::Select" => {
                let index: usize = self.text(&argument[0])?.parse()?;
                let texts = self.texts(&argument[1])?;
                texts.get(index).with_context(|| format!("{argument} has no item {index}"))?.clone().into()
            }
            "Fn::If" => {
                let condition = argument[0].as_str().context("Fn::If begins with a condition's name")?;
                return self.resolve(&argument[if self.holds(condition)? { 1 } else { 2 }]);
            }
            "Fn::Equals" => (self.text(&argument[0])? == self.text(&argument[1])?).into(),
            "Fn::Not" => {
                let inner = self.resolve(&argument[0])?.and_then(|inner| inner.as_bool());
                (!inner.context("Fn::Not takes a condition")?).into()
            }
            other => bail!("the template uses {other}, which the local stack does not know"),
        }))
    }

    fn holds(&self, condition: &str) -> Result<bool> {
        let resolved = self.resolve(&self.root["Conditions"][condition])?;
        resolved
            .and_then(|value| value.as_bool())
            .with_context(|| format!("the template has no condition {condition}"))
    }

    /// A list is one parameter, separated by commas.
    fn reference(&self, name: &str) -> Result<Value> {
        if let Some(value) = self.parameters.get(name) {
            let is_list = self.root["Parameters"][name]["Type"] == "CommaDelimitedList";
            return Ok(if is_list { list(value) } else { value.clone().into() });
        }
        let resource = self.resources.names.get(name);
        resource
            .map(|name| name.clone().into())
            .with_context(|| format!("nobody knows what !Ref {name} comes to"))
    }

    fn attribute(&self, argument: &Value) -> Result<String> {
        let (resource, attribute) = (argument[0].as_str(), argument[1].as_str());
        let (Some(resource), Some("Arn")) = (resource, attribute) else {
            bail!("the local stack knows no attribute {argument} of a resource");
        };
        let arn = self.resources.arns.get(resource).cloned();
        arn.with_context(|| format!("nobody knows what !GetAtt {resource}.Arn comes to"))
    }

    /// A text with the values of names in it: those that stand beside it, or else parameters and
    /// attributes.
    fn substitute(&self, text: &str, beside: Option<&Map<String, Value>>) -> Result<String> {
        let mut parts = text.split("${");
        let mut done = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').with_context(|| format!("{text:?} has an open brace"))?;
            ensure!(!name.starts_with('!'), "{text:?} has a literal, which is not known here");
            let stands_beside = beside.and_then(|beside| beside.get(name));
            done += &match (stands_beside, name.split_once('.')) {
                (Some(value), _) => self.text(value)?,
                (None, Some((resource, attribute))) => {
                    self.attribute(&serde_json::json!([resource, attribute]))?
                }
                (None, None) => self.text(&serde_json::json!({ "Ref": name }))?,
            };
            done += rest;
        }
        Ok(done)
    }

    fn texts(&self, value: &Value) -> Result<Vec<String>> {
        let resolved = self.resolve(value)?;
        let items =
            resolved.as_ref().and_then(Value::as_array).with_context(|| format!("{value} is no list"))?;
        items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).with_context(|| format!("{item} is no text")))
            .collect()
    }
}

fn list(value: &str) -> Value {
    value
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(Value::from)
        .collect::<Vec<_>>()
        .into()
}

/// A function and its argument.
fn single(entries: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, argument) = entries.iter().next().filter(|_| entries.len() == 1)?;
    (name == "Ref" || name.starts_with("Fn::")).then_some((name.as_str(), argument))
}
