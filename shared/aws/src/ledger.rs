//! The ledger on DynamoDB: one table, partition key `pk` = `<partition>#<kube-system uid>`, sort
//! key `sk`.
//!
//! Rights are given by partition (`dynamodb:LeadingKeys` in template.yaml), so items that different
//! functions write lie in different ones. Every function reads all of them.
//!
//! | partition, and who writes it | `sk` | item |
//! |---|---|---|
//! | `cluster`: provision, lifecycle | `meta` | the cluster's name and uid, the schema's version, the generation |
//! | | `lease#<function>` | owner, epoch, expiry |
//! | | `claim#<name>` | a NodeClaim: JSON in `body`; `state` and `version` stand beside it for conditions |
//! | | `ice#<capacity type>#<instance type>#<zone>` | an offering that could not be had |
//! | | `health` | how launches have fared lately: JSON in `body`, its `version` beside it |
//! | | `memory#<instance type>#<image>` | the least memory that a node of the type was seen to have |
//! | | `sweep` | what the last sweep found amiss: JSON in `body` |
//! | | `report#<function>` | the last report, compressed when it is large |
//! | | `pause` | an operator's pause, which people write: JSON in `body` |
//! | `launches`: provision | `intent#<id>` | an Intent that is open: JSON in `body`; `state` stands beside it |
//! | `launched`: provision | `intent#<id>` | an Intent that is over |
//! | `ended`: lifecycle | `claim#<name>` | a NodeClaim that is over |
//! | `commands`: disrupt, interrupt, provision, lifecycle | `command#<id>` | a Command: JSON in `body`, `version` beside it |
//! | `disrupt`: disrupt | `lease#disrupt`, `report#disrupt` | as above |
//! | | `disruption`, `demand` | what was proposed, and what pods have asked for: compressed when it is large |
//! | `interrupt`: interrupt | `interruption#<claim>` | an Interruption: JSON in `body`; lifecycle deletes it |
//! | | `event#<id>` | an event of EC2 that was handled, and until when that counts |
//! | | `ice#<capacity type>#<instance type>#<zone>` | an offering that EC2 has taken back |
//!
//! What is over, no tick reads.
//!
//! Every write of a function's is conditional, every read strongly consistent, and there is no
//! Scan. A write whose answer was lost is told apart from one that never happened by reading back
//! what it would have written.

mod claims;
mod commands;
mod demand;
mod disruption;
mod ended;
mod handled;
mod health;
mod interruptions;
mod item;
mod launches;
mod leases;
mod meta;
mod outcomes;
mod packing;
mod partition;
mod pause;
mod queries;
mod remembered;
mod reports;
mod seen;
mod sweeps;
mod transaction;
mod unavailable;
mod upgrade;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, Lease, Ledger, LedgerError, LedgerState, PreparedLaunch, Sweep};
use outrigger_model::{
    ClaimOutcome, Command, DemandHistory, DisruptionMemory, Intent, IntentState, LaunchHealth, NodeClaim,
    Pause, Report, SeenResources, UnavailableOffering,
};

use crate::Aws;
use item::Item;
use partition::Partition;

/// The ledger of one cluster in a DynamoDB table.
#[derive(Clone, Debug)]
pub struct DynamoLedger {
    client: aws_sdk_dynamodb::Client,
    table: String,
    cluster: String,
    uid: String,
}

impl DynamoLedger {
    /// The ledger of the cluster of this name, whose namespace kube-system has this uid.
    pub fn new(
        aws: &Aws,
        table: impl Into<String>,
        cluster: impl Into<String>,
        uid: impl Into<String>,
    ) -> Self {
        Self { client: aws.dynamodb.clone(), table: table.into(), cluster: cluster.into(), uid: uid.into() }
    }

    /// An item of this cluster, empty but for its key.
    fn item(&self, partition: Partition, sort_key: impl Into<String>) -> Item {
        Item::new(partition.key(&self.uid), sort_key)
    }
}

#[async_trait]
impl Ledger for DynamoLedger {
    async fn bind(&self, cluster_uid: &str) -> Result<(), LedgerError> {
        meta::bind(self, cluster_uid).await
    }

    async fn is_new(&self) -> Result<bool, LedgerError> {
        Ok(queries::get(self, Partition::Cluster, meta::KEY).await?.is_none())
    }

    async fn acquire(
        &self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lease>, LedgerError> {
        leases::acquire(self, function, owner, now, ttl).await
    }

    async fn renew(&self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError> {
        leases::renew(self, lease, now, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        leases::release(self, lease).await
    }

    async fn load(&self) -> Result<LedgerState, LedgerError> {
        queries::load(self).await
    }

    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        launches::prepare(self, lease, launch).await
    }

    async fn mark_sent(&self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError> {
        launches::mark_sent(self, lease, intent, at).await
    }

    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        outcomes::finish(self, intent, IntentState::Resolved, outcomes, at).await
    }

    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError> {
        let Some(found) = queries::intent(self, intent).await? else {
            return Err(LedgerError::Conflict { what: format!("intent {intent}") });
        };
        let failed = |claim: &String| ClaimOutcome::Failed { claim: claim.clone(), why: why.to_owned() };
        let outcomes: Vec<_> = found.claims.iter().map(failed).collect();
        outcomes::finish(self, intent, IntentState::Abandoned, &outcomes, at).await
    }

    async fn intent(&self, id: &str) -> Result<Option<Intent>, LedgerError> {
        queries::intent(self, id).await
    }

    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        launches::adopt(self, claim, lease).await
    }

    async fn claim(&self, name: &str) -> Result<Option<NodeClaim>, LedgerError> {
        queries::stated_claim(self, name).await
    }

    async fn update_claim(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError> {
        claims::update(self, claim, lease).await
    }

    async fn interrupt(&self, interruption: &Interruption) -> Result<bool, LedgerError> {
        interruptions::put(self, interruption).await
    }

    async fn forget_interruption(&self, claim: &str) -> Result<(), LedgerError> {
        interruptions::forget(self, claim).await
    }

    async fn write_command(&self, command: &Command, lease: Option<&Lease>) -> Result<(), LedgerError> {
        commands::put_command(self, command, lease).await
    }

    async fn end_command(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError> {
        commands::end_command(self, command, claims, lease).await
    }

    async fn command(&self, id: &str) -> Result<Option<Command>, LedgerError> {
        commands::get_command(self, id).await
    }

    async fn disruption_memory(&self) -> Result<DisruptionMemory, LedgerError> {
        disruption::get_memory(self).await
    }

    async fn put_disruption_memory(
        &self,
        memory: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError> {
        disruption::put_memory(self, memory, lease).await
    }

    async fn demand_history(&self) -> Result<DemandHistory, LedgerError> {
        demand::get_history(self).await
    }

    async fn put_demand_history(&self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError> {
        demand::put_history(self, history, lease).await
    }

    async fn sweep(&self) -> Result<Sweep, LedgerError> {
        sweeps::get_sweep(self).await
    }

    async fn put_away(&self) -> Result<usize, LedgerError> {
        ended::put_away(self).await
    }

    async fn put_sweep(&self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError> {
        sweeps::put_sweep(self, sweep, lease).await
    }

    async fn handled(&self, events: &[String], now: Timestamp) -> Result<BTreeSet<String>, LedgerError> {
        handled::get_handled(self, events, now).await
    }

    async fn put_handled(&self, events: &[String], until: Timestamp) -> Result<(), LedgerError> {
        handled::put_handled(self, events, until).await
    }

    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        unavailable::put(self, Partition::Cluster, offerings).await
    }

    async fn put_taken_back(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        unavailable::put(self, Partition::Interrupt, offerings).await
    }

    async fn clear_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        unavailable::clear(self, offerings).await
    }

    async fn health(&self) -> Result<LaunchHealth, LedgerError> {
        health::get_health(self).await
    }

    async fn put_health(&self, health: &LaunchHealth) -> Result<(), LedgerError> {
        health::put_health(self, health).await
    }

    async fn pause(&self) -> Result<Option<Pause>, LedgerError> {
        pause::get_pause(self).await
    }

    async fn put_pause(&self, pause: Option<&Pause>) -> Result<(), LedgerError> {
        pause::put_pause(self, pause).await
    }

    async fn put_seen_resources(&self, seen: &SeenResources, at: Timestamp) -> Result<(), LedgerError> {
        seen::put(self, seen, at).await
    }

    async fn put_report(&self, function: &str, at: Timestamp, report: &Report) -> Result<(), LedgerError> {
        reports::put(self, function, at, report).await
    }

    async fn report(&self, function: &str) -> Result<Option<(Timestamp, Report)>, LedgerError> {
        reports::get_report(self, function).await
    }
}
