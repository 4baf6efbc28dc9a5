//! The servers that the stack runs, each built from the pins in `servers/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::cache::{Cache, Tool};

/// The version that the Kubernetes programs report; the module's version in
/// `servers/kubernetes/go.mod`.
const KUBERNETES: (&str, &str, &str) = ("v1.34.4", "1", "34");
const KUBERNETES_PROGRAMS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// KWOK's stages: nodes that are Ready at once and stay so, pods that run at once.
const KWOK_STAGES: [&str; 3] = ["node/fast", "node/heartbeat", "pod/fast"];

/// The pin files of one folder of `servers/`.
macro_rules! pins {
    ($folder:literal, $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../servers/", $folder, "/", $file)))),+]
    };
}

const ETCD: Tool = Tool {
    name: "etcd",
    pins: pins!("etcd", "go.mod", "go.sum", "tools.go"),
    usually: "1 minute",
    build: |folder| go_build(folder, "go.etcd.io/etcd/server/v3", "etcd", ""),
};
const KUBERNETES_SERVERS: Tool = Tool {
    name: "kubernetes",
    pins: pins!("kubernetes", "go.mod", "go.sum", "tools.go"),
    usually: "6 to 12 minutes",
    build: build_kubernetes,
};
const KWOK: Tool = Tool {
    name: "kwok",
    pins: pins!("kwok", "go.mod", "go.sum", "tools.go"),
    usually: "2 to 4 minutes",
    build: build_kwok,
};
const DYNAMODB: Tool = Tool {
    name: "dynamodb",
    pins: pins!("dynamodb", "pom.xml"),
    usually: "30 seconds to 2 minutes",
    build: copy_jars,
};
const MOTO: Tool =
    Tool { name: "moto", pins: pins!("moto", "requirements.txt"), usually: "1 minute", build: pip_install };
const LAMBDA: Tool = Tool {
    name: "lambda",
    pins: pins!("lambda", "requirements.txt"),
    usually: "20 seconds",
    build: pip_install,
};
const SAM: Tool =
    Tool { name: "sam", pins: pins!("sam", "requirements.txt"), usually: "1 minute", build: pip_install };
const KARPENTER: Tool = Tool {
    name: "karpenter",
    pins: &[
        ("go.mod", include_str!("../../../bench/karpenter/go.mod")),
        ("go.sum", include_str!("../../../bench/karpenter/go.sum")),
        ("answer.go", include_str!("../../../bench/karpenter/answer.go")),
        ("catalog.go", include_str!("../../../bench/karpenter/catalog.go")),
        ("decide.go", include_str!("../../../bench/karpenter/decide.go")),
        ("main.go", include_str!("../../../bench/karpenter/main.go")),
        ("plan.go", include_str!("../../../bench/karpenter/plan.go")),
        ("provider.go", include_str!("../../../bench/karpenter/provider.go")),
        ("snapshot.go", include_str!("../../../bench/karpenter/snapshot.go")),
        ("store.go", include_str!("../../../bench/karpenter/store.go")),
    ],
    usually: "2 to 4 minutes",
    build: |folder| go_build(folder, ".", "karpenter", ""),
};

/// Where every program lies.
#[derive(Clone, Debug, Serialize)]
pub struct Tools {
    /// etcd's program.
    pub etcd: PathBuf,
    /// Folder of the programs kube-apiserver, kube-controller-manager and kube-scheduler.
    pub kubernetes: PathBuf,
    /// KWOK's program.
    pub kwok: PathBuf,
    /// KWOK's stage files.
    pub kwok_stages: Vec<PathBuf>,
    /// Folder of `DynamoDB` Local's jars.
    pub dynamodb: PathBuf,
    /// `bin` of the virtual environment with moto and boto3.
    pub moto: PathBuf,
    /// `bin` of the virtual environment with cargo-lambda and zig.
    pub lambda: PathBuf,
}

impl Tools {
    /// Installs what the stack runs on and is not there yet.
    pub fn ensure(cache: &Cache) -> Result<Self> {
        let kwok = cache.ensure(&KWOK)?;
        let mut kwok_stages: Vec<PathBuf> =
            fs::read_dir(kwok.join("stages"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        kwok_stages.sort();
        Ok(Self {
            etcd: cache.ensure(&ETCD)?.join("bin/etcd"),
            kubernetes: cache.ensure(&KUBERNETES_SERVERS)?.join("bin"),
            kwok: kwok.join("bin/kwok"),
            kwok_stages,
            dynamodb: cache.ensure(&DYNAMODB)?.join("lib"),
            moto: cache.ensure(&MOTO)?.join("venv/bin"),
            lambda: cache.ensure(&LAMBDA)?.join("venv/bin"),
        })
    }

    /// Installs SAM CLI and cfn-lint, which build and check the template; returns the folder of
    /// their programs.
    pub fn ensure_sam(cache: &Cache) -> Result<PathBuf> {
        Ok(cache.ensure(&SAM)?.join("venv/bin"))
    }

    /// Builds the program that puts snapshots to Karpenter's own scheduler; returns the program.
    pub fn ensure_karpenter(cache: &Cache) -> Result<PathBuf> {
        Ok(cache.ensure(&KARPENTER)?.join("bin/karpenter"))
    }
}

fn build_kubernetes(folder: &Path) -> Result<()> {
    let (version, major, minor) = KUBERNETES;
    let package = "k8s.io/component-base/version";
    let flags = format!(
        "-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    );
    for (done, program) in KUBERNETES_PROGRAMS.iter().enumerate() {
        eprintln!("stack:   {program} ({} of {})", done + 1, KUBERNETES_PROGRAMS.len());
        go_build(folder, &format!("k8s.io/kubernetes/cmd/{program}"), program, &flags)?;
    }
    Ok(())
}

fn build_kwok(folder: &Path) -> Result<()> {
    go_build(folder, "sigs.k8s.io/kwok/cmd/kwok", "kwok", "")?;
    let mut list = go(folder);
    list.args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]);
    let module = PathBuf::from(run(&mut list)?.trim());
    fs::create_dir(folder.join("stages"))?;
    for stage in KWOK_STAGES {
        for entry in fs::read_dir(module.join("kustomize/stage").join(stage))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|end| end == "yaml") && name != "kustomization.yaml" {
                // Read and written, not copied: the module's files are read-only, and a copy would
                // be too.
                fs::write(folder.join("stages").join(name), fs::read(&path)?)?;
            }
        }
    }
    Ok(())
}

fn go_build(folder: &Path, package: &str, program: &str, link: &str) -> Result<()> {
    let mut build = go(folder);
    build.args(["build", "-mod=readonly", "-trimpath", "-ldflags", &format!("-s -w {link}")]);
    build.arg("-o").arg(folder.join("bin").join(program)).arg(package);
    run(&mut build).map(drop)
}

fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0").env("GOWORK", "off");
    command
}

fn copy_jars(folder: &Path) -> Result<()> {
    let mut maven = Command::new("mvn");
    maven.current_dir(folder).args(["-q", "-B"]);
    maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies");
    maven.arg("-DoutputDirectory=lib");
    run(&mut maven).map(drop)
}

fn pip_install(folder: &Path) -> Result<()> {
    run(Command::new(python()?).args(["-m", "venv", "venv"]).current_dir(folder))?;
    let mut pip = Command::new(folder.join("venv/bin/python"));
    pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"]);
    run(pip.current_dir(folder)).map(drop)
}

/// The first Python that is new enough; the pins need 3.11.
fn python() -> Result<&'static str> {
    let test = "import sys; sys.exit(sys.version_info < (3, 11))";
    for name in ["python3.11", "python3", "python3.12", "python3.13"] {
        let tested = Command::new(name).args(["-c", test]).output();
        if tested.is_ok_and(|output| output.status.success()) {
            return Ok(name);
        }
    }
    bail!("no Python 3.11 or newer on PATH; install it and run again")
}

/// Runs a command to its end and returns what it printed; on failure the error carries the end of
/// its messages.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().with_context(|| format!("starting {program}; is it installed and on PATH?"))?;
    if !output.status.success() {
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = said.lines().collect();
        let end = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("{program} failed ({}):\n{end}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
