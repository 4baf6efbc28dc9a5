//! What kOps says of the cluster: its Cluster and its InstanceGroups, as `kops get -o yaml` prints
//! them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_kops::{Cluster, ClusterSubnet, cluster_of};
use outrigger_kubernetes::Dump;
use outrigger_model::labels;
use serde_json::Value;

use crate::args;
use crate::error::{CliError, chain};

/// A cluster with its InstanceGroups.
pub(crate) struct KopsCluster {
    /// Its name.
    pub(crate) name: String,
    /// The Cluster object.
    pub(crate) object: Value,
    /// Its subnets.
    pub(crate) subnets: Vec<ClusterSubnet>,
    /// Its InstanceGroups by name, those of the control plane too.
    pub(crate) groups: BTreeMap<String, Value>,
    /// The region of its subnets.
    pub(crate) region: String,
    /// Its state store, as `s3://BUCKET[/PREFIX]`.
    pub(crate) state: String,
}

impl KopsCluster {
    /// The cluster that was asked for.
    pub(crate) fn read(dump: &Dump, command: &args::Setup) -> Result<Self, CliError> {
        let is_kops = |object: &str| object.starts_with("Cluster/") || object.starts_with("InstanceGroup/");
        let problems: Vec<_> =
            dump.invalid.iter().filter(|problem| is_kops(&problem.object)).cloned().collect();
        if !problems.is_empty() {
            return Err(CliError::Objects(problems));
        }
        let object = object(dump, command)?;
        check_cloud(object, &command.cluster)?;
        let subnets = subnets(object, &command.cluster)?;
        Ok(Self {
            region: region(&subnets, command)?,
            state: state(object, command)?,
            groups: groups(dump, &command.cluster),
            name: command.cluster.clone(),
            object: object.clone(),
            subnets,
        })
    }

    /// A text of the Cluster's spec, by its path as `/topology/dns/type`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.value(path)?.as_str()
    }

    /// A value of the Cluster's spec, by its path.
    pub(crate) fn value(&self, path: &str) -> Option<&Value> {
        self.object["spec"].pointer(path).filter(|value| !value.is_null())
    }

    /// Whether a switch of the Cluster's spec is on; `None` where it says nothing.
    pub(crate) fn is_on(&self, path: &str) -> Option<bool> {
        self.value(path)?.as_bool()
    }

    /// Whether kOps makes no DNS records: then the API server has its load balancer's name alone.
    pub(crate) fn is_without_dns(&self) -> bool {
        let is_none = |path| self.text(path).is_some_and(|kind| kind.eq_ignore_ascii_case("none"));
        self.name.ends_with(".k8s.local") || is_none("/topology/dns/type") || is_none("/dns")
    }

    /// The name that is in the API server's certificate in any case.
    pub(crate) fn internal_name(&self) -> String {
        format!("api.internal.{}", self.name)
    }

    /// The partition of ARNs in its region.
    pub(crate) fn partition(&self) -> &'static str {
        match self.region.split('-').next() {
            Some("cn") => "aws-cn",
            Some("us") if self.region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        }
    }

    /// The complaint about a field of the Cluster.
    pub(crate) fn refuse(&self, field: &str, actual: impl Into<String>, allowed: &str) -> CliError {
        refuse(&self.name, field, actual, allowed)
    }
}

fn refuse(cluster: &str, field: &str, actual: impl Into<String>, allowed: &str) -> CliError {
    CliError::Missing {
        what: format!("Cluster/{cluster}: {field}"),
        actual: actual.into(),
        allowed: allowed.to_owned(),
    }
}

fn object<'d>(dump: &'d Dump, command: &args::Setup) -> Result<&'d Value, CliError> {
    dump.clusters.get(&command.cluster).ok_or_else(|| {
        let names: Vec<&str> = dump.clusters.keys().map(String::as_str).collect();
        let actual = if names.is_empty() { "no Cluster".to_owned() } else { names.join(", ") };
        let files: Vec<String> = command.files.iter().map(|file| file.display().to_string()).collect();
        CliError::Missing {
            what: format!("{}: Cluster/{}", files.join(", "), command.cluster),
            actual,
            allowed: format!("what `kops get --name {} -o yaml` prints", command.cluster),
        }
    })
}

/// kOps' v1alpha2 has the provider's name; later versions an object of that name.
fn check_cloud(object: &Value, cluster: &str) -> Result<(), CliError> {
    let cloud = &object["spec"]["cloudProvider"];
    if cloud == "aws" || !cloud["aws"].is_null() {
        return Ok(());
    }
    let actual = if cloud.is_null() { "nothing".to_owned() } else { cloud.to_string() };
    Err(refuse(cluster, "spec.cloudProvider", actual, "aws"))
}

fn subnets(object: &Value, cluster: &str) -> Result<Vec<ClusterSubnet>, CliError> {
    let read = Cluster::read(&object.to_string());
    let read = read.map_err(|error| refuse(cluster, "spec", chain(&error), "a Cluster as kOps prints it"))?;
    if read.spec.subnets.is_empty() {
        return Err(refuse(cluster, "spec.subnets", "none", "the cluster's subnets, with their zones"));
    }
    Ok(read.spec.subnets)
}

/// The InstanceGroups of the cluster: those that name it, and those that name none.
fn groups(dump: &Dump, cluster: &str) -> BTreeMap<String, Value> {
    let groups = dump.instance_groups.iter();
    let is_its = |group: &Value| cluster_of(group).is_none_or(|name| name == cluster);
    groups.filter(|(_, group)| is_its(group)).map(|(name, group)| (name.clone(), group.clone())).collect()
}

fn region(subnets: &[ClusterSubnet], command: &args::Setup) -> Result<String, CliError> {
    let regions: BTreeSet<&str> = subnets
        .iter()
        .filter_map(|subnet| labels::region_of(&subnet.zone))
        .filter(|name| args::is_plain(name))
        .collect();
    let regions: Vec<&str> = regions.into_iter().collect();
    match (&command.region, &regions[..]) {
        (None, [only]) => Ok((*only).to_owned()),
        (Some(asked), []) if args::is_plain(asked) => Ok(asked.clone()),
        (Some(asked), _) if regions.contains(&asked.as_str()) => Ok(asked.clone()),
        (Some(asked), _) => Err(CliError::Missing {
            what: "--region".into(),
            actual: asked.clone(),
            allowed: format!("{}, where the cluster's subnets are", regions.join(", ")),
        }),
        (None, _) => {
            let actual = if regions.is_empty() { "none".to_owned() } else { regions.join(", ") };
            Err(refuse(&command.cluster, "the region of spec.subnets", actual, "one region, or --region"))
        }
    }
}

/// The state store: what was asked for, or what stands before the cluster's name in its base.
fn state(object: &Value, command: &args::Setup) -> Result<String, CliError> {
    const ALLOWED: &str = "s3://BUCKET[/PREFIX]/CLUSTER, or --state s3://BUCKET[/PREFIX]";
    if let Some(state) = &command.state {
        return Ok(state.clone());
    }
    let spec = &object["spec"];
    let base = spec["configBase"].as_str().or(spec["configStore"]["base"].as_str());
    let state = base.and_then(|base| store_of(base, &command.cluster));
    let actual = || base.map_or_else(|| "nothing".to_owned(), |base| format!("{base:?}"));
    state.ok_or_else(|| refuse(&command.cluster, "spec.configBase", actual(), ALLOWED))
}

/// The state store of a cluster whose files are under `base`.
pub(crate) fn store_of(base: &str, cluster: &str) -> Option<String> {
    let path = base.strip_prefix("s3://")?.trim_end_matches('/').strip_suffix(cluster)?;
    let path = path.strip_suffix('/').filter(|path| !path.is_empty() && args::is_plain(path))?;
    Some(format!("s3://{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_store_is_what_stands_before_the_clusters_name() {
        let store = |base| store_of(base, "k8s.example.com");
        assert_eq!(store("s3://store/k8s.example.com").as_deref(), Some("s3://store"));
        assert_eq!(store("s3://store/a/b/k8s.example.com/").as_deref(), Some("s3://store/a/b"));
        for bad in [
            "s3://store/other",
            "gs://store/k8s.example.com",
            "s3://k8s.example.com",
            "s3://a;b/k8s.example.com",
        ] {
            assert_eq!(store(bad), None, "{bad}");
        }
    }
}
