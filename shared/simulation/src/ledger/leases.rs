//! Leases: who does a function's work.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};

use super::Table;
use crate::time::after;

/// A lease stays as an item when it is given back, so that its epoch only ever rises.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    owner: Option<String>,
    epoch: u64,
    expires_at: Timestamp,
    /// How often somebody took it who found it over and not given back.
    taken_over: usize,
    /// The longest that it was ever kept for at once.
    longest: Duration,
}

impl HeldLease {
    /// A lease that nobody has held yet.
    const fn free(expires_at: Timestamp, ttl: Duration) -> Self {
        Self { owner: None, epoch: 0, expires_at, taken_over: 0, longest: ttl }
    }
}

impl Table {
    /// Takes the lease of a function; `None` where somebody else holds it.
    pub(crate) fn acquire(
        &mut self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Option<Lease> {
        let expires_at = after(now, ttl);
        let held = self.leases.entry(function.to_owned()).or_insert_with(|| HeldLease::free(expires_at, ttl));
        match held.owner.as_deref() {
            Some(holder) if holder == owner => {}
            Some(_) if held.expires_at > now => return None,
            holder => {
                held.taken_over += usize::from(holder.is_some());
                held.epoch += 1;
            }
        }
        held.owner = Some(owner.to_owned());
        held.expires_at = expires_at;
        Some(Lease { function: function.to_owned(), owner: owner.to_owned(), epoch: held.epoch })
    }

    /// Keeps a lease for longer.
    pub(crate) fn renew(&mut self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError> {
        self.check_lease(lease)?;
        if let Some(held) = self.leases.get_mut(&lease.function) {
            held.expires_at = after(now, ttl);
            held.longest = held.longest.max(ttl);
        }
        Ok(())
    }

    /// Gives a lease back, where it is still held.
    pub(crate) fn release(&mut self, lease: &Lease) {
        if self.check_lease(lease).is_ok()
            && let Some(held) = self.leases.get_mut(&lease.function)
        {
            held.owner = None;
        }
    }

    /// How often the lease of each function was taken over from one who had not given it back, and
    /// the longest that it was kept for at once.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (&str, usize, Duration)> {
        self.leases.iter().map(|(function, held)| (function.as_str(), held.taken_over, held.longest))
    }

    /// Who holds the lease of a function.
    pub(crate) fn holder(&self, function: &str, now: Timestamp) -> Option<&str> {
        let lease = self.leases.get(function).filter(|lease| lease.expires_at > now)?;
        lease.owner.as_deref()
    }

    /// Errors where the lease has passed to somebody else.
    pub(crate) fn check_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let held = self.leases.get(&lease.function);
        let is_current =
            |held: &HeldLease| held.epoch == lease.epoch && held.owner.as_ref() == Some(&lease.owner);
        if held.is_some_and(is_current) || !self.promises.epochs {
            Ok(())
        } else {
            Err(LedgerError::LeaseLost { function: lease.function.clone() })
        }
    }

    /// [`Table::check_lease`] of a writer who may have none.
    pub(crate) fn check_lease_if_any(&self, lease: Option<&Lease>) -> Result<(), LedgerError> {
        lease.map_or(Ok(()), |lease| self.check_lease(lease))
    }
}
