//! A copy of the workspace whose sources are changed, with a target directory of its own. What did
//! not change keeps its age, so that cargo builds only what hangs on a change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use outrigger_bench::Mutation;
use outrigger_bench::mutations::{SOURCES, changed_sources};

/// The package and its example that is built and run: it hangs on little beside the planner.
const PACKAGE: &str = "outrigger-planning";
const EXAMPLE: &str = "decide";

/// The copy.
pub(super) struct Workspace {
    root: PathBuf,
    folder: PathBuf,
}

impl Workspace {
    /// Copies the sources with all mutations into a folder, by default one beside what cargo
    /// builds.
    pub(super) fn new(folder: Option<&Path>, mutations: &[Mutation]) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("bench lies in no workspace")?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = folder.map_or_else(|| target.join("operators"), Path::to_owned);
        let workspace = Self { root: root.to_owned(), folder };
        let read = |file: &str| Ok(text_of(&read(&root.join(SOURCES).join(file))?));
        let changed = changed_sources(mutations, read)?;
        workspace.copy(&changed)?;
        Ok(workspace)
    }

    /// The workspace that was copied.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the copy lies, with all that is built from it.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Builds the program that decides.
    pub(super) fn build(&self) -> Result<PathBuf> {
        let target = self.folder.join("target");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(self.sources()).env("CARGO_TARGET_DIR", &target);
        cargo.args(["build", "--quiet", "--release", "--locked", "--package", PACKAGE, "--example", EXAMPLE]);
        output(&mut cargo)?;
        Ok(target.join("release/examples").join(EXAMPLE))
    }

    /// Copies what git knows or would take, with other texts for some files of the optimiser.
    fn copy(&self, changed: &BTreeMap<String, String>) -> Result<()> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args(["ls-files", "-co", "--exclude-standard"]);
        for name in text_of(&output(&mut git)?.stdout).lines() {
            let from = self.root.join(name);
            let below = Path::new(name).strip_prefix(SOURCES).ok().and_then(Path::to_str);
            if let Some(text) = below.and_then(|below| changed.get(below)) {
                write_if_other(&self.sources().join(name), text.as_bytes())?;
            } else if from.is_file() {
                // What is deleted but not committed is listed.
                write_if_other(&self.sources().join(name), &read(&from)?)?;
            }
        }
        Ok(())
    }

    fn sources(&self) -> PathBuf {
        self.folder.join("sources")
    }
}

/// Runs a program to its end; an error holds what it had to say.
pub(super) fn output(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("starting {name}"))?;
    ensure!(done.status.success(), "{name}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr));
    Ok(done)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write_if_other(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}
