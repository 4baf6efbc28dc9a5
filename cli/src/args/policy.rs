//! What `policy` takes.

use clap::Args as Arguments;
use clap::builder::PossibleValuesParser;

/// The functions, and their resources in the template.
pub(crate) const FUNCTIONS: [(&str, &str); 5] = [
    ("provision", "ProvisionFunction"),
    ("lifecycle", "LifecycleFunction"),
    ("disrupt", "DisruptFunction"),
    ("interrupt", "InterruptFunction"),
    ("refresh", "RefreshFunction"),
];

/// What `policy` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = POLICY_HELP)]
pub(crate) struct Policy {
    /// The functions; all where none is named
    #[arg(value_name = "FUNCTION", value_parser = PossibleValuesParser::new(FUNCTIONS.map(|(name, _)| name)))]
    pub(crate) functions: Vec<String>,
}

const POLICY_HELP: &str = "\
Examples:
  outrigger policy                  what all functions may do
  outrigger policy disrupt
  outrigger policy -o json          the same for a program that reviews it

It says what template.yaml and infra/kubernetes/rbac.yaml of this version give. Names in ${...} are
parameters of the template, or what AWS puts in their place. Whether a cluster grants all of it,
outrigger doctor says.";
