//! rustfmt and clippy.

use anyhow::Result;

use crate::command::{cargo, only_cloud, program, run, without_cloud};

/// Every file is formatted.
pub(crate) fn format() -> Result<()> {
    run(program("cargo")?.args(["fmt", "--all", "--check"]))
}

/// No lint complains, in any feature.
pub(crate) fn lints() -> Result<()> {
    let mut clippy = cargo("clippy")?;
    without_cloud(clippy.args(["--release", "--workspace", "--all-targets", "--all-features"]));
    run(clippy.args(["--", "-D", "warnings"]))
}

/// The same for the packages that compile AWS.
pub(crate) fn cloud_lints() -> Result<()> {
    let mut clippy = cargo("clippy")?;
    only_cloud(clippy.args(["--release", "--all-targets", "--features", "outrigger-aws/system"]));
    run(clippy.args(["--", "-D", "warnings"]))
}
