//! Writing the files. What somebody has changed is left alone.

use std::path::Path;

use serde::Serialize;

use crate::error::CliError;

/// A file that is to be written.
pub(crate) struct Draft {
    /// Its name in the folder.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// Its text.
    pub(crate) text: String,
    /// What it was before the stack's outputs were known. A file with this text is nobody's work.
    pub(crate) before: Option<String>,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Fate {
    /// It is new, or took the place of another.
    Written,
    /// It was there with the same text.
    Unchanged,
    /// It was there with another text, and is as it was.
    Kept,
}

/// A file, and what became of it.
#[derive(Debug, Serialize)]
pub(crate) struct WrittenFile {
    /// Its path.
    pub(crate) file: String,
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// What became of it.
    pub(crate) fate: Fate,
}

/// Whether files that differ are overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// They are left.
    Keep,
    /// They are overwritten.
    Overwrite,
}

/// Writes the files into a folder.
pub(crate) fn write(
    folder: &Path,
    drafts: &[Draft],
    existing: Existing,
) -> Result<Vec<WrittenFile>, CliError> {
    let fates = drafts.iter().map(|draft| fate(folder, draft, existing)).collect::<Result<Vec<_>, _>>()?;
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut written = Vec::new();
    for (draft, fate) in drafts.iter().zip(fates) {
        let path = folder.join(draft.name);
        if fate == Fate::Written {
            std::fs::write(&path, &draft.text).map_err(failed(&path))?;
        }
        written.push(WrittenFile { file: path.display().to_string(), purpose: draft.purpose, fate });
    }
    Ok(written)
}

/// What is to become of a file. All are looked at before the first is written.
fn fate(folder: &Path, draft: &Draft, existing: Existing) -> Result<Fate, CliError> {
    let path = folder.join(draft.name);
    let there = match std::fs::read(&path) {
        Ok(there) => there,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Fate::Written),
        Err(source) => return Err(CliError::Read { file: path.display().to_string(), source }),
    };
    let is_ours = |text: &String| text.as_bytes() == there;
    Ok(if is_ours(&draft.text) {
        Fate::Unchanged
    } else if existing == Existing::Overwrite || draft.before.as_ref().is_some_and(is_ours) {
        Fate::Written
    } else {
        Fate::Kept
    })
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> CliError + use<> {
    let file = path.display().to_string();
    move |source| CliError::Write { file: file.clone(), source }
}
