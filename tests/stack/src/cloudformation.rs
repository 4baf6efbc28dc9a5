//! A stack of a release, deployed with SAM as somebody without Rust does, on moto's
//! `CloudFormation`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::aws::REGION;
use crate::cache::Cache;
use crate::made::Made;
use crate::options::Options;
use crate::stack::Stack;
use crate::tools::Tools;

/// The program that plays `CloudFormation`'s transform.
const PROGRAM: &str = include_str!("cloudformation.py");
/// Where SAM puts the packages.
const PACKAGES: &str = "packages";

/// The template with its packages in S3.
pub struct Packages<'s> {
    stack: &'s Stack,
    folder: TempDir,
}

impl<'s> Packages<'s> {
    /// Takes the packages of the release that `cargo xtask test build` has made. Errors where there
    /// is none.
    pub fn of_release(stack: &'s Stack) -> Result<Self> {
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
        let release = Options::default().checkout.join(format!("dist/outrigger-{architecture}"));
        let template = release.join("template.yaml");
        ensure!(template.is_file(), "{} does not exist; run `cargo xtask test build`", template.display());
        stack.aws().create_bucket(PACKAGES)?;
        let packages = Self { stack, folder: tempfile::tempdir()? };
        let sam = Tools::ensure_sam(&Cache::open()?)?;
        let mut command = Command::new(sam.join("sam"));
        command.args(["package", "--use-json", "--s3-bucket", PACKAGES]);
        command.arg("--template-file").arg(template).arg("--output-template-file").arg(packages.template());
        command.env("AWS_ENDPOINT_URL", &stack.state().endpoints.aws).env("SAM_CLI_TELEMETRY", "0");
        output(as_deployer(&mut command))?;
        Ok(packages)
    }

    fn template(&self) -> PathBuf {
        self.folder.path().join("packaged.json")
    }

    /// Creates a stack of this name.
    pub fn deploy(&self, name: &str, parameters: &BTreeMap<String, String>) -> Result<Made> {
        let endpoint = &self.stack.state().endpoints.aws;
        let program = self.folder.path().join("cloudformation.py");
        fs::write(&program, PROGRAM)?;
        let mut command = Command::new(self.stack.tools().moto.join("python"));
        command.arg(program).arg(self.template()).args([endpoint, name]).arg(json!(parameters).to_string());
        let answer = output(as_deployer(&mut command))?;
        serde_json::from_str(&answer).with_context(|| format!("reading what came of the stack: {answer}"))
    }
}

fn as_deployer(command: &mut Command) -> &mut Command {
    command
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_DEFAULT_REGION", REGION)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
