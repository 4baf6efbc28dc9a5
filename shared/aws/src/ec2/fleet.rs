//! CreateFleet: from our request to EC2's, and from EC2's answer to ours.
//!
//! One request is sent once: whether it may be sent again is for the intent in the ledger to
//! decide, so the SDK's own retries are off.

use aws_config::retry::RetryConfig;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetInputBuilder;
use aws_sdk_ec2::operation::create_fleet::{CreateFleetInput, CreateFleetOutput};
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetType, InstanceType,
    LaunchTemplateAndOverridesResponse, OnDemandOptionsRequest, ResourceType, SpotAllocationStrategy,
    SpotOptionsRequest, TagSpecification, TargetCapacitySpecificationRequest,
};
use outrigger_engine::Rate;
use outrigger_engine::ports::{CloudError, FleetAnswer, FleetError};
use outrigger_model::{CapacityType, FleetOverride, FleetRequest, Instance, Price, SpotAllocation};

use super::{SERVICE, tag};
use crate::{Aws, errors};

/// Sends a request.
pub(crate) async fn launch(aws: &Aws, request: &FleetRequest) -> Result<FleetAnswer, CloudError> {
    let attempted = || format!("create a fleet of {}", request.count);
    let unusable = |why: String| CloudError::Unusable { what: "the fleet request".into(), why };
    let input =
        input(request).ok_or_else(|| unusable(format!("{} instances are too many", request.count)))?;
    let input = input.build().map_err(|error| unusable(error.to_string()))?;
    let once = aws_sdk_ec2::config::Builder::new().retry_config(RetryConfig::disabled());
    let client = aws.ec2(Rate::Launch).await;
    let answer = send(client, input).customize().config_override(once).send().await;
    answer.map(|output| read(request, &output)).map_err(|error| errors::cloud(SERVICE, attempted(), error))
}

fn send(
    client: &aws_sdk_ec2::Client,
    input: CreateFleetInput,
) -> aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder {
    client
        .create_fleet()
        .set_client_token(input.client_token)
        .set_type(input.r#type)
        .set_target_capacity_specification(input.target_capacity_specification)
        .set_launch_template_configs(input.launch_template_configs)
        .set_on_demand_options(input.on_demand_options)
        .set_spot_options(input.spot_options)
        .set_tag_specifications(input.tag_specifications)
}

/// EC2's form of a request. The same request always gives the same bytes. `None` when the count
/// does not fit.
fn input(request: &FleetRequest) -> Option<CreateFleetInputBuilder> {
    let (default_kind, spot) = match request.capacity_type {
        CapacityType::Spot => (DefaultTargetCapacityType::Spot, true),
        CapacityType::OnDemand | CapacityType::Reserved => (DefaultTargetCapacityType::OnDemand, false),
    };
    let template = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&request.launch_template)
        .version(&request.launch_template_version)
        .build();
    let most = request.max_spot_price.filter(|_| spot);
    let config = FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(
            request.overrides.iter().zip(0_u32..).map(|wanted| override_request(wanted, most)).collect(),
        ))
        .build();
    let capacity = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(request.count).ok()?)
        .default_target_capacity_type(default_kind)
        .build();
    let on_demand = OnDemandOptionsRequest::builder().allocation_strategy(if request.prioritized {
        FleetOnDemandAllocationStrategy::Prioritized
    } else {
        FleetOnDemandAllocationStrategy::LowestPrice
    });
    let allocation = if request.prioritized {
        SpotAllocation::CapacityOptimizedPrioritized
    } else {
        request.spot_allocation
    };
    let spot_options = SpotOptionsRequest::builder().allocation_strategy(strategy(allocation));
    Some(
        CreateFleetInput::builder()
            .client_token(&request.token)
            .r#type(FleetType::Instant)
            .target_capacity_specification(capacity)
            .launch_template_configs(config)
            .set_on_demand_options((!spot).then(|| on_demand.build()))
            .set_spot_options(spot.then(|| spot_options.build()))
            .set_tag_specifications(Some(tag_specifications(request))),
    )
}

fn strategy(allocation: SpotAllocation) -> SpotAllocationStrategy {
    match allocation {
        SpotAllocation::PriceCapacityOptimized => SpotAllocationStrategy::PriceCapacityOptimized,
        SpotAllocation::CapacityOptimized => SpotAllocationStrategy::CapacityOptimized,
        SpotAllocation::CapacityOptimizedPrioritized => SpotAllocationStrategy::CapacityOptimizedPrioritized,
        SpotAllocation::Diversified => SpotAllocationStrategy::Diversified,
        SpotAllocation::LowestPrice => SpotAllocationStrategy::LowestPrice,
    }
}

/// The priority is the rank by price, so that a strategy which honours priorities chooses as we do:
/// where NodeOverlays have changed prices, as Karpenter does.
fn override_request(
    (wanted, rank): (&FleetOverride, u32),
    most: Option<Price>,
) -> FleetLaunchTemplateOverridesRequest {
    FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(InstanceType::from(wanted.instance_type.as_str()))
        .subnet_id(&wanted.subnet)
        .set_image_id(Some(wanted.image.clone()).filter(|image| !image.is_empty()))
        .priority(f64::from(rank))
        .set_max_price(most.map(|most| most.dollars().to_string()))
        .build()
}

/// Tags for what EC2 lets an instant fleet tag. Network interfaces are not among it: their tags are
/// our own templates' to give. Neither are spot requests, and a template that tags them makes EC2
/// refuse every on-demand launch.
fn tag_specifications(request: &FleetRequest) -> Vec<TagSpecification> {
    let tags: Vec<_> = request.tags.iter().map(|(key, value)| tag(key, value)).collect();
    [ResourceType::Fleet, ResourceType::Instance, ResourceType::Volume]
        .into_iter()
        .map(|kind| TagSpecification::builder().resource_type(kind).set_tags(Some(tags.clone())).build())
        .collect()
}

/// Our form of an answer. An instance is what EC2 says; price and image are those of the override
/// that it came from.
fn read(request: &FleetRequest, output: &CreateFleetOutput) -> FleetAnswer {
    let mut answer = FleetAnswer::default();
    for group in output.instances() {
        let named = named_override(group.launch_template_and_overrides());
        let instance_type = group.instance_type().map_or(named.instance_type, InstanceType::as_str);
        let subnet = group.subnet_id().unwrap_or(named.subnet);
        let chosen = request.overrides.iter().find(|wanted| {
            wanted.instance_type == instance_type && (subnet.is_empty() || wanted.subnet == subnet)
        });
        let zone = group.availability_zone().filter(|zone| !zone.is_empty());
        let zone = zone.or(chosen.map(|wanted| wanted.zone.as_str())).unwrap_or(named.zone);
        answer.instances.extend(group.instance_ids().iter().map(|id| Instance {
            id: id.clone(),
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            capacity_type: request.capacity_type,
            image_id: chosen.map(|wanted| wanted.image.clone()).unwrap_or_default(),
            price: chosen.map(|wanted| wanted.price).unwrap_or_default(),
        }));
    }
    answer.instances.sort_by(|a, b| a.id.cmp(&b.id));
    for error in output.errors() {
        let named = named_override(error.launch_template_and_overrides());
        let of_subnet = request.overrides.iter().find(|wanted| wanted.subnet == named.subnet);
        let zone = of_subnet.map_or(named.zone, |wanted| wanted.zone.as_str());
        answer.errors.push(FleetError {
            code: error.error_code().unwrap_or_default().to_owned(),
            message: error.error_message().unwrap_or_default().to_owned(),
            instance_type: named.instance_type.to_owned(),
            zone: zone.to_owned(),
        });
    }
    answer
}

#[derive(Default)]
struct NamedOverride<'a> {
    instance_type: &'a str,
    subnet: &'a str,
    zone: &'a str,
}

fn named_override(response: Option<&LaunchTemplateAndOverridesResponse>) -> NamedOverride<'_> {
    let Some(overrides) = response.and_then(LaunchTemplateAndOverridesResponse::overrides) else {
        return NamedOverride::default();
    };
    NamedOverride {
        instance_type: overrides.instance_type().map(InstanceType::as_str).unwrap_or_default(),
        subnet: overrides.subnet_id().unwrap_or_default(),
        zone: overrides.availability_zone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use aws_sdk_ec2::types::{CreateFleetError, CreateFleetInstance, FleetLaunchTemplateOverrides};

    fn request(capacity_type: CapacityType) -> FleetRequest {
        let wanted = |kind: &str, zone: &str, nanos| FleetOverride {
            instance_type: kind.into(),
            zone: zone.into(),
            subnet: format!("subnet-{zone}"),
            image: "ami-1".into(),
            price: Price::from_nanos(nanos),
        };
        FleetRequest {
            token: "intent.1".into(),
            launch_template: "nodes.k8s.example.com".into(),
            launch_template_version: "7".into(),
            capacity_type,
            count: 3,
            max_spot_price: None,
            spot_allocation: SpotAllocation::default(),
            prioritized: false,
            reservation: None,
            overrides: vec![
                wanted("m5.large", "us-east-1a", 40_000_000),
                wanted("m5.large", "us-east-1b", 41_000_000),
                wanted("c5.xlarge", "us-east-1a", 70_000_000),
            ],
            tags: BTreeMap::from([
                ("KubernetesCluster".into(), "k8s.example.com".into()),
                ("outrigger.dev/intent".into(), "i1".into()),
            ]),
        }
    }

    fn answered(kind: &str, subnet: &str, ids: &[&str]) -> CreateFleetInstance {
        CreateFleetInstance::builder()
            .launch_template_and_overrides(named(kind, subnet))
            .instance_type(InstanceType::from(kind))
            .set_instance_ids(Some(ids.iter().map(|id| (*id).to_owned()).collect()))
            .build()
    }

    fn named(kind: &str, subnet: &str) -> LaunchTemplateAndOverridesResponse {
        let overrides = FleetLaunchTemplateOverrides::builder();
        let overrides = overrides.instance_type(InstanceType::from(kind)).subnet_id(subnet).build();
        LaunchTemplateAndOverridesResponse::builder().overrides(overrides).build()
    }

    #[test]
    fn the_request_says_what_we_mean() {
        let spot = input(&request(CapacityType::Spot)).unwrap().build().unwrap();
        insta::assert_debug_snapshot!("spot_request", spot);
        let on_demand = input(&request(CapacityType::OnDemand)).unwrap().build().unwrap();
        insta::assert_debug_snapshot!("on_demand_request", on_demand);
    }

    #[test]
    fn prices_that_overlays_have_changed_steer_by_priority() {
        let strategies = |capacity_type, prioritized| {
            let request = FleetRequest { prioritized, ..request(capacity_type) };
            let input = input(&request).unwrap().build().unwrap();
            let overrides = input.launch_template_configs()[0].overrides();
            assert_eq!(
                overrides.iter().filter_map(|wanted| wanted.priority).collect::<Vec<_>>(),
                [0.0, 1.0, 2.0]
            );
            let on_demand = input.on_demand_options.and_then(|options| options.allocation_strategy);
            let spot = input.spot_options.and_then(|options| options.allocation_strategy);
            (on_demand.map(|strategy| strategy.to_string()), spot.map(|strategy| strategy.to_string()))
        };
        let table = [
            (CapacityType::OnDemand, false, Some("lowest-price"), None),
            (CapacityType::OnDemand, true, Some("prioritized"), None),
            (CapacityType::Spot, false, None, Some("price-capacity-optimized")),
            (CapacityType::Spot, true, None, Some("capacity-optimized-prioritized")),
        ];
        for (capacity_type, prioritized, on_demand, spot) in table {
            let expected = (on_demand.map(str::to_owned), spot.map(str::to_owned));
            assert_eq!(strategies(capacity_type, prioritized), expected, "{capacity_type} {prioritized}");
        }
    }

    #[test]
    fn what_is_reserved_is_asked_for_on_demand() {
        let input = input(&request(CapacityType::Reserved)).unwrap().build().unwrap();
        let capacity = input.target_capacity_specification.unwrap();
        assert_eq!(capacity.default_target_capacity_type, Some(DefaultTargetCapacityType::OnDemand));
        assert_eq!(input.spot_options, None);
    }

    #[test]
    fn the_highest_price_goes_with_every_override_of_a_spot_request() {
        let most = |capacity_type| {
            let request = FleetRequest {
                max_spot_price: Some(Price::from_nanos(52_500_000)),
                ..request(capacity_type)
            };
            let input = input(&request).unwrap().build().unwrap();
            let overrides = input.launch_template_configs()[0].overrides().to_vec();
            overrides.into_iter().map(|wanted| wanted.max_price).collect::<Vec<_>>()
        };
        assert_eq!(most(CapacityType::Spot), vec![Some("0.0525".to_owned()); 3]);
        assert_eq!(most(CapacityType::OnDemand), vec![None; 3]);
    }

    #[test]
    fn the_answer_is_read_with_prices_and_in_order() {
        let output = CreateFleetOutput::builder()
            .instances(answered("c5.xlarge", "subnet-us-east-1a", &["i-9"]))
            .instances(answered("m5.large", "subnet-us-east-1b", &["i-5", "i-2"]))
            .errors(
                CreateFleetError::builder()
                    .error_code("InsufficientInstanceCapacity")
                    .error_message("none left")
                    .launch_template_and_overrides(named("m5.large", "subnet-us-east-1a"))
                    .build(),
            )
            .build();
        let answer = read(&request(CapacityType::Spot), &output);
        let shown: Vec<_> = answer
            .instances
            .iter()
            .map(|i| format!("{} {} {} {}", i.id, i.instance_type, i.zone, i.price))
            .collect();
        assert_eq!(
            shown,
            [
                "i-2 m5.large us-east-1b $0.0410/h",
                "i-5 m5.large us-east-1b $0.0410/h",
                "i-9 c5.xlarge us-east-1a $0.0700/h"
            ]
        );
        let error = &answer.errors[0];
        assert_eq!(
            (error.code.as_str(), error.instance_type.as_str(), error.zone.as_str()),
            ("InsufficientInstanceCapacity", "m5.large", "us-east-1a")
        );
    }

    #[test]
    fn an_answer_without_overrides_is_read_as_far_as_it_goes() {
        let bare = CreateFleetInstance::builder().instance_ids("i-1").availability_zone("us-east-1f").build();
        let answer =
            read(&request(CapacityType::OnDemand), &CreateFleetOutput::builder().instances(bare).build());
        let instance = &answer.instances[0];
        assert_eq!(
            (instance.instance_type.as_str(), instance.zone.as_str(), instance.price),
            ("", "us-east-1f", Price::ZERO)
        );
    }
}
