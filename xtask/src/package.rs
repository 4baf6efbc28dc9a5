//! A release that deploys without Rust: a folder with the functions as packages, the template that
//! names them, the cluster's side, what is in it, and checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::command::{cargo, output, root};
use crate::template::{self, Architecture};

/// Each function's logical id in the template, and its crate.
const FUNCTIONS: [(&str, &str); 5] = [
    ("DisruptFunction", "disrupt"),
    ("InterruptFunction", "interrupt"),
    ("LifecycleFunction", "lifecycle"),
    ("ProvisionFunction", "provision"),
    ("RefreshFunction", "refresh"),
];
/// What goes along as it is.
const ALONG: [&str; 3] = ["CHANGELOG.md", "LICENSE", "infra"];
/// Where releases lie.
const FOLDER: &str = "dist";
const SUMS: &str = "SHA256SUMS";

/// Builds and packages for each of these processors.
pub(crate) fn run(architectures: &[Architecture]) -> Result<()> {
    for architecture in architectures {
        template::build_for(*architecture)?;
        let folder = assemble(*architecture)?;
        eprintln!("{} is deployed with `sam deploy --guided` in it", folder.display());
    }
    Ok(())
}

/// Packages what SAM has built last; returns the release's folder.
pub(crate) fn assemble(architecture: Architecture) -> Result<PathBuf> {
    let root = root()?;
    let folder = root.join(FOLDER).join(format!("outrigger-{}", architecture.as_str()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("functions"))?;
    let built = root.join(".aws-sam/build");
    let mut text = fs::read_to_string(built.join("template.yaml")).context("SAM has built nothing")?;
    for (function, _) in FUNCTIONS {
        let package = format!("functions/{function}.zip");
        zip(&built.join(function).join("bootstrap"), &folder.join(&package))?;
        let (before, after) = (format!("CodeUri: {function}\n"), format!("CodeUri: {package}\n"));
        if !text.contains(&before) {
            bail!("what SAM has built has no line {before:?}");
        }
        text = text.replace(&before, &after);
    }
    fs::write(folder.join("template.yaml"), with_default(&text, architecture)?)?;
    for name in ALONG {
        copy(&root.join(name), &folder.join(name))?;
    }
    let bill = serde_json::to_string_pretty(&bill_of_materials()?)?;
    fs::write(folder.join("sbom.cdx.json"), bill)?;
    fs::write(folder.join(SUMS), sums(&folder)?)?;
    Ok(folder)
}

/// The template whose parameter Architecture is this, unless somebody says otherwise.
fn with_default(template: &str, architecture: Architecture) -> Result<String> {
    let parameter = "  Architecture:\n    Type: String\n    Default: ";
    let Some((before, rest)) = template.split_once(parameter) else {
        bail!("what SAM has built has no parameter Architecture");
    };
    let (_, after) = rest.split_once('\n').context("the template breaks off")?;
    Ok(format!("{before}{parameter}{}\n{after}", architecture.as_str()))
}

/// Packages a program as Lambda wants it. The same program gives the same bytes: the package knows
/// no time.
fn zip(program: &Path, package: &Path) -> Result<()> {
    let mut source = File::open(program).with_context(|| format!("reading {}", program.display()))?;
    let mut archive = ZipWriter::new(File::create(package)?);
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(0o755);
    archive.start_file("bootstrap", options)?;
    io::copy(&mut source, &mut archive)?;
    archive.finish()?;
    Ok(())
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The digest of each file, as `sha256sum --check` reads them.
fn sums(folder: &Path) -> Result<String> {
    let mut sums = String::new();
    for file in files(folder)? {
        let mut digest = Sha256::new();
        io::copy(&mut File::open(&file)?, &mut digest)?;
        for byte in digest.finalize() {
            write!(sums, "{byte:02x}")?;
        }
        writeln!(sums, "  {}", file.strip_prefix(folder)?.display())?;
    }
    Ok(sums)
}

fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.insert(path);
        }
    }
    Ok(found)
}

/// All crates that the functions are linked from, in CycloneDX's form.
fn bill_of_materials() -> Result<Value> {
    let metadata = output(cargo("metadata")?.args(["--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("reading the output of cargo metadata")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let by_id: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let used = linked(&metadata["resolve"]["nodes"], &by_id);
    let components: Vec<Value> =
        used.iter().filter_map(|id| by_id.get(id.as_str())).map(|one| component(one)).collect();
    Ok(json!({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}))
}

/// The ids of the functions' crates and of all that they are linked from.
fn linked(nodes: &Value, packages: &BTreeMap<&str, &Value>) -> BTreeSet<String> {
    let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes.as_array().into_iter().flatten() {
        let Some(id) = node["id"].as_str() else { continue };
        for one in node["deps"].as_array().into_iter().flatten() {
            let mut kinds = one["dep_kinds"].as_array().into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) {
                uses.entry(id).or_default().extend(one["pkg"].as_str());
            }
        }
    }
    let is_function = |package: &Value| FUNCTIONS.iter().any(|(_, name)| package["name"] == *name);
    let mut waiting: Vec<&str> =
        packages.iter().filter(|(_, package)| is_function(package)).map(|(id, _)| *id).collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if linked.insert(id.to_owned()) {
            waiting.extend(uses.get(id).into_iter().flatten());
        }
    }
    linked
}

fn component(package: &Value) -> Value {
    let (name, version) = (&package["name"], &package["version"]);
    let (name, version) = (name.as_str().unwrap_or_default(), version.as_str().unwrap_or_default());
    let mut component = json!({
        "type": "library", "name": name, "version": version, "purl": format!("pkg:cargo/{name}@{version}")});
    if let Some(license) = package["license"].as_str() {
        component["licenses"] = json!([{"expression": license}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::{linked, with_default};
    use crate::template::Architecture;
    use serde_json::{Value, json};

    #[test]
    fn a_release_runs_on_the_processors_that_it_was_built_for() {
        let template =
            "Parameters:\n  Architecture:\n    Type: String\n    Default: x86_64\n    AllowedValues:\n";
        let arm = with_default(template, Architecture::Arm).unwrap();
        assert_eq!(arm, template.replace("x86_64", "arm64"));
        with_default("Parameters:\n", Architecture::Arm).unwrap_err();
    }

    #[test]
    fn what_only_builds_or_tests_a_function_is_not_in_it() {
        let package = |name: &str| json!({"id": name, "name": name});
        let packages = ["disrupt", "kube", "serde", "insta"].map(package);
        let by_id = packages.iter().map(|one| (one["id"].as_str().unwrap(), one)).collect();
        let uses = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let nodes = json!([
            {"id": "disrupt", "deps": [uses("kube", Value::Null), uses("insta", "dev".into())]},
            {"id": "kube", "deps": [uses("serde", Value::Null)]},
        ]);
        let linked: Vec<String> = linked(&nodes, &by_id).into_iter().collect();
        assert_eq!(linked, ["disrupt", "kube", "serde"]);
    }
}
