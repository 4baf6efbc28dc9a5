//! The stored form of a catalogue: gzip over JSON in an envelope with a version.
//!
//! JSON, because people can look at it with zcat; it is fast enough (about 10 ms for a whole
//! region) and an added field does not break an older reader.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::error::CatalogError;

const VERSION: u32 = 1;
/// Several times what the largest region comes to; more is damage or malice.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Serialize)]
struct Envelope<'a> {
    version: u32,
    catalog: &'a Catalog,
}

#[derive(Deserialize)]
struct Header {
    version: u32,
}

#[derive(Deserialize)]
struct Content {
    catalog: Catalog,
}

impl Catalog {
    /// The format in which it is stored; older ones are read too.
    pub const FORMAT: u32 = VERSION;

    /// The catalogue as the one object that `refresh` stores.
    pub fn encode(&self) -> Result<Vec<u8>, CatalogError> {
        encode(self)
    }

    /// Reads what [`Catalog::encode`] wrote. A newer format is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        decode(bytes)
    }
}

fn encode(catalog: &Catalog) -> Result<Vec<u8>, CatalogError> {
    let json = serde_json::to_vec(&Envelope { version: VERSION, catalog }).map_err(CatalogError::Json)?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&json).and_then(|()| gzip.finish()).map_err(CatalogError::Compression)
}

/// The version is read first: the content of a newer format need not even parse.
fn decode(bytes: &[u8]) -> Result<Catalog, CatalogError> {
    let mut json = Vec::new();
    let read = GzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut json);
    let read = read.map_err(CatalogError::Compression)? as u64;
    if read > MOST_BYTES {
        let why = format!("more than {} MiB", MOST_BYTES >> 20);
        return Err(CatalogError::Compression(std::io::Error::new(std::io::ErrorKind::InvalidData, why)));
    }
    let Header { version } = serde_json::from_slice(&json).map_err(CatalogError::Json)?;
    if version > VERSION {
        return Err(CatalogError::Newer { version, newest: VERSION });
    }
    let Content { catalog } = serde_json::from_slice(&json).map_err(CatalogError::Json)?;
    Ok(catalog)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(json: &str) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(json.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn stored_and_read_it_is_the_same() {
        let catalog = Catalog::embedded("us-east-1", &[]).unwrap();
        assert_eq!(decode(&encode(&catalog).unwrap()).unwrap(), catalog);
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let message = decode(&gzip(r#"{"version":2,"types":"elsewhere"}"#)).unwrap_err().to_string();
        assert!(message.contains("format 2") && message.contains("up to 1"), "{message}");
    }

    #[test]
    fn damage_is_an_error() {
        let whole = encode(&Catalog::embedded("us-gov-east-1", &[]).unwrap()).unwrap();
        for bytes in [&b"not gzip"[..], &[], &whole[..whole.len() / 2]] {
            assert!(matches!(decode(bytes), Err(CatalogError::Compression(_))), "{} bytes", bytes.len());
        }
        for json in ["", "[]", r#"{"version":1}"#, r#"{"version":1,"catalog":{"region":"x"}}"#] {
            assert!(matches!(decode(&gzip(json)), Err(CatalogError::Json(_))), "{json}");
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let bomb = gzip(&" ".repeat(usize::try_from(MOST_BYTES).unwrap() + 1));
        assert!(matches!(decode(&bomb), Err(CatalogError::Compression(_))));
    }
}
