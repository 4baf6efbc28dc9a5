//! Instances by the launch that they belong to.

use aws_sdk_ec2::types::{InstanceLifecycleType, InstanceStateName, Reservation};
use outrigger_engine::ports::CloudError;
use outrigger_model::{CapacityType, Instance, Price};

use super::{SERVICE, filter};
use crate::{Aws, errors};

/// The tag by which an instance names its launch.
const INTENT_TAG: &str = "tag:outrigger.dev/intent";

/// The instances of an intent that are not terminated. One page that fails fails the whole.
pub(crate) async fn of_intent(aws: &Aws, intent: &str) -> Result<Vec<Instance>, CloudError> {
    let states = [
        InstanceStateName::Pending,
        InstanceStateName::Running,
        InstanceStateName::ShuttingDown,
        InstanceStateName::Stopping,
        InstanceStateName::Stopped,
    ];
    let mut pages = aws
        .ec2
        .describe_instances()
        .filters(filter(INTENT_TAG, [intent]))
        .filters(filter("instance-state-name", states.map(|state| state.as_str().to_owned())))
        .into_paginator()
        .send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page =
            page.map_err(|error| errors::cloud(SERVICE, format!("list the instances of {intent}"), error))?;
        found.extend(page.reservations().iter().flat_map(Reservation::instances).map(read));
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}

/// An instance as described. Its price is not among what EC2 says.
fn read(instance: &aws_sdk_ec2::types::Instance) -> Instance {
    let spot = instance.instance_lifecycle() == Some(&InstanceLifecycleType::Spot);
    let zone = instance.placement().and_then(|placement| placement.availability_zone());
    Instance {
        id: instance.instance_id().unwrap_or_default().to_owned(),
        instance_type: instance.instance_type().map(|kind| kind.as_str().to_owned()).unwrap_or_default(),
        zone: zone.unwrap_or_default().to_owned(),
        capacity_type: if spot { CapacityType::Spot } else { CapacityType::OnDemand },
        image_id: instance.image_id().unwrap_or_default().to_owned(),
        price: Price::ZERO,
    }
}
