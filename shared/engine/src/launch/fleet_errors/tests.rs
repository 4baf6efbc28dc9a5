//! Each code of the catalogue and what comes of it.

use outrigger_model::{FleetOverride, Price, fixtures};

use super::*;

fn request() -> FleetRequest {
    let wanted = |kind: &str, zone: &str| FleetOverride {
        instance_type: kind.into(),
        zone: zone.into(),
        subnet: format!("subnet-{zone}"),
        image: String::new(),
        price: Price::ZERO,
    };
    FleetRequest {
        overrides: vec![wanted("m5.large", "a"), wanted("g5.xlarge", "a"), wanted("m5.large", "b")],
        tags: BTreeMap::from([(labels::NODE_POOL.to_owned(), "web".to_owned())]),
        ..fixtures::request(1)
    }
}

fn error(code: &str, instance_type: &str, zone: &str, message: &str) -> FleetError {
    FleetError {
        code: code.into(),
        message: message.into(),
        instance_type: instance_type.into(),
        zone: zone.into(),
    }
}

fn judged(error: FleetError, launched: bool) -> FleetErrorEffects {
    judge(&request(), &[error], launched, &[], Timestamp::UNIX_EPOCH)
}

/// What is left alone, in one line.
fn closed(effects: &FleetErrorEffects) -> String {
    let offerings = effects.offerings.iter().map(|o| format!("{} {}", o.instance_type, o.zone));
    offerings.chain(effects.subnets.keys().cloned()).collect::<Vec<_>>().join(", ")
}

#[test]
fn each_code_closes_what_it_speaks_of() {
    use ErrorClass::{Configuration, Template, Unauthorized};
    // Code, what it names, what is left alone, the fault of a launch that came to nothing.
    let table = [
        ("InsufficientInstanceCapacity", ("m5.large", "a"), "m5.large a", None),
        ("InsufficientInstanceCapacity", ("", ""), "", None),
        ("UnfulfillableCapacity", ("m5.large", "b"), "m5.large b", None),
        ("Unsupported", ("m5.large", "a"), "m5.large a", None),
        ("ReservationCapacityExceeded", ("m5.large", "a"), "m5.large a", None),
        ("VcpuLimitExceeded", ("g5.xlarge", "a"), "quota:G and VT *", None),
        ("VcpuLimitExceeded", ("", ""), "quota:G and VT *, quota:Standard *", None),
        ("MaxSpotInstanceCountExceeded", ("m5.large", "a"), "* *", None),
        ("MaxFleetCountExceeded", ("", ""), "* *", None),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", ("", ""), "* *", None),
        ("InsufficientFreeAddressesInSubnet", ("m5.large", "a"), "subnet-a", None),
        ("RequestLimitExceeded", ("", ""), "", None),
        ("UnauthorizedOperation", ("", ""), "", Some(Unauthorized)),
        ("AccessDenied", ("m5.large", "a"), "", Some(Unauthorized)),
        ("InvalidLaunchTemplateName.NotFoundException", ("", ""), "", Some(Template)),
        ("InvalidLaunchTemplateId.VersionNotFound", ("m5.large", "a"), "", Some(Template)),
        ("IdempotentParameterMismatch", ("", ""), "", Some(Template)),
        ("InvalidParameterValue", ("m5.large", "a"), "m5.large a", Some(Configuration)),
        ("NeverHeardOf", ("", ""), "", Some(Configuration)),
        ("", ("", ""), "", Some(Configuration)),
    ];
    for (code, (instance_type, zone), left_alone, fault) in table {
        let effects = judged(error(code, instance_type, zone, ""), false);
        assert_eq!(closed(&effects), left_alone, "{code}");
        assert_eq!(effects.fault.map(|fault| fault.class), fault, "{code}");
        assert_eq!(effects.throttled, code == "RequestLimitExceeded", "{code}");
        let in_part = judged(error(code, instance_type, zone, ""), true);
        assert_eq!(in_part.fault, None, "{code}: what launched something has no fault");
    }
}

#[test]
fn a_spot_fleet_that_launches_nothing_for_want_of_capacity_lacks_spot() {
    use CapacityType::{OnDemand, Spot};
    let table = [
        ("InsufficientInstanceCapacity", Spot, false, true),
        ("UnfulfillableCapacity", Spot, false, true),
        ("InsufficientInstanceCapacity", Spot, true, false),
        ("InsufficientInstanceCapacity", OnDemand, false, false),
        ("InsufficientFreeAddressesInSubnet", Spot, false, false),
        ("RequestLimitExceeded", Spot, false, false),
        ("NeverHeardOf", Spot, false, false),
    ];
    for (code, capacity_type, launched, expected) in table {
        let request = FleetRequest { capacity_type, ..request() };
        let errors = [error(code, "m5.large", "a", "")];
        let effects = judge(&request, &errors, launched, &[], Timestamp::UNIX_EPOCH);
        assert_eq!(effects.lacks_spot, expected, "{code} {capacity_type} {launched}");
    }
}

#[test]
fn no_code_stands_twice() {
    let codes: BTreeSet<_> = CLASSES.iter().map(|(code, _)| code).collect();
    assert_eq!(codes.len(), CLASSES.len());
}

#[test]
fn a_subnet_is_known_by_the_words_of_a_refusal() {
    let words = "not enough free addresses in subnet 'subnet-b'";
    let effects = judged(error("InsufficientFreeAddressesInSubnet", "", "", words), false);
    assert_eq!(closed(&effects), "subnet-b");
}

#[test]
fn an_instance_profile_that_does_not_exist_is_the_fault_of_no_offering() {
    for words in ["Invalid IAM Instance Profile name", "Invalid IAM Instance Profile ARN"] {
        let effects = judged(error("InvalidParameterValue", "m5.large", "a", words), false);
        assert_eq!(closed(&effects), "", "{words}");
        assert_eq!(effects.fault.map(|fault| fault.class), Some(ErrorClass::Template), "{words}");
    }
}

#[test]
fn an_offering_that_fails_again_is_left_alone_for_longer() {
    let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
    let fail = |unavailable: &[UnavailableOffering], minute| {
        let error = error("InsufficientInstanceCapacity", "m5.large", "a", "");
        judge(&request(), &[error], false, unavailable, at(minute)).offerings
    };
    let mut unavailable = Vec::new();
    for (minute, until) in [(0, 3), (4, 10), (10, 22), (30, 54), (60, 84), (200, 203)] {
        unavailable = fail(&unavailable, minute);
        assert_eq!(unavailable[0].until, at(until), "at minute {minute}");
    }
}

#[test]
fn a_denial_is_said_without_its_encoded_part() {
    let words = "You are not authorized: no identity-based policy allows ec2:RunInstances. Encoded authorization failure \
                 message: 8Jh3_x";
    let fault = judged(error("UnauthorizedOperation", "", "", words), false).fault.unwrap();
    assert_eq!(
        (fault.node_pool.as_str(), fault.why.as_str()),
        (
            "web",
            "UnauthorizedOperation: You are not authorized: no identity-based policy allows ec2:RunInstances."
        )
    );
}
