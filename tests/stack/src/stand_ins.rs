//! The servers that stand for AWS: `DynamoDB` Local, moto, and cargo lambda's runtime emulator.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{Launch, Process};
use crate::schedule::FUNCTIONS;
use crate::tools::Tools;

/// Starts `DynamoDB` Local, in memory. It listens on every address; there is no option for that.
pub(crate) fn dynamodb(tools: &Tools, directory: &Path, port: u16, tied: bool) -> Result<Process> {
    let jars = tools.dynamodb.display();
    Launch::new("dynamodb", "java", directory, tied)
        .with(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .with([format!("-Djava.library.path={jars}"), "-cp".to_owned(), format!("{jars}/*")])
        .with(["com.amazonaws.services.dynamodbv2.local.main.ServerRunner"])
        .with(["-inMemory", "-sharedDb", "-disableTelemetry", "-port", &port.to_string()])
        .start()
}

/// Starts moto.
pub(crate) fn moto(tools: &Tools, directory: &Path, port: u16, tied: bool) -> Result<Process> {
    Launch::new("moto", tools.moto.join("moto_server"), directory, tied)
        .with(["-H", "127.0.0.1", "-p", &port.to_string()])
        .start()
}

/// Starts cargo lambda's emulator without letting it start functions. It serves only names that are
/// binaries of the package it runs in, so it gets a package of its own that declares ours.
pub(crate) fn emulator(tools: &Tools, directory: &Path, port: u16, tied: bool) -> Result<Process> {
    let package = directory.join("emulator");
    fs::create_dir_all(package.join("src")).with_context(|| format!("creating {}", package.display()))?;
    let mut manifest =
        "[package]\nname = \"emulated\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n".to_owned();
    let declare = |name: &str| format!("\n[[bin]]\nname = \"{name}\"\npath = \"src/main.rs\"\n");
    manifest.extend(FUNCTIONS.iter().map(|function| declare(function.name)));
    fs::write(package.join("Cargo.toml"), manifest)?;
    fs::write(package.join("src/main.rs"), "fn main() {}\n")?;
    let manifest = package.join("Cargo.toml").display().to_string();
    Launch::new("emulator", tools.lambda.join("cargo-lambda"), directory, tied)
        .with(["lambda", "watch", "--only-lambda-apis", "--ignore-changes", "--manifest-path", &manifest])
        .with(["-A", "127.0.0.1", "-P", &port.to_string()])
        .start()
}

/// Whether something accepts connections on the port.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}
