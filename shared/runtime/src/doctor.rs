//! The answer to the payload `{"doctor": true}`: what this function sees of all that it needs, by
//! its own role and from its own network. Nothing is changed.

mod cloud;
mod cluster;
mod ledger;

use jiff::{SignedDuration, Timestamp};
use outrigger_engine::ports::Cluster as _;
use outrigger_engine::{chain, interruption, lifecycle, refresh};
use outrigger_kubernetes::client::TokenClaims;
use outrigger_model::{Diagnosis, Finding};
use serde_json::Value;
use tokio::join;

use crate::config::{Auth, Config};
use crate::connect::Connections;

/// What findings about the stored token are called.
const TOKEN: &str = "token";
/// A token that ends sooner should have been renewed.
const TOKEN_LASTS: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Whether an event asks for a doctor.
pub(crate) fn is_asked_for(event: &Value) -> bool {
    event["doctor"] == true
}

/// Looks at everything at once, since what cannot be reached takes its time, and tells it in the
/// order in which a function needs it.
pub(crate) async fn examine(config: &Config, connections: &Connections, function: &str) -> Diagnosis {
    let function_name = function.to_owned();
    if function == refresh::FUNCTION {
        // It knows no cluster, and reads nothing of what it stores.
        return Diagnosis { function: function_name, findings: vec![caller(connections).await] };
    }
    let stored_token = async {
        match &config.api_server.auth {
            Auth::TokenParameter(parameter) => Some(token(connections, parameter).await),
            Auth::Iam { .. } => None,
        }
    };
    let catalog = async {
        if function == interruption::FUNCTION {
            None
        } else {
            Some(cloud::catalog(connections.cloud()).await)
        }
    };
    let (caller, stored_token, of_cluster, catalog) =
        join!(caller(connections), stored_token, of_cluster(config, connections, function), catalog);
    let findings = std::iter::once(caller).chain(stored_token).chain(of_cluster).chain(catalog);
    Diagnosis { function: function_name, findings: findings.collect() }
}

/// Who AWS thinks that the function is.
async fn caller(connections: &Connections) -> Finding {
    const SUBJECT: &str = "role";
    match connections.aws().caller().await {
        Some(caller) => Finding::good(SUBJECT, format!("{caller} in {}", connections.aws().region())),
        None => Finding::remarkable(
            SUBJECT,
            "AWS does not say who calls (sts:GetCallerIdentity)",
            "a function in a VPC needs a NAT or endpoints to reach AWS",
        ),
    }
}

/// For how long the token in a parameter is good.
async fn token(connections: &Connections, parameter: &str) -> Finding {
    let renew = format!("`outrigger token --parameter {parameter}`");
    let secret = match connections.aws().secret(parameter).await {
        Ok(secret) => secret,
        Err(error) => return Finding::bad(TOKEN, chain(&error), renew),
    };
    match TokenClaims::read(secret.expose()) {
        None => Finding::good(TOKEN, format!("{parameter} holds one that does not say when it ends")),
        Some(claims) => ends(parameter, &claims, renew),
    }
}

fn ends(parameter: &str, claims: &TokenClaims, renew: String) -> Finding {
    let TokenClaims { user, expires_at } = claims;
    let Some(expires_at) = expires_at else {
        return Finding::good(TOKEN, format!("{parameter} holds one of {user}, which does not end"));
    };
    let detail = format!("{parameter} holds one of {user}, which is good until {expires_at}");
    let remaining = expires_at.duration_since(Timestamp::now());
    if !remaining.is_positive() {
        Finding::bad(TOKEN, detail, renew)
    } else if remaining < TOKEN_LASTS {
        Finding::remarkable(TOKEN, detail, renew)
    } else {
        Finding::good(TOKEN, detail)
    }
}

/// The cluster, and what depends on it: without its uid nobody knows which ledger is its own.
async fn of_cluster(config: &Config, connections: &Connections, function: &str) -> Vec<Finding> {
    let connected = match connections.cluster_and_ledger(config).await {
        Ok(connected) => connected,
        Err(error) => return vec![cluster::unreachable(&error, function)],
    };
    let (cluster, cloud) = (&connected.cluster, connections.cloud());
    let room =
        async { if function == interruption::FUNCTION { Vec::new() } else { cluster::room(cluster).await } };
    let wishes = async {
        if [interruption::FUNCTION, lifecycle::FUNCTION].contains(&function) {
            return Vec::new();
        }
        let (mut findings, configuration) = cluster::objects(cluster).await;
        if let Some(configuration) = configuration {
            findings.extend(cloud::classes(cloud, configuration).await);
        }
        findings
    };
    let (rights, ledger, room, wishes) =
        join!(cluster::rights(cluster, function), ledger::examine(&connected.ledger, cluster), room, wishes);
    let answers = Finding::good(cluster::SUBJECT, format!("{} answers", config.api_server.url));
    let first = [answers, cluster::clock(cluster.clock_difference()), rights];
    first.into_iter().chain(ledger).chain(room).chain(wishes).collect()
}

#[cfg(test)]
mod tests {
    use outrigger_model::Health;

    use super::*;

    #[test]
    fn a_token_is_told_of_before_it_ends() {
        let health = |hours: Option<i64>| {
            let expires_at = hours.map(|hours| Timestamp::now() + SignedDuration::from_hours(hours));
            let claims =
                TokenClaims { user: "system:serviceaccount:kube-system:outrigger".into(), expires_at };
            ends("/outrigger/token", &claims, "renew it".into()).health
        };
        let table = [
            (None, Health::Good),
            (Some(169), Health::Good),
            (Some(167), Health::Remarkable),
            (Some(-1), Health::Bad),
        ];
        for (hours, expected) in table {
            assert_eq!(health(hours), expected, "{hours:?}");
        }
    }
}
