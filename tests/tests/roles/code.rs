//! The operations of AWS that the code calls, found in its sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outrigger_stack::Options;
use serde_json::Value;

/// The operations that `shared/aws` calls, as the SDK's methods are named. Nothing else may use the
/// SDK.
pub(crate) fn operations() -> BTreeSet<String> {
    let checkout = Options::default().checkout;
    let known = operations_of_the_sdk(&checkout);
    let mut called = BTreeSet::new();
    for path in sources(&checkout.join("shared/aws/src")) {
        let text = fs::read_to_string(&path).unwrap();
        // Tests stand at the end of a file.
        let code = text.split("#[cfg(test)]").next().unwrap();
        called.extend(calls(code).filter(|name| known.contains(*name)).map(str::to_owned));
    }
    called
}

/// Names of methods that are called without arguments, as all of the SDK's operations are.
pub(crate) fn calls(code: &str) -> impl Iterator<Item = &str> {
    let name = |before: &'_ str| {
        before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("").len()
    };
    code.match_indices("()").filter_map(move |(at, _)| {
        let begin = at - name(&code[..at]);
        code[..begin].trim_end().ends_with('.').then(|| &code[begin..at])
    })
}

/// Every operation of the services that the workspace uses: a module of its SDK's crate.
fn operations_of_the_sdk(checkout: &Path) -> BTreeSet<String> {
    // Only what this machine builds has been downloaded for certain.
    let version = output(Command::new("rustc").arg("-vV"));
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Command::new(cargo);
    metadata.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--all-features",
        "--filter-platform",
        &host,
    ]);
    let metadata: Value = serde_json::from_str(&output(metadata.current_dir(checkout))).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let services = packages.filter(|package| package["name"].as_str().unwrap().starts_with("aws-sdk-"));
    let mut operations = BTreeSet::new();
    for service in services {
        let manifest = Path::new(service["manifest_path"].as_str().unwrap());
        for path in fs::read_dir(manifest.with_file_name("src/operation")).unwrap() {
            operations.insert(path.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    operations
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

/// `DescribeSubnets` as the SDK's method is named.
pub(crate) fn method(operation: &str) -> String {
    let mut name = String::new();
    for (at, letter) in operation.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
