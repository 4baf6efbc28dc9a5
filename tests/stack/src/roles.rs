//! IAM: what a role allows, and which rights a call needs.
//!
//! A role is evaluated as IAM does it for an identity's own policies: denied unless a statement
//! allows, and no statement denies. What of IAM's language the template does not use is refused
//! when the role is read, never passed over.

mod calls;
mod conditions;
mod launches;
mod needs;
mod resources;

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use conditions::Condition;

pub use calls::Call;
pub use needs::needs;
pub use resources::{Account, LaunchTemplate};

/// A right that a call needs: an action on a resource, and what is known of both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// As `ec2:TerminateInstances`.
    pub action: String,
    /// Its ARN, or `*` where the action knows none.
    pub resource: String,
    /// The values of condition keys, as `aws:RequestTag/Name`; a key that is not here is absent
    /// from the request.
    pub context: BTreeMap<String, String>,
}

impl Need {
    /// A need without any condition key.
    pub fn new(action: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { action: action.into(), resource: resource.into(), context: BTreeMap::new() }
    }

    /// The same with a condition key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.insert(key.into(), value.into());
        self
    }

    /// The same with tags under a key such as `aws:RequestTag`.
    #[must_use]
    pub fn with_tags<'t>(self, key: &str, tags: impl IntoIterator<Item = (&'t String, &'t String)>) -> Self {
        tags.into_iter().fold(self, |need, (name, value)| need.with(format!("{key}/{name}"), value))
    }

    /// The kind of the resource, as `instance` or `launch-template`; empty where its ARN names
    /// none.
    pub fn resource_type(&self) -> &str {
        let within = self.resource.splitn(6, ':').nth(5).unwrap_or_default();
        within.split_once('/').map_or("", |(kind, _)| kind)
    }
}

/// What a role's policies say.
#[derive(Clone, Debug)]
pub struct Role {
    /// The function that it belongs to.
    pub function: String,
    statements: Vec<Statement>,
}

#[derive(Clone, Debug)]
struct Statement {
    denies: bool,
    actions: Vec<String>,
    resources: Vec<String>,
    conditions: Vec<Condition>,
}

impl Role {
    /// Reads statements.
    pub fn new(function: &str, statements: &[Value]) -> Result<Self> {
        let statements = statements.iter().map(Statement::read).collect::<Result<_>>()?;
        Ok(Self { function: function.to_owned(), statements })
    }

    /// Whether it allows what a call needs.
    pub fn allows(&self, need: &Need) -> bool {
        let mut applying = self.statements.iter().filter(|statement| statement.applies(need)).peekable();
        applying.peek().is_some() && applying.all(|statement| !statement.denies)
    }

    /// The first of these rights that it does not give.
    pub fn refused<'n>(&self, needs: &'n [Need]) -> Option<&'n Need> {
        needs.iter().find(|need| !self.allows(need))
    }

    /// All actions that some statement allows, as they are written.
    pub fn actions(&self) -> impl Iterator<Item = &str> {
        let allowing = self.statements.iter().filter(|statement| !statement.denies);
        allowing.flat_map(|statement| statement.actions.iter().map(String::as_str))
    }

    /// Actions and the resources that they are allowed on, as they are written.
    pub fn grants(&self) -> impl Iterator<Item = (&str, &str)> {
        let allowing = self.statements.iter().filter(|statement| !statement.denies);
        allowing.flat_map(|statement| {
            let on = |action| statement.resources.iter().map(move |resource| (action, resource.as_str()));
            statement.actions.iter().flat_map(move |action| on(action.as_str()))
        })
    }
}

impl Statement {
    fn read(statement: &Value) -> Result<Self> {
        let elements = ["Sid", "Effect", "Action", "Resource", "Condition"];
        if let Some(unknown) = statement
            .as_object()
            .and_then(|statement| statement.keys().find(|key| !elements.contains(&&***key)))
        {
            bail!("a policy has a statement with {unknown}, which is not evaluated here: {statement}");
        }
        let denies = match statement["Effect"].as_str() {
            Some("Allow") => false,
            Some("Deny") => true,
            _ => bail!("a statement neither allows nor denies: {statement}"),
        };
        let (actions, resources) = (texts(&statement["Action"])?, texts(&statement["Resource"])?);
        ensure!(
            !resources.iter().any(|one| one.contains("${")),
            "policy variables are not evaluated here: {statement}"
        );
        Ok(Self { denies, actions, resources, conditions: Condition::read_all(&statement["Condition"])? })
    }

    fn applies(&self, need: &Need) -> bool {
        self.actions.iter().any(|action| matches(&action.to_lowercase(), &need.action.to_lowercase()))
            && self.resources.iter().any(|resource| matches(resource, &need.resource))
            && self.conditions.iter().all(|condition| condition.holds(&need.context))
    }
}

/// One or several texts.
fn texts(value: &Value) -> Result<Vec<String>> {
    let texts: Option<Vec<String>> = match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    match texts.filter(|texts| !texts.is_empty()) {
        Some(texts) => Ok(texts),
        None => bail!("found {value} in a policy; allowed: a text or several"),
    }
}

/// Whether a pattern with `*` and `?` fits a whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Which beginnings of the pattern fit the text so far.
    let mut fits = vec![false; pattern.len() + 1];
    fits[0] = true;
    let after_stars = |fits: &mut Vec<bool>| {
        for (at, _) in pattern.iter().enumerate().filter(|(_, wanted)| **wanted == '*') {
            fits[at + 1] |= fits[at];
        }
    };
    after_stars(&mut fits);
    for character in text {
        let mut next = vec![false; pattern.len() + 1];
        for (at, wanted) in pattern.iter().enumerate().filter(|(at, _)| fits[*at]) {
            match wanted {
                '*' => next[at] = true,
                wanted if *wanted == character || *wanted == '?' => next[at + 1] = true,
                _ => {}
            }
        }
        fits = next;
        after_stars(&mut fits);
    }
    fits[pattern.len()]
}

#[cfg(test)]
mod tests;
