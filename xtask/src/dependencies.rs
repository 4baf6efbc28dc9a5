//! Dependencies that must never appear: the judgement knows no IO, and the default command compiles
//! nothing of AWS. The crates of the workspace use one another along the edges of one table, and
//! the rooms of a crate in no circle.

mod edges;
mod rooms;

use anyhow::{Result, bail};

use crate::command::{cargo, output};

/// A package, and what none of its normal dependencies may be.
type Rule = (&'static str, fn(&str) -> bool);

/// Planning stands for all that it uses: policy, optimizer and referee are in its tree.
const RULES: [Rule; 3] =
    [("outrigger-model", is_outside), ("outrigger-planning", is_outside), ("outrigger", is_aws)];

/// Compares the edges between crates with the table, looks for circles between rooms, then walks
/// each package's tree of default features.
pub(crate) fn run() -> Result<()> {
    edges::check()?;
    rooms::check()?;
    for (package, forbidden) in RULES {
        let mut tree = cargo("tree")?;
        tree.args(["-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}"]);
        let tree = output(&mut tree)?;
        let names = tree.lines().filter_map(|line| line.split_whitespace().next());
        let mut forbidden_packages: Vec<&str> = names.filter(|name| forbidden(name)).collect();
        forbidden_packages.sort_unstable();
        forbidden_packages.dedup();
        if let Some(first) = forbidden_packages.first() {
            let packages = forbidden_packages.join(", ");
            bail!(
                "{package} depends on {packages}; see how with `cargo tree -e normal -p {package} -i {first}`"
            );
        }
        eprintln!("{package}: nothing forbidden");
    }
    Ok(())
}

/// What does IO, or speaks another system's language.
fn is_outside(name: &str) -> bool {
    is_cloud(name) || matches!(name, "tokio" | "lambda_runtime" | "k8s-openapi")
}

/// What talks to AWS or to a cluster.
fn is_cloud(name: &str) -> bool {
    is_aws(name) || name.starts_with("kube")
}

/// What talks to AWS. The cryptography that AWS gives rustls talks to nobody.
fn is_aws(name: &str) -> bool {
    name.starts_with("aws") && !name.starts_with("aws-lc-")
}

#[cfg(test)]
mod tests {
    use super::{is_aws, is_cloud, is_outside};

    #[test]
    fn rules_tell_clouds_from_crates() {
        assert!(["aws-sdk-ec2", "aws_lambda_events", "kube-client"].into_iter().all(is_cloud));
        assert!(is_aws("aws-config") && !is_aws("aws-lc-rs") && !is_aws("kube"));
        assert!(!is_cloud("tokio") && is_outside("tokio"));
        assert!(!is_cloud("k8s-openapi") && is_outside("k8s-openapi"));
        assert!(!is_outside("serde"));
    }
}
