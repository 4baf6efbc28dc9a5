//! Instances by the launch, or by the cluster, that they belong to.

use aws_sdk_ec2::types::{Filter, InstanceLifecycleType, InstanceStateName, Reservation};
use jiff::Timestamp;
use outrigger_engine::Rate;
use outrigger_engine::ports::{CloudError, InstanceState, Machine};
use outrigger_model::{CapacityType, Instance, Price, labels};

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
    let wanted = vec![
        filter(INTENT_TAG, [intent]),
        filter("instance-state-name", states.map(|state| state.as_str().to_owned())),
    ];
    let mut instances = described(aws, wanted, &format!("list the instances of {intent}"), read).await?;
    instances.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(instances)
}

/// All instances of a cluster, those that were terminated lately among them. One page that fails
/// fails the whole.
pub(crate) async fn of_cluster(aws: &Aws, cluster: &str) -> Result<Vec<Machine>, CloudError> {
    let wanted = vec![filter(format!("tag:{}", labels::CLUSTER), [cluster])];
    let mut instances = described(aws, wanted, "list the cluster's instances", machine).await?;
    instances.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(instances)
}

/// What is read of each instance that is wanted. One page that fails fails the whole.
pub(crate) async fn described<T>(
    aws: &Aws,
    wanted: Vec<Filter>,
    attempted: &str,
    read: fn(&aws_sdk_ec2::types::Instance) -> T,
) -> Result<Vec<T>, CloudError> {
    let mut pages =
        aws.ec2(Rate::Describe).await.describe_instances().set_filters(Some(wanted)).into_paginator().send();
    let mut instances = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, attempted, error))?;
        aws.next_page().await;
        instances.extend(page.reservations().iter().flat_map(Reservation::instances).map(read));
    }
    Ok(instances)
}

/// An instance as a sweep looks at it. A state that is not known counts as running, which is let
/// be.
pub(crate) fn machine(instance: &aws_sdk_ec2::types::Instance) -> Machine {
    let tag = |key: &str| {
        let tag = instance.tags().iter().find(|tag| tag.key() == Some(key));
        tag.and_then(|tag| tag.value()).map(str::to_owned)
    };
    let state = match instance.state().and_then(|state| state.name()) {
        Some(InstanceStateName::Pending) => InstanceState::Pending,
        Some(InstanceStateName::ShuttingDown) => InstanceState::ShuttingDown,
        Some(InstanceStateName::Stopped) => InstanceState::Stopped,
        Some(InstanceStateName::Stopping) => InstanceState::Stopping,
        Some(InstanceStateName::Terminated) => InstanceState::Terminated,
        _ => InstanceState::Running,
    };
    Machine {
        launched_at: instance.launch_time().and_then(|at| Timestamp::from_second(at.secs()).ok()),
        private_ip: instance.private_ip_address().map(str::to_owned),
        ..Machine::tagged(instance.instance_id().unwrap_or_default(), state, tag)
    }
}

/// An instance as described. Its price is not among what EC2 says.
pub(crate) fn read(instance: &aws_sdk_ec2::types::Instance) -> Instance {
    let spot = instance.instance_lifecycle() == Some(&InstanceLifecycleType::Spot);
    // An instance may have come into an open reservation by itself; ours name theirs.
    let specification = instance.capacity_reservation_specification();
    let reserved =
        specification.is_some_and(|specification| specification.capacity_reservation_target().is_some());
    let zone = instance.placement().and_then(|placement| placement.availability_zone());
    Instance {
        id: instance.instance_id().unwrap_or_default().to_owned(),
        instance_type: instance.instance_type().map(|kind| kind.as_str().to_owned()).unwrap_or_default(),
        zone: zone.unwrap_or_default().to_owned(),
        capacity_type: match (spot, reserved) {
            (true, _) => CapacityType::Spot,
            (false, true) => CapacityType::Reserved,
            (false, false) => CapacityType::OnDemand,
        },
        image_id: instance.image_id().unwrap_or_default().to_owned(),
        price: Price::ZERO,
    }
}
