//! TerminateInstances.

use std::collections::BTreeMap;

use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;

use super::SERVICE;
use crate::{Aws, errors};

/// How many instances one call terminates; EC2 takes more, and refuses all of them for the sake of
/// one.
const BATCH: usize = 100;

/// Terminates instances, and says which EC2 refused and why. A batch that is refused for one of its
/// instances is tried one by one; an instance that is gone is no refusal.
pub(crate) async fn terminate(
    aws: &Aws,
    instances: &[String],
) -> Result<BTreeMap<String, String>, CloudError> {
    let mut refused = BTreeMap::new();
    for batch in instances.chunks(BATCH) {
        match send(aws, batch).await {
            Ok(()) => {}
            Err(CloudError::Refused { code, message, .. }) if is_about_one(&code) => {
                refused.extend(one_by_one(aws, batch, &format!("{code}: {message}")).await?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

async fn one_by_one(
    aws: &Aws,
    batch: &[String],
    first: &str,
) -> Result<BTreeMap<String, String>, CloudError> {
    let mut refused = BTreeMap::new();
    for id in batch {
        // A batch of one has its answer already.
        let answer = if batch.len() == 1 { Some(first.to_owned()) } else { refusal(aws, id).await? };
        if let Some(why) = answer.filter(|why| !why.starts_with(NOT_FOUND)) {
            refused.insert(id.clone(), why);
        }
    }
    Ok(refused)
}

async fn refusal(aws: &Aws, id: &String) -> Result<Option<String>, CloudError> {
    match send(aws, std::slice::from_ref(id)).await {
        Ok(()) => Ok(None),
        Err(CloudError::Refused { code, message, .. }) if is_about_one(&code) => {
            Ok(Some(format!("{code}: {message}")))
        }
        Err(error) => Err(error),
    }
}

async fn send(aws: &Aws, instances: &[String]) -> Result<(), CloudError> {
    let request =
        aws.ec2(Rate::Terminate).await.terminate_instances().set_instance_ids(Some(instances.to_vec()));
    let attempted = || format!("terminate {}", instances.join(", "));
    request.send().await.map(drop).map_err(|error| errors::cloud(SERVICE, attempted(), error))
}

const NOT_FOUND: &str = "InvalidInstanceID.NotFound";

/// Codes that speak of an instance, not of the call.
fn is_about_one(code: &str) -> bool {
    matches!(
        code,
        NOT_FOUND
            | "InvalidInstanceID.Malformed"
            | "IncorrectInstanceState"
            | "OperationNotPermitted"
            | "UnauthorizedOperation"
            | "UnsupportedOperation"
    )
}
