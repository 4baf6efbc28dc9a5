//! What adopting nodes asks of EC2 and of Auto Scaling: instances by id, tags, and that an instance
//! leaves its group.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::AutoScalingGroup;
use outrigger_engine::Rate;
use outrigger_engine::adopt::{GroupMember, RunningInstance};
use outrigger_engine::ports::CloudError;

use crate::ec2::{self, filter, instances, tag};
use crate::{Aws, errors};

const AUTO_SCALING: &str = "Auto Scaling";
/// EC2's bound on the values of one filter.
const FILTER_VALUES_MAX: usize = 200;

impl Aws {
    /// Instances by id, whosever they are. One that is not there is left out.
    pub async fn running_instances(
        &self,
        ids: &[String],
    ) -> Result<BTreeMap<String, RunningInstance>, CloudError> {
        let mut found = Vec::new();
        for batch in ids.chunks(FILTER_VALUES_MAX) {
            let wanted = vec![filter("instance-id", batch)];
            found.extend(instances::described(self, wanted, "list the instances of nodes", running).await?);
        }
        Ok(found.into_iter().map(|running| (running.instance.id.clone(), running)).collect())
    }

    /// Tags an instance; other tags stay.
    pub async fn tag_instance(
        &self,
        instance: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), CloudError> {
        let tags = tags.iter().map(|(key, value)| tag(key, value)).collect();
        let call = self.ec2(Rate::Mutate).await.create_tags().resources(instance).set_tags(Some(tags));
        let answer = call.send().await;
        answer.map(drop).map_err(|error| errors::cloud(ec2::SERVICE, format!("tag {instance}"), error))
    }

    /// What the groups of this region have of their instances, by instance id.
    pub async fn group_members(&self) -> Result<BTreeMap<String, GroupMember>, CloudError> {
        let client = aws_sdk_autoscaling::Client::new(&self.config);
        let mut groups = client.describe_auto_scaling_groups().into_paginator().items().send();
        let mut members = BTreeMap::new();
        while let Some(group) = groups.next().await {
            let group = group.map_err(|error| errors::cloud(AUTO_SCALING, "list the groups", error))?;
            members.extend(members_of(&group));
        }
        Ok(members)
    }

    /// Takes an instance out of its group, which then wants one fewer. It runs on.
    pub async fn detach(&self, instance: &str, group: &str) -> Result<(), CloudError> {
        let client = aws_sdk_autoscaling::Client::new(&self.config);
        let call = client.detach_instances().auto_scaling_group_name(group).instance_ids(instance);
        let answer = call.should_decrement_desired_capacity(true).send().await;
        let attempted = || format!("detach {instance} from {group}");
        answer.map(drop).map_err(|error| errors::cloud(AUTO_SCALING, attempted(), error))
    }
}

fn running(instance: &aws_sdk_ec2::types::Instance) -> RunningInstance {
    let cluster = instance.tags().iter().find(|tag| tag.key() == Some("KubernetesCluster"));
    RunningInstance {
        machine: instances::machine(instance),
        instance: instances::read(instance),
        cluster: cluster.and_then(|tag| tag.value()).map(str::to_owned),
    }
}

fn members_of(group: &AutoScalingGroup) -> impl Iterator<Item = (String, GroupMember)> {
    let size = |size: Option<i32>| size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
    group.instances().iter().filter_map(move |instance| {
        let state = instance.lifecycle_state().map(|state| state.as_str().to_owned());
        let member = GroupMember {
            group: group.auto_scaling_group_name()?.to_owned(),
            lifecycle_state: state.unwrap_or_default(),
            is_protected: instance.protected_from_scale_in().unwrap_or_default(),
            min_size: size(group.min_size()),
            desired: size(group.desired_capacity()),
        };
        Some((instance.instance_id()?.to_owned(), member))
    })
}
