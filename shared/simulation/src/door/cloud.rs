//! The Cloud port in front of EC2.

use std::collections::BTreeMap;

use async_trait::async_trait;
use outrigger_catalog::Catalog;
use outrigger_engine::ports::{
    ClassSource, Cloud, CloudError, FleetAnswer, InstanceStatus, Machine, ManagedPools, Notice, TemplateRef,
    WrittenTemplate,
};
use outrigger_model::{FleetRequest, Instance, LaunchTemplate, NodeClass, labels};

use super::{Door, PortError, no_answer};
use crate::calls::{Call, Service};
use crate::faults::Trouble;
use crate::laws;

#[async_trait]
impl Cloud for Door {
    async fn catalog(&self) -> Result<Catalog, CloudError> {
        self.call(Call::Catalog, |state, _| Ok(state.cloud.catalog().clone())).await
    }

    async fn survey(&self) -> Result<Catalog, CloudError> {
        self.call(Call::Survey, |state, _| Ok(state.cloud.catalog().clone())).await
    }

    async fn store_catalog(&self, catalog: &Catalog) -> Result<(), CloudError> {
        self.call(Call::StoreCatalog, |state, _| {
            state.cloud.store_catalog(catalog.clone());
            Ok(())
        })
        .await
    }

    async fn managed_pools(&self) -> Result<ManagedPools, CloudError> {
        self.call(Call::ManagedPools, |state, _| Ok(state.cloud.managed_pools().clone())).await
    }

    async fn resolve_class(&self, source: &ClassSource) -> Result<NodeClass, CloudError> {
        self.call(Call::ResolveClass, |state, _| Ok(state.cloud.resolve(source))).await
    }

    async fn ensure_template(
        &self,
        class: &NodeClass,
        reservation: Option<&str>,
    ) -> Result<TemplateRef, CloudError> {
        self.call(Call::EnsureTemplate, |state, moment| match &class.launch {
            LaunchTemplate::Borrowed { name, version } => {
                Ok(TemplateRef { name: name.clone(), version: version.clone() })
            }
            LaunchTemplate::Own(template) => {
                Ok(state.cloud.write_template(&class.reference.name, template, reservation, moment))
            }
            LaunchTemplate::None => Err(CloudError::Unusable {
                what: class.reference.to_string(),
                why: "it only serves to plan".into(),
            }),
        })
        .await
    }

    async fn own_templates(&self) -> Result<Vec<WrittenTemplate>, CloudError> {
        self.call(Call::DescribeLaunchTemplates, |state, _| Ok(state.cloud.own_templates())).await
    }

    async fn delete_template(&self, id: &str) -> Result<(), CloudError> {
        self.call(Call::DeleteLaunchTemplate, |state, moment| {
            state.broken.extend(laws::launching::deleted_template(state, id, moment));
            state.cloud.delete_template(id);
            Ok(())
        })
        .await
    }

    async fn launch(&self, request: &FleetRequest) -> Result<FleetAnswer, CloudError> {
        self.call(Call::CreateFleet, |state, moment| {
            if state.is_late(request, moment) {
                return Err(CloudError::unknown(Call::CreateFleet));
            }
            let machines_before = state.cloud.machines().len();
            let mute = state.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::NeverJoin);
            state.cloud.set_mute(mute);
            let bad = state.faults.open(moment.elapsed).any(|trouble| matches!(trouble, Trouble::Chaos(_)));
            state.cloud.set_bad_day(bad);
            state.broken.extend(state.cloud.lacks_template(request));
            let answer = state.cloud.create_fleet(request, moment);
            state.launched(request, &answer, machines_before, moment);
            answer
        })
        .await
    }

    async fn instances_of(&self, intent: &str) -> Result<Vec<Instance>, CloudError> {
        self.call(Call::DescribeInstances, |state, moment| {
            Ok(state.cloud.instances_of(labels::INTENT, intent, moment))
        })
        .await
    }

    async fn machines(&self) -> Result<Vec<Machine>, CloudError> {
        self.call(Call::DescribeMachines, |state, moment| Ok(state.cloud.describe(moment))).await
    }

    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, CloudError> {
        self.call(Call::DescribeInstanceStatus, |state, moment| Ok(state.cloud.statuses(moment))).await
    }

    async fn terminate(&self, instances: &[String]) -> Result<BTreeMap<String, String>, CloudError> {
        self.call(Call::TerminateInstances, |state, moment| {
            let mut refused = BTreeMap::new();
            for id in instances {
                match state.cloud.protection(id, moment) {
                    Some(why) => drop(refused.insert(id.clone(), why)),
                    None => state.terminate(id, moment),
                }
            }
            Ok(refused)
        })
        .await
    }

    async fn boot_progress(&self, instance: &str) -> Result<Option<String>, CloudError> {
        self.call(Call::GetConsoleOutput, |state, _| {
            let is_there = state.cloud.machines().contains_key(instance);
            Ok(is_there.then(|| "nodeup failed and tries again".to_owned()))
        })
        .await
    }

    async fn publish(&self, notice: &Notice) -> Result<(), CloudError> {
        self.call(Call::PutEvents, |state, _| {
            state.ring(notice);
            Ok(())
        })
        .await
    }
}

impl PortError for CloudError {
    fn unknown(call: Call) -> Self {
        Self::Unknown { service: "EC2", attempted: call.words().into(), source: no_answer() }
    }

    fn refused(call: Call) -> Self {
        debug_assert_eq!(call.service(), Service::Cloud);
        Self::Refused {
            service: "EC2",
            attempted: call.words().into(),
            code: "RequestLimitExceeded".into(),
            message: "request limit exceeded".into(),
        }
    }

    fn stuck(object: &str) -> Self {
        Self::Refused {
            service: "EC2",
            attempted: format!("change {object}"),
            code: "IncorrectState".into(),
            message: "it is changed by somebody else".into(),
        }
    }
}
