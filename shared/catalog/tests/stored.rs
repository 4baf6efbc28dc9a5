//! Catalogues of every format that was ever stored: each is read from then on, and a newer one is
//! refused by its number.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use outrigger_catalog::{Catalog, CatalogError};
use outrigger_model::{CapacityType, Price};

/// One of each format, from the first on.
const STORED: [&str; 1] = [include_str!("stored/catalog-1.json")];

fn gzip(json: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_catalogue_of_each_format_is_read() {
    assert_eq!(STORED.len(), usize::try_from(Catalog::FORMAT).unwrap(), "a new format is stored here, too");
    for (json, format) in STORED.iter().zip(1..) {
        let catalog = Catalog::decode(&gzip(json)).unwrap_or_else(|error| panic!("format {format}: {error}"));
        let names: Vec<_> = catalog.types.iter().map(|entry| entry.facts.name.as_str()).collect();
        assert_eq!(names, ["g5.xlarge", "m5.large"], "format {format}");
        let facts = &catalog.entry("g5.xlarge").unwrap().facts;
        assert_eq!((facts.vcpus, facts.memory_mib, facts.interfaces), (4, 16_384, 4), "format {format}");
        let price = catalog.price("m5.large", "us-east-1a", CapacityType::OnDemand);
        assert_eq!(price, Some(Price::from_nanos(96_000_000)), "format {format}");
    }
}

#[test]
fn a_newer_format_is_refused_by_its_number_whatever_it_holds() {
    let newer = Catalog::FORMAT + 1;
    let json = STORED[0].replacen("\"version\": 1", &format!("\"version\": {newer}"), 1);
    for json in [json, format!("{{\"version\": {newer}, \"elsewhere\": true}}")] {
        let refused = Catalog::decode(&gzip(&json)).unwrap_err();
        assert!(matches!(refused, CatalogError::Newer { version, .. } if version == newer), "{refused}");
    }
}
