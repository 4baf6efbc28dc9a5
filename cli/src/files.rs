//! Files of the command line: standard input, folders as kubectl takes them, and what gzip has made
//! smaller.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::error::CliError;

/// The endings of files that are read in a folder: kubectl's, and gzip's.
const ENDINGS: [&str; 4] = ["gz", "json", "yaml", "yml"];
/// How a gzip file begins (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BUFFER_BYTES: usize = 1 << 20;

/// The files, with those of a folder in its place, in order of name.
pub(crate) fn expand(files: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut expanded = Vec::new();
    for file in files {
        if !file.is_dir() {
            expanded.push(file.clone());
            continue;
        }
        let entries = fs::read_dir(file).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
        });
        let mut inside = entries.map_err(|source| unreadable(file, source))?;
        let is_meant = |path: &PathBuf| {
            path.is_file() && path.extension().is_some_and(|end| ENDINGS.iter().any(|ending| end == *ending))
        };
        inside.retain(is_meant);
        inside.sort();
        if inside.is_empty() {
            return Err(CliError::Missing {
                what: file.display().to_string(),
                actual: "a folder without such files".into(),
                allowed: format!("files that end in .{}", ENDINGS.join(", .")),
            });
        }
        expanded.extend(inside);
    }
    Ok(expanded)
}

/// Opens a file; `-` is standard input. What gzip has made smaller is as it was before.
pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead>, CliError> {
    let mut reader: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let opened = File::open(file).map_err(|source| unreadable(file, source))?;
        Box::new(BufReader::with_capacity(BUFFER_BYTES, opened))
    };
    let start = reader.fill_buf().map_err(|source| unreadable(file, source))?;
    if start.starts_with(&GZIP) {
        let unzipped = MultiGzDecoder::new(reader);
        reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, unzipped));
    }
    Ok(reader)
}

/// The text of a file.
pub(crate) fn read(file: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    open(file)?.read_to_string(&mut text).map_err(|source| unreadable(file, source))?;
    Ok(text)
}

fn unreadable(file: &Path, source: io::Error) -> CliError {
    CliError::Read { file: file.display().to_string(), source }
}
