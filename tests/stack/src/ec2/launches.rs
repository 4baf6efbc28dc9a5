//! What the documentation says of fleets and launch templates, beside the model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Fault;
use super::limits::{is_id, tag_specifications};
use crate::roles::Call;

/// What a fleet of type `instant` can tag.
const TAGGED_BY_FLEETS: [&str; 3] = ["fleet", "instance", "volume"];
/// What a launch template can tag when it launches.
const TAGGED_AT_LAUNCH: [&str; 4] = ["instance", "network-interface", "spot-instances-request", "volume"];
const MOST_OVERRIDES: usize = 300;
const MOST_CONFIGS: usize = 50;
const MOST_INSTANCES: i64 = 10_000;
const LONGEST_TOKEN: usize = 64;
/// Before it is encoded.
const MOST_USER_DATA_BYTES: usize = 16_384;
const NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=128;

pub(super) fn check(call: &Call) -> Result<(), Fault> {
    token(call)?;
    match call.operation.as_str() {
        "CreateFleet" => fleet(call),
        "CreateLaunchTemplate" => template(call),
        "DeleteLaunchTemplate" => one_template(call, ""),
        "DescribeLaunchTemplateVersions"
            if call.list("LaunchTemplateVersion").any(|version| !version.starts_with('$')) =>
        {
            one_template(call, "")
        }
        _ => Ok(()),
    }
}

fn token(call: &Call) -> Result<(), Fault> {
    match call.parameter("ClientToken") {
        Some(token) if token.len() > LONGEST_TOKEN || !token.is_ascii() => Err(Fault::new(
            "InvalidClientToken",
            format!("{token:?}; allowed: at most {LONGEST_TOKEN} ASCII characters"),
        )),
        _ => Ok(()),
    }
}

fn fleet(call: &Call) -> Result<(), Fault> {
    if call.parameter("Type") != Some("instant") {
        return Err(Fault::value(
            "Type",
            call.parameter("Type").unwrap_or_default(),
            "instant, of which alone this is checked",
        ));
    }
    let capacity = call.parameter("TargetCapacitySpecification.TotalTargetCapacity").unwrap_or_default();
    if !capacity.parse().is_ok_and(|count: i64| (1..=MOST_INSTANCES).contains(&count)) {
        return Err(Fault::value("TotalTargetCapacity", capacity, "1 to 10000"));
    }
    let configs: Vec<String> = call.entries("LaunchTemplateConfigs").collect();
    if configs.is_empty() || configs.len() > MOST_CONFIGS {
        return Err(Fault::value("LaunchTemplateConfigs", &configs.len().to_string(), "1 to 50 of them"));
    }
    let mut overrides = Vec::new();
    for config in &configs {
        let specification = format!("{config}LaunchTemplateSpecification.");
        one_template(call, &specification)?;
        if call.parameter(&format!("{specification}Version")).is_none_or(str::is_empty) {
            return Err(Fault::new("MissingParameter", format!("{specification}Version must be named")));
        }
        overrides.extend(call.entries(&format!("{config}Overrides")));
    }
    if overrides.len() > MOST_OVERRIDES {
        return Err(Fault::value("Overrides", &overrides.len().to_string(), "at most 300 in all"));
    }
    overrides.iter().try_for_each(|one| override_(call, one))?;
    tag_specifications(call, "TagSpecification", &TAGGED_BY_FLEETS)
}

/// An override's subnet and image are ids, and its priority is a whole number from 0.
fn override_(call: &Call, prefix: &str) -> Result<(), Fault> {
    let field = |name: &str| call.parameter(&format!("{prefix}{name}"));
    for (name, kind, code) in
        [("SubnetId", "subnet-", "InvalidSubnetID.Malformed"), ("ImageId", "ami-", "InvalidAMIID.Malformed")]
    {
        if let Some(id) = field(name).filter(|id| !is_id(kind, id)) {
            return Err(Fault::new(code, format!("Invalid id: \"{id}\" in {prefix}{name}")));
        }
    }
    match field("Priority").map(str::parse::<f64>) {
        Some(Ok(priority)) if priority >= 0.0 && priority.fract() == 0.0 => Ok(()),
        Some(_) => {
            let priority = field("Priority").unwrap_or_default();
            Err(Fault::value(&format!("{prefix}Priority"), priority, "a whole number from 0"))
        }
        None => Ok(()),
    }
}

/// A launch template is named by its id or by its name.
fn one_template(call: &Call, prefix: &str) -> Result<(), Fault> {
    let field = |name: &str| call.parameter(&format!("{prefix}{name}")).filter(|value| !value.is_empty());
    match (field("LaunchTemplateId"), field("LaunchTemplateName")) {
        (Some(_), Some(_)) => {
            Err(Fault::combination("a launch template is named by its id or its name, not by both"))
        }
        (None, None) => {
            Err(Fault::new("MissingParameter", "a launch template must be named by its id or its name"))
        }
        (Some(id), None) if !is_id("lt-", id) => {
            Err(Fault::new("InvalidLaunchTemplateId.Malformed", format!("Invalid id: \"{id}\"")))
        }
        (Some(_), None) => Ok(()),
        (None, Some(name)) => template_name(name),
    }
}

fn template_name(name: &str) -> Result<(), Fault> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "().-/_".contains(c);
    if NAME_CHARS.contains(&name.len()) && name.chars().all(is_allowed) {
        return Ok(());
    }
    let allowed = "3 to 128 letters, digits and ().-/_";
    Err(Fault::new("InvalidLaunchTemplateName.MalformedException", format!("{name:?}; allowed: {allowed}")))
}

fn template(call: &Call) -> Result<(), Fault> {
    template_name(call.parameter("LaunchTemplateName").unwrap_or_default())?;
    tag_specifications(call, "TagSpecification", &["launch-template"])?;
    tag_specifications(call, "LaunchTemplateData.TagSpecification", &TAGGED_AT_LAUNCH)?;
    user_data(call.parameter("LaunchTemplateData.UserData").unwrap_or_default())?;
    let data = "LaunchTemplateData.";
    let has_interfaces = call.entries(&format!("{data}NetworkInterface")).next().is_some();
    let has_groups = ["SecurityGroupId", "SecurityGroup"]
        .iter()
        .any(|name| call.list(&format!("{data}{name}")).next().is_some());
    if has_interfaces && has_groups {
        let message = "Network interfaces and an instance-level security groups may not be specified on the same request";
        return Err(Fault::combination(message));
    }
    call.entries(&format!("{data}BlockDeviceMapping")).try_for_each(|mapping| volume(call, &mapping))
}

fn user_data(encoded: &str) -> Result<(), Fault> {
    let Ok(bytes) = STANDARD.decode(encoded) else {
        return Err(Fault::new("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."));
    };
    if bytes.len() > MOST_USER_DATA_BYTES {
        return Err(Fault::new("InvalidParameterValue", "User data is limited to 16384 bytes"));
    }
    Ok(())
}

/// What each kind of volume takes: its size in GiB, and whether it has IOPS and a throughput of its
/// own.
fn volume(call: &Call, mapping: &str) -> Result<(), Fault> {
    let field = |name: &str| call.parameter(&format!("{mapping}Ebs.{name}"));
    let Some(kind) = field("VolumeType") else { return Ok(()) };
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
    let (sizes, iops, throughput) = match kind {
        "gp3" => (1..=65_536, Some(3_000..=80_000), Some(125..=2_000)),
        "gp2" => (1..=16_384, None, None),
        "io1" => (4..=16_384, Some(100..=64_000), None),
        "io2" => (4..=65_536, Some(100..=256_000), None),
        "st1" | "sc1" => (125..=16_384, None, None),
        _ => (1..=1_024, None, None),
    };
    let bounds = [("VolumeSize", Some(sizes)), ("Iops", iops), ("Throughput", throughput)];
    for (name, allowed) in bounds {
        let Some(value) = number(name) else { continue };
        match allowed {
            None => {
                return Err(Fault::combination(format!(
                    "The parameter {name} is not supported for {kind} volumes"
                )));
            }
            Some(allowed) if !allowed.contains(&value) => {
                let (least, most) = (allowed.start(), allowed.end());
                return Err(Fault::value(
                    &format!("{mapping}Ebs.{name}"),
                    &value.to_string(),
                    &format!("{least} to {most}"),
                ));
            }
            Some(_) => {}
        }
    }
    if field("Encrypted") != Some("true") && field("KmsKeyId").is_some() {
        return Err(Fault::new("InvalidParameterDependency", "KmsKeyId needs Encrypted"));
    }
    Ok(())
}
