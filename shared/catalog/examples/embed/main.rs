//! Writes the data that the catalogue embeds, and the table that its tests compare with, from
//! published lists.
//!
//!     cargo run -p outrigger-catalog --example embed -- \
//!         <instance-types.csv> <eni-limits.csv> <volume-limits.csv> <on-demand-prices.csv> <published-table.json>
//!
//! `data/README.md` says what the lists are. The program writes `data/*.json.gz` and
//! `tests/published.csv` of its crate.

mod facts;
mod published;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use outrigger_model::Price;
use serde::Serialize;

use source::Rows;

fn main() -> Result<()> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [types, limits, attachments, prices, table] = paths.as_slice() else {
        bail!(
            "allowed: <instance-types.csv> <eni-limits.csv> <volume-limits.csv> <on-demand-prices.csv> \
             <published-table.json>"
        );
    };
    let table = published::read(Path::new(table))?;
    let (types, limits, attachments) = (Rows::read(types)?, Rows::read(limits)?, Rows::read(attachments)?);
    let facts = facts::collect(&types, &limits, &attachments, &table)?;
    let prices = price_list(&Rows::read(prices)?, &facts.iter().map(|f| f.name.as_str()).collect())?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    store(&root.join("data/instance-types.json.gz"), &facts)?;
    store(&root.join("data/on-demand-prices.json.gz"), &prices)?;
    published::write(&table, &root.join("tests/published.csv"))
}

/// Prices by region and type, without those of types whose facts are not known: they could not be
/// planned with.
fn price_list(
    rows: &Rows,
    types: &std::collections::BTreeSet<&str>,
) -> Result<BTreeMap<String, BTreeMap<String, Price>>> {
    let mut list: BTreeMap<String, BTreeMap<String, Price>> = BTreeMap::new();
    let mut left_out = Vec::new();
    for row in rows.iter() {
        let name = row.text("instance_type")?;
        if !types.contains(name) {
            left_out.push(format!("{name} ({})", row.text("region")?));
            continue;
        }
        let price = Price::from_dollars(row.number::<f64>("usd_per_hour")?).context("not a price")?;
        list.entry(row.text("region")?.to_owned()).or_default().insert(name.to_owned(), price);
    }
    eprintln!("{} prices left out, of types without facts: {}", left_out.len(), left_out.join(", "));
    Ok(list)
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
