//! The IAM roles of the functions, which CloudFormation names: from the stack's outputs, or as
//! texts that somebody must replace.

use std::path::Path;

use serde::Deserialize;

use super::cluster::KopsCluster;
use crate::args;
use crate::error::CliError;
use crate::files::read;

/// What stands for a value that nobody knows yet.
pub(crate) const PLACEHOLDER: &str = "REPLACE-WITH-";

/// The functions that reach the API server: the stack's output for the role of each, and the group
/// of `infra/kubernetes/rbac.yaml` that has its rights.
const FUNCTIONS: [(&str, &str); 4] = [
    ("ProvisionRole", "outrigger:provision"),
    ("DisruptRole", "outrigger:disrupt"),
    ("LifecycleRole", "outrigger:lifecycle"),
    ("InterruptRole", "outrigger:interrupt"),
];

/// The role of a function, and its group in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionRole {
    /// Its ARN, or a text that stands for it.
    pub(crate) arn: String,
    /// Its group, which is its user's name too.
    pub(crate) group: &'static str,
}

/// Texts that stand for the ARNs.
pub(crate) fn unknown(cluster: &KopsCluster, account: Option<&str>) -> Vec<FunctionRole> {
    let prefix = format!("arn:{}:iam::{}:role", cluster.partition(), account.unwrap_or("ACCOUNT"));
    let role = |(output, group): &(&str, &'static str)| FunctionRole {
        arn: format!("{prefix}/{PLACEHOLDER}{output}"),
        group,
    };
    FUNCTIONS.iter().map(role).collect()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stacks {
    stacks: Vec<Stack>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Stack {
    #[serde(rename = "StackName")]
    name: String,
    outputs: Vec<Output>,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Output {
    output_key: String,
    output_value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    parameter_key: String,
    #[serde(default)]
    parameter_value: String,
}

/// The roles that the outputs of a stack name.
pub(crate) fn of_stack(file: &Path, command: &args::Setup) -> Result<Vec<FunctionRole>, CliError> {
    let shown = file.display().to_string();
    let refuse = |field: &str, actual: String, allowed: &str| CliError::Missing {
        what: format!("{shown}: {field}"),
        actual,
        allowed: allowed.to_owned(),
    };
    let stacks: Stacks = serde_json::from_str(&read(file)?).map_err(|error| {
        refuse("Stacks", error.to_string(), "what `aws cloudformation describe-stacks --output json` prints")
    })?;
    let [stack] = &stacks.stacks[..] else {
        let names: Vec<&str> = stacks.stacks.iter().map(|stack| stack.name.as_str()).collect();
        let actual = format!("{} stacks: {}", names.len(), names.join(", "));
        return Err(refuse("Stacks", actual, "one stack; describe-stacks takes --stack-name"));
    };
    let name = stack.parameters.iter().find(|parameter| parameter.parameter_key == "ClusterName");
    if let Some(other) = name.filter(|name| name.parameter_value != command.cluster) {
        let field = format!("{}.Parameters.ClusterName", stack.name);
        return Err(refuse(&field, other.parameter_value.clone(), &command.cluster));
    }
    FUNCTIONS
        .iter()
        .map(|(key, group)| {
            let output = stack.outputs.iter().find(|output| output.output_key == *key);
            let arn = output.map(|output| output.output_value.clone());
            let field = format!("{}.Outputs.{key}", stack.name);
            match arn {
                Some(arn) if is_role(&arn, command.account.as_deref()) => Ok(FunctionRole { arn, group }),
                other => {
                    let account = command.account.as_deref().unwrap_or("ACCOUNT");
                    let actual = other.unwrap_or_else(|| "nothing".to_owned());
                    Err(refuse(&field, actual, &format!("arn:aws:iam::{account}:role/NAME")))
                }
            }
        })
        .collect()
}

fn is_role(arn: &str, account: Option<&str>) -> bool {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let ["arn", _, "iam", "", owner, role] = parts[..] else { return false };
    role.starts_with("role/") && account.is_none_or(|account| account == owner)
}
