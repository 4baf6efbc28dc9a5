//! Items of the table, and how model values are kept in them.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use outrigger_engine::chain;
use outrigger_engine::ports::LedgerError;
use outrigger_model::{Intent, NodeClaim};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::packing;
use super::partition::Partition;

/// How long rows that are over stay for people to look at.
const KEPT_SECONDS: i64 = 7 * 24 * 3_600;

/// The table's index of claims by their instance and their partition.
pub(super) const INSTANCES: &str = "instances";

pub(super) type Attributes = HashMap<String, AttributeValue>;

/// An item under construction, or one that was read.
#[derive(Clone, Debug)]
pub(super) struct Item(Attributes);

/// The attribute names that expressions use; several are reserved words, so all go through
/// placeholders.
pub(super) mod names {
    pub(in crate::ledger) const PARTITION: &str = "pk";
    pub(in crate::ledger) const SORT: &str = "sk";
    pub(in crate::ledger) const BODY: &str = "body";
    pub(in crate::ledger) const STATE: &str = "state";
    pub(in crate::ledger) const VERSION: &str = "version";
    /// Of a claim: its instance, by which the index [`INSTANCES`](super::INSTANCES) finds it.
    pub(in crate::ledger) const INSTANCE: &str = "instance";
    pub(in crate::ledger) const GENERATION: &str = "generation";
    pub(in crate::ledger) const OWNER: &str = "owner";
    pub(in crate::ledger) const EPOCH: &str = "epoch";
    pub(in crate::ledger) const EXPIRES: &str = "expires_ms";
    pub(in crate::ledger) const UNTIL: &str = "until_ms";
    /// DynamoDB's own time to live, in seconds: clears up and decides nothing.
    pub(in crate::ledger) const TTL: &str = "ttl";
}

fn if_readable<T>(body: Result<T, LedgerError>) -> Option<T> {
    body.inspect_err(|error| tracing::error!(error = chain(error), "the item is left out")).ok()
}

/// The sort key of a claim.
pub(super) fn claim_key(name: &str) -> String {
    format!("claim#{name}")
}

/// The sort key of an intent.
pub(super) fn intent_key(id: &str) -> String {
    format!("intent#{id}")
}

/// The sort key of a function's lease.
pub(super) fn lease_key(function: &str) -> String {
    format!("lease#{function}")
}

/// A claim as it is written: what commands hold, they say themselves.
pub(super) fn free(claim: &NodeClaim) -> NodeClaim {
    claim.clone().with_status(|status| status.command = None)
}

/// A number; DynamoDB sends numbers as text and keeps 38 digits.
pub(super) fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

/// A text.
pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

impl Item {
    /// An item that has only its key.
    pub(super) fn new(partition_key: String, sort_key: impl Into<String>) -> Self {
        Self(HashMap::from([
            (names::PARTITION.to_owned(), text(partition_key)),
            (names::SORT.to_owned(), text(sort_key)),
        ]))
    }

    pub(super) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub(super) fn into_attributes(self) -> Attributes {
        self.0
    }

    pub(super) const fn from_attributes(attributes: Attributes) -> Self {
        Self(attributes)
    }

    pub(super) fn sort_key(&self) -> String {
        self.text(names::SORT).unwrap_or_default().to_owned()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_s().ok().map(String::as_str)
    }

    pub(super) fn bytes(&self, name: &str) -> Option<&Blob> {
        self.0.get(name)?.as_b().ok()
    }

    /// A number, or why the item cannot be read.
    pub(super) fn number<N>(&self, name: &'static str) -> Result<N, LedgerError>
    where
        N: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        let Some(Ok(digits)) = self.0.get(name).map(AttributeValue::as_n) else {
            return Err(self.unreadable(format!("it has no number {name}")));
        };
        digits.parse().map_err(|error: N::Err| self.unreadable(error))
    }

    /// The value that `body` holds, or why the item cannot be read.
    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, LedgerError> {
        let Some(body) = self.text(names::BODY) else { return Err(self.unreadable("it has no body")) };
        serde_json::from_str(body).map_err(|error| self.unreadable(error))
    }

    /// The value that `body` holds. One that cannot be read is named and left out: whoever may
    /// write it must not hold up the rest.
    pub(super) fn body_if_readable<T: DeserializeOwned>(&self) -> Option<T> {
        if_readable(self.body())
    }

    /// The same of a `body` that may be compressed.
    pub(super) fn packed_body_if_readable<T: DeserializeOwned>(&self) -> Option<T> {
        if_readable(self.packed_body())
    }

    pub(super) fn unreadable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> LedgerError {
        LedgerError::Unreadable { item: self.sort_key(), source: source.into() }
    }

    /// The item with a value in its `body`.
    pub(super) fn with_body(self, value: &impl Serialize) -> Result<Self, LedgerError> {
        let body = serde_json::to_string(value).map_err(|error| self.unreadable(error))?;
        Ok(self.with(names::BODY, text(body)))
    }

    /// The item with a value in its `body` that may be large, compressed where it is. Errors where
    /// it is too large even so.
    pub(super) fn with_packed_body(self, value: &impl Serialize) -> Result<Self, LedgerError> {
        let packed = packing::packed(value).map_err(|error| self.unreadable(error))?;
        if !packed.is_small_enough() {
            return Err(LedgerError::Refused {
                attempted: format!("write {}", self.sort_key()),
                code: "TooLarge".into(),
                message: "it does not fit into an item of DynamoDB, even compressed".into(),
            });
        }
        Ok(self.with(names::BODY, packed.into_value()))
    }

    /// The value of a `body` that may be compressed.
    pub(super) fn packed_body<T: DeserializeOwned>(&self) -> Result<T, LedgerError> {
        match self.bytes(names::BODY) {
            Some(bytes) => packing::unpacked(bytes).map_err(|error| self.unreadable(error)),
            None => self.body(),
        }
    }

    /// The item of a claim.
    pub(super) fn of_claim(
        uid: &str,
        claim: &NodeClaim,
        ended_at: Option<jiff::Timestamp>,
    ) -> Result<Self, LedgerError> {
        let item = Self::new(Partition::Cluster.key(uid), claim_key(&claim.name))
            .with_body(&free(claim))?
            .with(names::STATE, text(format!("{:?}", claim.status.state)))
            .with(names::VERSION, number(claim.version))
            .with("intent", text(&claim.intent));
        let item = match claim.instance_id() {
            Some(instance) => item.with(names::INSTANCE, text(instance)),
            None => item,
        };
        Ok(item.kept_after(ended_at))
    }

    /// The item of an intent.
    pub(super) fn of_intent(uid: &str, intent: &Intent) -> Result<Self, LedgerError> {
        let partition = if intent.state.is_over() { Partition::Launched } else { Partition::Launches };
        let item = Self::new(partition.key(uid), intent_key(&intent.id))
            .with_body(intent)?
            .with(names::STATE, text(format!("{:?}", intent.state)));
        Ok(item.kept_after(intent.ended_at))
    }

    fn kept_after(self, ended_at: Option<jiff::Timestamp>) -> Self {
        match ended_at {
            Some(at) => self.with(names::TTL, number(at.as_second() + KEPT_SECONDS)),
            None => self,
        }
    }
}
