//! How kOps names what it makes in an account (`pkg/model/names.go`).

/// The security group, role and instance profile of the cluster's nodes.
pub(crate) fn nodes(cluster: &str) -> String {
    format!("nodes.{cluster}")
}

/// The launch template of an InstanceGroup, and the Name of its instances.
pub(crate) fn instances(group: &str, cluster: &str) -> String {
    format!("{group}.{cluster}")
}

/// The instance profile of the cluster's nodes. IAM allows 64 characters; kOps cuts longer names and appends a hash.
pub(crate) fn node_profile(cluster: &str) -> String {
    let name = nodes(cluster);
    let hash = hash(&name);
    match name.char_indices().nth(64 - hash.len() - 1) {
        Some((end, _)) if name.len() > 64 => format!("{}-{hash}", &name[..end]),
        _ => name,
    }
}

/// The name of the profile that an ARN ends in.
pub(crate) fn profile_of_arn(arn: &str) -> String {
    arn.rsplit('/').next().unwrap_or(arn).to_owned()
}

/// FNV-1 in the extended hexadecimal alphabet of base 32, six characters (kOps `pkg/truncate`).
fn hash(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let fnv =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    (0..6).map(|index| char::from(ALPHABET[(fnv >> (27 - 5 * index)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_as_kops_cuts_them() {
        assert_eq!(node_profile("k8s.example.com"), "nodes.k8s.example.com");
        let long = node_profile("a-very-long-cluster-name-that-no-one-should-want.production.example.com");
        assert_eq!(long.len(), 64);
        assert!(long.starts_with("nodes.a-very-long-cluster-name-that-no-one-should-want.pr"), "{long}");
    }

    #[test]
    fn the_hash_is_fnv_1_in_base_32_hex() {
        // FNV-1 of nothing is its offset basis, 0x811c9dc5.
        assert_eq!(hash(""), "g4e9rh");
    }
}
