//! One label requirement as a set of values: eight operators, intersection, membership.
//!
//! The rules are Karpenter's (`pkg/scheduling/requirement.go`, 1.14): a requirement is a set of
//! values or the complement of one, narrowed by inclusive integer bounds.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operators of a requirement. Pods may use all but `Gte` and `Lte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
    /// The label is an integer not below the value.
    Gte,
    /// The label is an integer not above the value.
    Lte,
}

impl Operator {
    /// Every operator, in the order in which they are listed for people.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// Whether the operator compares integers.
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }

    /// The operator of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| format!("{operator:?}") == name)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A requirement as it is written in a NodePool or NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RequirementSpec {
    /// The label key.
    #[schemars(length(max = 316), regex(pattern = crate::schema_rules::KEY_PATTERN))]
    pub key: String,
    /// How the values are compared.
    pub operator: Operator,
    /// The values; none for Exists and DoesNotExist, one integer for the comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub values: Vec<String>,
    /// How many distinct values of this key the offered instance types must keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub min_values: Option<u32>,
}

/// The set of values that a label may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Whether `values` are those that are excluded.
    complement: bool,
    values: BTreeSet<String>,
    at_least: Option<i64>,
    at_most: Option<i64>,
    min_values: Option<u32>,
}

impl Requirement {
    /// The requirement of one operator. A comparison whose value is not an integer allows nothing.
    pub fn new<V: Into<String>>(operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        let values: BTreeSet<String> = values.into_iter().map(Into::into).collect();
        let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
        match operator {
            Operator::In => Self { values, ..Self::nothing() },
            Operator::NotIn => Self { values, ..Self::anything() },
            Operator::Exists => Self::anything(),
            Operator::DoesNotExist => Self::nothing(),
            Operator::Gt => Self::between(bound().and_then(|n| n.checked_add(1)), None),
            Operator::Gte => Self::between(bound(), None),
            Operator::Lt => Self::between(None, bound().and_then(|n| n.checked_sub(1))),
            Operator::Lte => Self::between(None, bound()),
        }
    }

    /// The label must be present, with any value.
    pub const fn anything() -> Self {
        Self { complement: true, values: BTreeSet::new(), at_least: None, at_most: None, min_values: None }
    }

    /// The label must be absent.
    pub const fn nothing() -> Self {
        Self { complement: false, values: BTreeSet::new(), at_least: None, at_most: None, min_values: None }
    }

    /// The label must have one of these values.
    pub fn any_of<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        Self::new(Operator::In, values)
    }

    /// The label must have this value.
    pub fn exactly(value: impl Into<String>) -> Self {
        Self::any_of([value.into()])
    }

    fn between(at_least: Option<i64>, at_most: Option<i64>) -> Self {
        if at_least.is_none() && at_most.is_none() {
            return Self::nothing();
        }
        Self { at_least, at_most, ..Self::anything() }
    }

    /// The same, keeping at least so many distinct values.
    #[must_use]
    pub const fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// How many distinct values of the key must remain.
    pub const fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Whether a label may have this value.
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|number| {
            self.at_least.is_none_or(|bound| number >= bound)
                && self.at_most.is_none_or(|bound| number <= bound)
        })
    }

    /// The operator that this set amounts to, bounds aside.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// Whether an absent label meets the requirement.
    pub fn allows_absence(&self) -> bool {
        let bounded = self.at_least.is_some() || self.at_most.is_some();
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist) && !bounded
    }

    /// Whether only an absent label meets the requirement.
    pub fn allows_absence_only(&self) -> bool {
        self.operator() == Operator::DoesNotExist
    }

    /// The values, when they are a finite set.
    pub fn values(&self) -> Option<&BTreeSet<String>> {
        (!self.complement).then_some(&self.values)
    }

    /// The value, when only one is possible.
    pub fn single(&self) -> Option<&str> {
        if self.complement || self.values.len() != 1 { None } else { self.values.first().map(String::as_str) }
    }

    /// The values that both allow.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min_values = self.min_values.max(other.min_values);
        if matches!((at_least, at_most), (Some(low), Some(high)) if low > high) {
            return Self::nothing().with_min_values(min_values);
        }
        let complement = self.complement && other.complement;
        let values = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        let mut result = Self { complement, values, at_least, at_most, min_values };
        let kept: BTreeSet<String> =
            result.values.iter().filter(|v| result.within_bounds(v)).cloned().collect();
        result.values = kept;
        if !complement {
            (result.at_least, result.at_most) = (None, None);
        }
        result
    }

    /// Whether some value is allowed by both.
    pub fn intersects(&self, other: &Self) -> bool {
        let (few, many) = match (self.complement, other.complement) {
            (true, true) => return self.intersection(other).operator() != Operator::DoesNotExist,
            (false, _) => (self, other),
            (true, false) => (other, self),
        };
        few.values.iter().any(|value| few.within_bounds(value) && many.has(value))
    }

    /// Some allowed value: the smallest of a finite set, or one that the bounds and exclusions
    /// leave.
    pub fn any(&self) -> Option<String> {
        if !self.complement {
            return self.values.first().cloned();
        }
        // One more number than there are exclusions leaves at least one.
        let start = self.at_least.unwrap_or_else(|| self.at_most.map_or(1, |bound| bound.min(1)));
        let tries = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        (0..=tries)
            .filter_map(|step| start.checked_add(step))
            .map(|n| n.to_string())
            .find(|value| self.has(value))
    }

    /// The requirement as it is written; one with bounds takes up to three lines.
    pub fn to_specs(&self, key: &str) -> Vec<RequirementSpec> {
        let spec = |operator, values| RequirementSpec {
            key: key.to_owned(),
            operator,
            values,
            min_values: self.min_values,
        };
        let bounds = [(Operator::Gte, self.at_least), (Operator::Lte, self.at_most)];
        let mut specs: Vec<_> = bounds
            .into_iter()
            .filter_map(|(operator, bound)| bound.map(|bound| spec(operator, vec![bound.to_string()])))
            .collect();
        if specs.is_empty() || !self.values.is_empty() {
            specs.push(spec(self.operator(), self.values.iter().cloned().collect()));
        }
        specs
    }
}

impl From<&RequirementSpec> for Requirement {
    fn from(spec: &RequirementSpec) -> Self {
        Self::new(spec.operator, spec.values.iter().cloned()).with_min_values(spec.min_values)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for spec in self.to_specs("") {
            let shown: Vec<_> = spec.values.iter().take(5).map(String::as_str).collect();
            let more = spec.values.len().saturating_sub(5);
            let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
            parts.push(match spec.operator {
                Operator::Exists | Operator::DoesNotExist => spec.operator.to_string(),
                operator => format!("{operator} [{}{tail}]", shown.join(", ")),
            });
        }
        f.write_str(&parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    use proptest::prelude::*;

    fn r(operator: Operator, values: &[&str]) -> Requirement {
        Requirement::new(operator, values.iter().copied())
    }

    #[test]
    fn membership_of_each_operator() {
        let table: [(Requirement, &str, bool); 16] = [
            (r(In, &["a", "b"]), "a", true),
            (r(In, &["a", "b"]), "c", false),
            (r(NotIn, &["a"]), "a", false),
            (r(NotIn, &["a"]), "c", true),
            (r(Exists, &[]), "anything", true),
            (r(DoesNotExist, &[]), "anything", false),
            (r(Gt, &["5"]), "5", false),
            (r(Gt, &["5"]), "6", true),
            (r(Lt, &["5"]), "5", false),
            (r(Lt, &["5"]), "4", true),
            (r(Gte, &["5"]), "5", true),
            (r(Lte, &["5"]), "5", true),
            (r(Gt, &["5"]), "many", false),
            (r(Gt, &["9223372036854775807"]), "9", false),
            (r(Lt, &["-9223372036854775808"]), "9", false),
            (r(Gt, &["x"]), "9", false),
        ];
        for (requirement, value, expected) in table {
            assert_eq!(requirement.has(value), expected, "{requirement} has {value}");
        }
    }

    #[test]
    fn intersections() {
        let table = [
            (r(In, &["a", "b"]), r(NotIn, &["a"]), "In [b]"),
            (r(NotIn, &["a"]), r(NotIn, &["b"]), "NotIn [a, b]"),
            (r(Exists, &[]), r(In, &["a"]), "In [a]"),
            (r(Gt, &["2"]), r(Lt, &["5"]), "Gte [3] and Lte [4]"),
            (r(Gt, &["5"]), r(Lt, &["5"]), "DoesNotExist"),
            (r(In, &["1", "3", "x"]), r(Gte, &["3"]), "In [3]"),
            (r(NotIn, &["1", "7"]), r(Gte, &["3"]), "Gte [3] and NotIn [7]"),
            (r(DoesNotExist, &[]), r(Exists, &[]), "DoesNotExist"),
        ];
        for (a, b, expected) in table {
            assert_eq!(a.intersection(&b).to_string(), expected, "{a} with {b}");
        }
    }

    #[test]
    fn absence_is_met_by_negatives_only() {
        assert!(r(NotIn, &["a"]).allows_absence() && r(DoesNotExist, &[]).allows_absence());
        assert!(
            !r(In, &["a"]).allows_absence()
                && !r(Exists, &[]).allows_absence()
                && !r(Gt, &["1"]).allows_absence()
        );
    }

    fn requirement() -> impl Strategy<Value = Requirement> {
        let small = || prop::collection::btree_set("[0-6]", 0..4);
        prop_oneof![
            small().prop_map(|v| Requirement::new(In, v)),
            small().prop_map(|v| Requirement::new(NotIn, v)),
            Just(Requirement::anything()),
            (0..7_i64).prop_map(|n| Requirement::new(Gt, [n.to_string()])),
            (0..7_i64).prop_map(|n| Requirement::new(Lte, [n.to_string()])),
        ]
    }

    proptest! {
        #[test]
        fn intersection_is_what_both_allow(a in requirement(), b in requirement(), value in "[0-8]") {
            prop_assert_eq!(a.intersection(&b).has(&value), a.has(&value) && b.has(&value));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        }

        #[test]
        fn intersects_agrees_with_intersection(a in requirement(), b in requirement()) {
            let both = a.intersection(&b);
            prop_assert_eq!(a.intersects(&b), both.operator() != DoesNotExist, "{} {} {}", a, b, both);
        }

        #[test]
        fn any_is_allowed(a in requirement(), b in requirement()) {
            if let Some(value) = a.intersection(&b).any() {
                prop_assert!(a.has(&value) && b.has(&value));
            }
        }

        #[test]
        fn written_and_read_it_is_the_same(a in requirement(), b in requirement()) {
            let both = a.intersection(&b);
            let read = both.to_specs("k").iter().map(Requirement::from).reduce(|x, y| x.intersection(&y)).unwrap();
            prop_assert_eq!(read, both);
        }
    }
}
