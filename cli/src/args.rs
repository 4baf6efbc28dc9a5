//! What the command takes.

#[cfg(not(feature = "aws"))]
mod absent;
#[cfg(feature = "aws")]
mod adopt;
mod change;
mod decided;
#[cfg(feature = "aws")]
mod doctor;
mod look;
#[cfg(feature = "aws")]
mod pause;
mod policy;
mod setup;
mod source;
#[cfg(feature = "aws")]
mod token;
mod what_if;

use std::path::{Path, PathBuf};

use clap::{Args as Arguments, Parser, Subcommand};
use clap_complete::Shell;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::output::Format;
#[cfg(not(feature = "aws"))]
pub(crate) use absent::{
    Absent as Adopt, Absent as Doctor, Absent as Pause, Absent as Resume, Absent as Token,
};
#[cfg(feature = "aws")]
pub(crate) use adopt::Adopt;
pub(crate) use change::Change;
use decided::Decided;
#[cfg(feature = "aws")]
pub(crate) use doctor::Doctor;
pub(crate) use look::{Claims, Snapshot, Top, TopSort};
#[cfg(feature = "aws")]
pub(crate) use pause::{Ledger, Pause, Resume};
pub(crate) use policy::{FUNCTIONS, Policy};
pub(crate) use setup::{OWN_GROUP, Setup, is_plain};
pub(crate) use source::{Kubeconfig, Policies, Source};
#[cfg(feature = "aws")]
pub(crate) use token::Token;
pub(crate) use what_if::WhatIf;

/// Version, commit and features.
#[cfg(feature = "aws")]
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("OUTRIGGER_COMMIT"), ", with aws)");
/// Version, commit and features.
#[cfg(not(feature = "aws"))]
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("OUTRIGGER_COMMIT"), ", without aws)");

/// Plans, explains and simulates the nodes of kOps clusters. It reads the cluster of your
/// kubeconfig, or files, and changes nothing there unless it is told to.
///
/// Exit codes: 0 done, 1 some pods have no place or a file was left as it was, 2 bad usage or
/// input, 3 a plan that breaks a rule (plan --check).
#[derive(Debug, Parser)]
#[command(name = "outrigger", version = VERSION, propagate_version = true, max_term_width = 110)]
pub(crate) struct Args {
    /// How the result is printed
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play a scenario in a simulated world, with the real functions in virtual time
    ///
    /// EC2, the cluster and the ledger are simulated; observing, planning and applying is the code
    /// that runs in Lambda. On a terminal the timeline is live; elsewhere it is printed as plain
    /// lines, as fast as the machine goes.
    Simulate(Simulate),
    /// Decide once which nodes a cluster's waiting pods need; nothing is applied
    ///
    /// Pods count as waiting when the scheduler has marked them Unschedulable. NodePools must be
    /// among the files; a node class that is not among them is assumed to be as kOps
    /// (InstanceGroup) or Karpenter (EC2NodeClass) make it. A NodePool or class that cannot be used
    /// is named on standard error, and the others go on without it. A pod or node that cannot be
    /// read whole is named too: it counts where it is, and nothing is planned for it.
    Plan(Plan),
    /// Decide once which nodes a cluster can do without, since their pods run elsewhere for less;
    /// nothing is applied
    ///
    /// Each command ends nodes of one NodePool, no more than its budgets allow at once, and opens
    /// the nodes that their pods move to. Together the commands are the way to the cheapest cluster
    /// that was found; every other node is named with the reason why it stays. Give the cluster's
    /// PodDisruptionBudgets too: without them, no pod is thought to be kept by one.
    Consolidate(Consolidate),
    /// Write all that a decision is made from into one file, as for a bug report
    ///
    /// plan, consolidate and explain read it with --snapshot, and decide the same again. It holds
    /// what schedulers look at: no environment, no image, no secret. Names can be hashed.
    Snapshot(Snapshot),
    /// Say what the cluster would cost if something were different, beside what it costs now
    ///
    /// Up to four variants: a zone or all spot lost, other instance types, a workload several times
    /// as large, a discount. Pods that lose their node get new ones as outrigger plan decides.
    WhatIf(WhatIf),
    /// Look at nodes: how full each is, what it costs, and whether the cluster can do without it
    ///
    /// On a terminal it stays, and looks again every few seconds; q ends it, ? names the keys.
    /// Elsewhere, with --once or with another format it prints once.
    Top(Top),
    /// List NodeClaims: what is launched, how far it has come, and what it costs
    ///
    /// It reads NodeClaim objects of the cluster or of files. With --ledger it reads the ledger,
    /// which also knows why a claim ends and which have failed.
    Claims(Claims),
    /// Say where one pod goes, or why each NodePool refuses it; or why a node is what it is
    Explain(Explain),
    /// Make what you have of Karpenter or kOps into what Outrigger takes; nothing is applied
    ///
    /// It reads NodePools and EC2NodeClasses of v1 and v1beta1, Provisioners and AWSNodeTemplates,
    /// NodeOverlays, and what kops get -o yaml prints. It prints YAML for kubectl apply, without
    /// status and what the API server and controllers write. Standard error has what could not be
    /// carried, by file, object and field, and what to do about it; with -o json it is in the
    /// document. Objects of other kinds are named and passed over. Pods and what makes them are
    /// looked through for names that Karpenter has given up.
    Import(Import),
    /// Print the definitions of the custom resources, for kubectl apply
    ///
    /// They are NodePool, NodeClaim, NodeOverlay, EC2NodeClass and CapacityBuffer.
    Crds(Crds),
    /// Print what each function may do in AWS and in the cluster
    ///
    /// It is for whoever must allow it: each statement of the functions' IAM roles, and the rules
    /// of their groups in the cluster.
    Policy(Policy),
    /// Write the files that a first deployment to a cluster needs, and say which commands come next
    ///
    /// It reads what kOps prints of the cluster, and the kubeconfig's address and CA of its API
    /// server. It writes an InstanceGroup of Outrigger's own, the parameters of the stack, the
    /// mapping of the functions' roles, and a first NodePool. Nothing is applied. A file that
    /// differs from what would be written is left as it is, and named.
    ///
    /// Built with the feature aws it reads kOps' state store and the account by itself, where
    /// no file is given.
    Setup(Setup),
    /// Make nodes Outrigger's that Karpenter or Auto Scaling groups have launched, pods and all
    ///
    /// Without --yes it only says what would become of each node. A node that is adopted runs on
    /// with its pods: its instance gets tags and leaves its group, which then wants one fewer, and
    /// the ledger gets a NodeClaim. A group's minSize and its protection from scale-in are heeded.
    Adopt(Adopt),
    /// Ask the functions what they see of all that they need, and say what to do
    ///
    /// Each function looks with its own role and from its own network: the API server and its
    /// rights there, the ledger, the state store, node classes, subnets and the catalogue. Nothing
    /// is changed.
    Doctor(Doctor),
    /// Take Outrigger out of a cluster: its finalizers, its NodeClaims, and nodes that it left
    /// closed
    ///
    /// Without --yes it only says what it would do. Afterwards nothing in the cluster waits for
    /// Outrigger's functions.
    Uninstall(Uninstall),
    /// Tell the functions to begin nothing for a while: no launches, and no node given up that
    /// could live on
    ///
    /// It is a switch in the ledger, which each function heeds within one tick. What has begun is
    /// finished.
    Pause(Pause),
    /// End a pause: the functions go on within one tick
    Resume(Resume),
    /// Make or renew the service account's token in SSM with which the functions sign in
    ///
    /// That is for clusters without aws-iam-authenticator. A token that is good for long enough
    /// stays, so the command may run as often as you like.
    Token(Token),
    /// Print what completes the command's words in a shell
    Completions(Completions),
    /// Print the manual page, for man -l -
    Man,
}

/// What `completions` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = COMPLETIONS_HELP)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// What `simulate` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = SIMULATE_HELP)]
pub(crate) struct Simulate {
    /// The scenario; - reads standard input
    #[arg(required_unless_present = "named")]
    file: Option<PathBuf>,
    /// The same, as the other commands name their files
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "file", id = "named")]
    named: Option<PathBuf>,
    /// Virtual seconds for each real second: a number, or max; on a terminal the default takes
    /// about 25 seconds
    #[arg(long, value_name = "N|max", value_parser = parse_speed)]
    pub(crate) speed: Option<Speed>,
    /// Draw chance from this instead of the scenario's seed
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Print only the summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) policies: Policies,
}

impl Simulate {
    /// The file of the scenario.
    pub(crate) fn file(&self) -> &Path {
        self.file.as_deref().or(self.named.as_deref()).unwrap_or_else(|| Path::new("-"))
    }
}

/// What `plan` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = PLAN_HELP)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Check the plan against every rule with code that has no part in planning
    #[arg(long)]
    pub(crate) check: bool,
    /// Write what was decided from into this file, as one Snapshot that --snapshot reads
    #[arg(long, value_name = "FILE")]
    pub(crate) write_snapshot: Option<PathBuf>,
}

/// What `consolidate` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = CONSOLIDATE_HELP)]
pub(crate) struct Consolidate {
    #[command(flatten)]
    pub(crate) source: Source,
    /// When it is decided, for the age of nodes and the hours of budgets, as 2026-11-20T09:00:00Z
    /// or 2026-11-20; by default now for files, and the Snapshot's own time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<Timestamp>,
    /// How patient disruption is: a node that pods are on goes once it has wasted this many times
    /// $0.006 for each of them; with 0 it goes for any saving at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4.0, value_parser = parse_patience)]
    pub(crate) patience: f64,
}

/// What `explain` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = EXPLAIN_HELP)]
pub(crate) struct Explain {
    /// A pod, as namespace/name, or its name where only one pod has it; a planned node, as the name
    /// of its claim or its place in the plan from 1 on; or a node that exists
    #[arg(value_name = "POD|NODE")]
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) source: Source,
    /// The namespace of the pod
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) decided: Decided,
}

/// What `import` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = IMPORT_HELP)]
pub(crate) struct Import {
    /// What kubectl get or kops get wrote, or what was written for kubectl apply, any number of
    /// times; - reads standard input
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The InstanceGroup that NodePools borrow in place of an EC2NodeClass that is not carried
    #[arg(long, value_name = "NAME")]
    pub(crate) instance_group: Option<String>,
}

/// What `crds` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = CRDS_HELP)]
pub(crate) struct Crds {
    /// Write one file for each into this folder instead of printing them
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

/// What `uninstall` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = UNINSTALL_HELP)]
pub(crate) struct Uninstall {
    /// Do it, instead of saying what would be done
    #[arg(long)]
    pub(crate) yes: bool,
    /// Let lifecycle drain and terminate all nodes, and wait for it; without it they are let go and
    /// run on
    #[arg(long)]
    pub(crate) drain: bool,
    /// How long to wait for drains, as 30m or 2h
    #[arg(long, default_value = "1h", requires = "drain", value_parser = parse_wait)]
    pub(crate) wait: std::time::Duration,
    #[command(flatten)]
    pub(crate) kubeconfig: Kubeconfig,
}

/// How fast a simulation goes on a terminal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// As fast as the machine.
    Max,
    /// Virtual seconds for each real second.
    Times(f64),
}

/// A time, or a day's first moment in UTC.
fn parse_time(text: &str) -> Result<Timestamp, String> {
    let day = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|day: Zoned| day.timestamp());
    let time = text.parse::<Timestamp>().ok().or_else(day);
    time.ok_or_else(|| "allowed: a time as 2026-11-20T09:00:00Z, or a day as 2026-11-20".into())
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    match (text, number) {
        ("max", _) => Ok(Speed::Max),
        (_, Some(number)) => Ok(Speed::Times(number)),
        _ => Err("allowed: a number above 0, or max".into()),
    }
}

fn parse_wait(text: &str) -> Result<std::time::Duration, String> {
    let length = text
        .parse::<outrigger_model::NillableDuration>()
        .ok()
        .and_then(outrigger_model::NillableDuration::get);
    length.ok_or_else(|| "allowed: a duration as 30m or 1h30m".into())
}

fn parse_patience(text: &str) -> Result<f64, String> {
    let patience = text.parse::<f64>().ok().filter(|patience| (0.0..=1_000.0).contains(patience));
    patience.ok_or_else(|| "allowed: a number from 0 to 1000".into())
}

const SIMULATE_HELP: &str = "\
Examples:
  outrigger simulate examples/quickstart.yaml
  outrigger simulate examples/quickstart.yaml --speed max --quiet
  outrigger simulate examples/quickstart.yaml --seed 2 -o json

Exit codes:
  0  all pods are as the scenario expects: running, unless their workload says expect: Waiting
  1  some are not, or Outrigger broke one of its own laws
  2  bad usage or input

A scenario is a YAML file; examples/README.md describes every field.";

const PLAN_HELP: &str = "\
Examples:
  outrigger plan --context CLUSTER --kops kops.yaml
  outrigger plan -f examples/cluster.yaml
  outrigger plan -f examples/cluster.yaml --node-cost 0.014 -o json
  outrigger plan -f examples/cluster.yaml --check --preferences ignore
  kubectl get nodes,pods,daemonsets,nodepools -A -o yaml | outrigger plan -f -
  outrigger plan -f examples/cluster.yaml --write-snapshot snapshot.json
  outrigger plan --snapshot snapshot.json

The files may also hold:
  ec2nodeclasses, nodeoverlays  what pools refer to, and other prices and capacities
  persistentvolumeclaims, persistentvolumes, storageclasses, csinodes
                                where the volumes of pods can be attached; pods that mount
                                one need them
  namespaces                    for affinity that selects namespaces by label
  poddisruptionbudgets          for pods whose node is going
  leases                        whether a Karpenter lives, whose pools are left to it
  capacitybuffers, with the podtemplates, deployments, statefulsets or replicasets they name
                                room that is kept free

A Snapshot holds the instance types and prices as well, so that the same file gives the same
plan anywhere. It is for the version of outrigger that wrote it.

Exit codes:
  0  every waiting pod has a place
  1  some have none
  2  bad usage or input; wrong objects are named, and the plan is made without them
  3  the plan breaks a rule (only with --check), which is a fault of Outrigger";

const CONSOLIDATE_HELP: &str = "\
Examples:
  outrigger consolidate --context CLUSTER --kops kops.yaml
  outrigger consolidate -f examples/half-empty.yaml
  outrigger consolidate -f examples/half-empty.yaml --patience 0 -o json
  kubectl get nodes,pods,daemonsets,nodepools,poddisruptionbudgets -A -o yaml | outrigger consolidate -f -

The files may also hold what outrigger plan reads. These annotations of a NodePool count for its nodes:
  outrigger.dev/patience              as --patience
  outrigger.dev/disruption-windows    when its nodes may be disrupted, as 0 22 * * * 8h

Exit codes:
  0  done, whether or not a node can be done without
  2  bad usage or input; an object was refused, and the rest decided without it; what of
     pods, nodes and the like cannot be read whole is only told of
";

const EXPLAIN_HELP: &str = "\
Examples:
  outrigger explain po/render-0 -n default --context CLUSTER
  outrigger explain default/render-0 -f examples/cluster.yaml
  outrigger explain pod/render-0 -f examples/cluster.yaml -o yaml
  outrigger explain 1 -f examples/cluster.yaml
  outrigger explain node/ip-10-0-1-7.ec2.internal --ledger --table TABLE --cluster k8s.example.com

--ledger needs a command that was built with the feature aws.

Exit codes:
  0  the pod has a place, or it is a node
  1  the pod has none
  2  bad usage or input";

const IMPORT_HELP: &str = "\
Examples:
  kubectl get nodepools,ec2nodeclasses -o yaml | outrigger import -f - > pools.yaml
  kubectl get provisioners,awsnodetemplates,deployments -A -o yaml | outrigger import -f -
  kops get --name CLUSTER -o yaml | outrigger import -f - > pools.yaml
  outrigger import -f examples/karpenter.yaml --instance-group nodes
  outrigger import -f examples/karpenter.yaml --instance-group nodes -o json

Exit codes:
  0  everything was carried but what is listed
  2  bad usage or input, or an object had to be left out";

const CRDS_HELP: &str = "\
Examples:
  outrigger crds | kubectl apply --server-side -f -
  outrigger crds --dir crds";

const COMPLETIONS_HELP: &str = "\
Examples:
  outrigger completions bash > /etc/bash_completion.d/outrigger
  outrigger completions zsh > ~/.zfunc/_outrigger
  outrigger completions fish > ~/.config/fish/completions/outrigger.fish";

const UNINSTALL_HELP: &str = "\
Examples:
  outrigger uninstall                  what there is
  outrigger uninstall --drain --yes    with the functions deployed and the NodePools deleted: end all nodes
  outrigger uninstall --yes            with the functions removed: leave the nodes as they are

Exit codes:
  0  nothing of Outrigger's is left, or nothing was to be done yet
  1  something is left
  2  bad usage, or the cluster refused";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_arguments_holds_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn speeds_are_checked() {
        assert_eq!(parse_speed("max"), Ok(Speed::Max));
        assert_eq!(parse_speed("30"), Ok(Speed::Times(30.0)));
        for bad in ["0", "-1", "fast", "NaN", "inf"] {
            assert!(parse_speed(bad).is_err(), "{bad}");
        }
    }
}
