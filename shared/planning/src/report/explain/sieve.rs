//! The filters that a pool's instance types pass one after another, each with how many it left.

use std::cmp::Reverse;

use outrigger_model::resources::PODS;
use outrigger_model::volume::EBS_DRIVER;
use outrigger_model::{CapacityType, FilterStep, InstanceType, PlannedNode, PodRef, Quantity, Requirements};
use outrigger_optimizer::ids::{DaemonId, PurchaseId};
use outrigger_optimizer::market::offers::{self, Fitting, MinValues};
use outrigger_optimizer::market::purchases::{Purchases, capacity_of, type_of};
pub(super) use outrigger_optimizer::market::selection::Aspect;
use outrigger_optimizer::market::templates::Template;
use outrigger_optimizer::problem::Problem;
use outrigger_optimizer::problem::beside_daemons::BesideDaemons;
use outrigger_optimizer::problem::classes::PodClass;
use outrigger_policy::pods::daemons::Daemon;
use outrigger_policy::pods::ports;
use outrigger_policy::{MinValuesPolicy, Options};
use typed_index_collections::TiSlice;

use super::Asked;
use super::volumes::Volume;

/// What is left of a template's purchases, and the filters that were there.
#[derive(Clone)]
pub(super) struct Sieve<'a> {
    template: &'a Template<'a>,
    pub(super) purchases: Purchases,
    pub(super) steps: Vec<FilterStep>,
}

impl<'a> Sieve<'a> {
    /// All types of the template's class.
    pub(super) fn new(template: &'a Template<'a>) -> Self {
        let purchases = Purchases::passing(template.purchases(), |_| true);
        let mut sieve = Self { template, purchases, steps: Vec::new() };
        sieve.note(template.class_shown());
        sieve
    }

    /// Notes what is left, unless nothing was left before.
    fn note(&mut self, filter: String) {
        if self.steps.last().is_none_or(|last| last.remaining > 0) {
            self.steps.push(FilterStep { filter, remaining: self.purchases.types() });
        }
    }

    fn keep(&mut self, filter: String, test: impl Fn(PurchaseId) -> bool) {
        self.purchases.retain(test);
        self.note(filter);
    }

    /// What the pool allows and can buy.
    pub(super) fn pool(&mut self) {
        let template = self.template;
        self.labels(&template.requirements);
        if !template.class.images.is_empty() {
            self.keep("an image for its architecture".into(), |purchase| {
                template.has_image(type_of(purchase))
            });
        }
        self.keep("an available offering".into(), |purchase| template.usable.contains(purchase));
    }

    /// Labels of instance types.
    pub(super) fn labels(&mut self, wanted: &Requirements) {
        let template = self.template;
        for (key, requirement) in
            wanted.iter().filter(|(key, _)| template.aspect(key) == Aspect::InstanceType)
        {
            let filter = format!("{key} {requirement}");
            self.keep(filter, |purchase| template.type_meets(type_of(purchase), key, requirement));
        }
    }

    /// Zones and capacity types.
    pub(super) fn offerings(&mut self, wanted: &Requirements) {
        let template = self.template;
        let places = [Aspect::Zone, Aspect::CapacityType];
        let asked = wanted.iter().filter(|(key, _)| places.contains(&template.aspect(key)));
        let texts: Vec<String> = asked.map(|(key, requirement)| format!("{key} {requirement}")).collect();
        if !texts.is_empty() {
            let selected = self.selected([wanted.clone()]);
            let filter = format!("an available offering with {}", texts.join(" and "));
            self.keep(filter, |purchase| selected.contains(purchase));
        }
    }

    /// Where volumes can be attached, each by itself and then all together.
    pub(super) fn volumes(&mut self, volumes: &[Volume<'_>], asked: &Asked) {
        for volume in volumes {
            let selected = self.selected(volume.with(&asked.by_pod));
            let places: Vec<String> = volume.alternatives.iter().map(ToString::to_string).collect();
            let filter = format!("PersistentVolumeClaim {} for {}", volume.claim, places.join(" or "));
            self.keep(filter, |purchase| selected.contains(purchase));
        }
        if volumes.len() > 1 {
            let selected = self.selected([asked.with_volumes.clone()]);
            self.keep("its PersistentVolumeClaims together".into(), |purchase| selected.contains(purchase));
        }
    }

    /// What the template can launch that meets one of some requirements.
    fn selected(&self, alternatives: impl IntoIterator<Item = Requirements>) -> Purchases {
        let mut selected = Purchases::none(self.template.purchases());
        for wanted in alternatives {
            if let Ok(selection) = self.template.select(&wanted) {
                selected.unite(&selection.purchases);
            }
        }
        selected
    }

    /// Machines without the daemonset pods that the pod must be away from, each daemonset by
    /// itself, and with those that it must be near.
    pub(super) fn beside_daemons(
        &mut self,
        beside: &BesideDaemons,
        daemons: &TiSlice<DaemonId, Daemon<'_>>,
        wanted: &Requirements,
    ) {
        let elsewhere = beside.other_zones(daemons).unwrap_or_default();
        for (part, id) in beside.parts(daemons) {
            let mut remaining = self.purchases.clone();
            let mut wanted = wanted.clone();
            wanted.add_all(&elsewhere);
            part.retain(&mut remaining, self.template, daemons, &wanted);
            self.keep(id, |purchase| remaining.contains(purchase));
        }
    }

    /// Room for the pod: resources, attachments of volumes, ports.
    pub(super) fn requests(&mut self, class: &PodClass<'_>, problem: &Problem<'_>) {
        let template = self.template;
        for (dimension, name) in problem.dimensions.names().enumerate() {
            let wanted = class.request[dimension];
            if wanted > 0 || self.purchases.iter().any(|purchase| template.room(purchase)[dimension] < 0) {
                let beside = self.beside(name, &problem.daemons) + &self.beside_static_pods(name);
                let filter = format!("{name} {}{beside}", class.spec.requests.get(name));
                self.keep(filter, |purchase| wanted <= template.room(purchase)[dimension]);
            }
        }
        self.attachments(class.mounts.ebs());
        let taken = &class.spec.host_ports;
        if !taken.is_empty() {
            let free = |purchase: PurchaseId| !ports::clash(taken, &template.daemon_ports(purchase));
            self.keep("host ports beside the daemonsets'".into(), free);
        }
    }

    /// Types that attach so many volumes.
    fn attachments(&mut self, volumes: u32) {
        let template = self.template;
        let attaches =
            |purchase: PurchaseId| template.types.get(type_of(purchase)).map_or(0, InstanceType::ebs_volumes);
        let Some(most) = self.purchases.iter().map(attaches).max() else { return };
        if self.purchases.iter().any(|purchase| attaches(purchase) < volumes) {
            let filter = if most < volumes {
                format!("{volumes} volumes of {EBS_DRIVER}, of which a node attaches at most {most}")
            } else {
                format!("{volumes} volumes of {EBS_DRIVER}")
            };
            self.keep(filter, |purchase| attaches(purchase) >= volumes);
        }
    }

    /// What daemonsets take of a resource on some machine that is left, in words.
    fn beside(&self, resource: &str, daemons: &TiSlice<DaemonId, Daemon<'_>>) -> String {
        let by_daemon = daemons.iter().zip(&self.template.daemon_purchases);
        let here = by_daemon.filter(|(_, purchases)| self.purchases.intersects(purchases));
        let amounts = here.map(|(daemon, _)| (daemon.spec.requests.get(resource), daemon.id));
        let mut taking: Vec<(Quantity, &PodRef)> = amounts.filter(|(amount, _)| !amount.is_zero()).collect();
        taking.sort_by_key(|(amount, id)| (Reverse(*amount), *id));
        match &taking[..] {
            [] => String::new(),
            [(amount, id)] => format!(" beside DaemonSet {id} of {amount}"),
            [(most, id), ..] => {
                let total = taking.iter().fold(Quantity::default(), |total, (amount, _)| total + *amount);
                let count = taking.len();
                if resource == PODS {
                    return format!(" beside the pods of {count} DaemonSets");
                }
                format!(" beside {count} DaemonSets of {total}, the largest {id} of {most}")
            }
        }
    }

    /// What the node's own static pods take of a resource, for people.
    fn beside_static_pods(&self, resource: &str) -> String {
        match self.template.static_requests.get(resource) {
            amount if amount.is_zero() => String::new(),
            amount => format!(" beside static pods of {amount}"),
        }
    }

    /// What the pool's minValues leave, where they are strict.
    pub(super) fn min_values(&mut self, options: &Options<'_>, wanted: &Requirements) {
        let template = self.template;
        let min_values = MinValues::new(template);
        if min_values.is_empty() || options.min_values != MinValuesPolicy::Strict {
            return;
        }
        let zones = template.select_labels(wanted).zones & template.allowed_zones;
        let fittings = CapacityType::ALL.map(|capacity_type| {
            let purchases =
                self.purchases.iter().filter(|purchase| capacity_of(*purchase) == capacity_type).collect();
            Fitting { purchases, zones, on_demand: None }
        });
        if fittings.iter().any(|fitting| offers::offered(template, fitting, &min_values, options).is_some()) {
            return;
        }
        let most = fittings.iter().max_by_key(|fitting| fitting.purchases.len());
        let unmet = most.and_then(|fitting| min_values.unmet(template, &fitting.purchases, zones));
        let filter = match unmet {
            Some((key, count)) => format!("minValues {count} of {key}"),
            None => format!("minValues with at most {} types", PlannedNode::MAX_TYPES),
        };
        self.keep(filter, |_| false);
    }
}
