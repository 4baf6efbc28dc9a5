//! The syntax of names, label keys and label values, as Kubernetes checks them
//! (`k8s.io/apimachinery/pkg/util/validation`).

/// What a label key, taint key or annotation key may be, for messages.
pub const KEY: &str = "at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or \
                       digit; before it a DNS name and a slash, where wanted";
/// What a label value may be, for messages.
pub const VALUE: &str =
    "at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit; or nothing";
/// What the name of a pool or class may be, for messages.
pub const NAME: &str =
    "a DNS name of at most 63 lower-case letters, digits, '-' or '.', since it becomes a label value";

/// The longest name and the longest value of a label.
const MAX_NAME: usize = 63;
/// The longest prefix of a label key.
const MAX_PREFIX: usize = 253;

/// Whether a text may be a label key: `name` or `prefix/name`.
pub fn is_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let named = !name.is_empty() && is_value(name);
    named && prefix.is_none_or(|prefix| prefix.len() <= MAX_PREFIX && is_dns_name(prefix))
}

/// Whether a text may be a label value; the empty text may.
pub fn is_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edges = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME && edges(bytes.first()) && edges(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

/// Whether a text may name an object whose name becomes a label value.
pub fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && is_dns_name(text)
}

fn is_dns_name(text: &str) -> bool {
    text.split('.').all(|part| {
        let inner = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let long = format!("{}/x", "a".repeat(254));
        let table = [
            ("team", true),
            ("example.com/Team_1.a", true),
            ("", false),
            ("example.com/", false),
            ("/team", false),
            ("Example.com/team", false),
            ("a/b/c", false),
            ("-team", false),
            ("team-", false),
            ("example..com/team", false),
            ("täm", false),
            (&long, false),
        ];
        for (text, expected) in table {
            assert_eq!(is_key(text), expected, "{text:?}");
        }
    }

    #[test]
    fn values_and_names() {
        let (longest, too_long) = ("a".repeat(63), "a".repeat(64));
        for (text, value, name) in [
            ("", true, false),
            ("a", true, true),
            ("A_b.c", true, false),
            ("a.b-c", true, true),
            (".a", false, false),
            ("a b", false, false),
            (&longest, true, true),
            (&too_long, false, false),
        ] {
            assert_eq!((is_value(text), is_name(text)), (value, name), "{text:?}");
        }
    }
}
