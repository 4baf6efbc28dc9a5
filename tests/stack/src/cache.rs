//! Where built servers lie: one folder per tool outside of the checkout, named by a digest of what
//! pins it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Written last into a tool's folder. Python's virtual environments hold absolute paths and cannot
/// be renamed into place, so a folder is built where it stays and counts only once it carries this
/// file.
const MARKER: &str = ".complete";

/// Something to be built or installed once.
#[derive(Debug)]
pub struct Tool {
    /// Name of its folder, before the digest.
    pub name: &'static str,
    /// The files that decide what comes out: name and content. They are written into the folder
    /// first.
    pub pins: &'static [(&'static str, &'static str)],
    /// How long it usually takes, for people who wait.
    pub usually: &'static str,
    /// Builds it into the folder.
    pub build: fn(&Path) -> Result<()>,
}

/// The folder of all tools.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$OUTRIGGER_CACHE`, `$XDG_CACHE_HOME/outrigger` or `~/.cache/outrigger`.
    pub fn open() -> Result<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set("OUTRIGGER_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|path| path.join("outrigger")))
            .or_else(|| set("HOME").map(|path| path.join(".cache/outrigger")))
            .context("no place for the cache: set OUTRIGGER_CACHE to a directory")?;
        fs::create_dir_all(&root).with_context(|| format!("creating the cache {}", root.display()))?;
        Ok(Self { root })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The tool's folder, built now unless it is there. A second process waits for the first one's
    /// build.
    pub fn ensure(&self, tool: &Tool) -> Result<PathBuf> {
        let folder = self.root.join(format!("{}-{}", tool.name, digest(tool.pins)));
        if folder.join(MARKER).exists() {
            return Ok(folder);
        }
        let lock_path = self.root.join(format!("{}.lock", tool.name));
        let lock = File::create(&lock_path).with_context(|| format!("creating {}", lock_path.display()))?;
        lock.lock().with_context(|| format!("waiting for {}", lock_path.display()))?;
        if folder.join(MARKER).exists() {
            return Ok(folder);
        }
        eprintln!("stack: installing {} (once; usually {}) ...", tool.name, tool.usually);
        let began = Instant::now();
        install(tool, &folder).with_context(|| {
            format!(
                "installing {} into {}; run `cargo xtask tools` to try again",
                tool.name,
                folder.display()
            )
        })?;
        eprintln!("stack: installed {} in {} s", tool.name, began.elapsed().as_secs());
        Ok(folder)
    }
}

fn install(tool: &Tool, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("removing what an interrupted run left")?;
    }
    fs::create_dir_all(folder)?;
    for (name, content) in tool.pins {
        fs::write(folder.join(name), content)?;
    }
    (tool.build)(folder)?;
    fs::write(folder.join(MARKER), "")?;
    Ok(())
}

fn digest(pins: &[(&str, &str)]) -> String {
    let mut hash = Sha256::new();
    for (name, content) in pins {
        hash.update(format!("{name}\0{}\0{content}", content.len()));
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn digest_changes_with_a_version() {
        assert_ne!(digest(&[("go.mod", "v1")]), digest(&[("go.mod", "v2")]));
        assert_eq!(digest(&[("go.mod", "v1")]), digest(&[("go.mod", "v1")]));
    }
}
