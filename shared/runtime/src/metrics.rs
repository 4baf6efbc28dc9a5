//! Metrics as CloudWatch's embedded metric format: one JSON line in the log, no call.
//!
//! CloudWatch asks $0.30 a month for each metric that has a value in every hour. So there are few,
//! those that an alarm or a bill is made of, and a zero is not sent. Lambda itself counts errors
//! and seconds, and each tick's log line has the rest.

use serde_json::{Map, Value, json};

/// A number that CloudWatch keeps. There are no others than these; docs/operating.md has them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric(&'static str);

pub(crate) const BINDING_FORBIDDEN: Metric = Metric("BindingForbidden");
pub(crate) const BREAKER_OPEN: Metric = Metric("BreakerOpen");
pub(crate) const CATALOG_INCOMPLETE: Metric = Metric("CatalogIncomplete");
pub(crate) const CLOCK_DIFFERENCE: Metric = Metric("ClockDifference");
pub(crate) const COST_PER_HOUR: Metric = Metric("CostPerHour");
pub(crate) const NODES_FORGOTTEN: Metric = Metric("NodesForgotten");
pub(crate) const NODES_INTERRUPTED: Metric = Metric("NodesInterrupted");
pub(crate) const NODES_LAUNCHED: Metric = Metric("NodesLaunched");
pub(crate) const PAUSED: Metric = Metric("Paused");
pub(crate) const PODS_UNPLACED: Metric = Metric("PodsUnplaced");
pub(crate) const POOLS_PAUSED: Metric = Metric("PoolsPaused");

/// Prints one line of metrics of a cluster, unless all are zero.
pub(crate) fn emit(cluster: &str, timestamp_ms: i64, metrics: &[(Metric, f64)]) {
    if let Some(line) = line(cluster, timestamp_ms, metrics) {
        println!("{line}");
    }
}

fn line(cluster: &str, timestamp_ms: i64, metrics: &[(Metric, f64)]) -> Option<Value> {
    let nonzero: Vec<(&str, f64)> = metrics
        .iter()
        .filter(|(_, value)| *value != 0.0)
        .map(|(Metric(name), value)| (*name, *value))
        .collect();
    let definitions: Vec<_> = nonzero.iter().map(|(name, _)| json!({"Name": name})).collect();
    let mut line = Map::new();
    line.insert(
        "_aws".into(),
        json!({
            "Timestamp": timestamp_ms,
            "CloudWatchMetrics": [{
                "Namespace": "Outrigger",
                "Dimensions": [["Cluster"]],
                "Metrics": definitions,
            }],
        }),
    );
    line.insert("Cluster".into(), cluster.into());
    line.extend(nonzero.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    (!nonzero.is_empty()).then_some(Value::Object(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_defines_each_metric_that_it_carries_and_no_zero() {
        let metrics = [(NODES_LAUNCHED, 2.0), (PAUSED, 0.0), (COST_PER_HOUR, 0.5)];
        let line = line("c", 5, &metrics).unwrap();
        let definitions = line.pointer("/_aws/CloudWatchMetrics/0/Metrics").unwrap();
        assert_eq!(definitions, &json!([{"Name": "NodesLaunched"}, {"Name": "CostPerHour"}]));
        assert_eq!(line.pointer("/_aws/CloudWatchMetrics/0/Dimensions"), Some(&json!([["Cluster"]])));
        assert_eq!((line["NodesLaunched"].as_f64(), line["Cluster"].as_str()), (Some(2.0), Some("c")));
        assert_eq!(line.get("Paused"), None);
    }

    #[test]
    fn nothing_is_told_of_nothing() {
        assert_eq!(line("c", 5, &[(PAUSED, 0.0)]), None);
    }

    /// Only this file can make a metric.
    #[test]
    fn all_metrics_are_documented_and_cost_what_readme_says() {
        let constants =
            include_str!("metrics.rs").lines().filter_map(|line| line.split_once(": Metric = Metric(\""));
        let names: Vec<&str> = constants.filter_map(|(_, rest)| rest.split('"').next()).collect();
        let operating = include_str!("../../../docs/operating.md");
        for name in &names {
            assert!(operating.contains(&format!("\n| `{name}` | ")), "{name} is not in docs/operating.md");
        }
        let rows = operating.lines().skip_while(|line| !line.starts_with("| metric |"));
        let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
        assert_eq!(rows.count(), names.len());
        let most = format!("up to ${:.2}", 0.3 * names.len() as f64);
        let readme = include_str!("../../../README.md");
        assert!(readme.contains(&most), "README does not say {most}");
    }
}
