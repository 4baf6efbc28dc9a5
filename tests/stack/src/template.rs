//! template.yaml, as CloudFormation makes a stack of it: what each function runs with and what its
//! role may do.
//!
//! Only what the template uses is understood; anything else is an error, so that nothing is passed
//! over.

mod functions;
mod intrinsic;
mod yaml;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::aws::{ACCOUNT, REGION};

pub use functions::Deployed;

/// The template as it is written, with functions such as `!Ref` in their long form.
#[derive(Clone, Debug)]
pub struct Template {
    root: Value,
}

/// What the account makes of the template's resources: what `!Ref` and `!GetAtt` come to.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// What `!Ref` comes to, by logical id.
    pub names: BTreeMap<String, String>,
    /// The ARN, by logical id.
    pub arns: BTreeMap<String, String>,
}

impl Template {
    /// Reads the template of a checkout.
    pub fn of_checkout(checkout: &Path) -> Result<Self> {
        let path = checkout.join("template.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { root: yaml::read(text)? })
    }

    /// The whole, as it is written.
    #[cfg(test)]
    pub(crate) const fn root(&self) -> &Value {
        &self.root
    }

    /// What it comes to with these parameters; the others have their defaults.
    pub fn deploy(&self, parameters: &BTreeMap<String, String>, resources: Resources) -> Result<Deployed> {
        let mut values = BTreeMap::new();
        for (name, parameter) in entries(&self.root["Parameters"]) {
            let given = parameters.get(name).cloned().or_else(|| default(parameter));
            let value = given.with_context(|| format!("the template's parameter {name} has no default"))?;
            values.insert(name.clone(), check(name, parameter, value)?);
        }
        if let Some(unknown) = parameters.keys().find(|name| !values.contains_key(*name)) {
            bail!("the template has no parameter {unknown}");
        }
        let pseudo = [
            ("AWS::Region", REGION),
            ("AWS::AccountId", ACCOUNT),
            ("AWS::Partition", "aws"),
            ("AWS::URLSuffix", "amazonaws.com"),
        ];
        values.extend(pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(Deployed::new(self.root.clone(), values, resources))
    }
}

/// The entries of a mapping; none where there is no such mapping.
fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn default(parameter: &Value) -> Option<String> {
    match &parameter["Default"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A value that is among those that the parameter allows.
fn check(name: &str, parameter: &Value, value: String) -> Result<String> {
    let text = |allowed: &Value| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned);
    let allowed = parameter["AllowedValues"].as_array();
    if let Some(allowed) = allowed.filter(|allowed| !allowed.iter().any(|one| text(one) == value)) {
        bail!("the template's parameter {name} is {value:?}; allowed: {allowed:?}");
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
