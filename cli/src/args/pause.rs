//! What `pause` and `resume` take.

use std::time::Duration;

use clap::Args as Arguments;
use clap::builder::NonEmptyStringValueParser;

use super::{Kubeconfig, parse_wait};

/// What `pause` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = PAUSE_HELP)]
pub(crate) struct Pause {
    /// For how long, as 30m or 2h; without it until outrigger resume
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_length)]
    pub(crate) length: Option<Duration>,
    /// Why, for people
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: Option<String>,
    /// Pause only what is voluntary: commands of disruption, and the end of nodes that expire
    #[arg(long)]
    pub(crate) disruption: bool,
    /// Say what is paused, and change nothing
    #[arg(long, conflicts_with_all = ["length", "reason", "disruption"])]
    pub(crate) show: bool,
    #[command(flatten)]
    pub(crate) ledger: Ledger,
}

/// What `resume` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = RESUME_HELP)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) ledger: Ledger,
}

/// Which ledger.
#[derive(Debug, Arguments)]
pub(crate) struct Ledger {
    /// The ledger's table: the output Table of the stack
    #[arg(long, value_name = "NAME", env = "OUTRIGGER_TABLE", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) table: String,
    /// The kOps cluster's name
    #[arg(long, value_name = "NAME", env = "OUTRIGGER_CLUSTER", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) kubeconfig: Kubeconfig,
}

/// A reason goes into events of pods, whose messages Kubernetes bounds.
const LONGEST_REASON: usize = 200;

fn parse_length(text: &str) -> Result<Duration, String> {
    let length = parse_wait(text).ok().filter(|length| !length.is_zero());
    length.ok_or_else(|| "allowed: a duration above 0, as 30m or 2h".into())
}

fn parse_reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_allowed = (1..=LONGEST_REASON).contains(&text.chars().count()) && !text.contains(char::is_control);
    if is_allowed {
        return Ok(text.to_owned());
    }
    Err(format!("allowed: 1 to {LONGEST_REASON} characters on one line"))
}

const PAUSE_HELP: &str = "\
Examples:
  outrigger pause --for 2h --reason 'upgrade'    nothing is launched or given up for two hours
  outrigger pause --disruption                   nodes are launched, and none is given up
  outrigger pause --show                         who has paused what, and until when

Machines that EC2 takes back, and nodes that people delete, are drained all the same. A pause
takes the place of the one before. AWS is reached with the credentials and the region of the
environment, the cluster with your kubeconfig, which says whose ledger it is.

Exit codes:
  0  done
  2  bad usage, or the cluster or AWS refused";

const RESUME_HELP: &str = "\
Example:
  outrigger resume --table outrigger-Table-1ABC --cluster k8s.example.com

Exit codes:
  0  done, or nothing was paused
  2  bad usage, or the cluster or AWS refused";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_reasons_are_checked() {
        assert_eq!(parse_length("1h30m"), Ok(Duration::from_mins(90)));
        for bad in ["", "0s", "soon", "Never", "-1h", "2"] {
            assert!(parse_length(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_reason(" upgrade "), Ok("upgrade".into()));
        assert!(parse_reason(&"ä".repeat(LONGEST_REASON)).is_ok());
        for bad in ["", "  ", "two\nlines", &"a".repeat(LONGEST_REASON + 1)] {
            assert!(parse_reason(bad).is_err(), "{bad}");
        }
    }
}
