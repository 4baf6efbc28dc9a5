//! Karpenter's `karpenter.k8s.aws/v1alpha1` AWSNodeTemplate, as an EC2NodeClass of v1, or as the
//! InstanceGroup whose launch template it names.

use std::collections::BTreeMap;

use outrigger_model::invalid;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::carry::{carry, only_unknown};
use super::draft::Draft;
use super::karpenter_v1beta1::write_out_hops;
use super::note::{Fate, Notes, shown};
use super::selectors::{Terms, image_terms, tag_terms};

/// The tag that kOps gives the subnets of an InstanceGroup, followed by its name.
const GROUP_TAG: &str = "kops.k8s.io/instance-group/";
/// The family that v1alpha1 took for granted.
const DEFAULT_FAMILY: &str = "AL2";

/// The spec of an AWSNodeTemplate, or of a Provisioner's `provider`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeTemplateSpec {
    /// A `provider` says its version and kind.
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    ami_family: Option<String>,
    ami_selector: BTreeMap<String, String>,
    subnet_selector: BTreeMap<String, String>,
    security_group_selector: BTreeMap<String, String>,
    launch_template: Option<String>,
    instance_profile: Option<String>,
    metadata_options: Option<Value>,
    tags: Option<Value>,
    user_data: Option<Value>,
    block_device_mappings: Option<Value>,
    detailed_monitoring: Option<Value>,
    context: Option<Value>,
}

/// What an AWSNodeTemplate becomes.
pub(super) enum Converted {
    /// An EC2NodeClass.
    Class(Box<Draft>),
    /// The InstanceGroup of this name, whose launch template it names.
    InstanceGroup(String),
}

/// Makes an AWSNodeTemplate into what v1 has. `groups` are the names of the InstanceGroups in the
/// files. `None` where it is left out.
pub(super) fn convert(mut draft: Draft, groups: &[String], notes: &mut Notes) -> Option<Converted> {
    let object = draft.origin.object.clone();
    let read = |value: &Value| invalid::read::<NodeTemplateSpec>(&object, "spec", &value["spec"]);
    let spec = carry(&mut draft.value, &draft.origin.file, read, only_unknown, notes)?;
    if let Some(template) = &spec.launch_template {
        let group = group_of(template, &spec.subnet_selector, groups);
        if let Some(group) = &group {
            note_what_the_group_has(group, &draft, notes);
        } else {
            let advice = "allowed: a launch template of kOps, INSTANCEGROUP.CLUSTER, whose InstanceGroup is in the \
                          files or in the tags of subnetSelector";
            notes.add(Fate::LeftOut, &draft.origin, "spec.launchTemplate", format!("{template:?}"), advice);
        }
        return group.map(Converted::InstanceGroup);
    }
    draft.value["spec"] = class_spec(spec, &draft, notes).into();
    Some(Converted::Class(Box::new(draft)))
}

/// The InstanceGroup whose launch template this is: `GROUP.CLUSTER`, where a tag of the subnets or
/// the files name the group.
fn group_of(template: &str, subnets: &BTreeMap<String, String>, groups: &[String]) -> Option<String> {
    let tagged = subnets.keys().filter_map(|key| key.strip_prefix(GROUP_TAG));
    let mut named = tagged.chain(groups.iter().map(String::as_str));
    let is_its = |group: &&str| template.strip_prefix(*group).is_some_and(|rest| rest.starts_with('.'));
    named.find(is_its).map(str::to_owned)
}

/// The group says where its nodes are and what they may do; the rest belongs into it.
fn note_what_the_group_has(group: &str, draft: &Draft, notes: &mut Notes) {
    for (field, value) in draft.value["spec"].as_object().into_iter().flatten() {
        let advice = match field.as_str() {
            // A `provider` says what it is.
            "apiVersion" | "kind" => continue,
            "launchTemplate" => {
                format!("NodePools borrow InstanceGroup/{group} instead, whose launch template it is")
            }
            "subnetSelector" => format!("spec.subnets of InstanceGroup/{group} says it"),
            "tags" => format!("write it into spec.cloudLabels of InstanceGroup/{group}, if it is not there"),
            _ => format!("write it into InstanceGroup/{group}, if it is not there"),
        };
        notes.add(Fate::NotCarried, &draft.origin, format!("spec.{field}"), shown(value), advice);
    }
}

fn class_spec(spec: NodeTemplateSpec, draft: &Draft, notes: &mut Notes) -> Map<String, Value> {
    let mut class = Map::new();
    let selectors = [
        ("subnetSelector", "subnetSelectorTerms", tag_terms(&spec.subnet_selector)),
        ("securityGroupSelector", "securityGroupSelectorTerms", tag_terms(&spec.security_group_selector)),
        ("amiSelector", "amiSelectorTerms", image_terms(&spec.ami_selector)),
    ];
    for (old, new, Terms { terms, ignored }) in selectors {
        for key in ignored {
            let advice = "allowed: ids without tags beside them; the ids are carried";
            notes.add(Fate::NotCarried, &draft.origin, format!("spec.{old}[{key}]"), "this tag", advice);
        }
        class.insert(new.to_owned(), terms.into());
    }
    let family = spec.ami_family.unwrap_or_else(|| DEFAULT_FAMILY.to_owned());
    let is_silent = spec.metadata_options.is_none();
    let fields = [
        ("amiFamily", Some(Value::from(family))),
        ("instanceProfile", spec.instance_profile.map(Value::from)),
        ("metadataOptions", spec.metadata_options),
        ("tags", spec.tags),
        ("userData", spec.user_data),
        ("blockDeviceMappings", spec.block_device_mappings),
        ("detailedMonitoring", spec.detailed_monitoring),
        ("context", spec.context),
    ];
    let written = fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
    class.extend(written.filter(|(_, value)| !value.is_null()));
    if is_silent {
        write_out_hops(&mut class);
    }
    class
}
