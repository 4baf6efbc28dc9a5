//! What can be wrong with a catalogue.

use outrigger_model::Invalid;

/// Why a catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The embedded price list does not know the region.
    #[error(
        "region {region:?} has no embedded prices; allowed: {allowed}, or a catalogue that `refresh` or \
         --catalog supplies"
    )]
    Region {
        /// The region that was asked for.
        region: String,
        /// The regions that are known, for people.
        allowed: String,
    },
    /// The embedded data is damaged.
    #[error("the embedded catalogue cannot be read: {why}")]
    Embedded {
        /// What is wrong with it.
        why: String,
    },
    /// A stored catalogue was written by a newer Outrigger.
    #[error(
        "the stored catalogue has format {version}; allowed: up to {newest}. Update this function, \
         or let `refresh` write it again"
    )]
    Newer {
        /// The format it has.
        version: u32,
        /// The newest format that is understood.
        newest: u32,
    },
    /// A stored catalogue cannot be decompressed, or is larger than any catalogue is.
    #[error("the stored catalogue is not gzip, is cut short, or is too large")]
    Compression(#[source] std::io::Error),
    /// A stored catalogue, or one that is to be stored, does not go through JSON.
    #[error("the stored catalogue is not what its format says")]
    Json(#[source] serde_json::Error),
    /// A catalogue file is not a JSON list.
    #[error(
        "the catalogue file cannot be read; allowed: a JSON list of objects with name, labels, \
         allocatable and offerings"
    )]
    File(#[source] serde_json::Error),
    /// Entries of a catalogue file are wrong.
    #[error("{}", lines(.0))]
    Entries(Vec<Invalid>),
    /// An eviction threshold is neither an amount nor a percentage.
    #[error(
        "evictionHard: {signal}: found {threshold:?}; allowed: a quantity such as 100Mi, or a \
         percentage from 0% to 100%"
    )]
    Threshold {
        /// The signal, as `memory.available`.
        signal: String,
        /// What stands there.
        threshold: String,
    },
}

/// More complaints than this do not help anybody; the first ones are usually all of one kind.
const SHOWN: usize = 10;

fn lines(problems: &[Invalid]) -> String {
    let mut lines: Vec<String> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    if problems.len() > SHOWN {
        lines.push(format!("and {} more", problems.len() - SHOWN));
    }
    lines.join("\n")
}
