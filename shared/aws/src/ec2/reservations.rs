//! Capacity reservations that an EC2NodeClass selects.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{
    CapacityReservation, CapacityReservationInstancePlatform, CapacityReservationTenancy, Filter,
};
use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;
use outrigger_model::ec2_node_class::{CapacityReservationSelectorTerm, InstanceMatchCriteria};
use outrigger_model::node_class::CapacityReservation as Reservation;

use super::account::tag_filter;
use super::{SERVICE, filter};
use crate::{Aws, errors};

/// What the error codes begin with where there is no reservation of an id.
const GONE: &str = "InvalidCapacityReservationId";

/// The active reservations that any of the terms selects, in order of id.
pub(crate) async fn of_terms(
    aws: &Aws,
    terms: &[CapacityReservationSelectorTerm],
) -> Result<Vec<Reservation>, CloudError> {
    let mut by_id = BTreeMap::new();
    for term in terms {
        let reservations = of_term(aws, term).await?;
        by_id.extend(
            reservations.iter().filter_map(read).map(|reservation| (reservation.id.clone(), reservation)),
        );
    }
    Ok(by_id.into_values().collect())
}

async fn of_term(
    aws: &Aws,
    term: &CapacityReservationSelectorTerm,
) -> Result<Vec<CapacityReservation>, CloudError> {
    let describe = aws.ec2(Rate::Describe).await.describe_capacity_reservations();
    let describe = describe.set_filters(Some(filters(term)));
    let mut pages =
        describe.set_capacity_reservation_ids(term.id.clone().map(|id| vec![id])).into_paginator().send();
    let mut reservations = Vec::new();
    while let Some(page) = pages.next().await {
        match page.map_err(|error| errors::cloud(SERVICE, "find capacity reservations", error)) {
            Ok(page) => reservations.extend(page.capacity_reservations.unwrap_or_default()),
            Err(CloudError::Refused { code, .. }) if code.starts_with(GONE) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        aws.next_page().await;
    }
    Ok(reservations)
}

fn filters(term: &CapacityReservationSelectorTerm) -> Vec<Filter> {
    let criteria = term.instance_match_criteria.map(|criteria| match criteria {
        InstanceMatchCriteria::Open => "open",
        InstanceMatchCriteria::Targeted => "targeted",
    });
    let tags = term.tags.iter().map(|(key, value)| tag_filter(key, value));
    let owner = term.owner_id.as_deref().map(|owner| filter("owner-id", [owner]));
    let criteria = criteria.map(|criteria| filter("instance-match-criteria", [criteria]));
    std::iter::once(filter("state", ["active"])).chain(tags).chain(owner).chain(criteria).collect()
}

/// A reservation that nodes may start in: of Linux on shared hardware. Capacity blocks are another
/// way to buy.
fn read(reservation: &CapacityReservation) -> Option<Reservation> {
    let is_linux = reservation.instance_platform() == Some(&CapacityReservationInstancePlatform::LinuxUnix);
    let is_shared =
        reservation.tenancy().is_none_or(|tenancy| *tenancy == CapacityReservationTenancy::Default);
    let is_plain = reservation.reservation_type().is_none_or(|kind| kind.as_str() == "default");
    let count = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    (is_linux && is_shared && is_plain).then(|| {
        Some(Reservation {
            id: reservation.capacity_reservation_id()?.to_owned(),
            instance_type: reservation.instance_type()?.to_owned(),
            zone: reservation.availability_zone()?.to_owned(),
            available: count(reservation.available_instance_count()),
            total: count(reservation.total_instance_count()),
        })
    })?
}
