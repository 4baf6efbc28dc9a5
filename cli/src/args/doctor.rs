//! What `doctor` takes.

use clap::Args as Arguments;
use clap::builder::NonEmptyStringValueParser;

/// What `doctor` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = DOCTOR_HELP)]
pub(crate) struct Doctor {
    /// The kOps cluster's name
    #[arg(long, value_name = "NAME", env = "OUTRIGGER_CLUSTER", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cluster: String,
    /// A function to ask, by its name in Lambda, any number of times; without it all that serve the
    /// cluster
    #[arg(long = "function", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) functions: Vec<String>,
}

const DOCTOR_HELP: &str = "\
Examples:
  outrigger doctor --cluster k8s.example.com
  outrigger doctor --cluster k8s.example.com -o json

AWS is reached with the credentials and the region of the environment. They need
lambda:ListFunctions and lambda:InvokeFunction. Without this command a function answers the same to

  aws lambda invoke --function-name NAME --cli-binary-format raw-in-base64-out \\
    --payload '{\"doctor\": true}' /dev/stdout

Exit codes:
  0  each function can do its work
  1  something keeps one from it, and is named with the one thing to do
  2  bad usage, or AWS refused";
