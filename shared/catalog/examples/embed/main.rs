//! Writes the data that the catalogue embeds, and the table that its tests compare with, from
//! published lists.
//!
//!     cargo run -p outrigger-catalog --example embed -- facts \
//!         <instance-types.csv> <eni-limits.csv> <volume-limits.csv> <published-table.json>
//!     cargo run -p outrigger-catalog --example embed -- prices \
//!         <on-demand-prices.csv> <prices-by-region.csv>
//!
//! `data/README.md` says what the lists are. The first writes `data/instance-types.json.gz` and
//! `tests/published.csv` of its crate, the second `data/prices.json.gz`.

mod facts;
mod prices;
mod published;
mod source;

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use outrigger_catalog::embedded;
use serde::Serialize;

use source::Rows;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["facts", types, limits, attachments, table] => {
            let table = published::read(Path::new(table))?;
            let (types, limits, attachments) =
                (Rows::read(types)?, Rows::read(limits)?, Rows::read(attachments)?);
            let facts = facts::collect(&types, &limits, &attachments, &table)?;
            store(&root.join("data/instance-types.json.gz"), &facts)?;
            published::write(&table, &root.join("tests/published.csv"))
        }
        ["prices", newer, by_region] => {
            let types = embedded::facts()?.iter().map(|facts| facts.name.as_str()).collect();
            let prices = prices::collect(&Rows::read(newer)?, &Rows::read(by_region)?, &types)?;
            store(&root.join("data/prices.json.gz"), &prices)
        }
        _ => bail!(
            "allowed: facts <instance-types.csv> <eni-limits.csv> <volume-limits.csv> <published-table.json>, \
             or prices <on-demand-prices.csv> <prices-by-region.csv>"
        ),
    }
}

/// Compressed without a time stamp, so that the same input gives the same file.
fn store(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut gzip, value)?;
    gzip.write_all(b"\n")?;
    let bytes = gzip.finish()?;
    eprintln!("{}: {} bytes", path.display(), bytes.len());
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
