//! What `token` takes.

use std::time::Duration;

use clap::Args as Arguments;
use clap::builder::NonEmptyStringValueParser;
use outrigger_kubernetes::client::ServiceAccount;

use super::{Kubeconfig, parse_wait};

/// What `token` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = TOKEN_HELP)]
pub(crate) struct Token {
    /// The SSM parameter: what ApiTokenParameter of the stack names
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) parameter: String,
    /// The service account, as token.yaml of outrigger setup makes it
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/outrigger")]
    #[arg(value_parser = parse_account)]
    pub(crate) service_account: ServiceAccount,
    /// For how long a new token is to be good
    #[arg(long = "for", value_name = "DURATION", default_value = "2160h", value_parser = parse_life)]
    pub(crate) life: Duration,
    /// Make no new token while the present one is good for longer than this
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = parse_wait)]
    pub(crate) renew_before: Duration,
    /// The KMS key that encrypts the parameter, as ApiTokenKey of the stack; without it aws/ssm
    #[arg(long, value_name = "ARN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,
    /// Make a new token in any case, whatever the parameter holds
    #[arg(long)]
    pub(crate) force: bool,
    /// Say what the parameter holds, and change nothing
    #[arg(long, conflicts_with_all = ["force", "key"])]
    pub(crate) show: bool,
    #[command(flatten)]
    pub(crate) kubeconfig: Kubeconfig,
}

fn parse_account(text: &str) -> Result<ServiceAccount, String> {
    let allowed = || "allowed: a namespace and a name, as kube-system/outrigger".to_owned();
    let (namespace, name) = text.split_once('/').ok_or_else(allowed)?;
    let is_name = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    if !is_name(namespace) || !is_name(name) {
        return Err(allowed());
    }
    Ok(ServiceAccount { namespace: namespace.into(), name: name.into() })
}

/// Kubernetes makes no token that is good for less.
const SHORTEST: Duration = Duration::from_mins(10);

fn parse_life(text: &str) -> Result<Duration, String> {
    let life = parse_wait(text).ok().filter(|life| *life >= SHORTEST);
    life.ok_or_else(|| "allowed: a duration from 10m on, as 2160h".into())
}

const TOKEN_HELP: &str = "\
Examples:
  outrigger token --parameter /outrigger/k8s.example.com           a token for 90 days
  outrigger token --parameter /outrigger/k8s.example.com --show    until when it is good

Run it once a week, and there is always a token that is good: it makes a new one in the last 30
days of the present one, and one that the API server refuses it replaces at once. The functions
take a new one within ten minutes. AWS is reached with the credentials and the region of the
environment, the cluster with your kubeconfig. The token itself is never printed.

A parameter that holds something else is left as it is, unless --force is given.

Exit codes:
  0  the parameter holds a token that is good
  1  --show: it holds none, or one that is about to end
  2  bad usage, or the cluster or AWS refused";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_are_checked() {
        let account = parse_account("kube-system/outrigger").unwrap();
        assert_eq!((account.namespace.as_str(), account.name.as_str()), ("kube-system", "outrigger"));
        for bad in
            ["", "outrigger", "/outrigger", "kube-system/", "a/b/c", "kube-system/Outrigger", "a/b?x=1"]
        {
            assert!(parse_account(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_token_is_shorter_than_kubernetes_makes_them() {
        assert_eq!(parse_life("10m"), Ok(SHORTEST));
        for bad in ["9m59s", "", "soon", "-1h"] {
            assert!(parse_life(bad).is_err(), "{bad}");
        }
    }
}
