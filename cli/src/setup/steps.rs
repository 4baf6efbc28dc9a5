//! The commands that come next, in order, for one cluster: `README.md`, and what is printed.

use std::fmt::Write as _;

use serde::Serialize;

use super::access::Mappings;
use super::network::{Network, Reach};
use super::{Setting, shell};

/// One thing to do.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    /// What it is.
    pub(crate) title: String,
    /// What to know about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
    /// Its commands.
    pub(crate) commands: Vec<String>,
}

impl Step {
    fn new(title: &str, commands: Vec<String>) -> Self {
        Self { title: title.to_owned(), remarks: Vec::new(), commands }
    }

    fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remarks.push(remark.into());
        self
    }
}

/// All steps in order.
pub(crate) fn steps(setting: &Setting<'_>) -> Vec<Step> {
    let mut steps = vec![group(setting)];
    if setting.network.reach != Reach::Internet {
        steps.push(network(setting, setting.network));
    }
    steps.push(Step::new(
        "Definitions, roles and policies in the cluster",
        vec![format!("{} apply -f infra/kubernetes/crds -f infra/kubernetes", setting.kubectl())],
    ));
    if setting.command.token_parameter.is_some() {
        steps.push(token(setting));
    }
    steps.push(Step::new(
        "The functions",
        vec!["sam build".into(), format!("sam deploy --config-file {}", setting.file("samconfig.yaml"))],
    ));
    if setting.command.token_parameter.is_none() {
        steps.extend(authentication(setting));
    }
    steps.push(pool(setting));
    steps
}

fn group(setting: &Setting<'_>) -> Step {
    let cluster = &setting.cluster.name;
    let state = &setting.cluster.state;
    let create = format!("kops create -f {} --state {state}", setting.file("instancegroup.yaml"));
    let update = format!("kops update cluster --name {cluster} --state {state} --yes");
    if setting.group.exists {
        return Step::new("The InstanceGroup", vec![update]).remark("kOps has it already.");
    }
    Step::new("The InstanceGroup", vec![create, update])
        .remark("Its Auto Scaling group stays at 0. Outrigger launches from its launch template.")
}

/// How subnets and security groups become known.
fn network(setting: &Setting<'_>, network: &Network) -> Step {
    let (cluster, region) = (&setting.cluster.name, &setting.cluster.region);
    let vpc = ["/networkID", "/networking/networkID"].iter().find_map(|path| setting.cluster.text(path));
    let vpc = vpc.map_or_else(
        || {
            format!(
                "$(aws ec2 describe-vpcs --region {region} --filters Name=tag:KubernetesCluster,Values={cluster} \
                 --query 'Vpcs[0].VpcId' --output text)"
            )
        },
        shell,
    );
    let names = shell(&network.private_subnets.join(","));
    let subnets = match network.shared_subnets.join(",") {
        ids if !ids.is_empty() => shell(&ids),
        _ => format!(
            "$(aws ec2 describe-subnets --region {region} --filters Name=tag:Name,Values={names} \
             --query 'join(`,`, Subnets[].SubnetId)' --output text)"
        ),
    };
    let security_group = format!(
        "$(aws ec2 create-security-group --region {region} --group-name outrigger-{cluster} \
         --description 'Functions of Outrigger' --vpc-id {vpc} --query GroupId --output text)"
    );
    let commands =
        vec![format!("SUBNETS={subnets}"), format!("SECURITY_GROUP={security_group}"), setting.again("")];
    Step::new("Where the functions are", commands)
        .remark("The subnets must be private, with a NAT.")
        .remark("The API server must admit the security group: spec.kubernetesApiAccess must hold the VPC's addresses.")
        .remark("The last command writes both into samconfig.yaml.")
}

/// A service account's token in SSM.
fn token(setting: &Setting<'_>) -> Step {
    let kubectl = setting.kubectl();
    let parameter = setting.command.token_parameter.as_deref().unwrap_or_default();
    let region = &setting.cluster.region;
    let create = format!("{kubectl} create token outrigger -n kube-system --duration=2160h");
    Step::new(
        "A token for the functions",
        vec![
            format!("{kubectl} apply -f {}", setting.file("token.yaml")),
            format!(
                "aws ssm put-parameter --region {region} --type SecureString --overwrite --name {parameter} \
                 --value \"$({create})\""
            ),
        ],
    )
    .remark("The token ends after 90 days.")
    .remark(format!(
        "Renew it once a week: outrigger token --parameter {parameter}, of a command built with --features aws."
    ))
}

/// The functions' roles and their groups.
fn authentication(setting: &Setting<'_>) -> [Step; 2] {
    let (stack, region) = (&setting.parameters.stack, &setting.cluster.region);
    let file = setting.file("stack.json");
    let describe = format!(
        "aws cloudformation describe-stacks --region {region} --stack-name {stack} --output json > {file}"
    );
    let roles = Step::new(
        "The roles of the functions",
        vec![describe, setting.again(&format!(" --stack-outputs {file}"))],
    );
    let mappings = match setting.mappings {
        Mappings::ConfigMap => config_map(setting),
        Mappings::Objects | Mappings::Off => cluster_spec(setting),
    };
    [
        roles.remark("CloudFormation names them. The second command writes them into authentication.yaml."),
        mappings,
    ]
}

fn config_map(setting: &Setting<'_>) -> Step {
    let kubectl = setting.kubectl();
    Step::new(
        "Who the functions are",
        vec![
            format!("{kubectl} get configmap aws-iam-authenticator -n kube-system -o yaml"),
            format!("{kubectl} create -f {}", setting.file("authentication.yaml")),
            format!("{kubectl} rollout restart daemonset/aws-iam-authenticator -n kube-system"),
        ],
    )
    .remark("Where the first command shows a ConfigMap, add the entries of mapRoles to it, and leave the second out.")
    .remark("Its clusterID must be the parameter ApiClusterId, or the cluster's name where that is not set.")
}

fn cluster_spec(setting: &Setting<'_>) -> Step {
    let (cluster, state) = (&setting.cluster.name, &setting.cluster.state);
    let mut commands = vec![
        format!("kops edit cluster --name {cluster} --state {state}"),
        format!("kops update cluster --name {cluster} --state {state} --yes"),
    ];
    let file = setting.file("authentication.yaml");
    let text = format!("Put {file} in the place of the Cluster's spec.authentication.");
    if setting.mappings != Mappings::Off {
        return Step::new("Who the functions are", commands).remark(text);
    }
    commands.push(format!(
        "kops rolling-update cluster --name {cluster} --state {state} --instance-group-roles control-plane --yes"
    ));
    Step::new("Who the functions are", commands)
        .remark(text)
        .remark("This turns aws-iam-authenticator on, and replaces the nodes of the control plane.")
        .remark(format!(
            "To use a token instead, run setup again with --token-parameter /outrigger/{cluster} --force."
        ))
}

fn pool(setting: &Setting<'_>) -> Step {
    let kubectl = setting.kubectl();
    Step::new(
        "A NodePool",
        vec![
            format!("{kubectl} apply -f {}", setting.file("nodepool.yaml")),
            format!("{kubectl} get nodepools"),
        ],
    )
    .remark("Within a minute it is Ready, or `kubectl describe nodepool` says why not.")
}

/// `README.md`.
pub(crate) fn readme(setting: &Setting<'_>, steps: &[Step], notes: &[String]) -> String {
    let mut text = format!(
        "# Outrigger for {}\n\nRun these in a checkout of Outrigger, in this order.\n",
        setting.cluster.name
    );
    for (index, step) in steps.iter().enumerate() {
        let _ = writeln!(text, "\n## {}. {}\n", index + 1, step.title);
        for remark in &step.remarks {
            let _ = writeln!(text, "{remark}");
        }
        if !step.remarks.is_empty() {
            text.push('\n');
        }
        for command in &step.commands {
            let _ = writeln!(text, "    {command}");
        }
    }
    text.push_str("\n## What matters in this cluster\n\n");
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// The kubectl that speaks to the cluster.
pub(crate) fn kubectl(context: &str, kubeconfig: Option<&std::path::Path>) -> String {
    let file = kubeconfig.map(|file| format!(" --kubeconfig {}", shell(&file.display().to_string())));
    format!("kubectl{} --context {}", file.unwrap_or_default(), shell(context))
}
