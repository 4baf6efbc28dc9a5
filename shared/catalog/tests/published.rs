//! Labels and allocatable of every embedded type against Karpenter's published table for a default
//! `EC2NodeClass`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use outrigger_catalog::{InstanceTypeFacts, allocatable, embedded, labels};
use outrigger_model::{Kubelet, KubeletSettings, Quantity};

const TABLE: &str = include_str!("published.csv");
const RESOURCES: usize = 10;

/// The cells of a row by column name, absent ones left out.
type Cells = BTreeMap<String, String>;

fn table() -> Vec<(String, Cells, Cells)> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(TABLE.as_bytes());
    let columns: Vec<String> = reader.headers().unwrap().iter().enumerate().map(full_name).collect();
    let row = |record: csv::StringRecord| {
        let cells = |from: usize, to: usize| {
            let present = (from..to).filter(|at| &record[*at] != "-");
            present.map(|at| (columns[at].clone(), record[at].to_owned())).collect::<Cells>()
        };
        (record[0].to_owned(), cells(1, RESOURCES + 1), cells(RESOURCES + 1, record.len()))
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

/// Labels are written without the prefix that most of them have.
fn full_name((at, column): (usize, &str)) -> String {
    let is_whole = at <= RESOURCES || column.contains('/');
    if is_whole { column.to_owned() } else { format!("karpenter.k8s.aws/instance-{column}") }
}

#[test]
fn every_type_has_its_published_labels() {
    for (name, _, expected) in table() {
        assert_eq!(labels::labels_of(facts(&name)), expected, "{name}");
    }
}

#[test]
fn every_type_has_its_published_allocatable() {
    let kubelet = Kubelet::Karpenter(KubeletSettings::default());
    for (name, expected, _) in table() {
        let actual = allocatable::node_resources(facts(&name), &kubelet, Quantity::gibibytes(20)).allocatable;
        let actual: Cells =
            actual.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect();
        assert_eq!(actual, expected, "{name}");
    }
}

#[test]
fn the_table_is_whole() {
    let names: Vec<String> = table().into_iter().map(|(name, ..)| name).collect();
    assert!(embedded::facts().unwrap().iter().map(|facts| &facts.name).eq(&names));
}

fn facts(name: &str) -> &'static InstanceTypeFacts {
    embedded::facts_of(name).unwrap_or_else(|| panic!("{name} is not embedded"))
}
