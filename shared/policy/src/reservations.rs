//! Room in capacity reservations. EC2's count of it may be a minute old, and knows an instance only
//! once it is there; what is ours is known at once, launches on their way among it.

use std::collections::BTreeMap;

use outrigger_model::{Reservation, Snapshot, labels};

/// How many instances of each reservation our claims hold, or may come to hold.
pub fn held(snapshot: &Snapshot) -> BTreeMap<&str, u32> {
    let live = snapshot.claims.iter().filter(|claim| !claim.status.state.is_terminal());
    let mut held = BTreeMap::new();
    for reservation in live.filter_map(|claim| claim.spec.labels.get(labels::RESERVATION_ID)) {
        *held.entry(reservation.as_str()).or_default() += 1;
    }
    held
}

/// How many more instances a reservation has room for, given what is held of each: no more than EC2
/// said, which others may draw on too, and no more than we leave of it ourselves.
pub fn available(reservation: &Reservation, held: &BTreeMap<&str, u32>) -> u32 {
    let ours = held.get(reservation.id.as_str()).copied().unwrap_or(0);
    let beside = reservation.total.map_or(u32::MAX, |total| total.saturating_sub(ours));
    reservation.count.min(beside)
}
