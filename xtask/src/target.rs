//! Where cargo builds: one directory beside the servers, outside of every checkout, so that a clean
//! clone finds what others have compiled of the same crates. Cargo decides what is fresh.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result};

use crate::command::{cargo, root, run, target_directory};

/// Names the checkout whose members were built last.
const STAMP: &str = "outrigger-checkout";
/// Held by the run that uses the directory.
const LOCK: &str = "outrigger-checkout.lock";

/// Takes the directory for this checkout until the file is dropped.
///
/// Cargo tells sources by their path within the workspace and by their age. Members that another
/// checkout has built could pass for ours, so they go first; third-party crates stay.
pub(crate) fn take() -> Result<File> {
    let directory = target_directory()?;
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let held = lock(&directory.join(LOCK))?;
    let (stamp, ours) = (directory.join(STAMP), checkout()?);
    let last = match fs::read_to_string(&stamp) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("reading {}", stamp.display()))?,
    };
    if last != ours {
        run(cargo("clean")?.args(["--quiet", "--release", "--workspace"]))?;
        fs::write(&stamp, ours).with_context(|| format!("writing {}", stamp.display()))?;
    }
    Ok(held)
}

fn lock(path: &std::path::Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("another `cargo xtask` uses {}; waiting for its end ...", path.display());
            file.lock().with_context(|| format!("waiting for {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", path.display()));
        }
    }
    Ok(file)
}

/// A checkout that was deleted and made again at the same path is another one.
fn checkout() -> Result<String> {
    let root = root()?;
    let inode = fs::metadata(&root).with_context(|| format!("reading {}", root.display()))?.ino();
    Ok(format!("{} {inode}\n", root.display()))
}
