//! What `setup` takes.

use std::path::PathBuf;

use clap::Args as Arguments;

/// The InstanceGroup that Outrigger gets unless it is told otherwise.
pub(crate) const OWN_GROUP: &str = "outrigger";

/// What `setup` takes.
#[derive(Clone, Debug, Arguments)]
#[command(after_long_help = SETUP_HELP)]
pub(crate) struct Setup {
    /// The kOps cluster's full name
    #[arg(long, value_name = "NAME", value_parser = parse_cluster)]
    pub(crate) cluster: String,
    /// What kops get --name NAME -o yaml wrote, any number of times; - reads standard input
    #[arg(short, long = "file", value_name = "FILE")]
    #[cfg_attr(feature = "aws", arg(required_unless_present = "state"))]
    #[cfg_attr(not(feature = "aws"), arg(required = true))]
    pub(crate) files: Vec<PathBuf>,
    /// The kubeconfig file; by default that of kubectl
    ///
    /// Its context of the cluster's name says where the API server is and which CA it has, else its
    /// current context.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The AWS account, by which ARNs are checked
    #[arg(long, value_name = "ID", value_parser = parse_account)]
    pub(crate) account: Option<String>,
    /// The region; by default that of the cluster's subnets
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// kOps' state store, as s3://BUCKET or s3://BUCKET/PREFIX; by default what the Cluster says
    #[arg(long, value_name = "URL", value_parser = parse_state)]
    #[cfg_attr(feature = "aws", arg(env = "KOPS_STATE_STORE", hide_env_values = true))]
    pub(crate) state: Option<String>,
    /// The InstanceGroup that Outrigger gets
    #[arg(long, value_name = "NAME", default_value = OWN_GROUP, value_parser = parse_name)]
    pub(crate) group: String,
    /// The InstanceGroup whose image, machine type and settings it gets; by default the first of
    /// those without taints
    #[arg(long, value_name = "NAME")]
    pub(crate) like: Option<String>,
    /// Where the files are written; by default the folder outrigger-CLUSTER
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What aws cloudformation describe-stacks wrote about the stack, for the roles of its
    /// functions
    #[arg(long, value_name = "FILE")]
    pub(crate) stack_outputs: Option<PathBuf>,
    /// The functions' subnets, separated by commas, where the API server is not public
    #[arg(long, value_name = "IDS", value_delimiter = ',', value_parser = parse_subnet)]
    pub(crate) subnet_ids: Vec<String>,
    /// The functions' security groups, separated by commas, where the API server is not public
    #[arg(long, value_name = "IDS", value_delimiter = ',', value_parser = parse_security_group)]
    pub(crate) security_group_ids: Vec<String>,
    /// The SSM parameter of a service account's token, instead of aws-iam-authenticator
    #[arg(long, value_name = "NAME", value_parser = parse_parameter)]
    pub(crate) token_parameter: Option<String>,
    /// Overwrite files that differ
    #[arg(long)]
    pub(crate) force: bool,
}

fn parse_account(text: &str) -> Result<String, String> {
    let is_account = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_account { Ok(text.to_owned()) } else { Err("allowed: 12 digits".into()) }
}

fn parse_cluster(text: &str) -> Result<String, String> {
    let inner = text.trim_matches(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c));
    if inner.is_empty() && !text.is_empty() && !text.starts_with(['-', '.']) {
        return Ok(text.to_owned());
    }
    Err("allowed: lower case letters, digits, dots and hyphens, as kops get clusters prints it".into())
}

/// A state store without a slash at its end.
fn parse_state(text: &str) -> Result<String, String> {
    let path = text.strip_prefix("s3://").map(|path| path.trim_end_matches('/'));
    match path.filter(|path| !path.is_empty() && !path.starts_with('/') && is_plain(path)) {
        Some(path) => Ok(format!("s3://{path}")),
        None => Err("allowed: s3://BUCKET or s3://BUCKET/PREFIX".into()),
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_outer = |byte: Option<u8>| byte.is_some_and(|byte| is_inner(byte) && !b"-.".contains(&byte));
    let ends = is_outer(text.bytes().next()) && is_outer(text.bytes().last());
    if ends && text.len() <= 63 && text.bytes().all(is_inner) {
        return Ok(text.to_owned());
    }
    Err("allowed: at most 63 lower case letters, digits, dots and hyphens".into())
}

fn parse_subnet(text: &str) -> Result<String, String> {
    parse_id(text, "subnet-")
}

fn parse_security_group(text: &str) -> Result<String, String> {
    parse_id(text, "sg-")
}

fn parse_id(text: &str, prefix: &str) -> Result<String, String> {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if text.strip_prefix(prefix).is_some_and(is_id) {
        return Ok(text.to_owned());
    }
    Err(format!("allowed: ids as {prefix}0123456789abcdef0, separated by commas"))
}

fn parse_parameter(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if !text.is_empty() && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("allowed: letters, digits and /._-, as /outrigger/token".into())
}

/// Whether nothing in a text means something to a shell or to SAM.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

const SETUP_HELP: &str = "\
Examples:
  kops get --name k8s.example.com -o yaml > kops.yaml
  outrigger setup --cluster k8s.example.com -f kops.yaml
  kops get --name k8s.example.com -o yaml | outrigger setup --cluster k8s.example.com -f -
  outrigger setup --cluster k8s.example.com -f kops.yaml --stack-outputs stack.json
  outrigger setup --cluster k8s.example.com -f kops.yaml --token-parameter /outrigger/token

It writes into the folder:
  instancegroup.yaml   an InstanceGroup of Outrigger's own, which launches nothing by itself
  samconfig.yaml       the stack's parameters, for sam deploy --config-file
  authentication.yaml  which of the functions' roles is in which group of the cluster
  token.yaml           a service account instead, where aws-iam-authenticator is not on
  nodepool.yaml        a first NodePool
  README.md            the commands that come next, which it prints too

Exit codes:
  0  all files are as they should be
  1  a file that differs was left as it is; --force overwrites it
  2  bad usage or input, and nothing was written";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_commands_is_checked() {
        assert_eq!(parse_state("s3://store/clusters/"), Ok("s3://store/clusters".into()));
        for bad in ["store", "s3://", "s3:///x", "gs://store", "s3://a b", "s3://a;b"] {
            assert!(parse_state(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_name("outrigger.arm-1"), Ok("outrigger.arm-1".into()));
        for bad in ["", "-a", "a-", "Nodes", "a b", &"a".repeat(64)] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
        assert!(parse_cluster("k8s.example.com").is_ok() && parse_cluster("a;b").is_err());
        assert!(parse_account("123456789012").is_ok() && parse_account("1234").is_err());
        assert!(parse_subnet("subnet-0a1").is_ok() && parse_subnet("sg-0a1").is_err());
        assert!(parse_security_group("sg-0a1").is_ok() && parse_security_group("sg-").is_err());
        assert!(parse_parameter("/outrigger/token").is_ok() && parse_parameter("$(id)").is_err());
    }
}
