//! rustfmt and clippy.

use anyhow::Result;

use crate::command::{cargo, program, run, workspace};
use crate::tests;

/// Every file is formatted.
pub(crate) fn format() -> Result<()> {
    run(program("cargo")?.args(["fmt", "--all", "--check"]))
}

/// No lint complains, in any feature; and the command compiles without features, as README builds
/// it.
pub(crate) fn lints() -> Result<()> {
    // What plain `cargo test` leaves out is not among all targets.
    let (all_targets, on_servers) = (["--all-targets"], tests::on_servers());
    for targets in [&all_targets[..], &on_servers] {
        run(workspace("clippy")?.args(targets).args(["--", "-D", "warnings"]))?;
    }
    run(cargo("check")?.args(["--release", "-p", "outrigger"]))
}
