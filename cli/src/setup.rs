//! `outrigger setup`: the files of a first deployment, from what kOps and the kubeconfig say of a
//! cluster. Nothing is applied.

mod access;
mod cluster;
mod files;
mod group;
mod kubeconfig;
mod network;
mod node_pool;
mod notes;
mod parameters;
mod roles;
#[cfg(feature = "aws")]
mod state_store;
mod steps;

use std::path::PathBuf;

use outrigger_kubernetes::Dump;
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::args;
use crate::error::CliError;
use crate::input::dump;
use crate::output::{CommandOutcome, Document, Format, print, say, yaml};

use access::Mappings;
use cluster::KopsCluster;
use files::{Draft, Existing, Fate, WrittenFile};
use group::OwnGroup;
use network::{Network, Reach};
use parameters::Parameters;
use roles::FunctionRole;
use steps::Step;

/// What was written, and what comes next, as other programs read it.
#[derive(Debug, Serialize)]
struct SetupOutput {
    /// The cluster.
    cluster: String,
    /// The files.
    files: Vec<WrittenFile>,
    /// Texts in files that somebody must replace; steps say how.
    placeholders: Vec<String>,
    /// What of the cluster matters to Outrigger.
    notes: Vec<String>,
    /// What to do, in order.
    steps: Vec<Step>,
}

impl Document for SetupOutput {
    const KIND: &'static str = "Setup";
}

/// The file that says what comes next, and how placeholders are replaced.
const README: &str = "README.md";

/// All that the files follow from.
struct Setting<'c> {
    command: &'c args::Setup,
    folder: PathBuf,
    cluster: &'c KopsCluster,
    group: &'c OwnGroup,
    network: &'c Network,
    parameters: &'c Parameters,
    mappings: Mappings,
    context: &'c str,
}

/// Runs the command, on files or else on kOps' state store.
pub(crate) fn run(command: &args::Setup, format: Format) -> Result<CommandOutcome, CliError> {
    #[cfg(feature = "aws")]
    if command.files.is_empty() {
        let (dump, command) = state_store::fetch(command)?;
        return set_up(&dump, &command, format);
    }
    set_up(&dump(&command.files)?, command, format)
}

fn set_up(dump: &Dump, command: &args::Setup, format: Format) -> Result<CommandOutcome, CliError> {
    let cluster = KopsCluster::read(dump, command)?;
    let group = OwnGroup::new(&cluster, command)?;
    let server = kubeconfig::api_server(command.kubeconfig.as_deref(), &cluster)?;
    check_authority(&cluster, &server)?;
    let mappings = Mappings::of_cluster(&cluster, command)?;
    let network = Network::new(&cluster, &server, command)?;
    let parameters_in =
        |network: &Network| Parameters::new(&cluster, &group, &server, network, mappings, command);
    let parameters = parameters_in(&network);
    let setting = Setting {
        command,
        folder: command.out.clone().unwrap_or_else(|| format!("outrigger-{}", cluster.name).into()),
        cluster: &cluster,
        group: &group,
        network: &network,
        parameters: &parameters,
        mappings,
        context: &server.context,
    };
    let notes = notes::notes(&setting, &server);
    let steps = steps::steps(&setting);
    let before = parameters_in(&network.before()).text(&cluster)?;
    let drafts = drafts(&setting, before, &steps, &notes)?;
    let existing = if command.force { Existing::Overwrite } else { Existing::Keep };
    let files = files::write(&setting.folder, &drafts, existing)?;
    let is_done = files.iter().all(|file| file.fate != Fate::Kept);
    let placeholders = placeholders(&drafts);
    let output = SetupOutput { cluster: command.cluster.clone(), files, placeholders, notes, steps };
    print(&output, format, || text(&output))?;
    Ok(if is_done { CommandOutcome::Done } else { CommandOutcome::Unplaced })
}

impl Setting<'_> {
    /// A file of the folder, as commands name it.
    fn file(&self, name: &str) -> String {
        shell(&self.folder.join(name).display().to_string())
    }

    /// The kubectl that speaks to the cluster.
    fn kubectl(&self) -> String {
        steps::kubectl(self.context, self.command.kubeconfig.as_deref())
    }

    /// This command once more, with what has become known: the arguments that say what the cluster
    /// is, and none that say so only now. So the file of the commands stays the same.
    fn again(&self, more: &str) -> String {
        let args::Setup { cluster, files, group, like, out, token_parameter, .. } = self.command;
        let mut words = vec!["outrigger setup --cluster".to_owned(), shell(cluster)];
        let mut add = |option: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{option} {}", shell(&value))));
        };
        let path = |path: &PathBuf| path.display().to_string();
        for file in files {
            add("-f", Some(path(file)));
        }
        add("--kubeconfig", self.command.kubeconfig.as_ref().map(path));
        add("--account", self.command.account.clone());
        add("--region", self.command.region.clone());
        add("--state", self.command.state.clone());
        add("--group", Some(group.clone()).filter(|group| group != args::OWN_GROUP));
        add("--like", like.clone());
        add("--out", out.as_ref().map(path));
        add("--token-parameter", token_parameter.clone());
        if self.network.reach != Reach::Internet {
            words.push(r#"--subnet-ids "$SUBNETS" --security-group-ids "$SECURITY_GROUP""#.into());
        }
        let reads_input = files.iter().any(|file| file.as_os_str() == "-");
        let kops = format!("kops get --name {cluster} --state {} -o yaml | ", self.cluster.state);
        let before = if reads_input { kops } else { String::new() };
        format!("{before}{}{more}", words.join(" "))
    }
}

/// A word as a shell takes it.
fn shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=,@+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// kOps' CA is the cluster's own. Only a certificate of ACM is one that every machine trusts.
fn check_authority(cluster: &KopsCluster, server: &kubeconfig::ApiServer) -> Result<(), CliError> {
    if server.ca.is_some() || cluster.value("/api/loadBalancer/sslCertificate").is_some() {
        return Ok(());
    }
    Err(CliError::Missing {
        what: format!("the kubeconfig's context {}", server.context),
        actual: "no certificate-authority-data and no certificate-authority".into(),
        allowed: format!(
            "the cluster's CA, unless spec.api.loadBalancer.sslCertificate is set; `kops export kubeconfig --name {}` \
             writes it",
            cluster.name
        ),
    })
}

/// The files in the order in which people look at them.
fn drafts(
    setting: &Setting<'_>,
    before: String,
    steps: &[Step],
    notes: &[String],
) -> Result<Vec<Draft>, CliError> {
    let Setting { command, cluster, group, .. } = setting;
    let draft = |name, purpose, text| Draft { name, purpose, text, before: None };
    let mut drafts = vec![
        draft("instancegroup.yaml", "an InstanceGroup of Outrigger's own", yaml(&group.object)?),
        Draft {
            before: Some(before),
            ..draft("samconfig.yaml", "the stack's parameters", setting.parameters.text(cluster)?)
        },
    ];
    if command.token_parameter.is_none() {
        let placeholders = roles::unknown(cluster, command.account.as_deref());
        let from_stack =
            command.stack_outputs.as_deref().map(|file| roles::of_stack(file, command)).transpose()?;
        let text = |roles: &[FunctionRole]| access::mappings(cluster, setting.mappings, roles);
        let before = Some(text(&placeholders)?).filter(|_| from_stack.is_some());
        drafts.push(Draft {
            before,
            ..draft(
                "authentication.yaml",
                "the functions' roles and their groups",
                text(&from_stack.unwrap_or(placeholders))?,
            )
        });
    }
    if command.token_parameter.is_some() || setting.mappings == Mappings::Off {
        drafts.push(draft("token.yaml", "a service account for all functions", access::service_account()?));
    }
    drafts.push(draft("nodepool.yaml", "a first NodePool", node_pool::text(group)?));
    drafts.push(draft(README, "the commands that come next", steps::readme(setting, steps, notes)));
    Ok(drafts)
}

/// The texts that somebody must replace, each once.
fn placeholders(drafts: &[Draft]) -> Vec<String> {
    let yaml = drafts.iter().filter(|draft| draft.name != README);
    let mut placeholders: Vec<String> = Vec::new();
    for draft in yaml {
        for (at, _) in draft.text.match_indices(roles::PLACEHOLDER) {
            let word = &draft.text[at..];
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(word.len());
            let shown = format!("{}: {}", draft.name, &word[..end]);
            if !placeholders.contains(&shown) {
                placeholders.push(shown);
            }
        }
    }
    placeholders
}

fn text(output: &SetupOutput) {
    for WrittenFile { file, purpose, fate } in &output.files {
        match fate {
            Fate::Written => say!("{} {file}: {purpose}", "written".green()),
            Fate::Unchanged => say!("{} {file}: {purpose}", "unchanged".dimmed()),
            Fate::Kept => {
                say!("{} {file}: it differs; --force overwrites it", "left as it is".yellow().bold());
            }
        }
    }
    for placeholder in &output.placeholders {
        say!("{} {placeholder}", "to be replaced".yellow().bold());
    }
    for note in &output.notes {
        say!("{} {note}", "note".bold());
    }
    for (index, step) in output.steps.iter().enumerate() {
        say!("");
        say!("{}", format!("{}. {}", index + 1, step.title).bold());
        for remark in &step.remarks {
            say!("   {remark}");
        }
        for command in &step.commands {
            say!("     {command}");
        }
    }
}
