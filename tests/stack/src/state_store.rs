//! What kOps' commands do to a state store and to the account, as far as nodes go.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::aws::{Aws, parameter};
use crate::kops::{CLUSTER, Group, KOPS_VERSION, Site};
use crate::seed::launch_template;
use crate::stack::Stack;

/// Where groups lie below the cluster.
const GROUP_PREFIX: &str = "instancegroup/";

/// The state store of a cluster whose groups of nodes kOps derives from what is written there.
#[derive(Debug)]
pub struct StateStore {
    aws: Aws,
    site: Site,
    /// The names of its groups.
    groups: BTreeSet<String>,
}

impl StateStore {
    /// An empty one in a bucket of this name, in the network of a stack.
    pub fn new(stack: &Stack, bucket: &str) -> Result<Self> {
        let site = stack.site().context("the stack was not seeded by this process")?;
        stack.aws().create_bucket(bucket)?;
        Ok(Self {
            aws: stack.aws(),
            site: Site { state_bucket: bucket.to_owned(), ..site.clone() },
            groups: BTreeSet::new(),
        })
    }

    /// Where it lies, as kOps' flag `--state` names it.
    pub fn address(&self) -> String {
        format!("s3://{}", self.site.state_bucket)
    }

    /// The image of its nodes, as an InstanceGroup names it.
    pub fn image(&self) -> String {
        format!("137112412989/{}", self.site.amd64.0)
    }

    /// `kops create -f`: an object that is not there yet.
    pub fn create(&mut self, object: &Value) -> Result<()> {
        let key = key(object)?;
        self.groups.extend(key.strip_prefix(GROUP_PREFIX).map(str::to_owned));
        ensure!(self.read(&key)?.is_none(), "{key} exists already");
        self.replace(object)
    }

    /// `kops replace -f`, and what `kops edit` does in the end.
    pub fn replace(&self, object: &Value) -> Result<()> {
        self.put(&key(object)?, &serde_saphyr::to_string(object)?)
    }

    /// What `kops get -o yaml` prints, one text for each object.
    pub fn documents(&self) -> Result<Vec<String>> {
        let groups = self.groups.iter().map(|name| format!("{GROUP_PREFIX}{name}"));
        let keys = std::iter::once("config".to_owned()).chain(groups);
        keys.map(|key| self.read(&key)?.with_context(|| format!("there is no {key}"))).collect()
    }

    /// The cluster.
    pub fn cluster(&self) -> Result<Value> {
        let text = self.read("config")?.context("there is no cluster")?;
        Ok(serde_saphyr::from_str(&text)?)
    }

    /// `kops update cluster --yes`: for each group of nodes its nodeupconfig.yaml, and its launch
    /// template where it has none yet.
    pub fn update(&self) -> Result<()> {
        let cluster = self.cluster()?;
        self.put("cluster-completed.spec", &serde_saphyr::to_string(&cluster)?)?;
        self.put("kops-version.txt", KOPS_VERSION)?;
        for name in &self.groups {
            let text = self.read(&format!("{GROUP_PREFIX}{name}"))?.context("a group went meanwhile")?;
            let group: Value = serde_saphyr::from_str(&text)?;
            if group["spec"]["role"] == "Node" {
                self.update_group(&cluster, &group).with_context(|| format!("the group {name}"))?;
            }
        }
        Ok(())
    }

    fn update_group(&self, cluster: &Value, object: &Value) -> Result<()> {
        let spec = &object["spec"];
        let texts = |value: &Value| -> Vec<String> {
            let list = value.as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let pairs = |value: &Value| -> Vec<(String, String)> {
            let entries = value.as_object().into_iter().flatten();
            entries.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
        };
        let labels = pairs(&spec["nodeLabels"]);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        let taints = texts(&spec["taints"]);
        let taints: Vec<_> = taints.iter().map(|taint| split(taint)).collect::<Result<_>>()?;
        let group = Group {
            name: object["metadata"]["name"].as_str().context("it has no name")?,
            machine_type: spec["machineType"].as_str().context("it has no machineType")?,
            has_launch_template: true,
            spec: "",
            arm: false,
            labels: &labels,
            taints: &taints,
        };
        let key = format!("igconfig/node/{}/nodeupconfig.yaml", group.name);
        self.put(&key, &self.site.nodeup_config(&group))?;
        let name = parameter("LaunchTemplateName.1", format!("{}.{CLUSTER}", group.name));
        if self.aws.ec2("DescribeLaunchTemplates", &[name]).is_ok() {
            return Ok(());
        }
        let more_groups = texts(&spec["additionalSecurityGroups"]);
        launch_template(&self.aws, &self.site, &group, &more_groups, &pairs(&cluster["spec"]["cloudLabels"]))
    }

    fn read(&self, path: &str) -> Result<Option<String>> {
        self.aws.object(&self.site.state_bucket, &format!("{CLUSTER}/{path}"))
    }

    fn put(&self, path: &str, content: &str) -> Result<()> {
        self.aws.put_object(&self.site.state_bucket, &format!("{CLUSTER}/{path}"), content)
    }
}

/// Where an object lies below the cluster.
fn key(object: &Value) -> Result<String> {
    let name = object["metadata"]["name"].as_str().context("the object has no name")?;
    Ok(match object["kind"].as_str() {
        Some("Cluster") => "config".to_owned(),
        Some("InstanceGroup") => format!("{GROUP_PREFIX}{name}"),
        other => anyhow::bail!("kOps has no kind {other:?}"),
    })
}

/// A taint as kOps writes it: `key=value:effect`.
fn split(taint: &str) -> Result<(&str, &str, &str)> {
    let (rest, effect) = taint.rsplit_once(':').with_context(|| format!("{taint} has no effect"))?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Ok((key, value, effect))
}
