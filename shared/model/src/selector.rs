//! Label selectors on pods and namespaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Operator, RequirementSpec};

/// A selector; an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels and their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions: In, NotIn, Exists or DoesNotExist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<RequirementSpec>,
}

impl LabelSelector {
    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        equal
            && self.match_expressions.iter().all(|spec| {
                let value = labels.get(&spec.key);
                match spec.operator {
                    Operator::In => value.is_some_and(|v| spec.values.contains(v)),
                    Operator::NotIn => value.is_none_or(|v| !spec.values.contains(v)),
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                    Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => false,
                }
            })
    }
}
