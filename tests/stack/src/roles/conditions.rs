//! Conditions of a statement: an operator, a key, and the values of which one must fit.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::Value;

use super::{matches, texts};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    StringEquals,
    StringLike,
    ForAllStringLike,
    Bool,
    Null,
}

/// One key under one operator.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    operator: Operator,
    key: String,
    values: Vec<String>,
}

impl Condition {
    /// All conditions of a statement; each must hold.
    pub(super) fn read_all(block: &Value) -> Result<Vec<Self>> {
        let mut conditions = Vec::new();
        for (operator, keys) in block.as_object().into_iter().flatten() {
            let operator = match operator.as_str() {
                "StringEquals" => Operator::StringEquals,
                "StringLike" => Operator::StringLike,
                "ForAllValues:StringLike" => Operator::ForAllStringLike,
                "Bool" => Operator::Bool,
                "Null" => Operator::Null,
                other => bail!("a policy uses the operator {other}, which is not evaluated here"),
            };
            for (key, values) in keys.as_object().into_iter().flatten() {
                conditions.push(Self { operator, key: key.clone(), values: texts(values)? });
            }
        }
        Ok(conditions)
    }

    /// Keys are the same in any case of letters; a key that the request lacks fits nothing but
    /// `Null` and `ForAllValues`.
    pub(super) fn holds(&self, context: &BTreeMap<String, String>) -> bool {
        let given = context.iter().find(|(key, _)| key.eq_ignore_ascii_case(&self.key));
        if self.operator == Operator::Null {
            return self.values.iter().any(|wanted| wanted == &given.is_none().to_string());
        }
        // Each need here has one value of a key; of no value all are as wanted.
        let Some((_, value)) = given else { return self.operator == Operator::ForAllStringLike };
        self.values.iter().any(|wanted| match self.operator {
            Operator::StringEquals => wanted == value,
            Operator::StringLike | Operator::ForAllStringLike => matches(wanted, value),
            Operator::Bool => wanted.eq_ignore_ascii_case(value),
            Operator::Null => false,
        })
    }
}
