//! What a launch needs: EC2 checks CreateFleet and the RunInstances behind it on everything that
//! they touch, CreateTags on everything that is tagged as it is made, and that the nodes' role may
//! be given to them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::resources::ec2;
use super::{Account, Call, LaunchTemplate, Need};
use crate::aws::ACCOUNT;

/// What a request tags, by the kind of resource.
type Tagged = BTreeMap<String, BTreeMap<String, String>>;

/// CreateLaunchTemplate.
pub(super) fn template(call: &Call) -> Vec<Need> {
    let mut needs = Vec::new();
    let tagged = tagged(call);
    let tags = tagged.get("launch-template").cloned().unwrap_or_default();
    let made = ec2("launch-template", "lt-new");
    needs.push(Need::new("ec2:CreateLaunchTemplate", &made).with_tags("aws:RequestTag", &tags));
    needs.extend(tagged.iter().map(|(kind, tags)| tags_need(kind, tags, "CreateLaunchTemplate")));
    needs
}

/// CreateFleet of type `instant`, which launches with the rights of whoever calls.
pub(super) fn fleet(call: &Call, account: &dyn Account) -> Result<Vec<Need>> {
    let of_request = tagged(call);
    let fleet_tags = of_request.get("fleet").cloned().unwrap_or_default();
    let mut needs = vec![
        Need::new("ec2:CreateFleet", ec2("fleet", "fleet-new")).with_tags("aws:RequestTag", &fleet_tags),
    ];
    for (kind, tags) in &of_request {
        needs.push(tags_need(kind, tags, "CreateFleet"));
        if kind != "fleet" {
            needs.push(tags_need(kind, tags, "RunInstances"));
        }
    }
    for config in call.entries("LaunchTemplateConfigs") {
        let field = |name: &str| {
            call.parameter(&format!("{config}LaunchTemplateSpecification.{name}")).unwrap_or_default()
        };
        let (name, version) = (field("LaunchTemplateName"), field("Version"));
        // EC2 itself says that a template is missing.
        let Some(template) = account.launch_template(name, version)? else { continue };
        needs.extend(template.tagged.iter().map(|(kind, tags)| tags_need(kind, tags, "RunInstances")));
        needs.extend(template.profile.as_deref().map(pass_role));
        let touched = touched(call, &config, &template, &of_request);
        needs.extend(touched.iter().cloned().map(|need| Need { action: "ec2:CreateFleet".into(), ..need }));
        needs.extend(touched.into_iter().map(|need| Need { action: "ec2:RunInstances".into(), ..need }));
        if call.parameter("TargetCapacitySpecification.DefaultTargetCapacityType") == Some("spot") {
            let tags = template.tagged.get("spot-instances-request").cloned().unwrap_or_default();
            let request = Need::new("ec2:RunInstances", ec2("spot-instances-request", "sir-new"));
            needs.push(request.with_tags("aws:RequestTag", &tags));
        }
    }
    Ok(needs)
}

/// All that a launch from a template uses or makes; the action is still to be filled in.
fn touched(call: &Call, config: &str, template: &LaunchTemplate, of_request: &Tagged) -> Vec<Need> {
    let on = |kind: &str, id: &str| Need::new("", ec2(kind, id));
    let made = |kind: &str| {
        let mut tags = template.tagged.get(kind).cloned().unwrap_or_default();
        tags.extend(of_request.get(kind).cloned().unwrap_or_default());
        on(kind, "new").with_tags("aws:RequestTag", &tags)
    };
    let overrides: Vec<String> = call.entries(&format!("{config}Overrides")).collect();
    let named = |name: &str| -> BTreeSet<String> {
        overrides
            .iter()
            .filter_map(|one| call.parameter(&format!("{one}{name}")))
            .map(str::to_owned)
            .collect()
    };
    let mut images = named("ImageId");
    images.extend(template.image.clone().filter(|_| images.is_empty()));
    let mut needs = vec![on("launch-template", &template.id).with_tags("aws:ResourceTag", &template.tags)];
    needs.extend(["instance", "volume", "network-interface"].map(made));
    needs.extend(images.iter().map(|id| on("image", id)));
    needs.extend(named("SubnetId").iter().map(|id| on("subnet", id)));
    needs.extend(template.security_groups.iter().map(|id| on("security-group", id)));
    needs.extend(template.snapshots.iter().map(|id| on("snapshot", id)));
    needs.extend(template.key_pair.iter().map(|name| on("key-pair", name)));
    needs.extend(template.reservation.iter().map(|id| on("capacity-reservation", id)));
    needs
}

fn tagged(call: &Call) -> Tagged {
    let kind =
        |entry: &String| call.parameter(&format!("{entry}ResourceType")).unwrap_or_default().to_owned();
    call.entries("TagSpecification").map(|entry| (kind(&entry), call.tags(&entry))).collect()
}

fn tags_need(kind: &str, tags: &BTreeMap<String, String>, made_by: &str) -> Need {
    let need = Need::new("ec2:CreateTags", ec2(kind, "new"));
    need.with("ec2:CreateAction", made_by).with_tags("aws:RequestTag", tags)
}

fn pass_role(profile: &str) -> Need {
    let role = format!("arn:aws:iam::{ACCOUNT}:role/{profile}");
    Need::new("iam:PassRole", role).with("iam:PassedToService", "ec2.amazonaws.com")
}
