//! User data as kOps writes it: finding the hash that nodeup will check, and joining parts.
//!
//! A machine whose user data carries another hash than the `nodeupconfig.yaml` in force retries for
//! ever and never joins, so the two are compared before every launch.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::spec::AdditionalUserData;

const HASH_FIELD: &str = "NodeupConfigHash:";
/// User data is at most 16 KiB; what unpacks to far more than kOps writes is not kOps' own.
const MAX_UNPACKED_BYTES: u64 = 4 << 20;
/// Base64 of gzip of base64 is the deepest nesting that kOps and EC2 produce together.
const MAX_DEPTH: usize = 4;

/// The `NodeupConfigHash` in user data: plain, base64, gzip, a MIME part, or the packed `kube_env`
/// that `compressUserData` makes. `None` when there is none to be found.
pub fn nodeup_config_hash(user_data: &str) -> Option<String> {
    hash_in(user_data.as_bytes(), 0)
}

/// The hash by which nodeup knows its configuration: base64 of SHA-256.
pub fn sha256_base64(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// The boot script together with the group's own parts, as kOps joins them for an Auto Scaling
/// group.
pub(crate) fn with_parts(script: &str, parts: &[AdditionalUserData]) -> String {
    if parts.is_empty() {
        return script.to_owned();
    }
    let mut boundary = "OUTRIGGER-PART".to_owned();
    while script.contains(&boundary) || parts.iter().any(|part| part.content.contains(&boundary)) {
        boundary.push('X');
    }
    let part = |name: &str, kind: &str, content: &str| {
        let (name, kind) = (header_text(name), header_text(kind));
        format!(
            "--{boundary}\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\
             Content-Transfer-Encoding: 7bit\r\nContent-Type: {kind}\r\nMIME-Version: 1.0\r\n\r\n{content}\r\n"
        )
    };
    let head = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\nMIME-Version: 1.0\r\n\r\n");
    let additional = parts.iter().map(|file| part(&file.name, &file.kind, &file.content));
    std::iter::once(head)
        .chain([part("nodeup.sh", "text/x-shellscript", script)])
        .chain(additional)
        .chain([format!("--{boundary}--\r\n")])
        .collect()
}

/// What may stand in a MIME header without ending it.
fn header_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '"').collect()
}

fn hash_in(bytes: &[u8], depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(MAX_UNPACKED_BYTES);
        reader.read_to_end(&mut unpacked).ok()?;
        return hash_in(&unpacked, depth + 1);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines()
        .find_map(|line| line.trim().strip_prefix(HASH_FIELD))
        .map(|hash| hash.trim().trim_matches(['"', '\'']).to_owned())
        .filter(|hash| !hash.is_empty())
        .or_else(|| packed_kube_env(text).and_then(|packed| decoded(packed, depth)))
        .or_else(|| encoded_parts(text).into_iter().find_map(|part| decoded(&part, depth)))
        .or_else(|| decoded(text, depth))
}

fn decoded(text: &str, depth: usize) -> Option<String> {
    let compact: String = text.split_whitespace().collect();
    let bytes = STANDARD.decode(compact).ok().filter(|bytes| !bytes.is_empty())?;
    hash_in(&bytes, depth + 1)
}

/// The text between quotes in `echo "…" | base64 -d | gzip -d > conf/kube_env.yaml`.
fn packed_kube_env(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.contains("base64 -d") && line.contains("kube_env"))?;
    line.split('"').nth(1)
}

/// The bodies of MIME parts that are base64.
fn encoded_parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut encoded, mut in_body) = (false, false);
    let mut body = String::new();
    for line in text.lines() {
        if line.starts_with("--") {
            if !body.is_empty() {
                parts.push(std::mem::take(&mut body));
            }
            (encoded, in_body) = (false, false);
        } else if in_body {
            body.push_str(line.trim());
        } else if line.trim().is_empty() {
            in_body = encoded;
        } else {
            let header = line.to_ascii_lowercase();
            encoded |= header.starts_with("content-transfer-encoding:") && header.contains("base64");
        }
    }
    if !body.is_empty() {
        parts.push(body);
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SCRIPT: &str = "#!/bin/bash\ncat > conf/kube_env.yaml << '__EOF_KUBE_ENV'\nCloudProvider: aws\n\
                          NodeupConfigHash: EAmpK0iG6ORF5m1m/9T5lJPh7/MUtRwqlnNvgzRFdo4=\n\n__EOF_KUBE_ENV\n";

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[track_caller]
    fn finds(user_data: &str) {
        let hash = nodeup_config_hash(user_data);
        assert_eq!(hash.as_deref(), Some("EAmpK0iG6ORF5m1m/9T5lJPh7/MUtRwqlnNvgzRFdo4="));
    }

    #[test]
    fn the_hash_is_found_however_it_is_packed() {
        finds(SCRIPT);
        finds(&SCRIPT.replace(": EAmp", ": \"EAmp").replace("do4=", "do4=\""));
        finds(&STANDARD.encode(SCRIPT));
        finds(&STANDARD.encode(gzip(SCRIPT)));
        let kube_env =
            STANDARD.encode(gzip("NodeupConfigHash: EAmpK0iG6ORF5m1m/9T5lJPh7/MUtRwqlnNvgzRFdo4=\n"));
        let packed = format!("#!/bin/bash\necho \"{kube_env}\" | base64 -d | gzip -d > conf/kube_env.yaml\n");
        finds(&packed);
        finds(&STANDARD.encode(&packed));
    }

    #[test]
    fn the_hash_is_found_in_mime_parts() {
        let parts = [AdditionalUserData {
            name: "x.sh".into(),
            kind: "text/x-shellscript".into(),
            content: "#!/bin/sh\necho OUTRIGGER-PART\n".into(),
        }];
        let joined = with_parts(SCRIPT, &parts);
        assert!(joined.contains("boundary=\"OUTRIGGER-PARTX\""), "{joined}");
        finds(&joined);
        let encoded = format!(
            "Content-Type: multipart/mixed; boundary=\"B\"\r\n\r\n--B\r\nContent-Type: text/x-shellscript\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--B--\r\n",
            STANDARD.encode(SCRIPT)
        );
        finds(&STANDARD.encode(encoded));
    }

    #[test]
    fn no_hash_is_no_hash() {
        for text in
            ["", "#!/bin/bash\necho hello\n", "NodeupConfigHash:\n", "aGVsbG8=", "%%%", "H4sIAAAAAAAA"]
        {
            assert_eq!(nodeup_config_hash(text), None, "{text:?}");
        }
    }

    #[test]
    fn no_part_can_break_out_of_its_headers() {
        let part = AdditionalUserData {
            name: "a\"\r\nX: y".into(),
            kind: "text/plain\r\n\r\nevil".into(),
            content: "--OUTRIGGER-PART--\r\n".into(),
        };
        let joined = with_parts("s", &[part]);
        assert!(joined.contains("filename=\"aX: y\"\r\n"), "{joined}");
        assert!(joined.contains("Content-Type: text/plainevil\r\nMIME-Version"), "{joined}");
        let ends = joined.lines().filter(|line| *line == "--OUTRIGGER-PARTX--").count();
        assert_eq!(ends, 1, "its content ends no part: {joined}");
    }
}
