//! What EC2 does not take is refused with EC2's own code, one thing at a time; what it takes
//! passes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger_stack::{Cache, Call, Ec2Model, Tools};

const TEMPLATE: &str = "LaunchTemplateConfigs.1.LaunchTemplateSpecification";
const OVERRIDE: &str = "LaunchTemplateConfigs.1.Overrides.1";

fn call(operation: &str, parameters: &[(&str, &str)]) -> Call {
    let mut call = Call { service: "ec2".into(), operation: operation.into(), ..Call::default() };
    for (name, value) in parameters {
        call.parameters.insert((*name).to_owned(), (*value).to_owned());
    }
    call
}

/// A launch such as provision sends.
fn fleet() -> Call {
    call(
        "CreateFleet",
        &[
            ("ClientToken", "intent.1"),
            ("Type", "instant"),
            ("TargetCapacitySpecification.TotalTargetCapacity", "3"),
            ("TargetCapacitySpecification.DefaultTargetCapacityType", "spot"),
            ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
            (&format!("{TEMPLATE}.LaunchTemplateName"), "nodes.k.example.com"),
            (&format!("{TEMPLATE}.Version"), "7"),
            (&format!("{OVERRIDE}.InstanceType"), "m5.large"),
            (&format!("{OVERRIDE}.SubnetId"), "subnet-0123456789abcdef0"),
            (&format!("{OVERRIDE}.ImageId"), "ami-12345678"),
            (&format!("{OVERRIDE}.Priority"), "0"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "Name"),
            ("TagSpecification.1.Tag.1.Value", ""),
        ],
    )
}

/// A template such as provision writes.
fn template() -> Call {
    call(
        "CreateLaunchTemplate",
        &[
            ("LaunchTemplateName", "outrigger/k.example.com/default-0123456789"),
            ("LaunchTemplateData.UserData", "IyEvYmluL2Jhc2gK"),
            ("LaunchTemplateData.SecurityGroupId.1", "sg-1"),
            ("LaunchTemplateData.BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
            ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
            ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize", "128"),
            ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.Iops", "3000"),
            ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.Throughput", "125"),
            ("LaunchTemplateData.TagSpecification.1.ResourceType", "network-interface"),
            ("LaunchTemplateData.TagSpecification.1.Tag.1.Key", "a"),
            ("TagSpecification.1.ResourceType", "launch-template"),
            ("TagSpecification.1.Tag.1.Key", "b"),
        ],
    )
}

fn model() -> Ec2Model {
    let tools = Tools::ensure(&Cache::open().expect("a cache")).expect("the tools");
    Ec2Model::installed(&tools.moto).expect("botocore's model of EC2")
}

/// A call, what is changed in it, and the code that EC2 then answers with.
type Case = (Call, Vec<(String, String)>, &'static str);

fn case(call: Call, changes: &[(&str, &str)], code: &'static str) -> Case {
    let owned = changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (call, owned.collect(), code)
}

/// Changes such as `Overrides.2.InstanceType` for all indices of a range; `#` stands for the index.
fn many(call: Call, name: &str, value: &str, count: usize, code: &'static str) -> Case {
    let index = |at: usize| (name.replace('#', &at.to_string()), value.replace('#', &at.to_string()));
    (call, (1..=count).map(index).collect(), code)
}

#[test]
fn what_ec2_takes_passes() {
    let model = model();
    let mut most = fleet();
    for index in 1..=300 {
        let prefix = OVERRIDE.replace(".1", "").replace("LaunchTemplateConfigs", "LaunchTemplateConfigs.1");
        most.parameters.insert(format!("{prefix}.{index}.InstanceType"), "m5.large".to_owned());
    }
    let ids: Vec<String> = (0..1_000).map(|index| format!("i-{index:08x}")).collect();
    let mut end = call("TerminateInstances", &[]);
    end.parameters.extend((1..).zip(&ids).map(|(index, id)| (format!("InstanceId.{index}"), id.clone())));
    for taken in [
        fleet(),
        template(),
        most,
        end,
        call("DescribeInstances", &[("MaxResults", "1000")]),
        call("DescribeInstances", &[("Filter.1.Name", "tag:a"), ("Filter.1.Value.1", "b")]),
        call("DescribeSpotPriceHistory", &[("StartTime", "2026-01-01T00:00:00Z"), ("MaxResults", "1000")]),
        call("GetConsoleOutput", &[("InstanceId", "i-0123456789abcdef0")]),
        call("DeleteLaunchTemplate", &[("LaunchTemplateId", "lt-0123456789abcdef0")]),
    ] {
        assert_eq!(model.check(&taken), Ok(()), "{} {:?}", taken.operation, taken.parameters);
    }
}

#[test]
fn what_ec2_does_not_take_is_refused() {
    let model = model();
    let cases = [of_the_model(), of_descriptions(), of_fleets(), of_templates(), of_tags()].concat();
    for (mut call, changes, code) in cases {
        assert!(
            code == "InvalidAction"
                || changes.len() > 1
                || call.parameters.is_empty()
                || model.check(&call).is_ok(),
            "{} is taken before the change",
            call.operation
        );
        for (name, value) in &changes {
            if value == "(gone)" {
                call.parameters.remove(name);
            } else {
                call.parameters.insert(name.clone(), value.clone());
            }
        }
        let found = model.check(&call).map_err(|fault| fault.code);
        let shown: BTreeMap<_, _> = changes.iter().take(2).cloned().collect();
        assert_eq!(found, Err(code), "{} with {shown:?} ({} changes)", call.operation, changes.len());
    }
}

fn of_the_model() -> Vec<Case> {
    let invalid = "InvalidParameterValue";
    vec![
        case(call("LaunchInstances", &[]), &[], "InvalidAction"),
        case(fleet(), &[("Colour", "red")], "UnknownParameter"),
        case(fleet(), &[(&format!("{OVERRIDE}.Colour"), "red")], "UnknownParameter"),
        case(fleet(), &[("TargetCapacitySpecification.TotalTargetCapacity", "(gone)")], "MissingParameter"),
        case(call("TerminateInstances", &[]), &[], "MissingParameter"),
        case(fleet(), &[("Type", "later")], invalid),
        case(fleet(), &[(&format!("{OVERRIDE}.InstanceType"), "m5.huge")], invalid),
        case(fleet(), &[("TargetCapacitySpecification.TotalTargetCapacity", "many")], invalid),
        case(fleet(), &[("TargetCapacitySpecification.TotalTargetCapacity", "1.5")], invalid),
        case(call("DescribeInstances", &[]), &[("DryRun", "yes")], invalid),
        case(call("DescribeSpotPriceHistory", &[]), &[("StartTime", "today")], invalid),
        case(call("TerminateInstances", &[]), &[("InstanceId.2", "i-12345678")], invalid),
        case(call("DescribeInstanceTypes", &[]), &[("MaxResults", "4")], invalid),
        case(call("DescribeLaunchTemplates", &[]), &[("MaxResults", "201")], invalid),
    ]
}

fn of_descriptions() -> Vec<Case> {
    let invalid = "InvalidParameterValue";
    let filtered = || call("DescribeInstances", &[("Filter.1.Name", "tag:a"), ("Filter.1.Value.1", "b")]);
    vec![
        case(call("DescribeInstances", &[]), &[("MaxResults", "4")], invalid),
        case(call("DescribeInstanceStatus", &[]), &[("MaxResults", "1001")], invalid),
        case(
            call("DescribeInstances", &[("InstanceId.1", "i-12345678")]),
            &[("MaxResults", "5")],
            "InvalidParameterCombination",
        ),
        many(call("DescribeInstances", &[]), "InstanceId.#", "i-12345678", 1_001, invalid),
        many(call("TerminateInstances", &[]), "InstanceId.#", "i-12345678", 1_001, invalid),
        many(call("DescribeInstanceStatus", &[]), "InstanceId.#", "i-12345678", 101, invalid),
        case(call("TerminateInstances", &[]), &[("InstanceId.1", "i-1")], "InvalidInstanceID.Malformed"),
        case(filtered(), &[("Filter.1.Name", "colour")], invalid),
        case(filtered(), &[("Filter.1.Value.1", "(gone)")], invalid),
        many(filtered(), "Filter.1.Value.#", "v", 201, "FilterLimitExceeded"),
        case(
            call("DescribeLaunchTemplateVersions", &[]),
            &[("LaunchTemplateVersion.1", "3")],
            "MissingParameter",
        ),
    ]
}

fn of_fleets() -> Vec<Case> {
    let invalid = "InvalidParameterValue";
    let next = OVERRIDE.replace("Overrides.1", "Overrides.#");
    vec![
        case(fleet(), &[("ClientToken", &"t".repeat(65))], "InvalidClientToken"),
        case(fleet(), &[("Type", "maintain")], invalid),
        case(fleet(), &[("TargetCapacitySpecification.TotalTargetCapacity", "0")], invalid),
        case(fleet(), &[("TargetCapacitySpecification.TotalTargetCapacity", "10001")], invalid),
        many(fleet(), &format!("{next}.InstanceType"), "m5.large", 301, invalid),
        case(fleet(), &[(&format!("{TEMPLATE}.Version"), "(gone)")], "MissingParameter"),
        case(fleet(), &[(&format!("{TEMPLATE}.LaunchTemplateName"), "(gone)")], "MissingParameter"),
        case(
            fleet(),
            &[(&format!("{TEMPLATE}.LaunchTemplateId"), "lt-12345678")],
            "InvalidParameterCombination",
        ),
        case(fleet(), &[(&format!("{OVERRIDE}.SubnetId"), "subnet-1")], "InvalidSubnetID.Malformed"),
        case(fleet(), &[(&format!("{OVERRIDE}.ImageId"), "ubuntu")], "InvalidAMIID.Malformed"),
        case(fleet(), &[(&format!("{OVERRIDE}.Priority"), "-1")], invalid),
        case(fleet(), &[(&format!("{OVERRIDE}.Priority"), "0.5")], invalid),
    ]
}

fn of_templates() -> Vec<Case> {
    let (invalid, combination) = ("InvalidParameterValue", "InvalidParameterCombination");
    let malformed = "InvalidLaunchTemplateName.MalformedException";
    let ebs = |name: &str| format!("LaunchTemplateData.BlockDeviceMapping.1.Ebs.{name}");
    let large = STANDARD.encode(vec![b'#'; 16_385]);
    vec![
        case(template(), &[("LaunchTemplateName", "a name")], malformed),
        case(template(), &[("LaunchTemplateName", &"n".repeat(129))], malformed),
        case(template(), &[("LaunchTemplateData.UserData", "#!/bin/bash")], "InvalidUserData.Malformed"),
        case(template(), &[("LaunchTemplateData.UserData", &large)], invalid),
        case(template(), &[("LaunchTemplateData.NetworkInterface.1.DeviceIndex", "0")], combination),
        case(template(), &[(&ebs("VolumeSize"), "0")], invalid),
        case(template(), &[(&ebs("Iops"), "2999")], invalid),
        case(template(), &[(&ebs("Throughput"), "2001")], invalid),
        case(template(), &[(&ebs("VolumeType"), "gp2")], combination),
        case(template(), &[(&ebs("VolumeType"), "gp9")], invalid),
        case(template(), &[(&ebs("KmsKeyId"), "k")], "InvalidParameterDependency"),
        case(
            call("DeleteLaunchTemplate", &[]),
            &[("LaunchTemplateId", "mine")],
            "InvalidLaunchTemplateId.Malformed",
        ),
    ]
}

fn of_tags() -> Vec<Case> {
    let invalid = "InvalidParameterValue";
    let second = |kind| [("TagSpecification.2.ResourceType", kind), ("TagSpecification.2.Tag.1.Key", "a")];
    let of_template = "LaunchTemplateData.TagSpecification.1";
    vec![
        case(fleet(), &[("TagSpecification.1.ResourceType", "network-interface")], invalid),
        case(fleet(), &[("TagSpecification.1.ResourceType", "spot-instances-request")], invalid),
        case(fleet(), &second("instance"), invalid),
        case(fleet(), &[("TagSpecification.2.ResourceType", "volume")], "MissingParameter"),
        many(fleet(), "TagSpecification.1.Tag.#.Key", "k#", 51, "TagLimitExceeded"),
        case(fleet(), &[("TagSpecification.1.Tag.1.Key", &"k".repeat(129))], invalid),
        case(fleet(), &[("TagSpecification.1.Tag.1.Value", &"v".repeat(257))], invalid),
        case(fleet(), &[("TagSpecification.1.Tag.1.Key", "aws:name")], invalid),
        case(fleet(), &[("TagSpecification.1.Tag.2.Key", "Name")], invalid),
        case(template(), &[("TagSpecification.1.ResourceType", "instance")], invalid),
        case(template(), &[(&format!("{of_template}.ResourceType"), "fleet")], invalid),
    ]
}
