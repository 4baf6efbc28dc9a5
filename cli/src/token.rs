//! `outrigger token`: a service account's token in SSM, with which the functions sign in to an API
//! server that has no aws-iam-authenticator.

use jiff::{SignedDuration, Timestamp};
use outrigger_aws::{Aws, Secret};
use outrigger_kubernetes::client::{KubernetesCluster, TokenClaims};
use serde::Serialize;

use crate::args;
use crate::cluster::{connect, wait_for};
use crate::error::CliError;
use crate::output::{CommandOutcome, Document, Format, print, say};

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Held {
    /// There is no such parameter.
    Nothing,
    /// Something else than a token of the service account.
    SomethingElse,
    /// A token of it, which the API server refuses.
    Refused,
    /// A token of it that is good, until then where it ends.
    Token {
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
}

impl Held {
    /// Whether the token is good for longer than that.
    fn outlasts(self, now: Timestamp, renew_before: SignedDuration) -> bool {
        match self {
            Self::Nothing | Self::SomethingElse | Self::Refused => false,
            Self::Token { expires_at } => {
                expires_at.is_none_or(|expires_at| expires_at.duration_since(now) > renew_before)
            }
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::Nothing => "there is no such parameter".into(),
            Self::SomethingElse => "a value that is no token of the service account".into(),
            Self::Refused => "a token that the API server refuses".into(),
            Self::Token { expires_at: None } => "a token that does not end".into(),
            Self::Token { expires_at: Some(expires_at) } => {
                format!("a token that is good until {expires_at}")
            }
        }
    }
}

/// What the command has done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenReport {
    parameter: String,
    region: String,
    service_account: String,
    /// What the parameter held before.
    before: Held,
    /// Until when the new token is good, where one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Timestamp>,
}

impl Document for TokenReport {
    const KIND: &'static str = "Token";
}

/// Runs it.
pub(crate) fn run(command: &args::Token, format: Format) -> Result<CommandOutcome, CliError> {
    let renew_before = SignedDuration::try_from(command.renew_before).unwrap_or(SignedDuration::MAX);
    let (report, is_good) = wait_for(async {
        let (cluster, aws) = (connect(&command.kubeconfig).await?, Aws::load(None, Aws::CALL_LIMIT).await);
        let before = held(command, &cluster, &aws).await?;
        let is_good = before.outlasts(Timestamp::now(), renew_before);
        let is_due = command.force || !is_good && !command.show;
        if is_due && before == Held::SomethingElse && !command.force {
            return Err(CliError::Missing {
                what: format!("--parameter {}", command.parameter),
                actual: before.in_words(),
                allowed: format!("a token of {}, or no such parameter, or --force", command.service_account),
            });
        }
        let written = if is_due { Some(renew(command, &cluster, &aws).await?) } else { None };
        let report = TokenReport {
            parameter: command.parameter.clone(),
            region: aws.region().to_owned(),
            service_account: command.service_account.to_string(),
            before,
            written,
        };
        Ok((report, is_good || is_due))
    })?;
    print(&report, format, || say(command, &report))?;
    Ok(if is_good { CommandOutcome::Done } else { CommandOutcome::Unplaced })
}

async fn held(command: &args::Token, cluster: &KubernetesCluster, aws: &Aws) -> Result<Held, CliError> {
    let Some(secret) = aws.find_secret(&command.parameter).await? else { return Ok(Held::Nothing) };
    let claims = TokenClaims::read(secret.expose());
    let Some(claims) = claims.filter(|claims| claims.user == command.service_account.user()) else {
        return Ok(Held::SomethingElse);
    };
    let is_accepted = cluster.is_accepted(secret.expose()).await?;
    Ok(if is_accepted { Held::Token { expires_at: claims.expires_at } } else { Held::Refused })
}

/// Until when the new token is good.
async fn renew(command: &args::Token, cluster: &KubernetesCluster, aws: &Aws) -> Result<Timestamp, CliError> {
    let token = cluster.issue_token(&command.service_account, command.life).await?;
    let secret = Secret::new(token.expose().to_owned());
    aws.put_secret(&command.parameter, &secret, command.key.as_deref()).await?;
    Ok(token.expires_at())
}

fn say(command: &args::Token, report: &TokenReport) {
    let TokenReport { parameter, region, service_account, before, written } = report;
    let Some(until) = written else {
        say!("{parameter} in {region}: {}; nothing was changed", before.in_words());
        return;
    };
    say!("{parameter} in {region}: {}", before.in_words());
    say!("wrote a new token of {service_account}, which is good until {until}");
    let asked = Timestamp::now().saturating_add(command.life).unwrap_or(Timestamp::MAX);
    if asked.duration_since(*until) > SignedDuration::from_mins(1) {
        say!("the API server bounds how long its tokens are good: that is less than was asked for");
    }
    say!("the functions take it within ten minutes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_ends() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let until =
            |seconds: i64| Held::Token { expires_at: Timestamp::from_second(1_000_000 + seconds).ok() };
        let day = SignedDuration::from_hours(24);
        let table = [
            (until(86_401), true),
            (until(86_400), false),
            (until(-1), false),
            (Held::Token { expires_at: None }, true),
            (Held::Refused, false),
            (Held::SomethingElse, false),
            (Held::Nothing, false),
        ];
        for (held, outlasts) in table {
            assert_eq!(held.outlasts(now, day), outlasts, "{held:?}");
        }
    }
}
