//! What the documentation of EC2's API bounds, beside the model: pages, identifiers, filters and
//! tags.

use std::collections::BTreeSet;

use super::Fault;
use crate::roles::Call;

/// The least and the most that `MaxResults` may be, where the model does not say it.
const PAGES: [(&str, i64, i64); 4] = [
    ("DescribeInstanceStatus", 5, 1_000),
    ("DescribeInstances", 5, 1_000),
    ("DescribeLaunchTemplateVersions", 1, 200),
    ("DescribeSpotPriceHistory", 1, 1_000),
];
/// How many identifiers a request may name.
const IDENTIFIERS: [(&str, &str, usize); 4] = [
    ("DescribeInstanceStatus", "InstanceId", 100),
    ("DescribeInstanceTypes", "InstanceType", 100),
    ("DescribeInstances", "InstanceId", 1_000),
    ("TerminateInstances", "InstanceId", 1_000),
];
/// Operations that give pages or what was asked for by id, never both.
const IDS_OR_PAGES: [(&str, &str); 3] = [
    ("DescribeInstanceStatus", "InstanceId"),
    ("DescribeInstances", "InstanceId"),
    ("DescribeLaunchTemplates", "LaunchTemplateId"),
];
const MOST_FILTERS: usize = 50;
const MOST_FILTER_VALUES: usize = 200;
const MOST_TAGS: usize = 50;
const LONGEST_KEY: usize = 128;
const LONGEST_VALUE: usize = 256;

pub(super) fn check(call: &Call) -> Result<(), Fault> {
    pages(call)?;
    identifiers(call)?;
    filters(call)
}

fn pages(call: &Call) -> Result<(), Fault> {
    let Some(text) = call.parameter("MaxResults") else { return Ok(()) };
    if let Some((_, least, most)) = PAGES.iter().find(|(operation, ..)| *operation == call.operation)
        && !text.parse().is_ok_and(|number: i64| (*least..=*most).contains(&number))
    {
        return Err(Fault::value("MaxResults", text, &format!("{least} to {most}")));
    }
    let by_id = IDS_OR_PAGES
        .iter()
        .find(|(operation, name)| *operation == call.operation && call.list(name).next().is_some());
    by_id.map_or(Ok(()), |(_, name)| {
        Err(Fault::combination(format!("The parameter {name} cannot be used with the parameter MaxResults")))
    })
}

fn identifiers(call: &Call) -> Result<(), Fault> {
    for (_, name, most) in IDENTIFIERS.iter().filter(|(operation, ..)| *operation == call.operation) {
        let count = call.list(name).count();
        if count > *most {
            return Err(Fault::value(name, &format!("{count} of them"), &format!("at most {most}")));
        }
    }
    let instances = call.list("InstanceId").chain(call.parameter("InstanceId"));
    instances
        .filter(|id| !is_id("i-", id))
        .try_for_each(|id| Err(Fault::new("InvalidInstanceID.Malformed", format!("Invalid id: \"{id}\""))))
}

/// Eight or seventeen hexadecimal digits behind a prefix.
pub(super) fn is_id(prefix: &str, id: &str) -> bool {
    let digits = id.strip_prefix(prefix).unwrap_or_default();
    matches!(digits.len(), 8 | 17) && digits.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
}

fn filters(call: &Call) -> Result<(), Fault> {
    let filters: Vec<String> = call.entries("Filter").collect();
    if filters.len() > MOST_FILTERS {
        return Err(Fault::new(
            "FilterLimitExceeded",
            format!("{} filters; allowed: {MOST_FILTERS}", filters.len()),
        ));
    }
    for filter in filters {
        let name = call.parameter(&format!("{filter}Name")).unwrap_or_default();
        let values = call.list(&format!("{filter}Value")).count();
        if name.is_empty() || values == 0 {
            return Err(Fault::value(filter.trim_end_matches('.'), name, "a name and at least one value"));
        }
        if values > MOST_FILTER_VALUES {
            let message = format!("{values} values for the filter '{name}'; allowed: {MOST_FILTER_VALUES}");
            return Err(Fault::new("FilterLimitExceeded", message));
        }
    }
    Ok(())
}

/// Tags for several kinds of resources, each of which must be among those that the request may tag.
pub(super) fn tag_specifications(call: &Call, name: &str, allowed: &[&str]) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for specification in call.entries(name) {
        let kind = call.parameter(&format!("{specification}ResourceType")).unwrap_or_default();
        if !allowed.contains(&kind) {
            let message = format!(
                "'{kind}' is not a valid taggable resource type for this operation; allowed: {allowed:?}"
            );
            return Err(Fault::new("InvalidParameterValue", message));
        }
        if !seen.insert(kind) {
            return Err(Fault::value(name, kind, "each resource type once"));
        }
        tags(call, &specification)?;
    }
    Ok(())
}

fn tags(call: &Call, prefix: &str) -> Result<(), Fault> {
    let entries: Vec<String> = call.entries(&format!("{prefix}Tag")).collect();
    if entries.is_empty() {
        return Err(Fault::new("MissingParameter", format!("{prefix}Tag must not be empty")));
    }
    if entries.len() > MOST_TAGS {
        return Err(Fault::new("TagLimitExceeded", format!("{} tags; allowed: {MOST_TAGS}", entries.len())));
    }
    let mut keys = BTreeSet::new();
    for entry in entries {
        let text = |name: &str| call.parameter(&format!("{entry}{name}")).unwrap_or_default();
        let (key, value) = (text("Key"), text("Value"));
        if key.is_empty() || key.chars().count() > LONGEST_KEY {
            return Err(Fault::value("Tag.Key", key, "1 to 128 characters"));
        }
        if value.chars().count() > LONGEST_VALUE {
            return Err(Fault::value("Tag.Value", value, "at most 256 characters"));
        }
        if key.to_ascii_lowercase().starts_with("aws:") {
            return Err(Fault::value("Tag.Key", key, "no key that begins with aws:"));
        }
        if !keys.insert(key) {
            return Err(Fault::value("Tag.Key", key, "each key once"));
        }
    }
    Ok(())
}
