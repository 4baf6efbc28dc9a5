//! An operator's pause: one item. The last word counts, so nobody compares what was there before.

use async_trait::async_trait;
use outrigger_engine::ports::{LedgerError, OperatorPause};
use outrigger_model::Pause;

use super::DynamoLedger;
use super::item::{Item, names, number};
use super::partition::Partition;
use super::queries::get;
use crate::errors;

const KEY: &str = "pause";
/// So long the item stays once it is over, for people to look at, in seconds.
const KEPT_SECONDS: i64 = 3_600;

#[async_trait]
impl OperatorPause for DynamoLedger {
    async fn pause(&self) -> Result<Option<Pause>, LedgerError> {
        get(self, Partition::Cluster, KEY).await?.as_ref().map(Item::body).transpose()
    }

    /// Doing it twice is doing it once, so an answer that was lost does no harm.
    async fn put_pause(&self, pause: Option<&Pause>) -> Result<(), LedgerError> {
        let item = self.item(Partition::Cluster, KEY);
        let (client, table) = (&self.client, &self.table);
        let Some(pause) = pause else {
            let delete = client.delete_item().table_name(table).set_key(Some(item.into_attributes()));
            let deleted = delete.send().await.map(|_| ());
            return deleted.map_err(|error| errors::ledger("remove the pause", error));
        };
        let mut item = item.with_body(pause)?;
        if let Some(until) = pause.until {
            item = item.with(names::TTL, number(until.as_second().saturating_add(KEPT_SECONDS)));
        }
        let put = client.put_item().table_name(table).set_item(Some(item.into_attributes()));
        put.send().await.map(|_| ()).map_err(|error| errors::ledger("write the pause", error))
    }
}
