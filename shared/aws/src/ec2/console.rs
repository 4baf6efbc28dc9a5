//! What a machine had to say before it was given up.
//!
//! User data may print secrets, and whatever is said here goes into logs and events. So nothing of
//! a console is quoted: known lines of kOps' bootstrap and of the kernel are told in words of our
//! own, with no more than their numbers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;

use super::SERVICE;
use crate::{Aws, errors};

/// How many of the last things that are known are told.
const TOLD: usize = 4;

/// What lines with these words mean: of kOps' bootstrap script and of nodeup
/// (`pkg/model/resources/nodeup.go`, `cmd/nodeup/main.go`, `upup/pkg/fi/executor.go`, kOps 1.34),
/// and of Linux. Of a line that has several of them the first counts, which says most.
const KNOWN: [(&str, &str); 15] = [
    ("== nodeup node config starting ==", "kOps' bootstrap began"),
    ("== Failed to initialize the machine ID", "the machine has no machine id"),
    ("== Failed to download", "a download of nodeup failed"),
    ("Unsupported host arch", "nodeup does not know the machine's architecture"),
    ("Running nodeup", "nodeup was started"),
    ("error running task", "a task of nodeup failed"),
    ("deadline exceeded executing task", "a task of nodeup took too long"),
    ("bootstrap returned status code", "kops-controller refused the machine"),
    ("failed to get node config from server", "kops-controller gave no configuration"),
    ("got error running nodeup (will retry", "nodeup failed and tries again"),
    ("== nodeup node config done ==", "kOps' bootstrap script ended"),
    ("Kernel panic - not syncing", "the kernel panicked"),
    ("Out of memory: Killed process", "the kernel killed a process for want of memory"),
    ("You are in emergency mode", "the system came up in emergency mode"),
    ("No space left on device", "a disk is full"),
];

/// What an instance's console tells of its start; `None` while EC2 has no console, or nothing in it
/// is known.
pub(crate) async fn progress(aws: &Aws, instance: &str) -> Result<Option<String>, CloudError> {
    let attempted = || format!("read the console of {instance}");
    let answer = aws.ec2(Rate::Describe).await.get_console_output().instance_id(instance).send().await;
    let answer = answer.map_err(|error| errors::cloud(SERVICE, attempted(), error))?;
    let Some(output) = answer.output() else { return Ok(None) };
    let bytes = STANDARD.decode(output.trim()).map_err(|error| CloudError::Unusable {
        what: format!("the console of {instance}"),
        why: error.to_string(),
    })?;
    Ok(last_messages(&String::from_utf8_lossy(&bytes)))
}

/// The last things that are known, in their order, what repeats once.
fn last_messages(console: &str) -> Option<String> {
    let mut messages: Vec<String> = Vec::new();
    for line in console.lines() {
        let Some(words) = tasks(line).or_else(|| meaning_of(line).map(str::to_owned)) else { continue };
        messages.retain(|earlier| *earlier != words);
        messages.push(words);
    }
    let last = &messages[messages.len().saturating_sub(TOLD)..];
    (!last.is_empty()).then(|| last.join(", "))
}

fn meaning_of(line: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(words, _)| line.contains(words)).map(|(_, meaning)| *meaning)
}

/// How far nodeup has come: `Tasks: 12 done / 79 total; 3 can run`.
fn tasks(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("Tasks: ")?;
    let (done, rest) = rest.split_once(" done / ")?;
    let (total, _) = rest.split_once(" total; ")?;
    let (done, total): (u32, u32) = (done.parse().ok()?, total.parse().ok()?);
    Some(format!("{done} of {total} tasks of nodeup were done"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_told_in_words_of_ours_and_never_quoted() {
        let secret = "hunter2-AKIA0123456789";
        let console = format!(
            "[    0.000000] Linux version 6.8.0\r\n+ export DB_PASSWORD={secret}\n\
             == nodeup node config starting ==\n\
             == Failed to download https://example.com/nodeup?token={secret} ==\n\
             == Running nodeup ==\n\
             I1128 08:00:01.000000 1 executor.go:111] Tasks: 2 done / 79 total; 5 can run\n\
             W1128 08:00:02.000000 1 executor.go:139] error running task \"BootstrapClient/{secret}\": {secret}\n\
             W1128 08:00:03.000000 1 main.go:133] got error running nodeup (will retry in 30s): {secret}\n\
             I1128 08:00:33.000000 1 executor.go:111] Tasks: {secret} done / 79 total; 5 can run\n\
             W1128 08:00:34.000000 1 executor.go:139] error running task {secret}\n{secret}\n"
        );
        let words = last_messages(&console).unwrap();
        assert!(!words.contains(secret), "{words}");
        assert_eq!(
            words,
            "nodeup was started, 2 of 79 tasks of nodeup were done, nodeup failed and tries again, \
             a task of nodeup failed"
        );
    }

    #[test]
    fn a_console_that_says_nothing_known_tells_nothing() {
        for console in ["", "\r\n \u{1b}\r\n", "password: swordfish\nlogin:", "Tasks: many done / 7 total; 1"]
        {
            assert_eq!(last_messages(console), None, "{console}");
        }
    }
}
