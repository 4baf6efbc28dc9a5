//! Tells the command which commit it is built from, where git knows.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=../.git/refs/heads");
    let git = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).output();
    let commit =
        git.ok().filter(|git| git.status.success()).and_then(|git| String::from_utf8(git.stdout).ok());
    let commit = commit.map_or_else(|| "unknown".to_owned(), |commit| commit.trim().to_owned());
    println!("cargo::rustc-env=OUTRIGGER_COMMIT={commit}");
}
