//! Amounts of several resources at once: what a pod asks for, what a node has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Quantity;

/// CPU, in cores.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Ephemeral storage, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// How many pods.
pub const PODS: &str = "pods";
/// The name under which NodePool limits count nodes.
pub const NODES: &str = "nodes";

/// Quantities by resource name. A resource that is absent counts as nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<String, Quantity>);

impl Resources {
    /// No resources.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The amount of one resource.
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Whether the resource is named, even with nothing of it.
    pub fn names(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets one resource.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        self.0.insert(name.to_owned(), quantity);
    }

    /// The same with one resource set.
    #[must_use]
    pub fn with(mut self, name: &str, quantity: Quantity) -> Self {
        self.set(name, quantity);
        self
    }

    /// Names and amounts, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (name.as_str(), *quantity))
    }

    /// Whether no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds each resource of `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            *self.0.entry(name.clone()).or_default() += *quantity;
        }
    }

    /// Takes each resource of `other` away; the result may be below nothing.
    pub fn subtract(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            *self.0.entry(name.clone()).or_default() -= *quantity;
        }
    }

    /// Raises each resource to that of `other` where that is larger.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            let entry = self.0.entry(name.clone()).or_default();
            *entry = (*entry).max(*quantity);
        }
    }

    /// Whether all of these can be taken out of `available`.
    pub fn fit(&self, available: &Self) -> bool {
        self.0.iter().all(|(name, quantity)| *quantity <= available.get(name))
    }
}

impl<N: Into<String>> FromIterator<(N, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(parts: I) -> Self {
        Self(parts.into_iter().map(|(name, quantity)| (name.into(), quantity)).collect())
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, quantity)) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { ", " };
            write!(f, "{gap}{name} {quantity}")?;
        }
        Ok(())
    }
}

impl schemars::JsonSchema for Resources {
    fn schema_name() -> Cow<'static, str> {
        "Resources".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "additionalProperties": Quantity::json_schema(generator),
        })
    }
}
