//! `outrigger pause` and `outrigger resume`: an operator's word in the ledger that the functions
//! begin nothing.

use jiff::Timestamp;
use outrigger_engine::ports::OperatorPause as _;
use outrigger_model::{Pause, PauseScope};
use serde::Serialize;

use crate::args;
use crate::cluster::wait_for;
use crate::error::CliError;
use crate::ledger::ClusterLedger;
use crate::output::{CommandOutcome, Document, Format, print, say};

/// What is paused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PauseReport {
    /// What is paused from now on.
    pause: Option<Pause>,
    /// What was paused until now, where that was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Pause>,
}

impl Document for PauseReport {
    const KIND: &'static str = "Pause";
}

/// Runs `pause`.
pub(crate) fn pause(command: &args::Pause, format: Format) -> Result<CommandOutcome, CliError> {
    let report = wait_for(async {
        let open = ClusterLedger::open(&command.ledger).await?;
        let now = now();
        let before = in_force(&open, now).await?;
        if command.show {
            return Ok(PauseReport { pause: before, before: None });
        }
        let pause = asked(command, open.caller().await, now);
        open.ledger.put_pause(Some(&pause)).await.map_err(|error| open.failed(error))?;
        Ok(PauseReport { pause: Some(pause), before })
    })?;
    print(&report, format, || {
        if let Some(before) = &report.before {
            say!("until now {before}");
        }
        match &report.pause {
            Some(pause) => say!("{pause}"),
            None => say!("nothing is paused"),
        }
        if !command.show {
            say!("each function heeds it within a tick; outrigger resume ends it");
        }
    })?;
    Ok(CommandOutcome::Done)
}

/// Runs `resume`.
pub(crate) fn resume(command: &args::Resume, format: Format) -> Result<CommandOutcome, CliError> {
    let report = wait_for(async {
        let open = ClusterLedger::open(&command.ledger).await?;
        let before = in_force(&open, now()).await?;
        open.ledger.put_pause(None).await.map_err(|error| open.failed(error))?;
        Ok(PauseReport { pause: None, before })
    })?;
    print(&report, format, || match &report.before {
        Some(before) => {
            say!("until now {before}");
            say!("resumed; each function goes on within a tick");
        }
        None => say!("nothing was paused"),
    })?;
    Ok(CommandOutcome::Done)
}

async fn in_force(open: &ClusterLedger, now: Timestamp) -> Result<Option<Pause>, CliError> {
    let pause = open.ledger.pause().await.map_err(|error| open.failed(error))?;
    Ok(pause.filter(|pause| pause.is_in_force(now)))
}

/// In whole seconds, for people.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn asked(command: &args::Pause, by: String, now: Timestamp) -> Pause {
    let until = command.length.map(|length| now.saturating_add(length).unwrap_or(Timestamp::MAX));
    let what = if command.disruption { PauseScope::Disruption } else { PauseScope::Everything };
    Pause { by, reason: command.reason.clone(), since: now, until, what }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn parsed(arguments: &[&str]) -> args::Pause {
        let command = ["outrigger", "pause", "--table", "t", "--cluster", "c"];
        let args = args::Args::try_parse_from(command.iter().chain(arguments)).unwrap();
        let args::Command::Pause(command) = args.command else { panic!("it is a pause") };
        command
    }

    #[test]
    fn a_pause_is_what_was_asked_for() {
        let now = Timestamp::from_second(100).unwrap();
        let plain = asked(&parsed(&[]), "alice".into(), now);
        let expected =
            Pause { by: "alice".into(), reason: None, since: now, until: None, what: PauseScope::Everything };
        assert_eq!(plain, expected);
        let arguments = ["--for", "2h", "--reason", "upgrade", "--disruption"];
        let narrow = asked(&parsed(&arguments), "alice".into(), now);
        let until = Some(Timestamp::from_second(7_300).unwrap());
        let (reason, what) = (Some("upgrade".into()), PauseScope::Disruption);
        assert_eq!(narrow, Pause { reason, until, what, ..expected });
    }
}
