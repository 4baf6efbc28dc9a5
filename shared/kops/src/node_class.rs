//! From an InstanceGroup's files and the account's answers to a node class.

use outrigger_model::{Kubelet, KubeletSettings, LaunchTemplate, NodeClass, NodeClassRef, Subnet};

use crate::account::AccountFacts;
use crate::account_queries::subnets_of;
use crate::error::KopsError;
use crate::launch::{Carrier, carrier, other_drainer};
use crate::nodeup::NodeupConfig;
use crate::root_volume::root_volume;
use crate::spec::{Cluster, InstanceGroup};
use crate::state_store::StateStoreFiles;
use crate::static_pods::static_pods;
use crate::{images, labels, machine_types};

/// The node class of an InstanceGroup.
///
/// A group that is sound but cannot launch now comes back with `not_ready`; one that asks for
/// something which Outrigger cannot honour is an error that names the field.
pub fn node_class(files: &StateStoreFiles, account: &AccountFacts) -> Result<NodeClass, KopsError> {
    let cluster = Cluster::read(&files.cluster_spec)?;
    let group = InstanceGroup::read(&files.group, &files.instance_group)?;
    let config =
        files.nodeup_config.as_deref().map(|yaml| NodeupConfig::read(&files.group, yaml)).transpose()?;
    let eni_limited = cluster.spec.networking.is_eni_limited();
    let settings = match &config {
        Some(config) => config.settings(&files.group, eni_limited)?,
        None => KubeletSettings { eni_limited, ..KubeletSettings::default() },
    };
    let taints = labels::taints(&cluster, &group, config.as_ref())?;
    let node_labels = labels::node_labels(&cluster, &group, config.as_ref(), &taints);
    let tags = labels::tags(&cluster, &group, &node_labels, &taints)?;
    let (subnets, missing_subnet) = subnets(&cluster, &group, account)?;
    let (launch, not_launchable) = match carrier(files, &cluster, &group, account)? {
        Carrier::Ready(launch) => (launch, None),
        Carrier::NotReady(why) => (LaunchTemplate::None, Some(why)),
    };
    let (images, no_image) = images::of_group(&group, account)?;
    let (static_pods, mut remarks) = static_pods(&cluster, &group, config.as_ref());
    remarks.extend(account.launch_template.as_ref().and_then(other_drainer));
    Ok(NodeClass {
        reference: NodeClassRef::instance_group(&group.metadata.name),
        not_ready: not_launchable.or(missing_subnet).or(no_image),
        remarks,
        requirements: machine_types::requirements(&group)?,
        labels: node_labels,
        taints,
        images,
        subnets,
        reservations: Vec::new(),
        tags,
        launch,
        kubelet: Kubelet::Kops(settings),
        root_volume: root_volume(&group.spec),
        volumes: u32::try_from(group.spec.volumes.len()).unwrap_or(u32::MAX),
        max_spot_price: group.spec.max_spot_price(),
        spot_allocation: group.spec.spot_allocation(),
        static_pods: Some(static_pods),
    })
}

/// The subnets of the group in the account, in order of zone and id, and what is wrong when one is
/// missing.
fn subnets(
    cluster: &Cluster,
    group: &InstanceGroup,
    account: &AccountFacts,
) -> Result<(Vec<Subnet>, Option<String>), KopsError> {
    let mut existing = Vec::new();
    let mut missing = None;
    let wanted = subnets_of(cluster, group)?;
    for subnet in &wanted {
        let name = format!("{}.{}", subnet.name, cluster.metadata.name);
        let facts = account.subnets.iter().find(|facts| match &subnet.id {
            Some(id) => &facts.id == id,
            None => facts.name == name,
        });
        if let Some(facts) = facts {
            existing.push(Subnet {
                id: facts.id.clone(),
                zone: facts.zone.clone(),
                zone_id: facts.zone_id.clone(),
                free_addresses: facts.free_addresses,
            });
        } else {
            let shown = subnet.id.as_deref().unwrap_or(&name);
            missing = missing.or_else(|| Some(format!("subnet {shown} does not exist in the account")));
        }
    }
    if wanted.is_empty() {
        missing = Some("the cluster has no subnet for instances".to_owned());
    }
    existing.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
    existing.dedup();
    Ok((existing, missing))
}
