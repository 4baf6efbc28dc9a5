//! Requirements on several labels, and when two sets of them can hold together.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::labels;
use crate::requirement::{Requirement, RequirementSpec};

/// A requirement for each of some label keys. A key without one is free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements(BTreeMap<String, Requirement>);

/// The first label on which two sets of requirements cannot agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conflict {
    /// The label key.
    pub key: String,
    /// What the one side asks for.
    pub wanted: String,
    /// What the other side has; `None` when it does not have the label at all.
    pub offered: Option<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, wanted, offered } = self;
        match offered {
            Some(offered) => write!(f, "{key} {wanted} against {key} {offered}"),
            None => write!(f, "{key} {wanted}, a label that its nodes do not have"),
        }
    }
}

impl Requirements {
    /// No requirements.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Each label with exactly its value.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut requirements = Self::new();
        for (key, value) in labels {
            requirements.add(key, Requirement::exactly(value));
        }
        requirements
    }

    /// Whether they list instance types, families or categories.
    pub fn list_instance_types(&self) -> bool {
        let keys = [labels::INSTANCE_TYPE, labels::INSTANCE_FAMILY, labels::INSTANCE_CATEGORY];
        keys.iter().any(|key| self.get(key).is_some_and(|listed| listed.values().is_some()))
    }

    /// Narrows one label; the key's current name is used.
    pub fn add(&mut self, key: &str, requirement: Requirement) {
        let key = labels::normalized(key);
        let narrowed = match self.0.get(key) {
            Some(present) => present.intersection(&requirement),
            None => requirement,
        };
        self.0.insert(key.to_owned(), narrowed);
    }

    /// Narrows every label that `other` names.
    pub fn add_all(&mut self, other: &Self) {
        for (key, requirement) in &other.0 {
            self.add(key, requirement.clone());
        }
    }

    /// Whether `other` asks of some label what cannot hold together with what is asked of it here.
    pub fn contradict(&self, other: &Self) -> bool {
        other.0.iter().any(|(key, wanted)| {
            self.0.get(key).is_some_and(|offered| {
                !(offered.intersects(wanted) || offered.allows_absence() && wanted.allows_absence())
            })
        })
    }

    /// The same, narrowed by one more.
    #[must_use]
    pub fn with(mut self, key: &str, requirement: Requirement) -> Self {
        self.add(key, requirement);
        self
    }

    /// Drops what is asked of one label.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// What is asked of a label, if anything.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// Whether a label may have a value; one that is not named may have any.
    pub fn allow(&self, key: &str, value: &str) -> bool {
        self.0.get(key).is_none_or(|requirement| requirement.has(value))
    }

    /// Keys and requirements, in order of key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Requirement)> {
        self.0.iter().map(|(key, requirement)| (key.as_str(), requirement))
    }

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nodes described by `self` can meet what `wanted` asks (Karpenter's `Compatible`).
    ///
    /// A well-known label that `self` does not name is free, since every node gets one; a custom
    /// label that it does not name is absent, which only a negative requirement accepts.
    pub fn meets(&self, wanted: &Self) -> Result<(), Conflict> {
        for (key, requirement) in &wanted.0 {
            let conflict = |offered| Conflict { key: key.clone(), wanted: requirement.to_string(), offered };
            match self.0.get(key) {
                None if labels::is_well_known(key) || requirement.allows_absence() => {}
                None => return Err(conflict(None)),
                Some(offered) if offered.intersects(requirement) => {}
                Some(offered) if offered.allows_absence() && requirement.allows_absence() => {}
                Some(offered) => return Err(conflict(Some(offered.to_string()))),
            }
        }
        Ok(())
    }

    /// Whether a node or an instance type with these labels meets the requirements; an absent label
    /// is absent.
    pub fn match_labels(&self, labels: &BTreeMap<String, String>) -> Result<(), Conflict> {
        for (key, requirement) in &self.0 {
            let value = labels.get(key);
            let met = value.map_or_else(|| requirement.allows_absence(), |value| requirement.has(value));
            if !met {
                return Err(Conflict {
                    key: key.clone(),
                    wanted: requirement.to_string(),
                    offered: value.cloned(),
                });
            }
        }
        Ok(())
    }

    /// As they are written in a NodeClaim.
    pub fn to_specs(&self) -> Vec<RequirementSpec> {
        self.0.iter().flat_map(|(key, requirement)| requirement.to_specs(key)).collect()
    }
}

impl<'a> FromIterator<&'a RequirementSpec> for Requirements {
    fn from_iter<I: IntoIterator<Item = &'a RequirementSpec>>(specs: I) -> Self {
        let mut requirements = Self::new();
        for spec in specs {
            requirements.add(&spec.key, spec.into());
        }
        requirements
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, requirement)) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { ", " };
            write!(f, "{gap}{key} {requirement}")?;
        }
        Ok(())
    }
}

impl Serialize for Requirements {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_specs().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Requirements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<RequirementSpec>::deserialize(deserializer)?.iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::Operator::{self, DoesNotExist, Exists, In, NotIn};

    fn one(key: &str, operator: Operator, values: &[&str]) -> Requirements {
        Requirements::new().with(key, Requirement::new(operator, values.iter().copied()))
    }

    #[test]
    fn custom_labels_must_be_there_and_well_known_ones_are_free() {
        let pool = one("team", In, &["red"]);
        let table = [
            (one("team", In, &["red", "blue"]), true),
            (one("team", In, &["blue"]), false),
            (one("team", DoesNotExist, &[]), false),
            (one("tier", In, &["gold"]), false),
            (one("tier", NotIn, &["gold"]), true),
            (one("tier", DoesNotExist, &[]), true),
            (one("tier", Exists, &[]), false),
            (one(labels::ZONE, In, &["us-east-1a"]), true),
            (one("failure-domain.beta.kubernetes.io/zone", In, &["us-east-1a"]), true),
        ];
        for (wanted, expected) in table {
            assert_eq!(pool.meets(&wanted).is_ok(), expected, "{wanted}");
        }
    }

    #[test]
    fn a_conflict_says_both_sides() {
        let conflict = one("team", In, &["red"]).meets(&one("team", In, &["blue"])).unwrap_err();
        assert_eq!(conflict.to_string(), "team In [blue] against team In [red]");
        let conflict = Requirements::new().meets(&one("tier", In, &["gold"])).unwrap_err();
        assert_eq!(conflict.to_string(), "tier In [gold], a label that its nodes do not have");
    }

    #[test]
    fn labels_of_a_node_are_all_there_is() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        assert!(one("a", In, &["1"]).match_labels(&labels).is_ok());
        assert!(one(labels::ZONE, In, &["z"]).match_labels(&labels).is_err());
        assert!(one(labels::ZONE, NotIn, &["z"]).match_labels(&labels).is_ok());
    }
}
