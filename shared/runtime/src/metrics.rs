//! Metrics as CloudWatch's embedded metric format: one JSON line in the log, no call.

use serde_json::{Map, Value, json};

/// Prints one line of metrics for a function. Each metric is a name and a number; names ending in `Seconds` are times.
pub(crate) fn emit(cluster: &str, function: &str, timestamp_ms: i64, metrics: &[(&str, f64)]) {
    println!("{}", line(cluster, function, timestamp_ms, metrics));
}

fn line(cluster: &str, function: &str, timestamp_ms: i64, metrics: &[(&str, f64)]) -> Value {
    let definitions: Vec<_> = metrics
        .iter()
        .map(|(name, _)| json!({"Name": name, "Unit": if name.ends_with("Seconds") { "Seconds" } else { "Count" }}))
        .collect();
    let mut line = Map::new();
    line.insert(
        "_aws".into(),
        json!({
            "Timestamp": timestamp_ms,
            "CloudWatchMetrics": [{
                "Namespace": "Outrigger",
                "Dimensions": [["Cluster", "Function"]],
                "Metrics": definitions,
            }],
        }),
    );
    line.insert("Cluster".into(), cluster.into());
    line.insert("Function".into(), function.into());
    line.extend(metrics.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_defines_each_metric_that_it_carries() {
        let line = line("c", "provision", 5, &[("NodesLaunched", 2.0), ("TickSeconds", 0.5)]);
        let definitions = line.pointer("/_aws/CloudWatchMetrics/0/Metrics").unwrap();
        assert_eq!(
            definitions,
            &json!([{"Name": "NodesLaunched", "Unit": "Count"}, {"Name": "TickSeconds", "Unit": "Seconds"}])
        );
        assert_eq!((line["NodesLaunched"].as_f64(), line["Cluster"].as_str()), (Some(2.0), Some("c")));
    }
}
