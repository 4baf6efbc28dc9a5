//! The facts that are compiled in: what there is where no AWS answers.
//!
//! `data/README.md` says where they come from. They are decompressed and read when first asked for.

use std::io::Read;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

use crate::error::CatalogError;
use crate::facts::InstanceTypeFacts;

static FACTS: &[u8] = include_bytes!("../data/instance-types.json.gz");

/// The facts of every embedded type, in order of name.
pub fn facts() -> Result<&'static [InstanceTypeFacts], CatalogError> {
    static READ: OnceLock<Result<Vec<InstanceTypeFacts>, String>> = OnceLock::new();
    READ.get_or_init(|| read(FACTS)).as_deref().map_err(|why| damaged(why))
}

/// The facts of one type.
pub fn facts_of(name: &str) -> Option<&'static InstanceTypeFacts> {
    let facts = facts().ok()?;
    facts.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok().and_then(|index| facts.get(index))
}

pub(crate) fn read<T: DeserializeOwned>(compressed: &[u8]) -> Result<T, String> {
    let mut json = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

pub(crate) fn damaged(why: &str) -> CatalogError {
    CatalogError::Embedded { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_all_there_and_in_order() {
        let facts = facts().unwrap();
        assert_eq!(facts.len(), 1_345);
        assert!(facts.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(facts_of("m5.large").map(|facts| facts.vcpus), Some(2));
        assert_eq!(facts_of("m5.enormous"), None);
    }

    #[test]
    fn what_ec2_leaves_out_is_completed() {
        let mut facts = facts_of("m5.large").unwrap().clone();
        let whole = facts.clone();
        (facts.branch_interfaces, facts.network_mbps) = (0, None);
        assert_eq!(facts.clone().completed(), whole);
        facts.name = "m99.large".into();
        assert_eq!(facts.clone().completed(), facts);
    }
}
