//! What `outrigger setup` writes for clusters as kOps makes them, and what it refuses.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod again;
mod planned;
mod refused;
mod written;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A cluster of the fixtures: the file of what kOps says of it, and its name.
type Fixture = (&'static str, &'static str);

const ONE_ZONE: Fixture = ("one-zone.yaml", "one.example.com");
const THREE_ZONES: Fixture = ("three-zones.yaml", "three.example.com");
const WITHOUT_DNS: Fixture = ("without-dns.yaml", "dev.k8s.local");
const ARM64_SPOT: Fixture = ("arm64-spot.yaml", "arm.example.com");
const IDENTITY_MAPPINGS: Fixture = ("identity-mappings.yaml", "iam.example.com");

/// All of them.
const CLUSTERS: [Fixture; 5] = [ONE_ZONE, THREE_ZONES, WITHOUT_DNS, ARM64_SPOT, IDENTITY_MAPPINGS];

/// The folder of the fixtures.
fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/setup/data")
}

/// The folder that a test's files are written to.
struct Folder {
    inside: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { inside: tempfile::tempdir().expect("a folder can be made") }
    }

    /// Where setup writes, which does not exist yet.
    fn out(&self) -> PathBuf {
        self.inside.path().join("out")
    }

    /// A file that setup has written.
    fn text(&self, name: &str) -> String {
        let path = self.out().join(name);
        std::fs::read_to_string(&path).expect("setup has written it")
    }

    /// A file beside them.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.inside.path().join(name);
        std::fs::write(&path, text).expect("the folder can be written to");
        path.display().to_string()
    }

    /// The names of the files that setup has written, in order.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.out()) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Runs setup for a cluster of the fixtures.
    fn setup(&self, (file, cluster): Fixture, more: &[&str]) -> Answer {
        let fixture = ["--cluster", cluster, "-f", file, "--kubeconfig", "kubeconfig.yaml"];
        self.run(&[&fixture, more].concat())
    }

    /// Runs setup with these arguments.
    fn run(&self, arguments: &[&str]) -> Answer {
        let out = self.out().display().to_string();
        let output = outrigger(&[&["setup", "--out", &out], arguments].concat());
        let text = |bytes: &[u8]| self.without_path(&String::from_utf8_lossy(bytes));
        Answer { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// A text without the folder's name, which differs from run to run.
    fn without_path(&self, text: &str) -> String {
        text.replace(&self.inside.path().display().to_string(), "[folder]")
    }
}

/// How a command ended, and what it printed.
struct Answer {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the built command beside the fixtures, without the user's own kubeconfig.
fn outrigger(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(arguments)
        .current_dir(data())
        .env_remove("KUBECONFIG")
        .env("HOME", data())
        .output()
        .expect("the command runs")
}
