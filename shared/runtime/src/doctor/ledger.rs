//! The ledger: whether it can be read, whose it is, and what it remembers that keeps nodes from
//! coming.

use jiff::Timestamp;
use outrigger_engine::chain;
use outrigger_engine::fleet_errors::NO_SPOT_ROLE;
use outrigger_engine::ports::{Cluster as _, Ledger, LedgerError, LedgerState};
use outrigger_kubernetes::KubernetesCluster;
use outrigger_model::Finding;

const SUBJECT: &str = "ledger";

/// Looks at it. One that holds nothing yet is not begun.
pub(super) async fn examine(ledger: &dyn Ledger, cluster: &KubernetesCluster) -> Vec<Finding> {
    let failed = |error: LedgerError| {
        let remedy = match &error {
            LedgerError::Foreign { .. } => "each cluster needs a stack of its own, and so a table",
            LedgerError::Unreachable { .. } => "a function in a VPC needs a NAT, or an endpoint of DynamoDB",
            _ => "deploy template.yaml again, which gives the role its rights to the table",
        };
        vec![Finding::bad(SUBJECT, chain(&error), remedy)]
    };
    match ledger.is_new().await {
        Err(error) => return failed(error),
        Ok(true) => {
            let remedy = "wait for a minute: provision begins it; or set Adopt where the table was lost";
            return vec![Finding::remarkable(SUBJECT, "it holds nothing yet", remedy)];
        }
        Ok(false) => {}
    }
    let uid = match cluster.uid().await {
        Ok(uid) => uid,
        Err(error) => return vec![Finding::bad(SUBJECT, chain(&error), "ask again")],
    };
    if let Err(error) = ledger.bind(&uid).await {
        return failed(error);
    }
    match ledger.load().await {
        Ok(state) => remembered(&state, Timestamp::now()),
        Err(error) => failed(error),
    }
}

/// What it remembers.
fn remembered(state: &LedgerState, now: Timestamp) -> Vec<Finding> {
    let mut findings = vec![Finding::good(SUBJECT, format!("{} NodeClaims", state.claims.len()))];
    if let Some(pause) = state.pause.as_ref().filter(|pause| pause.is_in_force(now)) {
        findings.push(Finding::remarkable("pause", pause.to_string(), "`outrigger resume` ends it"));
    }
    if let Some(hold) = state.health.launches.as_ref().filter(|hold| hold.holds(now)) {
        let detail = format!("nothing is launched until {}: {}", hold.until, hold.reason);
        findings.push(Finding::remarkable("launches", detail, "wait: EC2 asks for patience"));
    }
    for (pool, health) in &state.health.pools {
        if let Some(hold) = health.holds().find(|hold| hold.holds(now)) {
            let detail = format!("NodePool {pool} rests until {}: {}", hold.until, hold.reason);
            findings.push(Finding::bad("launches", detail, "mend what it names (docs/troubleshooting.md)"));
        }
    }
    if state.unavailable.iter().any(|offering| offering.reason == NO_SPOT_ROLE) {
        findings.push(Finding::bad(
            "spot's role",
            format!("EC2 answers {NO_SPOT_ROLE}"),
            "`aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`, once",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use outrigger_model::{CapacityType, Health, Hold, PoolHealth, UnavailableOffering};

    use super::*;

    #[test]
    fn what_keeps_nodes_from_coming_is_said_while_it_does() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let hold = |until| Some(Hold { until: at(until), failures: 1, reason: "no".into() });
        let mut state = LedgerState::default();
        assert_eq!(remembered(&state, at(5)), [Finding::good(SUBJECT, "0 NodeClaims")]);
        state.health.launches = hold(9);
        state.health.pools.insert("web".into(), PoolHealth { breaker: hold(7), ..PoolHealth::default() });
        state.unavailable.push(UnavailableOffering {
            instance_type: "*".into(),
            zone: "*".into(),
            capacity_type: CapacityType::Spot,
            until: at(1),
            reason: NO_SPOT_ROLE.into(),
            failures: 1,
        });
        let seen = |now| {
            let findings = remembered(&state, at(now));
            findings.iter().map(|finding| (finding.subject.clone(), finding.health)).collect::<Vec<_>>()
        };
        let of = |subject: &str, health| (subject.to_owned(), health);
        let role = of("spot's role", Health::Bad);
        assert_eq!(
            seen(5),
            [
                of(SUBJECT, Health::Good),
                of("launches", Health::Remarkable),
                of("launches", Health::Bad),
                role.clone()
            ]
        );
        assert_eq!(seen(8), [of(SUBJECT, Health::Good), of("launches", Health::Remarkable), role.clone()]);
        assert_eq!(seen(10), [of(SUBJECT, Health::Good), role]);
    }
}
