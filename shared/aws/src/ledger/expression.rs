//! DynamoDB's expressions: what a write asks of the item that it meets, and what it changes there.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::item::{names, number, text};

/// An expression with what its placeholders stand for.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

/// How what stands in an item compares with what is written.
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
}

impl Expression {
    /// An expression whose placeholders stand for nothing yet.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), names: HashMap::new(), values: HashMap::new() }
    }

    /// With an attribute's name for a placeholder.
    pub(super) fn name(mut self, placeholder: &str, attribute: &str) -> Self {
        self.names.insert(placeholder.to_owned(), attribute.to_owned());
        self
    }

    /// With a value for a placeholder.
    pub(super) fn value(mut self, placeholder: &str, value: AttributeValue) -> Self {
        self.values.insert(placeholder.to_owned(), value);
        self
    }

    /// There is no such item yet.
    pub(super) fn is_new() -> Self {
        Self::new("attribute_not_exists(#sk)").name("#sk", names::SORT)
    }

    /// The item stands at the version that was read.
    pub(super) fn is_at_version(read: u64) -> Self {
        Self::new("#version = :read").name("#version", names::VERSION).value(":read", number(read))
    }

    /// The item stands at the version that was read, where 0 says that there was none.
    pub(super) fn is_at_version_or_new(read: u64) -> Self {
        match read {
            0 => Self::new("attribute_not_exists(#version)").name("#version", names::VERSION),
            read => Self::is_at_version(read),
        }
    }

    /// The item is in this state.
    pub(super) fn is_in_state(state: impl Into<String>) -> Self {
        Self::new("#state = :state").name("#state", names::STATE).value(":state", text(state))
    }

    /// The item is in one of two states.
    pub(super) fn is_in_either_state([first, second]: [&str; 2]) -> Self {
        Self::new("#state IN (:first, :second)")
            .name("#state", names::STATE)
            .value(":first", text(first))
            .value(":second", text(second))
    }

    /// The item is in none of two states.
    pub(super) fn is_in_neither_state(states: [&str; 2]) -> Self {
        let either = Self::is_in_either_state(states);
        Self { text: format!("NOT {}", either.text), ..either }
    }

    /// The item's body has this text in it.
    pub(super) fn body_holds(part: &str) -> Self {
        Self::new("contains(#body, :part)").name("#body", names::BODY).value(":part", text(part))
    }

    /// Both hold. They share no placeholder.
    pub(super) fn and(self, other: &Self) -> Self {
        let text = format!("({}) AND ({})", self.text, other.text);
        Self { text, ..self.and_placeholders_of(other) }
    }

    /// There is no such item yet, or its attribute compares so with a value.
    pub(super) fn is_new_or(attribute: &str, comparison: Comparison, value: AttributeValue) -> Self {
        let sign = match comparison {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Equal => "=",
        };
        Self::new(format!("attribute_not_exists(#sk) OR #stored {sign} :written"))
            .name("#sk", names::SORT)
            .name("#stored", attribute)
            .value(":written", value)
    }

    /// What the placeholders of attributes stand for.
    pub(super) fn names(&self) -> Option<HashMap<String, String>> {
        Some(self.names.clone()).filter(|names| !names.is_empty())
    }

    /// What the placeholders of values stand for. DynamoDB refuses a request with none where it
    /// could have some.
    pub(super) fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        Some(self.values.clone()).filter(|values| !values.is_empty())
    }

    /// Takes what the placeholders of another expression of the same request stand for.
    pub(super) fn and_placeholders_of(mut self, other: &Self) -> Self {
        self.names.extend(other.names.clone());
        self.values.extend(other.values.clone());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_read_must_not_be_there() {
        let first = Expression::is_at_version_or_new(0);
        assert_eq!((first.text.as_str(), first.values()), ("attribute_not_exists(#version)", None));
        let later = Expression::is_at_version_or_new(3);
        assert_eq!(later.text, Expression::is_at_version(3).text);
        assert_eq!(later.values().and_then(|values| values.get(":read").cloned()), Some(number(3)));
    }

    #[test]
    fn a_claim_is_written_over_version_0_only_where_it_stands() {
        assert_eq!(Expression::is_at_version(0).text, "#version = :read");
    }

    #[test]
    fn every_placeholder_stands_for_something() {
        for comparison in [Comparison::Less, Comparison::LessOrEqual, Comparison::Equal] {
            let expression = Expression::is_new_or(names::UNTIL, comparison, number(1));
            let named = expression.names().unwrap_or_default();
            assert_eq!(named.get("#stored").map(String::as_str), Some(names::UNTIL));
            assert_eq!(named.get("#sk").map(String::as_str), Some(names::SORT));
            assert!(expression.text.contains("#sk") && expression.text.contains("#stored"));
            assert!(expression.text.ends_with(" :written"), "{}", expression.text);
        }
    }
}
