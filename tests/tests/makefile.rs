//! What `make` does for `sam build` on machines of other kinds than Lambda's. `uname`, `cargo` and
//! `strip` are stand-ins that write down how they were called.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A machine on which `make` runs.
struct Machine {
    folder: TempDir,
    /// What is built for, where somebody says so.
    architecture: Option<&'static str>,
}

impl Machine {
    /// One of this kind, as `uname -sm` says it.
    fn of_kind(kind: &str) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap(), architecture: None };
        machine.install("uname", &format!("echo {kind}"));
        for program in ["cargo", "strip", "objdump"] {
            machine.install(program, &format!("echo {program} \"$@\" >> {}", machine.calls_file()));
        }
        for built in ["release/refresh", "lambda/refresh/bootstrap"] {
            let built = machine.folder.path().join(built);
            fs::create_dir_all(built.parent().unwrap()).unwrap();
            fs::write(&built, built.display().to_string()).unwrap();
        }
        machine
    }

    fn with_cargo_lambda(self) -> Self {
        self.install("cargo-lambda", "");
        self
    }

    fn building_for(self, architecture: &'static str) -> Self {
        Self { architecture: Some(architecture), ..self }
    }

    fn install(&self, program: &str, script: &str) {
        let path = self.folder.path().join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls_file(&self) -> String {
        self.folder.path().join("calls").display().to_string()
    }

    fn make(&self) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = self.folder.path();
        Command::new("make")
            .args(["--directory", &root.display().to_string(), "build-RefreshFunction"])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
            .env("CARGO_TARGET_DIR", folder)
            .env("ARTIFACTS_DIR", folder)
            .envs(self.architecture.map(|architecture| ("ARCHITECTURE", architecture)))
            .output()
            .unwrap()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.calls_file()).unwrap_or_default()
    }

    /// What was taken as the function's program.
    fn bootstrap(&self) -> String {
        fs::read_to_string(self.folder.path().join("bootstrap")).unwrap()
    }
}

#[test]
fn another_machine_needs_cargo_lambda() {
    let machine = Machine::of_kind("Darwin arm64");
    let output = machine.make();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("pip install cargo-lambda"), "{error}");
    assert_eq!(machine.calls(), "", "nothing is built in vain");
}

#[test]
fn cargo_lambda_builds_and_strips_for_x86_64_on_any_machine() {
    for kind in ["Darwin arm64", "Linux aarch64", "Linux x86_64"] {
        let machine = Machine::of_kind(kind).with_cargo_lambda();
        let output = machine.make();
        assert!(output.status.success(), "{kind}: {output:?}");
        let calls = machine.calls();
        assert!(calls.starts_with("cargo lambda build --x86-64 "), "{kind}: {calls}");
        assert!(calls.contains("profile.release.strip=\"symbols\""), "{kind}: {calls}");
        assert_eq!(calls.lines().count(), 1, "{kind}: {calls}");
        assert!(machine.bootstrap().ends_with("lambda/refresh/bootstrap"), "{kind}");
    }
}

#[test]
fn plain_cargo_serves_on_a_machine_of_lambdas_kind() {
    let machine = Machine::of_kind("Linux x86_64");
    // The newer of the two is not what was built just now.
    let newer = machine.folder.path().join("lambda/refresh/bootstrap");
    fs::write(&newer, newer.display().to_string()).unwrap();
    let output = machine.make();
    assert!(output.status.success(), "{output:?}");
    let calls = machine.calls();
    let programs: Vec<&str> = calls.lines().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(programs, ["cargo", "strip", "objdump"], "{calls}");
    assert!(machine.bootstrap().ends_with("release/refresh"));
}

#[test]
fn arm64_is_built_for_where_that_is_asked_for() {
    let machine = Machine::of_kind("Linux x86_64").with_cargo_lambda().building_for("arm64");
    assert!(machine.make().status.success());
    assert!(machine.calls().starts_with("cargo lambda build --arm64 --config"), "{}", machine.calls());

    let machine = Machine::of_kind("Linux x86_64").building_for("arm64");
    let error = String::from_utf8_lossy(&machine.make().stderr).into_owned();
    assert!(error.contains("Lambda's is Linux aarch64"), "{error}");
    let machine = Machine::of_kind("Linux aarch64").building_for("arm64");
    assert!(machine.make().status.success(), "plain cargo serves there");

    let machine = Machine::of_kind("Linux x86_64").with_cargo_lambda().building_for("riscv64");
    let error = String::from_utf8_lossy(&machine.make().stderr).into_owned();
    assert!(error.contains("ARCHITECTURE is \"riscv64\"; allowed: x86_64 or arm64"), "{error}");
}
