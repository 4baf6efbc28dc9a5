//! TerminateInstances, and what a machine had to say.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;

use super::SERVICE;
use crate::{Aws, errors};

/// How many instances one call terminates; EC2 takes more, and refuses all of them for the sake of one.
const BATCH: usize = 100;
/// How much of a console is shown.
const TAIL_LINES: usize = 5;
const TAIL_BYTES: usize = 600;

/// Terminates instances, and says which EC2 refused and why. A batch that is refused for one of its instances is
/// tried one by one; an instance that is gone is no refusal.
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

/// The last lines of an instance's console; `None` while EC2 has none.
pub(crate) async fn console_tail(aws: &Aws, instance: &str) -> Result<Option<String>, CloudError> {
    let attempted = || format!("read the console of {instance}");
    let answer = aws.ec2(Rate::Describe).await.get_console_output().instance_id(instance).send().await;
    let answer = answer.map_err(|error| errors::cloud(SERVICE, attempted(), error))?;
    let Some(output) = answer.output() else { return Ok(None) };
    let bytes = STANDARD.decode(output.trim()).map_err(|error| CloudError::Unusable {
        what: format!("the console of {instance}"),
        why: error.to_string(),
    })?;
    Ok(tail(&String::from_utf8_lossy(&bytes)))
}

/// The last lines that say something, without control characters.
fn tail(text: &str) -> Option<String> {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let lines: Vec<String> = text.lines().map(|line| line.chars().map(printable).collect()).collect();
    let said: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let shown = said[said.len().saturating_sub(TAIL_LINES)..].join(" | ");
    let from = shown.ceil_char_boundary(shown.len().saturating_sub(TAIL_BYTES));
    Some(shown[from..].to_owned()).filter(|shown| !shown.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_console_is_shown_in_one_line() {
        assert_eq!(tail(""), None);
        assert_eq!(tail("\r\n \u{1b}\r\n"), None);
        assert_eq!(tail("one\r\n\r\ntwo\n").as_deref(), Some("one | two"));
        let many: Vec<String> = (0..9).map(|n| format!("line {n}")).collect();
        let expected = "line 4 | line 5 | line 6 | line 7 | line 8";
        assert_eq!(tail(&many.join("\n")).as_deref(), Some(expected));
        let long = tail(&"\u{fc}".repeat(1_000)).unwrap();
        assert!(long.len() <= TAIL_BYTES && long.len() > TAIL_BYTES - 4, "{}", long.len());
    }
}
