//! The rules that an `EC2NodeClass` must meet beyond its types (Karpenter's AWS provider 1.14), and
//! those that follow from what Outrigger acts on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::unsupported::NOT_ACTED_ON;
use super::{AmiFamily, EC2NodeClass, EC2NodeClassSpec, MetadataOptions, Toggle};
use super::{block_device, kubelet, selector, unsupported};
use crate::invalid::{Invalid, Problems, shown};
use crate::node_identity::tag_restriction;
use crate::{labels, syntax};

/// EC2's limit for user data, in bytes before it is encoded.
const MAX_USER_DATA: usize = 16_384;
/// EC2's limits for tags, in characters.
const MAX_TAG_KEY: usize = 128;
const MAX_TAG_VALUE: usize = 256;
/// EC2 takes 50 tags; the rest is for what Outrigger says about cluster, pool, class and launch.
const MAX_TAGS: usize = 40;

/// Everything that is wrong with a class.
pub(super) fn problems(class: &EC2NodeClass) -> Vec<Invalid> {
    let mut problems = Problems::about(format!("EC2NodeClass/{}", class.name));
    let spec = &class.spec;
    if !syntax::is_name(&class.name) {
        problems.refuse("metadata.name", shown(&class.name), syntax::NAME);
    }
    selector::check_subnets(&spec.subnet_selector_terms, &mut problems);
    selector::check_security_groups(&spec.security_group_selector_terms, &mut problems);
    selector::check_images(&spec.ami_selector_terms, &mut problems);
    selector::check_reservations(&spec.capacity_reservation_selector_terms, &mut problems);
    check_boot(spec, &mut problems);
    check_tags(&spec.tags, &mut problems);
    block_device::check(&spec.block_device_mappings, &mut problems);
    check_metadata_options(spec.metadata_options, &mut problems);
    if let Some(settings) = &spec.kubelet {
        kubelet::check(settings, &mut problems);
    }
    unsupported::check(spec, &mut problems);
    problems.into_vec()
}

fn check_boot(spec: &EC2NodeClassSpec, problems: &mut Problems) {
    if spec.ami_family != Some(AmiFamily::Custom) {
        let actual = spec.ami_family.map_or_else(|| "nothing".to_owned(), |family| shown(&family));
        let allowed = "Custom: nodes of kOps boot by the user data of nodeup, which the other families would \
                       replace by their own";
        problems.refuse("spec.amiFamily", actual, allowed);
    }
    if let Some(role) = &spec.role {
        let allowed =
            "nothing: Outrigger makes no instance profiles; name an existing one in spec.instanceProfile";
        problems.refuse("spec.role", shown(role), allowed);
    }
    if spec.instance_profile.as_ref().is_none_or(String::is_empty) && spec.role.is_none() {
        let actual = spec.instance_profile.as_ref().map_or_else(|| "nothing".to_owned(), shown);
        problems.refuse(
            "spec.instanceProfile",
            actual,
            "the name of an instance profile, as nodes.<cluster>",
        );
    }
    if let Some(user_data) = spec.user_data.as_ref().filter(|data| data.len() > MAX_USER_DATA) {
        let actual = format!("{} bytes", user_data.len());
        problems.refuse("spec.userData", actual, format!("at most {MAX_USER_DATA} bytes, the limit of EC2"));
    }
}

fn check_tags(tags: &BTreeMap<String, String>, problems: &mut Problems) {
    if tags.len() > MAX_TAGS {
        let allowed = format!("at most {MAX_TAGS}: EC2 takes 50, and some are Outrigger's own");
        problems.refuse("spec.tags", format!("{} tags", tags.len()), allowed);
    }
    for (key, value) in tags {
        let field = format!("spec.tags[{key}]");
        if key.is_empty() || key.chars().count() > MAX_TAG_KEY || key.starts_with("aws:") {
            let allowed = format!("from 1 to {MAX_TAG_KEY} characters that do not begin with aws:");
            problems.refuse(&field, shown(key), allowed);
        }
        if value.chars().count() > MAX_TAG_VALUE {
            problems.refuse(&field, shown(value), format!("at most {MAX_TAG_VALUE} characters"));
        }
        let group = tags.get(labels::INSTANCE_GROUP).map(String::as_str).unwrap_or_default();
        if let Some(allowed) = tag_restriction(key, value, group) {
            problems.refuse(&field, shown(value), allowed);
        }
        if is_kept_for_us(key) {
            let allowed = "another key: Outrigger sets kubernetes.io/cluster/*, eks:eks-cluster-name, \
                           karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass and \
                           outrigger.dev/* itself";
            problems.refuse(field, shown(key), allowed);
        }
    }
}

fn is_kept_for_us(key: &str) -> bool {
    let reserved =
        ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", labels::EC2_NODE_CLASS];
    reserved.contains(&key)
        || ["kubernetes.io/cluster", "outrigger.dev/"].iter().any(|prefix| key.starts_with(prefix))
}

fn check_metadata_options(options: MetadataOptions, problems: &mut Problems) {
    let field = |name| format!("spec.metadataOptions.{name}");
    if options.http_endpoint == Toggle::Disabled {
        let allowed = format!("enabled, since nodeup reads the metadata; disabled is {NOT_ACTED_ON}");
        problems.refuse(field("httpEndpoint"), "\"disabled\"", allowed);
    }
    let hops = options.http_put_response_hop_limit;
    if !(1..=64).contains(&hops) {
        problems.refuse(field("httpPutResponseHopLimit"), hops, "a whole number from 1 to 64");
    }
}
