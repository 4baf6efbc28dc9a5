//! The commands of README and docs are commands: each of `outrigger` is understood, those that need
//! nothing but files run, what they are said to print they print, and the files of the checkout
//! that they name exist.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Programs of others, whose commands nobody runs here, and words of the shell.
const OF_OTHERS: [&str; 10] =
    ["aws", "cargo", "do", "done", "for", "kops", "kubectl", "sam", "sha256sum", "xargs"];
/// Folders of the checkout that commands name.
const FOLDERS: [&str; 2] = ["infra/", "examples/"];
/// Commands that need no server.
const NEED_FILES_ALONE: [&str; 6] = ["consolidate", "explain", "import", "plan", "setup", "simulate"];
/// Commands that decide for the cluster of the kubeconfig where they get no file.
const READ_THE_CLUSTER: [&str; 3] = ["consolidate", "explain", "plan"];
/// Commands of the feature `aws`, and one that changes the cluster.
const OF_CLUSTERS: [&str; 6] = ["adopt", "doctor", "pause", "resume", "token", "uninstall"];
/// What stands for a name of the reader's, and the name in the fixtures.
const NAMES: [(&str, &str); 2] = [("CLUSTER", "one.example.com"), ("default/my-pod", "default/web-0")];

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// README and the documents, by name.
fn documents() -> Vec<(String, String)> {
    let docs = fs::read_dir(checkout().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.push(checkout().join("README.md"));
    paths.sort();
    let read = |path: PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// The commands of a document: indented lines, put together where they go on. What a list says of
/// a NodePool is none.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let line = line.strip_prefix("    ").map(str::trim);
        let Some(line) = line.filter(|line| !line.starts_with("nodeClassRef:")) else {
            goes_on = false;
            continue;
        };
        let (part, more) = line.strip_suffix(['\\', '|']).map_or((line, false), |part| (part, true));
        match commands.last_mut().filter(|_| goes_on) {
            Some(command) => command.push_str(part),
            None => commands.push(part.to_owned()),
        }
        goes_on = more;
    }
    commands
}

/// The single calls of a command line.
fn calls(command: &str) -> Vec<Vec<String>> {
    let parts = command.split(" | ").flat_map(|part| part.split(" && ")).flat_map(|part| part.split("; "));
    parts.map(|part| words(part.split(" > ").next().unwrap_or(part))).collect()
}

/// Words as a shell takes them, quotes in pairs.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in text.trim().chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter == ' ' => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A folder with what commands read: a cluster's objects, kOps' files, and pools.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| fs::copy(checkout().join(from), folder.path().join(to)).unwrap();
    copy("examples/cluster.yaml", "cluster.yaml");
    copy("cli/tests/setup/data/kubeconfig.yaml", "kubeconfig");
    fs::create_dir(folder.path().join("examples")).unwrap();
    copy("examples/quickstart.yaml", "examples/quickstart.yaml");
    copy("cli/tests/setup/data/one-zone.yaml", "kops.yaml");
    copy("cli/tests/import/v1-kops.yaml", "pools.yaml");
    folder
}

/// Variables that a document exports.
type Exports = Vec<(String, String)>;

/// Runs the command where no server answers, with a file on its standard input.
fn outrigger(folder: &Path, exports: &Exports, arguments: &[String], input: &str) -> Output {
    let nowhere = "http://127.0.0.1:9";
    Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(arguments)
        .current_dir(folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .envs([("AWS_ENDPOINT_URL", nowhere), ("AWS_REGION", "us-east-1"), ("AWS_MAX_ATTEMPTS", "1")])
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")])
        .envs(exports.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(fs::File::open(folder.join(input)).unwrap()))
        .output()
        .unwrap()
}

/// The arguments of a call, where it is one of `outrigger`, with the names of the fixtures.
fn arguments(call: &[String]) -> Option<Vec<String>> {
    let from_source = ["cargo", "run", "--release", "-p", "outrigger", "--"];
    let rest = call.strip_prefix(&["outrigger".to_owned()][..]);
    let rest = rest.or_else(|| call.strip_prefix(&from_source.map(str::to_owned)[..]))?;
    let named = |word: &String| NAMES.iter().fold(word.clone(), |word, (from, to)| word.replace(from, to));
    Some(rest.iter().map(named).collect())
}

/// What reads the cluster reads a file in its place: no server answers here.
fn on_files(arguments: &[String]) -> Vec<String> {
    let is_decision = arguments.first().is_some_and(|word| READ_THE_CLUSTER.contains(&word.as_str()));
    if !is_decision || arguments.iter().any(|word| word == "-f" || word == "--snapshot") {
        return arguments.to_vec();
    }
    let words = arguments.iter().map(|word| if word == "--kops" { "-f" } else { word });
    words.chain(["-f", "cluster.yaml"]).map(str::to_owned).collect()
}

/// Whether a call of somebody else's program begins so.
fn is_of_others(program: &str) -> bool {
    let is_name = |name: &str| name.chars().all(char::is_uppercase);
    OF_OTHERS.contains(&program) || program.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Whether a call did its work, or what is wrong with it. Its input comes from this program where
/// it comes from one.
fn try_out(
    folder: &Path,
    exports: &mut Exports,
    call: &[String],
    source: Option<&str>,
) -> Result<bool, String> {
    if let ["export", variables @ ..] = call.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        let pairs = variables.iter().filter_map(|variable| variable.split_once('='));
        exports.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        return Ok(false);
    }
    let lost = call.iter().filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
    if let Some(path) = lost.into_iter().find(|path| !checkout().join(path).exists()) {
        return Err(format!("there is no {path}"));
    }
    let Some(arguments) = arguments(call) else {
        let program = call.first().map(String::as_str).unwrap_or_default();
        return if is_of_others(program) { Ok(false) } else { Err(format!("{program} is no command")) };
    };
    let command = arguments.first().map(String::as_str).unwrap_or_default();
    let reads_ledger = arguments.iter().any(|word| word == "--ledger");
    if (OF_CLUSTERS.contains(&command) || reads_ledger) && !cfg!(feature = "aws") {
        return Ok(false);
    }
    let arguments = if reads_ledger { arguments.clone() } else { on_files(&arguments) };
    let input = if source == Some("kops") { "kops.yaml" } else { "cluster.yaml" };
    let output = outrigger(folder, exports, &arguments, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    let works = NEED_FILES_ALONE.contains(&command) && !reads_ledger;
    if errors.contains("Usage:") || works && !matches!(output.status.code(), Some(0 | 1)) {
        return Err(errors.into_owned());
    }
    Ok(works)
}

#[test]
fn every_command_is_one() {
    let folder = folder();
    let (mut done, mut complaints) = (0, Vec::new());
    for (document, text) in documents() {
        let mut exports = Exports::new();
        for command in commands(&text) {
            let calls = calls(&command);
            let sources = std::iter::once(None).chain(calls.iter().map(|call| call.first()));
            for (call, source) in calls.iter().zip(sources) {
                match try_out(folder.path(), &mut exports, call, source.map(String::as_str)) {
                    Ok(works) => done += usize::from(works),
                    Err(why) => complaints.push(format!("{document}: {command}: {why}")),
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(done >= 12, "{done} commands were run");
}

/// The first block of text in README is what its first command prints, but for what it leaves out.
#[test]
fn what_readme_shows_is_printed() {
    let readme = fs::read_to_string(checkout().join("README.md")).unwrap();
    let (before, rest) = readme.split_once("```text\n").unwrap();
    let command = commands(before).into_iter().next_back().unwrap();
    let arguments = arguments(&words(&command)).unwrap();
    let output = outrigger(folder().path(), &Exports::new(), &arguments, "cluster.yaml");
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lines = printed.lines();
    for shown in rest.split("```").next().unwrap().lines().filter(|line| line.trim() != "...") {
        let parts: Vec<&str> = shown.split("...").collect();
        let is_shown = |line: &str| {
            let (begin, end) = (parts.first().unwrap(), parts.last().unwrap());
            line.starts_with(begin) && line.ends_with(end) && parts.iter().all(|part| line.contains(part))
        };
        assert!(lines.any(is_shown), "{shown:?} is not printed in its turn:\n{printed}");
    }
}
