//! The cluster or files -> Snapshot: what `plan`, `explain` and `consolidate` decide from.

pub(crate) mod notes;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use outrigger_catalog::{Catalog, prices};
use outrigger_kubernetes::{Dump, DumpReader, ShownClaim};
use outrigger_model::{ClassOffer, InstanceType, NodeClass, Plan, Report, Snapshot, labels};
use outrigger_policy::Options;

use crate::args::Source;
use crate::classes::{self, Classes, Zones};
use crate::cluster;
use crate::error::CliError;
use crate::files::{expand, open, read};
use crate::output::spinner;
use crate::snapshot_file;

/// The region of AWS' own examples, for files that do not say.
const DEFAULT_REGION: &str = "us-east-1";

/// A decision, and how long it took.
pub(crate) struct Decision {
    /// What it was made from.
    pub(crate) snapshot: Snapshot,
    /// What is to be done.
    pub(crate) plan: Plan,
    /// Why.
    pub(crate) report: Report,
    /// The decision alone; reading the files is left out.
    pub(crate) seconds: f64,
    /// What the files do not say, though it matters.
    pub(crate) notes: Vec<String>,
}

/// Reads the files and decides.
pub(crate) fn decide(source: &Source) -> Result<Decision, CliError> {
    let progress = spinner("reading");
    let Input { snapshot, notes, .. } = read_snapshot(source)?;
    progress.set_message("planning");
    let options = options(source);
    let begun = std::time::Instant::now();
    let (plan, report) = outrigger_planning::provision(&snapshot, &options);
    let seconds = begun.elapsed().as_secs_f64();
    progress.finish_and_clear();
    Ok(Decision { snapshot, plan, report, seconds, notes })
}

/// How it is to be decided.
pub(crate) fn options(source: &Source) -> Options<'static> {
    Options {
        node_price: source.node_cost,
        preferences: source.policies.preferences.into(),
        min_values: source.policies.min_values.into(),
        ..Options::default()
    }
}

/// When nodes are looked at. Files do not say when they were written, and nodes are as old as they
/// are now; a Snapshot says it.
pub(crate) fn decided_at(source: &Source, snapshot: &Snapshot) -> Timestamp {
    if source.snapshot.is_some() { snapshot.taken_at } else { Timestamp::now().max(snapshot.taken_at) }
}

/// What is decided from.
pub(crate) struct Input {
    pub(crate) snapshot: Snapshot,
    /// NodeClaim objects; a Snapshot has none, but claims of the ledger.
    pub(crate) node_claims: Vec<ShownClaim>,
    /// What the files do not say, though it matters.
    pub(crate) notes: Vec<String>,
}

/// Reads what is decided from.
pub(crate) fn read_snapshot(source: &Source) -> Result<Input, CliError> {
    if let Some(file) = &source.snapshot {
        let snapshot = snapshot_file::from_text(file, &read(file)?)?;
        return Ok(Input { snapshot, node_claims: Vec::new(), notes: Vec::new() });
    }
    let is_live = source.files.is_empty();
    let (mut dump, mut notes) = if is_live {
        cluster::dump(&source.kubeconfig, reader(&source.kops)?)?
    } else {
        (dump(&source.files)?, Vec::new())
    };
    if dump.is_empty() {
        return Err(nothing(source));
    }
    let classes = offers(&mut dump, source)?;
    notes.extend(notes::of_dump(&dump, source));
    if source.catalog.is_none() && !classes.is_empty() {
        notes.push(prices::described(&region(&dump, source)));
    }
    let node_claims = std::mem::take(&mut dump.node_claims);
    let mut snapshot = dump.into_snapshot("dump", classes);
    if is_live {
        snapshot.taken_at = Timestamp::now().max(snapshot.taken_at);
    }
    notes.extend(notes::of_snapshot(&snapshot));
    Ok(Input { snapshot, node_claims, notes })
}

/// There is nothing to decide from.
fn nothing(source: &Source) -> CliError {
    let files: Vec<String> = source.files.iter().map(|file| file.display().to_string()).collect();
    CliError::Missing {
        what: if files.is_empty() { "the cluster".into() } else { files.join(", ") },
        actual: "no Kubernetes objects".into(),
        allowed: "what kubectl get -o yaml|json writes of nodes, pods, daemonsets and nodepools".into(),
    }
}

/// What kubectl and kOps wrote.
pub(crate) fn dump(files: &[PathBuf]) -> Result<Dump, CliError> {
    Ok(reader(files)?.finish())
}

/// A reader that has taken in files.
fn reader(files: &[PathBuf]) -> Result<DumpReader, CliError> {
    let mut reader = DumpReader::default();
    for file in expand(files)? {
        let name = file.display().to_string();
        reader.add(&name, open(&file)?)?;
    }
    Ok(reader)
}

/// What the classes that the pools refer to make of the catalogue.
fn offers(dump: &mut Dump, source: &Source) -> Result<Vec<ClassOffer>, CliError> {
    classes::add_managed_pools(dump);
    let mut given = source.catalog.as_deref().map(catalog_file).transpose()?;
    if let Some(types) = given.as_mut().filter(|_| !dump.volume_claims.is_empty()) {
        outrigger_catalog::complete_volumes(types);
    }
    let given = given.map(Arc::new);
    let region = region(dump, source);
    let first = outrigger_catalog::offerings::default_zones(&region);
    let zones = if given.is_some() { Zones::OfCatalog } else { Zones::FirstOf(&first) };
    let Classes { classes, invalid } = Classes::from_dump(dump, zones);
    dump.invalid.extend(invalid);
    let catalog = match given {
        Some(_) => None,
        None => Some(embedded(dump, &region, first, &classes)?),
    };
    let offer = |class: NodeClass| {
        let computed = || catalog.as_ref().map(|catalog| catalog.instance_types(&class)).unwrap_or_default();
        let instance_types = given.clone().unwrap_or_else(computed);
        ClassOffer { class, instance_types }
    };
    Ok(classes.into_iter().map(offer).collect())
}

fn catalog_file(file: &Path) -> Result<Vec<InstanceType>, CliError> {
    let text = read(file)?;
    let failed = |source| CliError::Catalog { from: format!("--catalog {}", file.display()), source };
    outrigger_catalog::read_file(text.as_bytes()).map_err(failed)
}

/// The region that was asked for, or that nodes or subnets are in.
fn region(dump: &Dump, source: &Source) -> String {
    let of_nodes = dump.nodes.iter().filter_map(|node| node.labels.get(labels::REGION).cloned()).min();
    let of_subnets =
        || classes::zones(dump).iter().find_map(|zone| labels::region_of(zone).map(str::to_owned));
    let region = source.region.clone().or(of_nodes).or_else(of_subnets);
    region.unwrap_or_else(|| DEFAULT_REGION.to_owned())
}

/// The embedded catalogue of a region, in its first zones and in those that nodes and classes are
/// in.
fn embedded(
    dump: &Dump,
    region: &str,
    first: Vec<String>,
    classes: &[NodeClass],
) -> Result<Catalog, CliError> {
    let of_nodes = dump.nodes.iter().filter_map(|node| node.labels.get(labels::ZONE));
    let of_classes = classes.iter().flat_map(|class| &class.subnets).map(|subnet| &subnet.zone);
    let used = of_nodes.chain(of_classes).filter(|zone| zone.starts_with(region)).cloned();
    let zones: BTreeSet<String> = used.chain(first).collect();
    let zones: Vec<_> = zones.into_iter().collect();
    Catalog::embedded(region, &zones)
        .map_err(|source| CliError::Catalog { from: format!("region {region}"), source })
}
