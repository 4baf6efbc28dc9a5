//! Fetches facts of clusters that kOps' own tests make.
//!
//! `update` says what each asks for, and what its nodes' launch template has then.
//! `shared/kops/tests/clusters.rs` derives the latter from the former. `create` says what
//! `kops create cluster` makes of its options, from which a system test goes to the first node.
//!
//!     cargo run -p outrigger-tests --bin kops_clusters -- update KOPS_CHECKOUT VERSION DATE \
//!         > shared/kops/tests/fixtures/clusters.json
//!     cargo run -p outrigger-tests --bin kops_clusters -- create KOPS_CHECKOUT VERSION DATE \
//!         > tests/tests/system/created-clusters.json

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Map, Value, json};

/// Those that `kops create cluster` makes in one zone and in several, of public and of private
/// topology, without DNS and with it.
const CREATED: [&str; 4] = ["minimal-1.36", "ha", "private", "different-amis"];
/// Those that differ in what a node is made of.
const CLUSTERS: [&str; 26] = [
    "additionalobjects",
    "bastionadditional_user-data",
    "cluster-autoscaler-priority-expander",
    "complex",
    "containerd-custom",
    "digit",
    "existing_iam",
    "existing_sg",
    "externallb",
    "ha",
    "karpenter",
    "minimal-1.34",
    "minimal-1.35",
    "minimal-1.36",
    "minimal-aws",
    "minimal-dns-none",
    "minimal-gp3",
    "minimal-ipv6",
    "minimal-ipv6-dns-none",
    "minimal-longclustername",
    "mixed_instances_spot",
    "nvidia",
    "private-shared-subnet",
    "privatecilium-eni",
    "shared_subnet",
    "shared_vpc_ipv6",
];
/// What a Cluster says that its nodes are made by.
const OF_CLUSTER: [&str; 3] = ["cloudLabels", "networking", "subnets"];
/// What it and nodeup's configuration say of their kubelets that shows in EC2.
const OF_KUBELETS: [&str; 2] = ["nodeLabels", "taints"];

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [command, checkout, version, date] = arguments.as_slice() else {
        return Err("usage: update|create KOPS_CHECKOUT VERSION DATE".into());
    };
    let tests = Path::new(checkout).join(format!("tests/integration/{command}_cluster"));
    let (kind, clusters) = match command.as_str() {
        "update" => ("groups", of_each(&tests, &CLUSTERS, groups_of)?),
        "create" => ("clusters", of_each(&tests, &CREATED, created)?),
        other => return Err(format!("{other}: allowed: update, create").into()),
    };
    let facts = json!({
        "source": format!("kubernetes/kops {version}, tests/integration/{command}_cluster"),
        "read": date,
        kind: clusters,
    });
    println!("{}", serde_json::to_string_pretty(&facts)?);
    Ok(())
}

fn of_each(
    tests: &Path,
    names: &[&str],
    facts: impl Fn(&str, &Path) -> Result<Vec<Value>, Failure>,
) -> Result<Vec<Value>, Failure> {
    let mut facts_of_all = Vec::new();
    for name in names {
        facts_of_all.extend(facts(name, &tests.join(name)).map_err(|error| format!("{name}: {error}"))?);
    }
    Ok(facts_of_all)
}

/// What `kops create cluster` makes of the options of a test.
fn created(name: &str, folder: &Path) -> Result<Vec<Value>, Failure> {
    let options: Value = serde_saphyr::from_str(&fs::read_to_string(folder.join("options.yaml"))?)?;
    let objects = objects(&folder.join("expected-v1alpha2.yaml"))?;
    Ok(vec![json!({"test": name, "options": options, "objects": objects})])
}

/// The groups of nodes of a cluster that have a launch template.
fn groups_of(name: &str, folder: &Path) -> Result<Vec<Value>, Failure> {
    let made: Value = hcl::from_str(&fs::read_to_string(folder.join("kubernetes.tf"))?)?;
    let made = Made(&made["resource"]);
    let completed = folder.join("data/aws_s3_object_cluster-completed.spec_content");
    let cluster: Value = serde_saphyr::from_str(&fs::read_to_string(completed)?)?;
    let mut spec = some_fields(&cluster["spec"], &OF_CLUSTER);
    spec.insert("kubelet".into(), some_fields(&cluster["spec"]["kubelet"], &OF_KUBELETS).into());
    let cluster_name = cluster["metadata"]["name"].as_str().ok_or("the cluster has no name")?;
    let mut groups = Vec::new();
    for object in objects(&folder.join("in-v1alpha2.yaml"))? {
        let group = &object["metadata"]["name"];
        if object["kind"] != "InstanceGroup" || object["spec"]["role"] != "Node" {
            continue;
        }
        let group = group.as_str().ok_or("a group has no name")?;
        let nodeup = folder.join(format!("data/aws_s3_object_nodeupconfig-{group}_content"));
        let nodeup: Value = serde_saphyr::from_str(&fs::read_to_string(nodeup)?)?;
        let Some(launch) = made.launch(&format!("{group}.{cluster_name}"))? else { continue };
        groups.push(json!({
            "test": name,
            "cluster": {"name": cluster_name, "spec": spec},
            "group": {"name": group, "spec": without_scripts(&object["spec"])},
            "kubelet": some_fields(&nodeup["KubeletConfig"], &OF_KUBELETS),
            "launch": launch,
        }));
    }
    Ok(groups)
}

fn some_fields(object: &Value, fields: &[&str]) -> Map<String, Value> {
    let field = |field: &&str| Some(((*field).to_owned(), object.get(*field)?.clone()));
    fields.iter().filter_map(field).collect()
}

/// The spec of a group without what its scripts do.
fn without_scripts(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for part in spec.get_mut("additionalUserData").and_then(Value::as_array_mut).into_iter().flatten() {
        part["content"] = "#!/bin/sh\n".into();
    }
    spec
}

fn objects(file: &PathBuf) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(file)?;
    let documents = text.split("\n---").filter(|document| !document.trim().is_empty());
    Ok(documents.map(serde_saphyr::from_str).collect::<Result<_, _>>()?)
}

/// The resources that kOps makes.
struct Made<'a>(&'a Value);

impl Made<'_> {
    /// What instances of a group start with; `None` where no Auto Scaling group launches them.
    fn launch(&self, name: &str) -> Result<Option<Value>, Failure> {
        let of_name = |kind: &str| {
            let all = self.0[kind].as_object().into_iter().flatten();
            all.map(|(_, resource)| resource).find(|resource| resource["name"] == name)
        };
        let (Some(template), Some(scaled)) =
            (of_name("aws_launch_template"), of_name("aws_autoscaling_group"))
        else {
            return Ok(None);
        };
        let interface = &template["network_interfaces"];
        let specifications = list(&template["tag_specifications"]);
        let of_instances = specifications.iter().find(|part| part["resource_type"] == "instance");
        let names = |field: &Value| -> Result<Vec<String>, Failure> {
            let mut names = list(field).iter().map(|one| self.name(one)).collect::<Result<Vec<_>, _>>()?;
            names.sort();
            Ok(names)
        };
        let root = list(&template["block_device_mappings"]);
        let root = root.first().ok_or("the template has no volume")?;
        Ok(Some(json!({
            "tags": of_instances.ok_or("instances have no tags")?["tags"],
            "securityGroups": names(&interface["security_groups"])?,
            "subnets": names(&scaled["vpc_zone_identifier"])?,
            "instanceProfile": self.name(&template["iam_instance_profile"]["name"])?,
            "associatePublicIp": interface["associate_public_ip_address"],
            "ipv6Addresses": interface["ipv6_address_count"],
            "rootVolume": root["ebs"],
            "metadata": {
                "tokens": template["metadata_options"]["http_tokens"],
                "hopLimit": template["metadata_options"]["http_put_response_hop_limit"],
            },
            "monitoring": template["monitoring"]["enabled"],
            "tenancy": template["placement"]["tenancy"],
        })))
    }

    /// The name in EC2 or IAM of what `${kind.label.id}` refers to, or the id that stands there.
    fn name(&self, reference: &Value) -> Result<String, Failure> {
        let text = reference.as_str().ok_or("a reference is no text")?;
        let Some(path) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
            return Ok(text.to_owned());
        };
        let mut parts = path.split('.');
        let (Some(kind), Some(label)) = (parts.next(), parts.next()) else {
            return Err(format!("{text} refers to nothing").into());
        };
        let resource = &self.0[kind][label];
        let name = resource["name"].as_str().or(resource["tags"]["Name"].as_str());
        Ok(name.ok_or_else(|| format!("{text} has no name"))?.to_owned())
    }
}

/// One or several blocks of a kind, or the elements of a list.
fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}
