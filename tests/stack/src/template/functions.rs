//! The functions of a deployed template: environment, memory, time, role, and the groups that an
//! operator maps it to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Resources, entries};
use crate::roles::Role;
use crate::schedule::FUNCTIONS;

/// A template with its parameters and resources.
#[derive(Clone, Debug)]
pub struct Deployed {
    pub(super) root: Value,
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) resources: Resources,
}

impl Deployed {
    pub(super) const fn new(root: Value, parameters: BTreeMap<String, String>, resources: Resources) -> Self {
        Self { root, parameters, resources }
    }

    /// The environment that the template gives to a function, those that all have among it.
    pub fn environment(&self, function: &str) -> Result<BTreeMap<String, String>> {
        let pointer = "/Environment/Variables";
        let shared = self.root.pointer(&format!("/Globals/Function{pointer}"));
        let specific = self.properties(function)?.pointer(pointer);
        let mut environment = BTreeMap::new();
        for (name, value) in [shared, specific].into_iter().flatten().flat_map(entries) {
            let value = self.text(value).with_context(|| format!("the variable {name} of {function}"))?;
            environment.insert(name.clone(), value);
        }
        Ok(environment)
    }

    /// A function's memory in MiB.
    pub fn memory(&self, function: &str) -> Result<u64> {
        self.number(function, "MemorySize")
    }

    /// How long an invocation of each function may take.
    pub fn timeouts(&self) -> Result<BTreeMap<String, Duration>> {
        let seconds = |function: &str| self.number(function, "Timeout").map(Duration::from_secs);
        FUNCTIONS.iter().map(|one| Ok((one.name.to_owned(), seconds(one.name)?))).collect()
    }

    /// What a function's role may do, by the policies that the template writes.
    pub fn role(&self, function: &str) -> Result<Role> {
        let policies =
            self.properties(function)?["Policies"].as_array().context("a function without policies")?;
        let mut statements = Vec::new();
        for policy in policies {
            let document = match policy["Ref"].as_str() {
                Some(shared) => &self.root["Resources"][shared]["Properties"]["PolicyDocument"],
                None => policy,
            };
            let document = self.resolve(document)?.unwrap_or_default();
            let Value::Array(listed) = &document["Statement"] else {
                bail!("the policy {policy} of {function} has no statements");
            };
            statements.extend(listed.iter().cloned());
        }
        Role::new(function, &statements)
    }

    /// The groups to which the template's outputs say that a function's role is to be mapped. None
    /// where no output names the role: then it is nobody in the cluster.
    pub fn groups(&self, function: &str) -> Result<BTreeSet<String>> {
        let role = format!("{}Role", logical_id(function)?);
        let is_its = |output: &&Value| output["Value"]["Fn::GetAtt"][0] == *role;
        let Some(output) = entries(&self.root["Outputs"]).map(|(_, output)| output).find(is_its) else {
            return Ok(BTreeSet::new());
        };
        let words = output["Description"].as_str().unwrap_or_default().split([' ', ',', '.', '(', ')']);
        Ok(words.filter(|word| word.starts_with("outrigger:")).map(str::to_owned).collect())
    }

    fn properties(&self, function: &str) -> Result<&Value> {
        let properties = &self.root["Resources"][logical_id(function)?]["Properties"];
        if properties.is_null() {
            bail!("the template has no function {function}");
        }
        Ok(properties)
    }

    fn number(&self, function: &str, property: &str) -> Result<u64> {
        let specific = &self.properties(function)?[property];
        let value = if specific.is_null() { &self.root["Globals"]["Function"][property] } else { specific };
        let text = self.text(value).with_context(|| format!("{property} of {function}"))?;
        text.parse().with_context(|| format!("{property} of {function} is {text:?}; allowed: a whole number"))
    }
}

fn logical_id(function: &str) -> Result<&'static str> {
    let declared = FUNCTIONS.iter().find(|one| one.name == function);
    declared.map(|one| one.logical_id).with_context(|| format!("there is no function named {function}"))
}
