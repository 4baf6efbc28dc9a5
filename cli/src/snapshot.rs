//! `outrigger snapshot`: all that a decision is made from, in one file, as for a bug report. Of
//! pods it has what matters to a scheduler; environments, images and secrets are never read.

mod hashed;

use std::path::Path;

use outrigger_model::Snapshot;
use serde::Serialize;

use crate::error::CliError;
use crate::input::{self, Input};
use crate::output::{CommandOutcome, Document, Format, count, print, say, spinner};
use crate::remarks::Remarks;
use crate::{args, snapshot_file};

/// What was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotOutput {
    file: String,
    node_pools: usize,
    nodes: usize,
    pods: usize,
    names_hashed: bool,
    #[serde(flatten)]
    remarks: Remarks,
}

impl Document for SnapshotOutput {
    const KIND: &'static str = "SnapshotFile";
}

/// Runs the command.
pub(crate) fn run(command: &args::Snapshot, format: Format) -> Result<CommandOutcome, CliError> {
    let progress = spinner("reading");
    let Input { mut snapshot, notes, .. } = input::read_snapshot(&command.source)?;
    let remarks = Remarks::new(&snapshot, notes);
    if command.hash_names {
        snapshot = hashed::with_hashed_names(&snapshot)?;
    }
    progress.finish_and_clear();
    snapshot_file::write(&command.to, &snapshot)?;
    let refused = !snapshot.invalid.is_empty();
    if command.to == Path::new("-") {
        remarks.tell();
    } else {
        let output = output(command, &snapshot, remarks);
        print(&output, format, || text(&output))?;
        output.remarks.tell();
    }
    Ok(if refused { CommandOutcome::Refused } else { CommandOutcome::Done })
}

fn output(command: &args::Snapshot, snapshot: &Snapshot, remarks: Remarks) -> SnapshotOutput {
    SnapshotOutput {
        file: command.to.display().to_string(),
        node_pools: snapshot.node_pools.len(),
        nodes: snapshot.nodes.len(),
        pods: snapshot.pods.len(),
        names_hashed: command.hash_names,
        remarks,
    }
}

fn text(output: &SnapshotOutput) {
    let (pools, nodes) = (count(output.node_pools, "NodePool"), count(output.nodes, "node"));
    say!("{}: {pools}, {nodes}, {}", output.file, count(output.pods, "pod"));
    say!("Decide it again with: outrigger plan --snapshot {}", output.file);
}
