//! Launch templates: those that kOps wrote are always there, our own are written and deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_engine::ports::{FleetError, TemplateRef, WrittenTemplate};
use outrigger_model::{FleetOverride, FleetRequest, OwnTemplate};

use super::Ec2;
use crate::time::Moment;

/// Our own templates by name.
#[derive(Debug, Default)]
pub(super) struct Templates {
    written: BTreeMap<String, WrittenTemplate>,
    /// How many were ever written.
    count: u64,
    /// When a launch last used each, by name.
    used: BTreeMap<String, Duration>,
    /// Those whose instance profile does not exist, by name.
    without_profile: BTreeSet<String>,
}

impl Ec2 {
    /// Our own template for a class, and for a reservation after a `@`, written where it is
    /// missing.
    pub(crate) fn write_template(
        &mut self,
        class: &str,
        content: &OwnTemplate,
        reservation: Option<&str>,
        moment: Moment,
    ) -> TemplateRef {
        let suffix = reservation.map(|reservation| format!("@{reservation}")).unwrap_or_default();
        let name = format!("{}{class}{suffix}", self.own_prefix());
        let templates = &mut self.templates;
        if Self::lacks_profile(content) {
            templates.without_profile.insert(name.clone());
        }
        if !templates.written.contains_key(&name) {
            templates.count += 1;
            let id = format!("lt-{:017x}", templates.count);
            let written = WrittenTemplate { id, name: name.clone(), created_at: moment.at };
            templates.written.insert(name.clone(), written);
        }
        TemplateRef { name, version: "1".into() }
    }

    /// Our own templates, in order of id.
    pub(crate) fn own_templates(&self) -> Vec<WrittenTemplate> {
        let mut written: Vec<_> = self.templates.written.values().cloned().collect();
        written.sort_by(|a, b| a.id.cmp(&b.id));
        written
    }

    pub(crate) fn delete_template(&mut self, id: &str) {
        self.templates.written.retain(|_, template| template.id != id);
    }

    /// A launch uses a template.
    pub(super) fn use_template(&mut self, name: &str, moment: Moment) {
        self.templates.used.insert(name.to_owned(), moment.elapsed);
    }

    /// When a launch last used a template of our own.
    pub(crate) fn template_used(&self, id: &str) -> Option<Duration> {
        let template = self.templates.written.values().find(|template| template.id == id)?;
        self.templates.used.get(&template.name).copied()
    }

    /// What EC2 says of each offering where the template's instance profile does not exist.
    pub(super) fn profile_errors(&self, request: &FleetRequest) -> Vec<FleetError> {
        if !self.templates.without_profile.contains(&request.launch_template) {
            return Vec::new();
        }
        let error = |wanted: &FleetOverride| FleetError {
            code: "InvalidParameterValue".into(),
            message:
                "Value for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
                    .into(),
            instance_type: wanted.instance_type.clone(),
            zone: wanted.zone.clone(),
        };
        request.overrides.iter().map(error).collect()
    }

    /// The class that a template was written for; `None` where there is no such template.
    pub(super) fn class_of<'t>(&self, template: &'t str) -> Option<&'t str> {
        let name = template.strip_prefix(&self.own_prefix());
        let class = name.map(|name| name.split_once('@').map_or(name, |(class, _)| class));
        class
            .filter(|_| self.templates.written.contains_key(template))
            .or_else(|| template.strip_suffix(&format!(".{}", self.cluster)))
    }

    /// What is broken when a launch needs a template of our own that we have deleted.
    pub(crate) fn lacks_template(&self, request: &FleetRequest) -> Option<String> {
        let name = &request.launch_template;
        let is_gone = name.starts_with(&self.own_prefix()) && self.class_of(name).is_none();
        is_gone.then(|| format!("launch template {name} was deleted while a launch needed it"))
    }

    fn own_prefix(&self) -> String {
        format!("outrigger/{}/", self.cluster)
    }
}
