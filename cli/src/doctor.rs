//! `outrigger doctor`: what the functions see of all that they need, and what to do.

use std::time::Duration;

use futures::future::join_all;
use outrigger_aws::Aws;
use outrigger_engine::chain;
use outrigger_engine::ports::CloudError;
use outrigger_model::{Diagnosis, Finding, Health};
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{self, FUNCTIONS};
use crate::cluster::wait_for;
use crate::error::CliError;
use crate::output::{CommandOutcome, Document, Format, print, say, spinner};

/// Longer than a function may take.
const LONGEST_ANSWER: Duration = Duration::from_secs(150);

/// What the deployed functions answer.
#[derive(Debug, Serialize)]
struct Answers {
    functions: Vec<Asked>,
}

impl Document for Answers {
    const KIND: &'static str = "Diagnosis";
}

/// What one deployed function answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    /// Its name in Lambda; none where there is no such function.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    diagnosis: Diagnosis,
}

/// Runs it.
pub(crate) fn run(command: &args::Doctor, format: Format) -> Result<CommandOutcome, CliError> {
    let waiting = spinner("asking the functions");
    let asked = wait_for(async {
        let aws = Aws::load(None, LONGEST_ANSWER).await;
        let names = names(command, &aws).await?;
        let answers = join_all(names.into_iter().map(async |name| {
            let answer = aws.invoke(&name, &json!({"doctor": true})).await;
            Asked { diagnosis: diagnosis(&name, answer), name: Some(name) }
        }));
        Ok(answers.await)
    });
    waiting.finish_and_clear();
    let mut asked = asked?;
    if command.functions.is_empty() {
        asked.extend(missing(&asked));
    }
    let order = |asked: &Asked| FUNCTIONS.iter().position(|(name, _)| asked.diagnosis.function == *name);
    asked.sort_by_key(|asked| order(asked).unwrap_or(FUNCTIONS.len()));
    let answers = Answers { functions: asked };
    print(&answers, format, || text(&answers.functions))?;
    let mut findings = answers.functions.iter().flat_map(|asked| &asked.diagnosis.findings);
    let is_bad = findings.any(|finding| finding.health == Health::Bad);
    Ok(if is_bad { CommandOutcome::Unplaced } else { CommandOutcome::Done })
}

/// The functions to ask.
async fn names(command: &args::Doctor, aws: &Aws) -> Result<Vec<String>, CliError> {
    if !command.functions.is_empty() {
        return Ok(command.functions.clone());
    }
    let names = aws.functions_of(&command.cluster).await?;
    if names.is_empty() {
        return Err(CliError::Missing {
            what: format!("--cluster {}", command.cluster),
            actual: format!("no function in {} that serves a cluster of this name", aws.region()),
            allowed: "the ClusterName of a stack that is deployed there; AWS_REGION chooses the region"
                .into(),
        });
    }
    Ok(names)
}

/// What an answer says. An older version takes what asks for a doctor for a tick of the schedule.
fn diagnosis(name: &str, answer: Result<Value, CloudError>) -> Diagnosis {
    let bad = |detail: String, remedy: &str| Diagnosis {
        function: name.to_owned(),
        findings: vec![Finding::bad("function", detail, remedy)],
    };
    match answer {
        Ok(answer) => serde_json::from_value(answer).unwrap_or_else(|_| {
            bad(
                "it knows no doctor: it is of an older version".into(),
                "deploy this version of template.yaml",
            )
        }),
        Err(error) => bad(
            chain(&error),
            "look at its log: `aws lambda get-function-configuration --query LoggingConfig --function-name ...`",
        ),
    }
}

/// The functions that a stack has and nobody has answered for. One whose answer says nothing may be
/// any of them.
fn missing(asked: &[Asked]) -> Vec<Asked> {
    let answered = |function: &&str| asked.iter().any(|asked| asked.diagnosis.function == **function);
    let is_known = |asked: &Asked| FUNCTIONS.iter().any(|(name, _)| asked.diagnosis.function == *name);
    if !asked.iter().all(is_known) {
        return Vec::new();
    }
    let missing = FUNCTIONS.iter().map(|(name, _)| name).filter(|name| !answered(name));
    missing
        .map(|function| {
            let detail = "there is none for this cluster in this region";
            let findings = vec![Finding::bad("function", detail, "deploy template.yaml")];
            Asked { name: None, diagnosis: Diagnosis { function: (*function).to_owned(), findings } }
        })
        .collect()
}

fn text(asked: &[Asked]) {
    let findings = || asked.iter().flat_map(|asked| &asked.diagnosis.findings);
    let width = findings().map(|finding| finding.subject.chars().count()).max().unwrap_or_default();
    for (index, Asked { name, diagnosis }) in asked.iter().enumerate() {
        if index > 0 {
            say!("");
        }
        let name = name.as_ref().filter(|name| **name != diagnosis.function);
        match name {
            Some(name) => say!("{} {}", diagnosis.function.bold(), format!("({name})").dimmed()),
            None => say!("{}", diagnosis.function.bold()),
        }
        for Finding { subject, health, detail, remedy } in &diagnosis.findings {
            let subject = format!("{subject:<width$}");
            match health {
                Health::Good => say!("  {}    {subject}  {detail}", "ok".green()),
                Health::Remarkable => say!("  {}  {subject}  {detail}", "note".yellow()),
                Health::Bad => say!("  {}   {subject}  {detail}", "BAD".red().bold()),
            }
            if let Some(remedy) = remedy {
                say!("        {:width$}  -> {remedy}", "");
            }
        }
    }
    let bad = findings().filter(|finding| finding.health == Health::Bad).count();
    match bad {
        0 => say!("{}", "Each function can do its work.".green()),
        1 => say!("{}", "One thing keeps functions from their work.".red()),
        _ => say!("{}", format!("{bad} things keep functions from their work.").red()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(function: &str) -> Asked {
        Asked { name: None, diagnosis: Diagnosis { function: function.into(), findings: Vec::new() } }
    }

    #[test]
    fn functions_that_nobody_answers_for_are_missing() {
        let names = |asked: &[Asked]| {
            missing(asked).into_iter().map(|asked| asked.diagnosis.function).collect::<Vec<_>>()
        };
        assert_eq!(names(&FUNCTIONS.map(|(name, _)| asked(name))), [""; 0]);
        assert_eq!(
            names(&[asked("provision"), asked("refresh"), asked("disrupt")]),
            ["lifecycle", "interrupt"]
        );
        assert_eq!(names(&[asked("provision"), asked("outrigger-LifecycleFunction-1")]), [""; 0]);
    }

    #[test]
    fn a_function_that_fails_or_is_old_says_so() {
        let subject = |answer| {
            let diagnosis = diagnosis("f", answer);
            (diagnosis.function, diagnosis.findings[0].detail.clone())
        };
        let old = subject(Ok(json!({"heldElsewhere": false})));
        assert_eq!(old, ("f".into(), "it knows no doctor: it is of an older version".into()));
        let failed =
            CloudError::Unusable { what: "function f".into(), why: "OUTRIGGER_TABLE is missing".into() };
        assert!(subject(Err(failed)).1.contains("OUTRIGGER_TABLE is missing"));
        let clock = json!({"subject": "clock", "health": "good", "detail": "ok"});
        let sound = json!({"function": "disrupt", "findings": [clock]});
        assert_eq!(subject(Ok(sound)).0, "disrupt");
    }
}
