//! What CloudFormation has made of a template.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::aws::{ACCOUNT, REGION};
use crate::template::Resources;

/// What came of a stack; by logical id.
#[derive(Debug, Deserialize)]
pub struct Made {
    /// The types of its resources.
    pub types: BTreeMap<String, String>,
    /// The names of those that moto names.
    pub resources: BTreeMap<String, String>,
    /// Its functions.
    pub functions: BTreeMap<String, MadeFunction>,
    /// What `aws cloudformation describe-stacks` prints.
    pub described: Value,
}

/// A function as the account has it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct MadeFunction {
    /// Its variables.
    pub environment: BTreeMap<String, String>,
    /// Its memory in MiB.
    pub memory: u64,
    /// How long it may take, in seconds.
    pub timeout: u64,
    /// The SHA-256 of its program.
    pub bootstrap: String,
}

impl Made {
    /// What `!Ref` and `!GetAtt` come to.
    pub fn resources(&self) -> Resources {
        let arn = |(logical, name): (&String, &String)| {
            let within = match self.types.get(logical)?.as_str() {
                "AWS::DynamoDB::Table" => format!("dynamodb:{REGION}:{ACCOUNT}:table/{name}"),
                "AWS::S3::Bucket" => format!("s3:::{name}"),
                "AWS::SQS::Queue" => format!("sqs:{REGION}:{ACCOUNT}:{}", name.rsplit('/').next()?),
                _ => return None,
            };
            Some((logical.clone(), format!("arn:aws:{within}")))
        };
        Resources { names: self.resources.clone(), arns: self.resources.iter().filter_map(arn).collect() }
    }

    /// The name of a resource.
    pub fn name(&self, logical: &str) -> Result<&str> {
        self.resources.get(logical).map(String::as_str).with_context(|| format!("{logical} has no name"))
    }
}
