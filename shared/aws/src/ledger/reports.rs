//! The last report of each function. DynamoDB takes 400 KB for an item, so a large one is
//! compressed, and cut where even that is too much; a report explains, nothing depends on it.

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use outrigger_engine::ports::{LedgerError, Reports};
use outrigger_model::report::{PodsOutcome, PodsReport, Report};

use super::expression::{Comparison, Expression};
use super::item::{names, number};
use super::partition::Partition;
use super::queries::get;
use super::single_write::put_if;
use super::{DynamoLedger, packing};

/// How many pods of one entry a cut report still names.
const NAMED_PODS: usize = 20;
const TAKEN_AT: &str = "taken_at_ms";

/// The sort key of a function's report.
fn key(function: &str) -> String {
    format!("report#{function}")
}

#[async_trait]
impl Reports for DynamoLedger {
    /// A later report that is there stays.
    async fn put_report(&self, function: &str, at: Timestamp, report: &Report) -> Result<(), LedgerError> {
        let taken_at = number(at.as_millisecond());
        let partition = Partition::of_function(function);
        let item = self.item(partition, key(function)).with(TAKEN_AT, taken_at.clone());
        let body = packed(report).map_err(|error| item.unreadable(error))?;
        let condition = Expression::is_new_or(TAKEN_AT, Comparison::LessOrEqual, taken_at);
        let attempted = format!("write the report of {function}");
        put_if(self, item.with(names::BODY, body), &condition, attempted).await.map(|_| ())
    }

    async fn report(&self, function: &str) -> Result<Option<(Timestamp, Report)>, LedgerError> {
        let Some(item) = get(self, Partition::of_function(function), &key(function)).await? else {
            return Ok(None);
        };
        let at = Timestamp::from_millisecond(item.number(TAKEN_AT)?);
        Ok(Some((at.map_err(|error| item.unreadable(error))?, item.packed_body()?)))
    }
}

/// The report, or what fits of it.
fn packed(report: &Report) -> Result<AttributeValue, std::io::Error> {
    let mut packed = packing::packed(report)?;
    let mut entries = report.pods.len().max(report.nodes.len()).max(report.verdicts.len());
    while !packed.is_small_enough() && entries > 0 {
        entries /= 2;
        packed = packing::packed(&cut(report, entries))?;
    }
    Ok(packed.into_value())
}

/// The first entries of a report, with a last one that says how much is missing.
fn cut(report: &Report, entries: usize) -> Report {
    let mut pods: Vec<PodsReport> = report.pods.iter().take(entries).cloned().collect();
    for entry in &mut pods {
        entry.pods.truncate(NAMED_PODS);
    }
    let reason = format!(
        "the report was cut: {entries} of {} groups of pods and of {} nodes are shown, {NAMED_PODS} pods of each group",
        report.pods.len(),
        report.nodes.len()
    );
    pods.push(PodsReport { pods: Vec::new(), outcome: PodsOutcome::Ignored { reason } });
    Report {
        pods,
        nodes: report.nodes.iter().take(entries).cloned().collect(),
        invalid: report.invalid.iter().take(entries).cloned().collect(),
        unreadable: report.unreadable.iter().take(entries).cloned().collect(),
        verdicts: report.verdicts.iter().take(entries).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::PodRef;

    /// Names that do not compress, so that size follows from the number of pods.
    fn report(pods: usize) -> Report {
        let name = |index: usize| {
            let hash = outrigger_kops::sha256_base64(&index.to_string());
            PodRef { namespace: "default".into(), name: hash }
        };
        let entry = |index| PodsReport {
            pods: vec![name(index)],
            outcome: PodsOutcome::Placed { on: name(index + 1).name },
        };
        Report { pods: (0..pods).map(entry).collect(), ..Report::default() }
    }

    #[test]
    fn a_small_report_stays_readable() {
        let small = report(10);
        let packed = packed(&small).unwrap();
        let read: Report = serde_json::from_str(packed.as_s().unwrap()).unwrap();
        assert_eq!(read, small);
    }

    #[test]
    fn a_large_report_is_compressed_whole() {
        let large = report(2_000);
        let packed = packed(&large).unwrap();
        let bytes = packed.as_b().unwrap();
        assert_eq!(packing::unpacked::<Report>(bytes).unwrap(), large);
    }

    #[test]
    fn what_is_too_large_even_so_is_cut_with_a_note() {
        let packed = packed(&report(40_000)).unwrap();
        let bytes = packed.as_b().unwrap();
        assert!(bytes.as_ref().len() < 400 * 1024, "DynamoDB takes no more");
        let read: Report = packing::unpacked(bytes).unwrap();
        let PodsOutcome::Ignored { reason } = &read.pods.last().unwrap().outcome else { panic!("no note") };
        assert!(reason.contains("of 40000 groups"), "{reason}");
    }
}
