//! The vCPU quotas of EC2: which instance types are counted together. Each quota exists twice, on
//! demand and for spot.

/// What stands in [`crate::UnavailableOffering::instance_type`] for all types that count against
/// the quota of this one, as `quota:Standard`; the quotas and their names are those of Service
/// Quotas (EC2 on-demand instance quotas).
pub fn vcpu_quota(instance_type: &str) -> &'static str {
    let letters = instance_type.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(instance_type.len());
    match &instance_type[..letters] {
        "dl" => "quota:DL",
        "f" => "quota:F",
        "g" | "gr" | "vt" => "quota:G and VT",
        "hpc" => "quota:HPC",
        "inf" => "quota:Inf",
        "mac" => "quota:Mac",
        "p" => "quota:P",
        "trn" => "quota:Trn",
        "u" => "quota:High Memory",
        "x" => "quota:X",
        _ => "quota:Standard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_counts_against_its_quota() {
        let table = [
            ("m5.large", "quota:Standard"),
            ("im4gn.large", "quota:Standard"),
            ("d3en.xlarge", "quota:Standard"),
            ("inf2.xlarge", "quota:Inf"),
            ("hpc7g.4xlarge", "quota:HPC"),
            ("dl1.24xlarge", "quota:DL"),
            ("g4dn.xlarge", "quota:G and VT"),
            ("gr6.4xlarge", "quota:G and VT"),
            ("p5.48xlarge", "quota:P"),
            ("trn1n.32xlarge", "quota:Trn"),
            ("u-6tb1.metal", "quota:High Memory"),
            ("u7i-12tb.224xlarge", "quota:High Memory"),
            ("x2gd.large", "quota:X"),
            ("", "quota:Standard"),
            ("\u{fc}5.large", "quota:Standard"),
        ];
        for (instance_type, quota) in table {
            assert_eq!(vcpu_quota(instance_type), quota, "{instance_type}");
        }
    }
}
