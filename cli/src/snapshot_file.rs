//! A Snapshot as a file: all that a decision is made from, for making it again elsewhere.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use outrigger_model::Snapshot;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use crate::error::CliError;

/// What a file may hold.
const ALLOWED: &str = "the JSON that outrigger plan --write-snapshot wrote, in the same version";
/// What it may hold, for who gave what kubectl wrote.
const ALLOWED_ELSEWHERE: &str =
    "such objects with -f, or here the JSON that outrigger plan --write-snapshot wrote";

/// The Snapshot that the text of a file is.
pub(crate) fn from_text(file: &Path, text: &str) -> Result<Snapshot, CliError> {
    parse(text).map_err(|Refused { actual, allowed }| {
        let file = file.display().to_string();
        CliError::Snapshot { file, actual, allowed }
    })
}

/// Writes a Snapshot; `-` is standard output. A file that ends in .gz is made smaller.
pub(crate) fn write(file: &Path, snapshot: &Snapshot) -> Result<(), CliError> {
    let written = if file == Path::new("-") {
        write_to(io::stdout().lock(), snapshot).map(drop)
    } else if file.extension().is_some_and(|ending| ending == "gz") {
        let zipped = File::create(file).map(|file| GzEncoder::new(file, Compression::default()));
        zipped.and_then(|zipped| write_to(zipped, snapshot)).and_then(GzEncoder::finish).map(drop)
    } else {
        File::create(file).and_then(|file| write_to(file, snapshot)).map(drop)
    };
    written.map_err(|source| CliError::Write { file: file.display().to_string(), source })
}

fn write_to<W: Write>(to: W, snapshot: &Snapshot) -> io::Result<W> {
    let mut writer = BufWriter::new(to);
    serde_json::to_writer(&mut writer, snapshot)?;
    writer.write_all(b"\n")?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Why a text is no Snapshot.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    actual: String,
    allowed: &'static str,
}

fn parse(text: &str) -> Result<Snapshot, Refused> {
    let mut reader = Deserializer::from_str(text);
    let snapshot = serde_path_to_error::deserialize(&mut reader).map_err(|error| refused(text, &error))?;
    let ends = reader.end().map_err(|error| format!("more behind it ({error})"));
    ends.map_err(|actual| Refused { actual, allowed: ALLOWED })?;
    Ok(snapshot)
}

fn refused(text: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Refused {
    let (path, why) = (error.path().to_string(), error.inner());
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Refused { actual: format!("no JSON ({why})"), allowed: ALLOWED };
    }
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    if let Some(kind) = value["kind"].as_str() {
        return Refused {
            actual: format!("a Kubernetes object of the kind {kind}"),
            allowed: ALLOWED_ELSEWHERE,
        };
    }
    let actual = if path == "." { why.to_string() } else { format!("at {path}: {why}") };
    Refused { actual, allowed: ALLOWED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::Snapshot;

    #[test]
    fn what_is_no_snapshot_is_told_with_its_place() {
        let empty =
            serde_json::to_value(Snapshot::empty("c", "2026-01-01T00:00:00Z".parse().unwrap())).unwrap();
        let with = |field: &str, value: Value| {
            let mut snapshot = empty.clone();
            snapshot[field] = value;
            snapshot.to_string()
        };
        let table = [
            (String::new(), "no JSON"),
            ("kind: List".to_owned(), "no JSON"),
            ("[]".to_owned(), "invalid length 0"),
            (r#"{"kind": "List"}"#.to_owned(), "a Kubernetes object of the kind List"),
            ("{}".to_owned(), "missing field `takenAt`"),
            (with("generation", Value::from("one")), "at generation: invalid type: string"),
            (with("nodes", serde_json::json!([{"name": 7}])), "at nodes[0].name: invalid type: integer"),
            (format!("{empty} {empty}"), "more behind it"),
        ];
        assert!(parse(&empty.to_string()).is_ok());
        for (text, expected) in table {
            let refused = parse(&text).unwrap_err();
            assert!(refused.actual.starts_with(expected), "{text}: {}", refused.actual);
        }
    }
}
