//! The Cloud port on AWS.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use outrigger_catalog::Catalog;
use outrigger_engine::chain;
use outrigger_engine::fleet_errors::{self, ErrorClass};
use outrigger_engine::ports::{
    ClassSource, Cloud, CloudError, FleetAnswer, InstanceStatus, Machine, ManagedPools, Notice, TemplateRef,
    WrittenTemplate,
};
use outrigger_kops::{account_queries, node_class, nodeup_config_hash, paths, sha256_base64};
use outrigger_model::{
    EC2NodeClass, FleetRequest, Instance, Invalid, LaunchTemplate, NodeClass, NodeClassRef, labels,
};
use tokio::time::Instant;

use crate::catalog::StoredCatalog;
use crate::ec2::template::Wanted;
use crate::ec2::{account, class, console, ending, fleet, instances, status, template};
use crate::lock::lock;
use crate::s3::S3Location;
use crate::{Aws, events, state_store, survey};

/// How long a resolved class, and the list of InstanceGroups, is good for within one process.
const CLASS_LIFETIME: Duration = Duration::from_mins(1);

/// Which cluster, and where its things lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsConfig {
    /// The cluster's name.
    pub cluster: String,
    /// kOps' state store; without one, InstanceGroups cannot be resolved.
    pub state_store: Option<S3Location>,
    /// Where `refresh` keeps the catalogue; without one the embedded catalogue serves.
    pub catalog: Option<S3Location>,
    /// The event bus; the account's default one when absent.
    pub event_bus: Option<String>,
}

/// EC2 and the services around it, for one cluster.
#[derive(Debug)]
pub struct AwsCloud {
    aws: Aws,
    config: AwsConfig,
    catalog: Option<StoredCatalog>,
    classes: Mutex<BTreeMap<NodeClassRef, Resolved>>,
    templates: Mutex<BTreeSet<String>>,
    managed_pools: Mutex<Option<(ManagedPools, Instant)>>,
}

#[derive(Clone, Debug)]
struct Resolved {
    source: ClassSource,
    class: NodeClass,
    /// The hash of the nodeup configuration that the class was made from.
    nodeup_config: Option<String>,
    at: Instant,
}

impl AwsCloud {
    /// The cloud of a cluster.
    pub fn new(aws: Aws, config: AwsConfig) -> Self {
        Self {
            catalog: config.catalog.clone().map(StoredCatalog::at),
            aws,
            config,
            classes: Mutex::new(BTreeMap::new()),
            templates: Mutex::new(BTreeSet::new()),
            managed_pools: Mutex::new(None),
        }
    }

    async fn resolve(&self, source: &ClassSource) -> Result<(NodeClass, Option<String>), CloudError> {
        let cluster = &self.config.cluster;
        let group = match source {
            ClassSource::InstanceGroup(group) => group,
            ClassSource::Ec2(spec) => {
                self.check_instance_group(spec).await?;
                let class = class::resolve(&self.aws, cluster, spec).await?;
                return self.with_current_script(class, spec).await;
            }
        };
        let Some(store) = &self.config.state_store else {
            return Err(CloudError::Unusable {
                what: format!("InstanceGroup {group}"),
                why: "no kOps state store is configured".into(),
            });
        };
        let unusable = |error| state_store::unusable(store, cluster, group, &error);
        let files = Box::pin(state_store::files(&self.aws, store, cluster, group)).await?;
        let queries = account_queries(&files).map_err(unusable)?;
        let facts = account::facts(&self.aws, &queries).await?;
        let class = node_class(&files, &facts).map_err(unusable)?;
        Ok((class, files.nodeup_config.as_deref().map(sha256_base64)))
    }

    /// kops-controller believes the tag that says of which InstanceGroup an instance is, so it must
    /// be one of workers.
    async fn check_instance_group(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        let Some(group) = class.spec.tags.get(labels::INSTANCE_GROUP) else { return Ok(()) };
        let role = match &self.config.state_store {
            Some(store) => state_store::role(&self.aws, store, &self.config.cluster, group).await?,
            None => None,
        };
        if role.as_deref() == Some("Node") {
            return Ok(());
        }
        let group_role =
            role.map_or_else(|| "none that is known".to_owned(), |role| format!("one of role {role}"));
        Err(CloudError::Unusable {
            what: format!("EC2NodeClass/{}", class.name),
            why: Invalid::new(
                format!("spec.tags[{}]", labels::INSTANCE_GROUP),
                "",
                format!("the InstanceGroup {group:?}, {group_role}"),
                "one of role Node in the kOps state store",
            )
            .to_string(),
        })
    }

    /// The class of an EC2NodeClass, which is not ready while its user data holds a script that
    /// `kops update` has made anew since; and the hash of what the script must be made for. Of user
    /// data in which no such hash is found nobody knows that.
    async fn with_current_script(
        &self,
        mut class: NodeClass,
        source: &EC2NodeClass,
    ) -> Result<(NodeClass, Option<String>), CloudError> {
        let actual = source.spec.user_data.as_deref().and_then(nodeup_config_hash);
        let (Some(store), Some(group), Some(actual)) =
            (&self.config.state_store, class.tags.get(labels::INSTANCE_GROUP), actual)
        else {
            return Ok((class, None));
        };
        let config = state_store::nodeup_config(&self.aws, store, &self.config.cluster, group).await?;
        let expected = config.as_deref().map(sha256_base64);
        if let Some(expected) = expected.as_ref().filter(|expected| **expected != actual) {
            let (config, script) = (paths::nodeup_config(group), paths::nodeup_script(group));
            class.not_ready.get_or_insert_with(|| {
                format!(
                    "spec.userData was made for NodeupConfigHash {actual}, and {config} has {expected}: its machines \
                     would never join; paste {script} anew"
                )
            });
        }
        Ok((class, expected))
    }

    /// Makes sure that what nodeup will be told is still what the class was made from. The class
    /// may be a minute old, and machines that start with an old hash never join.
    async fn check_nodeup_config(&self, class: &NodeClass) -> Result<(), CloudError> {
        let hash_at_resolution =
            lock(&self.classes).get(&class.reference).and_then(|resolved| resolved.nodeup_config.clone());
        let is_group = class.reference.is_instance_group();
        let group =
            if is_group { Some(&class.reference.name) } else { class.tags.get(labels::INSTANCE_GROUP) };
        let (Some(store), Some(hash_at_resolution), Some(group)) =
            (&self.config.state_store, hash_at_resolution, group)
        else {
            return Ok(());
        };
        let config = state_store::nodeup_config(&self.aws, store, &self.config.cluster, group).await?;
        if config.as_deref().map(sha256_base64).as_ref() == Some(&hash_at_resolution) {
            return Ok(());
        }
        lock(&self.classes).remove(&class.reference);
        Err(CloudError::Unusable {
            what: format!("{}", class.reference),
            why: "kops update is in progress: its nodeupconfig.yaml has changed".into(),
        })
    }
}

#[async_trait]
impl Cloud for AwsCloud {
    async fn catalog(&self) -> Result<Catalog, CloudError> {
        match &self.catalog {
            Some(stored) => stored.read(&self.aws).await,
            None => survey::embedded(&self.aws).await,
        }
    }

    async fn survey(&self) -> Result<Catalog, CloudError> {
        survey::survey(&self.aws).await
    }

    async fn store_catalog(&self, catalog: &Catalog) -> Result<(), CloudError> {
        let Some(stored) = &self.catalog else {
            return Err(CloudError::Unusable {
                what: "the catalogue".into(),
                why: "no place to keep it is configured".into(),
            });
        };
        stored.write(&self.aws, catalog).await
    }

    async fn managed_pools(&self) -> Result<ManagedPools, CloudError> {
        let Some(store) = &self.config.state_store else { return Ok(ManagedPools::default()) };
        let remembered = lock(&self.managed_pools).clone();
        if let Some((pools, at)) = &remembered
            && at.elapsed() < CLASS_LIFETIME
        {
            return Ok(pools.clone());
        }
        match (state_store::managed_pools(&self.aws, store, &self.config.cluster).await, remembered) {
            (Ok(pools), _) => {
                *lock(&self.managed_pools) = Some((pools.clone(), Instant::now()));
                Ok(pools)
            }
            // Groups do not go away because S3 does not answer.
            (Err(error), Some((pools, _))) => {
                tracing::warn!(error = chain(&error), "the InstanceGroups of before count");
                Ok(pools)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn resolve_class(&self, source: &ClassSource) -> Result<NodeClass, CloudError> {
        let reference = source.reference();
        if let Some(resolved) = lock(&self.classes).get(&reference)
            && resolved.source == *source
            && resolved.at.elapsed() < CLASS_LIFETIME
        {
            return Ok(resolved.class.clone());
        }
        let (class, nodeup_config) = Box::pin(self.resolve(source)).await?;
        let resolved =
            Resolved { source: source.clone(), class: class.clone(), nodeup_config, at: Instant::now() };
        lock(&self.classes).insert(reference, resolved);
        Ok(class)
    }

    async fn ensure_template(
        &self,
        class: &NodeClass,
        reservation: Option<&str>,
    ) -> Result<TemplateRef, CloudError> {
        self.check_nodeup_config(class).await?;
        match &class.launch {
            LaunchTemplate::Borrowed { name, .. } if reservation.is_some() => Err(CloudError::Unusable {
                what: format!("launch template {name}"),
                why: "kOps wrote it, and its instances start in no capacity reservation".into(),
            }),
            LaunchTemplate::Borrowed { name, version } => {
                Ok(TemplateRef { name: name.clone(), version: version.clone() })
            }
            LaunchTemplate::Own(own_template) => {
                let wanted = Wanted { class, own_template, reservation };
                template::ensure(&self.aws, &self.config.cluster, wanted, &self.templates).await
            }
            LaunchTemplate::None => Err(CloudError::Unusable {
                what: class.reference.to_string(),
                why: class.not_ready.clone().unwrap_or_else(|| "it only serves to plan".into()),
            }),
        }
    }

    async fn own_templates(&self) -> Result<Vec<WrittenTemplate>, CloudError> {
        template::of_cluster(&self.aws, &self.config.cluster).await
    }

    async fn delete_template(&self, id: &str) -> Result<(), CloudError> {
        template::delete(&self.aws, id).await
    }

    async fn launch(&self, request: &FleetRequest) -> Result<FleetAnswer, CloudError> {
        let answer = fleet::launch(&self.aws, request).await;
        let speaks_of_it = |code: &str| fleet_errors::class(code) == ErrorClass::Template;
        let is_missing = match &answer {
            Err(CloudError::Refused { code, .. }) => speaks_of_it(code),
            Ok(answer) => answer.errors.iter().any(|error| speaks_of_it(&error.code)),
            Err(_) => false,
        };
        if is_missing {
            // Somebody has removed the template, or kOps has written it anew: the next attempt
            // looks again.
            lock(&self.templates).remove(&request.launch_template);
            let borrows = |launch: &LaunchTemplate| matches!(launch, LaunchTemplate::Borrowed { name, .. } if *name == request.launch_template);
            lock(&self.classes).retain(|_, resolved| !borrows(&resolved.class.launch));
        }
        answer
    }

    async fn instances_of(&self, intent: &str) -> Result<Vec<Instance>, CloudError> {
        instances::of_intent(&self.aws, intent).await
    }

    async fn machines(&self) -> Result<Vec<Machine>, CloudError> {
        instances::of_cluster(&self.aws, &self.config.cluster).await
    }

    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, CloudError> {
        status::unwell(&self.aws).await
    }

    async fn terminate(&self, instances: &[String]) -> Result<BTreeMap<String, String>, CloudError> {
        ending::terminate(&self.aws, instances).await
    }

    async fn boot_progress(&self, instance: &str) -> Result<Option<String>, CloudError> {
        console::progress(&self.aws, instance).await
    }

    async fn publish(&self, notice: &Notice) -> Result<(), CloudError> {
        events::publish(&self.aws, self.config.event_bus.as_deref(), notice).await
    }
}
