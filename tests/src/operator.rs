//! An operator who follows the README that `outrigger setup` writes: its commands are run in their
//! order, each by the program itself or by what stands for it. A command that nobody knows is an
//! error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use outrigger_stack::{CLUSTER, Kubernetes, Made, Options, Packages, Stack, StateStore};
use serde_json::Value;

use crate::cli::outrigger_at;

/// Somebody with a stack, a state store, and a folder to work in, where `kubeconfig` lies.
pub struct Operator<'s> {
    stack: &'s mut Stack,
    store: StateStore,
    folder: PathBuf,
    deployed: Option<Made>,
}

impl<'s> Operator<'s> {
    /// Somebody who has done nothing yet.
    pub const fn new(stack: &'s mut Stack, store: StateStore, folder: PathBuf) -> Self {
        Self { stack, store, folder, deployed: None }
    }

    /// Runs the commands of a text. Returns them.
    pub fn follow(&mut self, text: &str) -> Result<Vec<String>> {
        let commands: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned).collect();
        for command in &commands {
            self.run(command).with_context(|| format!("running {command}"))?;
        }
        Ok(commands)
    }

    /// What `CloudFormation` has made, and the cluster as kOps has it.
    pub fn outcome(self) -> Result<(Made, Value)> {
        let cluster = self.store.cluster()?;
        Ok((self.deployed.context("nothing is deployed")?, cluster))
    }

    fn run(&mut self, command: &str) -> Result<()> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["kops", rest @ ..] => self.kops(rest),
            ["kubectl", "--context", CLUSTER, rest @ ..] => self.kubectl(rest),
            // The suite has built them.
            ["cargo", "install", "--path", "cli"] | ["sam", "build"] => Ok(()),
            ["sam", "deploy", "--config-file", file] => self.deploy(&self.file(file)),
            ["aws", "cloudformation", "describe-stacks", .., "--output", "json", ">", file] => {
                let deployed = self.deployed.as_ref().context("nothing is deployed")?;
                Ok(fs::write(self.file(file), deployed.described.to_string())?)
            }
            ["outrigger", arguments @ ..] => self.outrigger(arguments),
            _ => bail!("nobody here can run it"),
        }
    }

    fn kops(&mut self, arguments: &[&str]) -> Result<()> {
        let state = self.store.address();
        match arguments {
            ["create", "-f", file, "--state", to] if *to == state => {
                documents(&self.file(file))?.iter().try_for_each(|object| self.store.create(object))
            }
            ["get", "--name", CLUSTER, "-o", "yaml", ">", file] => {
                Ok(fs::write(self.file(file), self.store.documents()?.join("\n---\n"))?)
            }
            ["update", "cluster", "--name", CLUSTER, "--state", from, "--yes"] if *from == state => {
                self.store.update()
            }
            // Its editor opens, and the operator puts in what authentication.yaml says.
            ["edit", "cluster", "--name", CLUSTER, "--state", from] if *from == state => {
                let mut cluster = self.store.cluster()?;
                let part = document(&self.folder.join(format!("outrigger-{CLUSTER}/authentication.yaml")))?;
                cluster["spec"]["authentication"] = part["spec"]["authentication"].clone();
                self.store.replace(&cluster)
            }
            // There are no machines of a control plane here.
            ["rolling-update", "cluster", "--name", CLUSTER, "--state", from, .., "--yes"]
                if *from == state =>
            {
                Ok(())
            }
            _ => bail!("kOps is not asked so; its state store is {state}"),
        }
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        match arguments {
            ["apply", files @ ..] => {
                for pair in files.chunks(2) {
                    let ["-f", file] = pair else { bail!("kubectl applies files alone here") };
                    self.apply(file)?;
                }
                Ok(())
            }
            ["get", "nodepools"] => {
                let pools = self.kubernetes().list("/apis/karpenter.sh/v1/nodepools")?;
                ensure!(!pools.is_empty(), "there is no NodePool");
                Ok(())
            }
            _ => bail!("kubectl is not asked so"),
        }
    }

    /// A file, or those of a folder in the checkout.
    fn apply(&self, name: &str) -> Result<()> {
        let path = self.file(name);
        if path.is_file() {
            return self.kubernetes().apply_yaml(&fs::read_to_string(&path)?);
        }
        for entry in fs::read_dir(&path).with_context(|| format!("reading {}", path.display()))? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "yaml") {
                self.kubernetes().apply_yaml(&fs::read_to_string(&file)?)?;
            }
        }
        Ok(())
    }

    fn kubernetes(&self) -> &Kubernetes {
        self.stack.kubernetes()
    }

    /// `sam deploy` with the parameters of a samconfig.yaml: the release makes a stack, and the
    /// functions run with what they have there.
    fn deploy(&mut self, file: &Path) -> Result<()> {
        let config = document(file)?;
        let name = config["default"]["global"]["parameters"]["stack_name"].as_str();
        let given = config["default"]["deploy"]["parameters"]["parameter_overrides"].as_array();
        let pair = |given: &Value| -> Result<(String, String)> {
            let text = given.as_str().context("a parameter is no text")?;
            let (name, value) = text.split_once('=').with_context(|| format!("{text} has no value"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        let given: BTreeMap<String, String> =
            given.context("it has no parameters")?.iter().map(pair).collect::<Result<_>>()?;
        let made = Packages::of_release(self.stack)?.deploy(name.context("it has no name")?, &given)?;
        self.stack.run_as_deployed(&made, &given)?;
        self.deployed = Some(made);
        Ok(())
    }

    fn outrigger(&self, arguments: &[&str]) -> Result<()> {
        let said = outrigger_at(&self.folder, arguments)?;
        ensure!(said.code == 0, "it ended with {}: {}", said.code, said.errors);
        Ok(())
    }

    /// A file of the operator's, or else of the checkout.
    fn file(&self, name: &str) -> PathBuf {
        let of_checkout = Options::default().checkout.join(name);
        if of_checkout.exists() { of_checkout } else { self.folder.join(name) }
    }
}

/// The documents of a YAML file.
fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let texts = text.split("\n---").filter(|text| !text.trim().is_empty());
    texts.map(|text| Ok(serde_saphyr::from_str(text)?)).collect()
}

/// The only document of a YAML file.
fn document(file: &Path) -> Result<Value> {
    let [document]: [Value; 1] = documents(file)?
        .try_into()
        .map_err(|documents: Vec<Value>| anyhow!("{} has {} documents", file.display(), documents.len()))?;
    Ok(document)
}
