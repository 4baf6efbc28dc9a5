//! `outrigger setup` without a file: it reads kOps' state store and the account by itself, and
//! writes what it writes from files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use outrigger_stack::{CLUSTER, GROUPS, STATE_BUCKET, Stack};
use outrigger_tests::cli::{Said, outrigger_in};
use outrigger_tests::world::start;

/// Runs it with a kubeconfig whose server AWS could reach.
fn setup(stack: &Stack, folder: &Path, arguments: &[&str]) -> Said {
    let endpoints = &stack.state().endpoints;
    let kubeconfig = fs::read_to_string(&endpoints.admin_kubeconfig).unwrap();
    let (file, server) = (folder.join("kubeconfig"), format!("https://api.{CLUSTER}"));
    fs::write(&file, kubeconfig.replace(&endpoints.kubernetes, &server)).unwrap();
    let everything = [("AWS_ENDPOINT_URL", stack.state().endpoints.aws.as_str())];
    let environment: BTreeMap<String, String> = stack.function_environment("provision", &everything);
    let arguments = [&["setup", "--cluster"], arguments].concat();
    outrigger_in(&environment, &file, &arguments).unwrap()
}

/// What was written, by name. The README says how it was called.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named
        .filter(|(name, _)| name != "README.md")
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn the_state_store_says_what_files_say() {
    let stack = start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = format!("s3://{STATE_BUCKET}");
    let object =
        |path: &str| stack.aws().object(STATE_BUCKET, &format!("{CLUSTER}/{path}")).unwrap().unwrap();
    let groups = GROUPS.iter().map(|group| object(&format!("instancegroup/{}", group.name)));
    let texts: Vec<String> = [object("config")].into_iter().chain(groups).collect();
    let kops = folder.path().join("kops.yaml");
    fs::write(&kops, texts.join("\n---\n")).unwrap();

    let [from_files, from_store] = ["files", "store"].map(|name| folder.path().join(name));
    let kops = kops.display().to_string();
    let [out_of_files, out_of_store] = [&from_files, &from_store].map(|out| out.display().to_string());
    let account = ["--account", "123456789012"];
    let said = setup(
        &stack,
        folder.path(),
        &[&[CLUSTER, "-f", &kops, "--state", &state, "--out", &out_of_files][..], &account].concat(),
    );
    assert_eq!(said.code, 0, "{said:?}");
    let said = setup(&stack, folder.path(), &[CLUSTER, "--state", &state, "--out", &out_of_store]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(files(&from_store), files(&from_files));
    assert!(files(&from_store)["samconfig.yaml"].contains(STATE_BUCKET), "{:?}", files(&from_store));

    let said = setup(&stack, folder.path(), &["other.example.com", "--state", &state]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.errors.contains("no cluster other.example.com"), "{said:?}");
}
