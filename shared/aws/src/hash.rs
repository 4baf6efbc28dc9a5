//! Short names for content.

use sha2::{Digest, Sha256};

/// The first bytes of a SHA-256 in hexadecimal digits, two for each byte.
pub(crate) fn hex_of_sha256(content: &[u8], bytes: usize) -> String {
    let digits = Sha256::digest(content).into_iter().take(bytes).flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_sha256() {
        assert_eq!(hex_of_sha256(b"abc", 8), "ba7816bf8f01cfea");
    }
}
