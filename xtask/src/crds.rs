//! infra/kubernetes/crds against what `outrigger crds` prints; the command is where the definitions
//! come from.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{member, output, root};

const FOLDER: &str = "infra/kubernetes/crds";

/// Compares every file, or writes them all.
pub(crate) fn run(write: bool) -> Result<()> {
    let printed = output(member("outrigger")?.arg("crds"))?;
    let folder = root()?.join(FOLDER);
    let mut stale = Vec::new();
    for document in documents(&printed) {
        let name = file_name(&document)?;
        let path = folder.join(&name);
        if write {
            fs::create_dir_all(&folder).with_context(|| format!("creating {FOLDER}"))?;
            fs::write(&path, &document).with_context(|| format!("writing {FOLDER}/{name}"))?;
            eprintln!("wrote {FOLDER}/{name}");
        } else if !same(&path, &document) {
            stale.push(name);
        }
    }
    if !stale.is_empty() {
        let names = stale.join(", ");
        bail!("{FOLDER} is not what `outrigger crds` prints: {names}; run `cargo xtask crds --write`");
    }
    Ok(())
}

fn same(path: &Path, document: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text == document)
}

/// The documents of a YAML stream, each with one newline at its end.
fn documents(stream: &str) -> Vec<String> {
    let stream = format!("\n{stream}\n");
    let parts = stream.split("\n---\n").map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| format!("{part}\n")).collect()
}

/// `nodepools.karpenter.sh` lies in `karpenter.sh_nodepools.yaml`, as controller-gen names it.
fn file_name(document: &str) -> Result<String> {
    let metadata = document.lines().skip_while(|line| *line != "metadata:");
    let name = metadata
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .find_map(|line| line.strip_prefix("  name: "));
    let (plural, group) = name
        .and_then(|name| name.trim().split_once('.'))
        .context("`outrigger crds` printed an object without a name")?;
    Ok(format!("{group}_{plural}.yaml"))
}

#[cfg(test)]
mod tests {
    use super::{documents, file_name};

    #[test]
    fn a_stream_is_cut_into_named_files() {
        let stream =
            "---\nkind: A\nmetadata:\n  annotations:\n    x: y\n  name: as.example.com\n---\nkind: B\n";
        let cut = documents(stream);
        assert_eq!(cut.len(), 2);
        assert_eq!(file_name(&cut[0]).expect("a name"), "example.com_as.yaml");
        assert!(file_name(&cut[1]).is_err());
    }
}
