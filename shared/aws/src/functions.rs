//! The functions as they are deployed: which there are for a cluster, and what one answers.

use aws_sdk_lambda::primitives::Blob;
use outrigger_engine::ports::CloudError;
use serde_json::Value;

use crate::{Aws, errors};

const SERVICE: &str = "Lambda";
/// The variable in which a function is told its cluster (template.yaml).
const CLUSTER: &str = "OUTRIGGER_CLUSTER";

impl Aws {
    /// The names of the functions of a cluster in this region, in order.
    pub async fn functions_of(&self, cluster: &str) -> Result<Vec<String>, CloudError> {
        let mut pages = aws_sdk_lambda::Client::new(&self.config).list_functions().into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| errors::cloud(SERVICE, "list functions", error))?;
            for function in page.functions() {
                let variables = function.environment().and_then(|environment| environment.variables());
                let serves = variables.and_then(|variables| variables.get(CLUSTER));
                if serves.is_some_and(|serves| serves == cluster) {
                    names.extend(function.function_name().map(str::to_owned));
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// What a function answers to a payload. Errors with [`CloudError::Unusable`] where the
    /// function fails.
    pub async fn invoke(&self, function: &str, payload: &Value) -> Result<Value, CloudError> {
        let client = aws_sdk_lambda::Client::new(&self.config);
        let payload = Blob::new(payload.to_string());
        let answer = client.invoke().function_name(function).payload(payload).send().await;
        let answer = answer
            .map_err(|error| errors::cloud(SERVICE, format!("invoke the function {function}"), error))?;
        let unusable = |why: String| CloudError::Unusable { what: format!("function {function}"), why };
        let bytes = answer.payload().map(Blob::as_ref).unwrap_or_default();
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| unusable(format!("its answer cannot be read: {error}")))?;
        if let Some(kind) = answer.function_error() {
            let message = value["errorMessage"].as_str().unwrap_or(kind);
            return Err(unusable(message.to_owned()));
        }
        Ok(value)
    }
}
