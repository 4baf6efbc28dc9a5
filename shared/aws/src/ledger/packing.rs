//! Values that may be large: as JSON while they are small, compressed else. DynamoDB takes 400 KB
//! for an item.

use std::borrow::Cow;
use std::io::{Error, Read, Write};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::item::text;

const COMPRESS_ABOVE_BYTES: usize = 100 * 1024;
const MAX_BYTES: usize = 350 * 1024;
const MAX_UNPACKED_BYTES: u64 = 64 << 20;

/// A value that was packed.
pub(super) enum Packed {
    Json(Vec<u8>),
    Compressed(Vec<u8>),
}

impl Packed {
    /// Whether an item may hold it.
    pub(super) fn is_small_enough(&self) -> bool {
        let (Self::Json(bytes) | Self::Compressed(bytes)) = self;
        bytes.len() <= MAX_BYTES
    }

    /// As an attribute.
    pub(super) fn into_value(self) -> AttributeValue {
        match self {
            Self::Json(json) => text(String::from_utf8_lossy(&json)),
            Self::Compressed(bytes) => AttributeValue::B(Blob::new(bytes)),
        }
    }
}

/// Packs a value, however large.
pub(super) fn packed(value: &impl Serialize) -> Result<Packed, Error> {
    let json = serde_json::to_vec(value)?;
    if json.len() <= COMPRESS_ABOVE_BYTES {
        return Ok(Packed::Json(json));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&json)?;
    Ok(Packed::Compressed(encoder.finish()?))
}

/// Packs a value so that an item may hold it: as long as it is too large, `forget` takes something
/// off it.
pub(super) fn packed_to_fit<T: Clone + Serialize>(
    value: &T,
    forget: impl Fn(&mut T),
) -> Result<Packed, Error> {
    let mut kept = Cow::Borrowed(value);
    loop {
        let packed = packed(kept.as_ref())?;
        if packed.is_small_enough() {
            return Ok(packed);
        }
        forget(kept.to_mut());
    }
}

/// Reads what was compressed.
pub(super) fn unpacked<T: DeserializeOwned>(bytes: &Blob) -> Result<T, Error> {
    let mut json = Vec::new();
    GzDecoder::new(bytes.as_ref()).take(MAX_UNPACKED_BYTES).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}
