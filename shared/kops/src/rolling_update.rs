//! `rollingUpdate` of an InstanceGroup: how many of its nodes are replaced at once.

use std::fmt;

use outrigger_model::Invalid;
use outrigger_model::node_pool::{Budget, DisruptionReason};
use serde::Deserialize;
use serde_json::Value;

/// How a group is updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many nodes more than the group has there may be meanwhile.
    pub max_surge: Option<Share>,
    /// How many of the group's nodes may be missing meanwhile.
    pub max_unavailable: Option<Share>,
}

/// A part of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Share {
    /// So many nodes.
    Nodes(u32),
    /// So many hundredths of all.
    Percent(u32),
}

impl RollingUpdate {
    /// The budgets of a pool whose drifted nodes are replaced at this pace; what else is disrupted
    /// has Karpenter's default.
    ///
    /// `kops rolling-update` has as many nodes under way as both fields together allow, and one at
    /// least.
    pub(crate) fn budgets(&self, group: &str) -> Result<Vec<Budget>, Invalid> {
        let at_once = match (self.max_surge, self.max_unavailable) {
            (one, None | Some(Share::Nodes(0) | Share::Percent(0)))
            | (None | Some(Share::Nodes(0) | Share::Percent(0)), one) => one.unwrap_or(Share::Nodes(0)),
            (Some(Share::Nodes(more)), Some(Share::Nodes(missing))) => {
                Share::Nodes(more.saturating_add(missing))
            }
            (Some(Share::Percent(more)), Some(Share::Percent(missing))) => {
                Share::Percent(100.min(more + missing))
            }
            (Some(more), Some(missing)) => {
                let value = format!("maxSurge {more} and maxUnavailable {missing}");
                let allowed = "both as numbers of nodes, or both as percentages";
                return Err(Invalid::new(group, "spec.rollingUpdate", value, allowed));
            }
        };
        let nodes = match at_once {
            Share::Nodes(0) | Share::Percent(0) => Share::Nodes(1),
            some => some,
        };
        let budget = |nodes: String, reasons: &[DisruptionReason]| Budget {
            nodes,
            schedule: None,
            duration: None,
            reasons: Some(reasons.to_vec()),
        };
        Ok(vec![
            budget(nodes.to_string(), &[DisruptionReason::Drifted]),
            budget("10%".to_owned(), &[DisruptionReason::Empty, DisruptionReason::Underutilized]),
        ])
    }
}

impl TryFrom<Value> for Share {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let whole = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let hundredths = |text: &str| text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100);
        let read = match &value {
            Value::String(text) => hundredths(text).map(Self::Percent),
            number => whole(number).map(Self::Nodes),
        };
        read.ok_or_else(|| {
            format!("found {value} in spec.rollingUpdate; allowed: a number of nodes or a percentage, as 2 or \"25%\"")
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn paces(yaml: &str, expected: &str) {
        let update: RollingUpdate = serde_saphyr::from_str(yaml).unwrap();
        let budgets = update.budgets("InstanceGroup/nodes").unwrap();
        assert_eq!(budgets[0].nodes, expected, "{yaml}");
    }

    #[test]
    fn both_fields_together_pace_drift() {
        paces("{maxSurge: 2}", "2");
        paces("{maxUnavailable: 25%}", "25%");
        paces("{maxSurge: 2, maxUnavailable: 3}", "5");
        paces("{maxSurge: 60%, maxUnavailable: 50%}", "100%");
        paces("{maxSurge: 0, maxUnavailable: 10%}", "10%");
        paces("{maxSurge: 3, maxUnavailable: 0%}", "3");
        paces("{maxSurge: 0, maxUnavailable: 0}", "1");
        paces("{}", "1");
    }

    #[test]
    fn what_is_no_share_of_a_group_is_refused() {
        let mixed: RollingUpdate = serde_saphyr::from_str("{maxSurge: 2, maxUnavailable: 25%}").unwrap();
        let error = mixed.budgets("InstanceGroup/nodes").unwrap_err().to_string();
        assert_eq!(
            error,
            "InstanceGroup/nodes: spec.rollingUpdate: found maxSurge 2 and maxUnavailable 25%; allowed: both as numbers \
             of nodes, or both as percentages"
        );
        for wrong in ["{maxSurge: -1}", "{maxSurge: many}", "{maxUnavailable: 101%}"] {
            let error = serde_saphyr::from_str::<RollingUpdate>(wrong).unwrap_err().to_string();
            assert!(error.contains("allowed: a number of nodes or a percentage"), "{error}");
        }
    }
}
