//! How kOps names what it makes in an account (`pkg/model/names.go`).

/// The security group of the cluster's nodes.
pub(crate) fn nodes(cluster: &str) -> String {
    format!("nodes.{cluster}")
}

/// The launch template of an InstanceGroup, and the Name of its instances.
pub(crate) fn instances(group: &str, cluster: &str) -> String {
    format!("{group}.{cluster}")
}

/// The IAM role of the cluster's nodes, and their instance profile. IAM allows 64 characters; kOps
/// cuts longer names and appends a hash.
pub fn node_role(cluster: &str) -> String {
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

/// FNV-1a in the extended hexadecimal alphabet of base 32, six characters (kOps `pkg/truncate`).
fn hash(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let fnv =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (0..6).map(|index| char::from(ALPHABET[(fnv >> (27 - 5 * index)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that kOps' own tests hold it to
    /// (`tests/integration/update_cluster/minimal-longclustername`).
    #[test]
    fn long_names_are_cut_as_kops_cuts_them() {
        assert_eq!(node_role("k8s.example.com"), "nodes.k8s.example.com");
        let long = "this.is.truly.a.really.really.long.cluster-name.minimal.example.com";
        assert_eq!(node_role(long), "nodes.this.is.truly.a.really.really.long.cluster-name.min-h1jir9");
        assert_eq!(hash(&format!("masters.{long}")), "kaamp9");
        let longer =
            "this.is.truly.a.really.really.really.really.really.long.cluster-name.minimal.example.com";
        assert_eq!(node_role(longer), "nodes.this.is.truly.a.really.really.really.really.really.-d86ibl");
        assert_eq!(hash(longer), "cbmd7d");
    }

    #[test]
    fn names_of_64_characters_are_whole() {
        let longest = "a".repeat(58);
        assert_eq!(node_role(&longest), format!("nodes.{longest}"));
        assert_eq!(node_role(&format!("{longest}a")).len(), 64);
    }
}
