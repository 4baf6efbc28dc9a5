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
//! | | `revision#<number>`, `revision#several` | counters that writes of claims raise |
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
//! What is over, no tick reads. A claim with an instance has its id beside the body, and the index
//! `instances` finds it by that. Each write of claims raises a counter, by which a process sees
//! which of those that it remembers to read again.
//!
//! Every write of a function's is conditional, every read but of the index strongly consistent, and
//! there is no Scan. A write whose answer was lost is told apart from one that never happened by
//! reading back what it would have written.

mod by_instance;
mod claims;
mod commands;
mod disrupt_memory;
mod ended;
mod expression;
mod handled_events;
mod interruptions;
mod item;
mod launch_memory;
mod launches;
mod leases;
mod lifecycle_memory;
mod meta;
mod open_claims;
mod operator_pause;
mod outcomes;
mod packing;
mod partition;
mod queries;
mod reports;
mod revisions;
mod single_write;
mod transaction;
mod unavailable;
mod upgrade;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use outrigger_engine::ports::{Ledger, LedgerError, LedgerState};

use crate::Aws;
use item::Item;
use open_claims::ClaimsMemory;
use partition::Partition;

/// The ledger of one cluster in a DynamoDB table.
#[derive(Clone, Debug)]
pub struct DynamoLedger {
    client: aws_sdk_dynamodb::Client,
    table: String,
    cluster: String,
    uid: String,
    /// Whether claims that are over lie beside the others, as far as the last look has shown.
    may_put_away: Arc<AtomicBool>,
    claims: Arc<ClaimsMemory>,
}

impl DynamoLedger {
    /// The ledger of the cluster of this name, whose namespace kube-system has this uid.
    pub fn new(
        aws: &Aws,
        table: impl Into<String>,
        cluster: impl Into<String>,
        uid: impl Into<String>,
    ) -> Self {
        Self {
            client: aws.dynamodb.clone(),
            table: table.into(),
            cluster: cluster.into(),
            uid: uid.into(),
            may_put_away: Arc::new(AtomicBool::new(true)),
            claims: Arc::default(),
        }
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

    async fn load(&self) -> Result<LedgerState, LedgerError> {
        queries::load(self).await
    }

    async fn load_for(&self, instances: &BTreeSet<String>) -> Result<LedgerState, LedgerError> {
        by_instance::load_for(self, instances).await
    }
}
