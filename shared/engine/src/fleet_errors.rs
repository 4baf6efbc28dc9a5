//! What EC2 Fleet's error codes mean for the offerings that they name.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{CapacityType, FleetRequest, UnavailableOffering};

use crate::ports::FleetError;

/// How long an offering is left alone after EC2 could not supply it (Karpenter's `UnavailableOfferingsTTL`).
pub const UNAVAILABLE_FOR: Duration = Duration::from_mins(3);

/// How much of the catalogue an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The type in the zone.
    Offering,
    /// Every type in the zone: the subnet has no addresses left.
    Zone,
    /// The capacity type as a whole: a quota, or the spot role is missing.
    CapacityType,
}

/// Codes of capacity that cannot be had (Karpenter AWS provider `pkg/errors/errors.go`, 1.14) and their scope.
const UNAVAILABLE: [(&str, Scope); 9] = [
    ("InsufficientInstanceCapacity", Scope::Offering),
    ("UnfulfillableCapacity", Scope::Offering),
    ("Unsupported", Scope::Offering),
    ("VcpuLimitExceeded", Scope::Offering),
    ("ReservationCapacityExceeded", Scope::Offering),
    ("InsufficientFreeAddressesInSubnet", Scope::Zone),
    ("MaxSpotInstanceCountExceeded", Scope::CapacityType),
    ("MaxFleetCountExceeded", Scope::CapacityType),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Scope::CapacityType),
];

/// The offerings that the errors of a fleet request say cannot be had, until when.
pub fn unavailable_offerings(
    request: &FleetRequest,
    errors: &[FleetError],
    now: Timestamp,
) -> Vec<UnavailableOffering> {
    let until = now.saturating_add(UNAVAILABLE_FOR).unwrap_or(Timestamp::MAX);
    let mut offerings: Vec<_> = errors
        .iter()
        .filter_map(|error| {
            let (_, scope) = UNAVAILABLE.iter().find(|(code, _)| *code == error.code)?;
            let (instance_type, zone) = match scope {
                Scope::Offering => (named(&error.instance_type)?, named(&error.zone)?),
                Scope::Zone => ("*".to_owned(), named(&error.zone)?),
                Scope::CapacityType => ("*".to_owned(), "*".to_owned()),
            };
            let capacity_type: CapacityType = request.capacity_type;
            Some(UnavailableOffering {
                instance_type,
                zone,
                capacity_type,
                until,
                reason: error.code.clone(),
            })
        })
        .collect();
    offerings.sort();
    offerings.dedup();
    offerings
}

/// An error that does not say which offering it means must not close all of them.
fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn closed(code: &str, instance_type: &str, zone: &str) -> Vec<(String, String)> {
        let request = FleetRequest {
            token: String::new(),
            launch_template: String::new(),
            launch_template_version: String::new(),
            capacity_type: CapacityType::Spot,
            count: 1,
            overrides: Vec::new(),
            tags: BTreeMap::new(),
        };
        let error = FleetError {
            code: code.into(),
            message: String::new(),
            instance_type: instance_type.into(),
            zone: zone.into(),
        };
        unavailable_offerings(&request, &[error], Timestamp::UNIX_EPOCH)
            .into_iter()
            .map(|offering| (offering.instance_type, offering.zone))
            .collect()
    }

    #[test]
    fn each_code_closes_what_it_speaks_of() {
        let pair = |a: &str, b: &str| vec![(a.to_owned(), b.to_owned())];
        assert_eq!(closed("InsufficientInstanceCapacity", "m5.large", "a"), pair("m5.large", "a"));
        assert_eq!(closed("InsufficientFreeAddressesInSubnet", "m5.large", "a"), pair("*", "a"));
        assert_eq!(closed("MaxSpotInstanceCountExceeded", "", ""), pair("*", "*"));
        assert_eq!(closed("InsufficientInstanceCapacity", "", ""), vec![]);
        assert_eq!(closed("InvalidParameterValue", "m5.large", "a"), vec![]);
    }
}
