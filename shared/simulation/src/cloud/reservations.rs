//! Capacity reservations: instances of one type in one zone that are kept for those who name the
//! reservation.

use outrigger_engine::ports::CloudError;
use outrigger_model::node_class::CapacityReservation;
use outrigger_model::{CapacityType, EC2NodeClass, FleetRequest};

use super::{Ec2, Pool, refused};

impl Ec2 {
    /// The reservations that a class selects, with the room that they have left.
    pub(super) fn reservations_of(&self, class: &EC2NodeClass) -> Vec<CapacityReservation> {
        let terms = &class.spec.capacity_reservation_selector_terms;
        let is_selected =
            |id: &str| terms.iter().any(|term| term.id.as_deref().is_none_or(|wanted| wanted == id));
        let selected = self.reservations.iter().filter(|reservation| is_selected(&reservation.id));
        selected
            .map(|reservation| {
                let pool = Pool {
                    instance_type: reservation.instance_type.clone(),
                    zone: reservation.zone.clone(),
                    capacity_type: CapacityType::Reserved.as_str(),
                };
                let taken = u32::try_from(self.taken.get(&pool).copied().unwrap_or(0)).unwrap_or(u32::MAX);
                CapacityReservation {
                    available: reservation.available.saturating_sub(taken),
                    ..reservation.clone()
                }
            })
            .collect()
    }

    /// How many instances the reservation of a pool has in all.
    pub(super) fn reserved_depth(&self, pool: &Pool) -> u64 {
        let is_here = |reservation: &&CapacityReservation| {
            reservation.instance_type == pool.instance_type && reservation.zone == pool.zone
        };
        self.reservations.iter().find(is_here).map_or(0, |reservation| u64::from(reservation.available))
    }

    /// Refuses a request whose template does not start its instances in the reservation that it
    /// speaks of.
    pub(super) fn check_reservation(&self, request: &FleetRequest) -> Result<(), CloudError> {
        let named = request.launch_template.split_once('@').map(|(_, reservation)| reservation);
        let wanted =
            request.reservation.as_deref().filter(|_| request.capacity_type == CapacityType::Reserved);
        let reservation = self.reservations.iter().find(|reservation| Some(reservation.id.as_str()) == named);
        let is_its = reservation.is_none_or(|reservation| {
            request.overrides.iter().all(|wanted| {
                wanted.instance_type == reservation.instance_type && wanted.zone == reservation.zone
            })
        });
        if named != wanted || named.is_some() != reservation.is_some() || !is_its {
            let message = format!("{} for reservation {wanted:?}", request.launch_template);
            return Err(refused("InvalidCapacityReservationId.NotFound", &message));
        }
        Ok(())
    }
}
