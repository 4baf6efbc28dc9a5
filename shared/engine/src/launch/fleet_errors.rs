//! What EC2's error codes mean for a launch: what is left alone for a while, and whose fault it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::launch_health::Backoff;
use outrigger_model::{CapacityType, FleetRequest, UnavailableOffering, labels, vcpu_quota};

use crate::ports::FleetError;

/// How long an offering is left alone after EC2 could not supply it (Karpenter's
/// `UnavailableOfferingsTTL`).
pub const UNAVAILABLE_FOR: Duration = Duration::from_mins(3);
/// How long offerings are left alone: doubled each time that they are found wanting again.
const UNAVAILABLE: Backoff = Backoff { first: UNAVAILABLE_FOR, longest: Duration::from_mins(24) };

/// With this code EC2 refuses spot instances while the account has no service-linked role for them.
pub const NO_SPOT_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
/// With these words EC2 refuses an instance profile that does not exist, by its name or its ARN.
const NO_INSTANCE_PROFILE: &str = "Invalid IAM Instance Profile";

/// What an error code speaks of, and so what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The type in the zone cannot be had.
    Offering,
    /// A quota on vCPUs is reached: all types that count against it, in all zones.
    Quota,
    /// A quota on the capacity type is reached, or the role for spot is missing: all types in all
    /// zones.
    CapacityType,
    /// The subnet has no addresses left.
    Subnet,
    /// There were too many requests: nothing is wrong with this one.
    Throttled,
    /// We are not allowed to launch this. Waiting does not mend it.
    Unauthorized,
    /// The launch template, or the instance profile that it names, is not there (any more): the
    /// template is looked up, or written, again.
    Template,
    /// The request is wrong, or nobody knows what the code means: the offering is left alone where
    /// one is named, and when nothing was launched the pool's breaker counts it.
    Configuration,
}

/// What each code speaks of (Karpenter AWS provider 1.14 `pkg/errors/errors.go`, EC2 API reference,
/// error codes).
const CLASSES: [(&str, ErrorClass); 36] = [
    ("InsufficientInstanceCapacity", ErrorClass::Offering),
    ("InsufficientCapacity", ErrorClass::Offering),
    ("InsufficientHostCapacity", ErrorClass::Offering),
    ("InsufficientReservedInstanceCapacity", ErrorClass::Offering),
    ("InstanceTypeNotAvailable", ErrorClass::Offering),
    ("ReservationCapacityExceeded", ErrorClass::Offering),
    ("SpotMaxPriceTooLow", ErrorClass::Offering),
    ("UnfulfillableCapacity", ErrorClass::Offering),
    ("Unsupported", ErrorClass::Offering),
    ("UnsupportedOperation", ErrorClass::Offering),
    ("VolumeTypeNotAvailableInZone", ErrorClass::Offering),
    ("VcpuLimitExceeded", ErrorClass::Quota),
    ("InstanceLimitExceeded", ErrorClass::CapacityType),
    ("MaxFleetCountExceeded", ErrorClass::CapacityType),
    ("MaxSpotFleetRequestCountExceeded", ErrorClass::CapacityType),
    ("MaxSpotInstanceCountExceeded", ErrorClass::CapacityType),
    (NO_SPOT_ROLE, ErrorClass::CapacityType),
    ("InsufficientFreeAddressesInSubnet", ErrorClass::Subnet),
    ("EC2ThrottledException", ErrorClass::Throttled),
    ("RequestLimitExceeded", ErrorClass::Throttled),
    ("RequestThrottled", ErrorClass::Throttled),
    ("RequestThrottledException", ErrorClass::Throttled),
    ("SlowDown", ErrorClass::Throttled),
    ("ThrottledException", ErrorClass::Throttled),
    ("Throttling", ErrorClass::Throttled),
    ("ThrottlingException", ErrorClass::Throttled),
    ("TooManyRequestsException", ErrorClass::Throttled),
    ("AccessDenied", ErrorClass::Unauthorized),
    ("AccessDeniedException", ErrorClass::Unauthorized),
    ("AuthFailure", ErrorClass::Unauthorized),
    ("Blocked", ErrorClass::Unauthorized),
    ("OptInRequired", ErrorClass::Unauthorized),
    ("PendingVerification", ErrorClass::Unauthorized),
    ("UnauthorizedOperation", ErrorClass::Unauthorized),
    // The same client token with another request: a new attempt has a new token.
    ("IdempotentParameterMismatch", ErrorClass::Template),
    ("InvalidParameterValue", ErrorClass::Configuration),
];

/// What a code speaks of; one that is not known is a [`ErrorClass::Configuration`], which harms
/// nobody but its pool.
pub fn class(code: &str) -> ErrorClass {
    if code.starts_with("InvalidLaunchTemplate") {
        return ErrorClass::Template;
    }
    let entry = CLASSES.iter().find(|(entry, _)| *entry == code);
    entry.map_or(ErrorClass::Configuration, |(_, class)| *class)
}

/// What an error speaks of. EC2 tells of an instance profile that does not exist by its words
/// alone, and may name an offering, which is not to blame.
fn class_of(error: &FleetError) -> ErrorClass {
    if error.message.contains(NO_INSTANCE_PROFILE) { ErrorClass::Template } else { class(&error.code) }
}

/// What the errors of one launch come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetErrorEffects {
    /// Offerings that are left alone, until when.
    pub offerings: Vec<UnavailableOffering>,
    /// Subnets that are left alone, by id, with the reason.
    pub subnets: BTreeMap<String, String>,
    /// Whether there were too many requests.
    pub throttled: bool,
    /// Whether nothing was launched because EC2 has no spot of what was asked for.
    pub lacks_spot: bool,
    /// What is wrong with the pool, when nothing was launched.
    pub fault: Option<Fault>,
}

/// What keeps a pool from launching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The pool.
    pub node_pool: String,
    /// [`ErrorClass::Unauthorized`], [`ErrorClass::Template`] or [`ErrorClass::Configuration`].
    pub class: ErrorClass,
    /// The launch.
    pub intent: String,
    /// EC2's code and words, for people.
    pub why: String,
}

/// Judges the errors of a launch. `known` are the offerings that were lately left alone, which are
/// left alone for longer now.
pub fn judge(
    request: &FleetRequest,
    errors: &[FleetError],
    launched: bool,
    unavailable: &[UnavailableOffering],
    now: Timestamp,
) -> FleetErrorEffects {
    let mut effects = FleetErrorEffects::default();
    for error in errors {
        let class = class_of(error);
        effects.throttled |= class == ErrorClass::Throttled;
        effects.lacks_spot |=
            class == ErrorClass::Offering && request.capacity_type == CapacityType::Spot && !launched;
        if class == ErrorClass::Subnet {
            let why = || format!("{}: {}", error.code, error.message);
            effects.subnets.extend(subnets(request, error).into_iter().map(|subnet| (subnet, why())));
        }
        effects.offerings.extend(
            patterns(request, error, class)
                .into_iter()
                .map(|(instance_type, zone)| again(request, instance_type, zone, error, unavailable, now)),
        );
        let is_fault =
            matches!(class, ErrorClass::Unauthorized | ErrorClass::Template | ErrorClass::Configuration);
        if is_fault && !launched && effects.fault.is_none() {
            effects.fault = Some(Fault {
                node_pool: request.tags.get(labels::NODE_POOL).cloned().unwrap_or_default(),
                class,
                intent: request.token.clone(),
                why: format!("{}: {}", error.code, readable(&error.message)),
            });
        }
    }
    effects.offerings.sort();
    effects.offerings.dedup();
    effects
}

/// The offerings that an error speaks of: type and zone, or patterns for many. One that does not
/// say which offering it means must not close all of them.
fn patterns(request: &FleetRequest, error: &FleetError, class: ErrorClass) -> BTreeSet<(String, String)> {
    let any = || "*".to_owned();
    match class {
        ErrorClass::Offering | ErrorClass::Configuration => {
            let named = !error.instance_type.is_empty() && !error.zone.is_empty();
            named.then(|| (error.instance_type.clone(), error.zone.clone())).into_iter().collect()
        }
        ErrorClass::Quota if error.instance_type.is_empty() => {
            let types = request.overrides.iter().map(|wanted| wanted.instance_type.as_str());
            types.map(|name| (vcpu_quota(name).to_owned(), any())).collect()
        }
        ErrorClass::Quota => BTreeSet::from([(vcpu_quota(&error.instance_type).to_owned(), any())]),
        ErrorClass::CapacityType => BTreeSet::from([(any(), any())]),
        ErrorClass::Subnet | ErrorClass::Throttled | ErrorClass::Unauthorized | ErrorClass::Template => {
            BTreeSet::new()
        }
    }
}

/// The subnets that an error speaks of: the one in its zone, or the one that its words name.
fn subnets(request: &FleetRequest, error: &FleetError) -> BTreeSet<String> {
    let spoken_of = |wanted: &&outrigger_model::FleetOverride| {
        wanted.zone == error.zone || error.message.contains(wanted.subnet.as_str())
    };
    request.overrides.iter().filter(spoken_of).map(|wanted| wanted.subnet.clone()).collect()
}

fn again(
    request: &FleetRequest,
    instance_type: String,
    zone: String,
    error: &FleetError,
    unavailable: &[UnavailableOffering],
    now: Timestamp,
) -> UnavailableOffering {
    let capacity_type = request.capacity_type;
    let before = unavailable.iter().find(|unavailable| {
        unavailable.instance_type == instance_type
            && unavailable.zone == zone
            && unavailable.capacity_type == capacity_type
    });
    let (until, failures) = UNAVAILABLE.next(before.map(|before| (before.until, before.failures)), now);
    UnavailableOffering { instance_type, zone, capacity_type, until, reason: error.code.clone(), failures }
}

/// EC2's words without the encoded part, which only STS can read.
fn readable(message: &str) -> &str {
    message.split("Encoded authorization failure message").next().unwrap_or(message).trim()
}

#[cfg(test)]
mod tests;
