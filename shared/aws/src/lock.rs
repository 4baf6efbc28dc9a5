//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A map that was left in the middle of a change is still a map: each change is one insertion or
/// removal.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
