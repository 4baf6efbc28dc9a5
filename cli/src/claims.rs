//! `outrigger claims`: the NodeClaims of a cluster, how far each has come, and what it costs.

use jiff::{SignedDuration, Timestamp};
use outrigger_kubernetes::ShownClaim;
use outrigger_model::{CapacityType, ClaimState, NodeClaim, Price, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::output::{CommandOutcome, Document, Format, count, or_dash, print, say, spinner, table};
use crate::plan::text::money;
use crate::remarks::Remarks;

/// The NodeClaims of a cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimsOutput {
    claims: Vec<ClaimOutput>,
    /// Dollars per hour of those that have an instance, as far as their prices are known.
    cost_per_hour: Price,
    #[serde(flatten)]
    remarks: Option<Remarks>,
}

impl Document for ClaimsOutput {
    const KIND: &'static str = "Claims";

    fn names(&self) -> Option<Vec<String>> {
        Some(self.claims.iter().map(|claim| format!("nodeclaim/{}", claim.name)).collect())
    }
}

/// A NodeClaim as other programs read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimOutput {
    pub(crate) name: String,
    pub(crate) node_pool: Option<String>,
    pub(crate) instance_type: Option<String>,
    pub(crate) capacity_type: Option<CapacityType>,
    pub(crate) zone: Option<String>,
    /// How far it has come.
    pub(crate) state: ClaimState,
    /// Its node, once it has joined.
    pub(crate) node: Option<String>,
    #[schemars(with = "Option<String>")]
    pub(crate) created_at: Option<Timestamp>,
    /// What its offering costs; null where nobody knows.
    pub(crate) price_per_hour: Option<Price>,
    /// Why it ends or is not further.
    pub(crate) message: Option<String>,
}

/// Runs the command.
pub(crate) fn run(command: &args::Claims, format: Format) -> Result<CommandOutcome, CliError> {
    let progress = spinner("reading");
    let (mut claims, remarks, now) = read(command)?;
    progress.finish_and_clear();
    let is_asked = |claim: &ClaimOutput| command.node_pool.is_none() || claim.node_pool == command.node_pool;
    claims.retain(is_asked);
    let lives = |claim: &&ClaimOutput| !claim.state.is_terminal() && claim.state != ClaimState::Intent;
    let cost_per_hour = claims.iter().filter(lives).filter_map(|claim| claim.price_per_hour).sum();
    let output = ClaimsOutput { claims, cost_per_hour, remarks };
    print(&output, format, || text(&output, now))?;
    output.remarks.iter().for_each(Remarks::tell);
    let refused = output.remarks.iter().any(|remarks| !remarks.refused.is_empty());
    Ok(if refused { CommandOutcome::Refused } else { CommandOutcome::Done })
}

type Read = (Vec<ClaimOutput>, Option<Remarks>, Timestamp);

fn read(command: &args::Claims) -> Result<Read, CliError> {
    #[cfg(feature = "aws")]
    if let Some(ledger) = command.decided.ledger(&command.source.kubeconfig) {
        let claims = crate::ledger::claims(&ledger)?;
        return Ok((claims.iter().map(ClaimOutput::of_ledger).collect(), None, Timestamp::now()));
    }
    #[cfg(not(feature = "aws"))]
    if command.decided.is_asked_for() {
        return Err(CliError::WithoutAws);
    }
    let Input { snapshot, node_claims, notes } = input::read_snapshot(&command.source)?;
    let now = input::decided_at(&command.source, &snapshot);
    let remarks = Remarks::new(&snapshot, notes);
    Ok((all(&snapshot, &node_claims), Some(remarks), now))
}

/// The claims of a cluster, or of the ledger that a Snapshot was taken with.
pub(crate) fn all(snapshot: &Snapshot, shown: &[ShownClaim]) -> Vec<ClaimOutput> {
    let shown = shown.iter().map(|claim| ClaimOutput::of_object(claim, snapshot));
    shown.chain(snapshot.claims.iter().map(ClaimOutput::of_ledger)).collect()
}

impl ClaimOutput {
    fn of_object(claim: &ShownClaim, snapshot: &Snapshot) -> Self {
        Self {
            name: claim.name.clone(),
            node_pool: claim.node_pool.clone(),
            instance_type: claim.instance_type.clone(),
            capacity_type: claim.capacity_type,
            zone: claim.zone.clone(),
            state: claim.state,
            node: claim.node_name.clone(),
            created_at: claim.created_at,
            price_per_hour: price(claim, snapshot),
            message: claim.message.clone(),
        }
    }

    fn of_ledger(claim: &NodeClaim) -> Self {
        let instance = claim.status.instance.as_ref();
        Self {
            name: claim.name.clone(),
            node_pool: Some(claim.spec.node_pool.clone()),
            instance_type: instance.map(|instance| instance.instance_type.clone()),
            capacity_type: instance.map(|instance| instance.capacity_type),
            zone: instance.map(|instance| instance.zone.clone()),
            state: claim.status.state,
            node: claim.status.node_name.clone(),
            created_at: Some(claim.created_at),
            price_per_hour: instance.map(|instance| instance.price),
            message: claim
                .status
                .termination
                .as_ref()
                .map(|end| format!("{:?}: {}", end.reason, end.message)),
        }
    }
}

/// What the offering of a claim costs today.
fn price(claim: &ShownClaim, snapshot: &Snapshot) -> Option<Price> {
    let (kind, zone) = (claim.instance_type.as_ref()?, claim.zone.as_ref()?);
    let types = snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
    let mut offerings = types.filter(|known| known.name == *kind).flat_map(|known| &known.offerings);
    let is_its = |offering: &&outrigger_model::Offering| {
        offering.zone == *zone && Some(offering.capacity_type) == claim.capacity_type
    };
    offerings.find(is_its).map(|offering| offering.price)
}

fn text(output: &ClaimsOutput, now: Timestamp) {
    let (number, cost) = (count(output.claims.len(), "NodeClaim"), money(output.cost_per_hour));
    say!("{number}, {cost} without root volumes");
    if output.claims.is_empty() {
        return;
    }
    say!("");
    let row = |claim: &ClaimOutput| {
        vec![
            claim.name.clone(),
            or_dash(claim.node_pool.as_ref()),
            or_dash(claim.instance_type.as_ref()),
            or_dash(claim.capacity_type),
            or_dash(claim.zone.as_ref()),
            or_dash(claim.price_per_hour.map(|price| format!("{:.4}", price.dollars()))),
            format!("{:?}", claim.state),
            or_dash(claim.created_at.map(|at| age(now.duration_since(at)))),
            or_dash(claim.node.as_ref()),
            claim.message.clone().unwrap_or_default(),
        ]
    };
    let headings = ["NAME", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "$/H", "STATE", "AGE", "NODE", "WHY"];
    table(&headings, &output.claims.iter().map(row).collect::<Vec<_>>());
}

/// An age as kubectl shows it: `45s`, `12m`, `5h`, `3d`.
pub(crate) fn age(age: SignedDuration) -> String {
    let seconds = age.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let table = [(-5, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h"), (259_200, "3d")];
        for (seconds, expected) in table {
            assert_eq!(age(SignedDuration::from_secs(seconds)), expected);
        }
    }
}
