//! Terms that select subnets, security groups, images and capacity reservations.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::invalid::{Problems, shown};
use crate::schema_rules as rules;

const MAX_TERMS: usize = 30;
const MAX_TAGS: usize = 20;

/// Selects subnets by tags or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct SubnetSelectorTerm {
    /// Tags that all must be there; the value `*` stands for any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_TAGS, "x-kubernetes-validations" = rules::selector_tags()))]
    pub tags: BTreeMap<String, String>,
    /// `subnet-…`, alone in its term.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

/// Selects security groups by tags, by id or by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct SecurityGroupSelectorTerm {
    /// Tags that all must be there; the value `*` stands for any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_TAGS, "x-kubernetes-validations" = rules::selector_tags()))]
    pub tags: BTreeMap<String, String>,
    /// `sg-…`, alone in its term.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Its name (not the tag `Name`), alone in its term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Selects images by id, by an SSM parameter, or by name, owner and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::ami_term()))]
pub struct AmiSelectorTerm {
    /// Not acted on: a family of Amazon's images and a version, as `al2023@latest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 30),
        regex(pattern = "^((al2|al2023|bottlerocket)@.+|windows(2019|2022|2025)@latest)")
    )]
    pub alias: Option<String>,
    /// `ami-…`, alone in its term.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// The name of an SSM parameter that holds an image's id, alone in its term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
    /// Its name; `*` and `?` stand for any text and any character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its owner: an account id, `self` or `amazon`; with a name alone, `self` and `amazon`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Tags that all must be there; the value `*` stands for any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_TAGS, "x-kubernetes-validations" = rules::selector_tags()))]
    pub tags: BTreeMap<String, String>,
}

/// Selects capacity reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct CapacityReservationSelectorTerm {
    /// Tags that all must be there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = rules::selector_tags()))]
    pub tags: BTreeMap<String, String>,
    /// `cr-…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// The account that owns it.
    #[serde(rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Which instances it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
}

/// Which instances a capacity reservation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InstanceMatchCriteria {
    /// Any that matches.
    Open,
    /// Those that name it.
    Targeted,
}

/// Checks the list of subnet terms.
pub(super) fn check_subnets(terms: &[SubnetSelectorTerm], problems: &mut Problems) {
    let list = "spec.subnetSelectorTerms";
    check_count(list, terms.len(), problems);
    for (index, term) in terms.iter().enumerate() {
        let SubnetSelectorTerm { tags, id } = term;
        let set = [("tags", !tags.is_empty()), ("id", id.is_some())];
        let field = format!("{list}[{index}]");
        check_set(&field, &set, &["id"], problems);
        check_id(&field, id.as_ref(), "subnet-", problems);
        check_tags(&field, tags, problems);
    }
}

/// Checks the list of security group terms.
pub(super) fn check_security_groups(terms: &[SecurityGroupSelectorTerm], problems: &mut Problems) {
    let list = "spec.securityGroupSelectorTerms";
    check_count(list, terms.len(), problems);
    for (index, term) in terms.iter().enumerate() {
        let SecurityGroupSelectorTerm { tags, id, name } = term;
        let set = [("tags", !tags.is_empty()), ("id", id.is_some()), ("name", name.is_some())];
        let field = format!("{list}[{index}]");
        check_set(&field, &set, &["id", "name"], problems);
        check_id(&field, id.as_ref(), "sg-", problems);
        check_text(&field, "name", name.as_ref(), problems);
        check_tags(&field, tags, problems);
    }
}

/// Checks the list of image terms.
pub(super) fn check_images(terms: &[AmiSelectorTerm], problems: &mut Problems) {
    let list = "spec.amiSelectorTerms";
    check_count(list, terms.len(), problems);
    for (index, term) in terms.iter().enumerate() {
        let field = format!("{list}[{index}]");
        let AmiSelectorTerm { alias, id, ssm_parameter, name, owner, tags } = term;
        if let Some(alias) = alias {
            let allowed = "id, ssmParameter, or name, owner and tags: an alias stands for images of EKS, which kOps \
                           nodes do not boot";
            problems.refuse(format!("{field}.alias"), shown(alias), allowed);
            continue;
        }
        let set = [
            ("id", id.is_some()),
            ("ssmParameter", ssm_parameter.is_some()),
            ("name", name.is_some()),
            ("owner", owner.is_some()),
            ("tags", !tags.is_empty()),
        ];
        check_set(&field, &set, &["id", "ssmParameter"], problems);
        if set.iter().all(|(name, set)| *set == (*name == "owner")) {
            problems.refuse(&field, "owner alone", "owner beside a name or tags");
        }
        check_id(&field, id.as_ref(), "ami-", problems);
        for (name, text) in [("ssmParameter", ssm_parameter), ("name", name), ("owner", owner)] {
            check_text(&field, name, text.as_ref(), problems);
        }
        check_tags(&field, tags, problems);
    }
}

/// Checks the list of terms for capacity reservations, of which there may be none.
pub(super) fn check_reservations(terms: &[CapacityReservationSelectorTerm], problems: &mut Problems) {
    let list = "spec.capacityReservationSelectorTerms";
    if terms.len() > MAX_TERMS {
        problems.refuse(list, format!("{} terms", terms.len()), format!("at most {MAX_TERMS}"));
    }
    for (index, term) in terms.iter().enumerate() {
        let field = format!("{list}[{index}]");
        let CapacityReservationSelectorTerm { tags, id, owner_id, instance_match_criteria } = term;
        let set = [
            ("id", id.is_some()),
            ("tags", !tags.is_empty()),
            ("ownerID", owner_id.is_some()),
            ("instanceMatchCriteria", instance_match_criteria.is_some()),
        ];
        check_set(&field, &set, &["id"], problems);
        check_id(&field, id.as_ref(), "cr-", problems);
        let is_account = |owner: &&String| owner.len() == 12 && owner.bytes().all(|b| b.is_ascii_digit());
        if let Some(owner) = owner_id.as_ref().filter(|owner| !is_account(owner)) {
            problems.refuse(format!("{field}.ownerID"), shown(owner), "the 12 digits of an account");
        }
        check_tags(&field, tags, problems);
    }
}

fn check_count(list: &str, count: usize, problems: &mut Problems) {
    if count == 0 || count > MAX_TERMS {
        problems.refuse(list, format!("{count} terms"), format!("from 1 to {MAX_TERMS}"));
    }
}

/// A term has at least one field, and those of `alone` have no other beside them.
fn check_set(field: &str, fields: &[(&str, bool)], alone: &[&str], problems: &mut Problems) {
    let set: Vec<&str> = fields.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    if set.is_empty() {
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).filter(|name| *name != "owner").collect();
        problems.refuse(field, "an empty term", format!("at least one of {}", names.join(", ")));
    }
    if let (Some(single), true) = (set.iter().find(|name| alone.contains(name)), set.len() > 1) {
        problems.refuse(
            field,
            set.join(", "),
            format!("{single} without any other field, or another term for the rest"),
        );
    }
}

fn check_id(field: &str, id: Option<&String>, prefix: &str, problems: &mut Problems) {
    let Some(id) = id else { return };
    let rest = id.strip_prefix(prefix).unwrap_or_default();
    if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        problems.refuse(format!("{field}.id"), shown(id), format!("an id as {prefix}0123456789abcdef0"));
    }
}

fn check_text(field: &str, name: &str, text: Option<&String>, problems: &mut Problems) {
    if text.is_some_and(String::is_empty) {
        problems.refuse(format!("{field}.{name}"), "\"\"", "a text, or nothing");
    }
}

fn check_tags(field: &str, tags: &BTreeMap<String, String>, problems: &mut Problems) {
    let field = format!("{field}.tags");
    if tags.len() > MAX_TAGS {
        problems.refuse(&field, format!("{} tags", tags.len()), format!("at most {MAX_TAGS}"));
    }
    for (key, value) in tags.iter().filter(|(key, value)| key.is_empty() || value.is_empty()) {
        let allowed = "a key and a value that are not empty; the value * stands for any";
        problems.refuse(format!("{field}[{key}]"), shown(value), allowed);
    }
}
