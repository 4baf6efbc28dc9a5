//! What the function `lifecycle` remembers: the last sweep, and what nodes were seen to offer.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError, LifecycleMemory, Sweep};
use outrigger_model::SeenResources;

use super::expression::{Comparison, Expression};
use super::item::{Item, names, number};
use super::partition::Partition;
use super::queries::get;
use super::single_write::put_if;
use super::transaction::{ItemName, Transacted, TransactionItem, write};
use super::{DynamoLedger, leases, packing};

const SWEEP: &str = "sweep";
/// The beginning of the sort keys of what types offer; earlier versions remembered memory alone.
pub(super) const SEEN_PREFIX: &str = "memory#";
/// For so long a type is believed to have what it was seen to have, in seconds.
const SEEN_KEPT_SECONDS: i64 = 60 * 24 * 3_600;

#[async_trait]
impl LifecycleMemory for DynamoLedger {
    async fn sweep(&self) -> Result<Sweep, LedgerError> {
        let item = get(self, Partition::Cluster, SWEEP).await?;
        Ok(item.as_ref().map(Item::packed_body).transpose()?.unwrap_or_default())
    }

    /// Of what is too large to be kept the second half is forgotten: the next sweep finds it as if
    /// for the first time, and nothing is done about it meanwhile.
    async fn put_sweep(&self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError> {
        let packed = packing::packed_to_fit(sweep, forget_half);
        let item = self.item(Partition::Cluster, SWEEP);
        let packed = packed.map_err(|error| item.unreadable(error))?;
        let mut items: Vec<_> = lease.map(|lease| leases::still_held(self, lease)).into_iter().collect();
        items.push(TransactionItem::put(ItemName::Memory, item.with(names::BODY, packed.into_value())));
        match write(self, &format!("the sweep of {}", Timestamp::now()), items).await? {
            Transacted::Written => Ok(()),
            // Nothing is asked of the item itself.
            Transacted::Refused(_) => {
                let function = lease.map(|lease| lease.function.clone()).unwrap_or_default();
                Err(LedgerError::LeaseLost { function })
            }
        }
    }

    async fn put_seen_resources(&self, seen: &SeenResources, at: Timestamp) -> Result<(), LedgerError> {
        let version = number(seen.version);
        let class = seen.node_class.as_ref().map(|class| format!("#{class}")).unwrap_or_default();
        let key = format!("{SEEN_PREFIX}{}#{}{class}", seen.instance_type, seen.image_id);
        let item = self
            .item(Partition::Cluster, &key)
            .with_body(seen)?
            .with(names::VERSION, version.clone())
            .with(names::TTL, number(at.as_second() + SEEN_KEPT_SECONDS));
        let condition = Expression::is_new_or(names::VERSION, Comparison::Less, version);
        put_if(self, item, &condition, format!("write {key}")).await.map(|_| ())
    }
}

/// What was seen. An item that cannot be read costs a lesson, and holds nothing up.
pub(super) fn read_seen(item: &Item) -> Option<SeenResources> {
    let seen = item.body();
    if let Err(error) = &seen {
        tracing::warn!(%error, "what was learnt about a type is left out");
    }
    seen.ok()
}

fn forget_half(sweep: &mut Sweep) {
    let Sweep { orphans, forgotten, missing, nodeless, abandoned, closed, templates, deleted, .. } = sweep;
    for names in [orphans, forgotten, missing, nodeless, abandoned, closed, templates, deleted] {
        let half = names.len() / 2;
        if let Some(first_forgotten) = names.keys().nth(half).cloned() {
            names.split_off(&first_forgotten);
        }
    }
}
