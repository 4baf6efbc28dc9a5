//! What is refused, in what words, with nothing written.

use crate::{ARM64_SPOT, Folder, ONE_ZONE, THREE_ZONES, data};

/// The fixture of one zone with a change.
fn changed(folder: &Folder, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(data().join(ONE_ZONE.0)).expect("it is there");
    assert!(text.contains(from), "{from}");
    folder.write("kops.yaml", &text.replace(from, to))
}

fn kubeconfig(server: &str) -> String {
    format!(
        "current-context: work\ncontexts: [{{ name: work, context: {{ cluster: c }} }}]\n\
         clusters: [{{ name: c, cluster: {server} }}]\n"
    )
}

#[test]
fn what_kops_says_and_setup_cannot_use() {
    for (name, from, to) in [
        ("cloud", "cloudProvider: aws", "cloudProvider: gce"),
        ("store", "configBase: s3://example-state/one.example.com", "configBase: s3://example-state/other"),
        ("no_store", "  configBase: s3://example-state/one.example.com\n", ""),
        ("no_nodes", "role: Node", "role: APIServer"),
        ("no_image", "  machineType: t3.medium\n  maxSize: 2", "  maxSize: 2"),
        ("subnet", "  - us-east-1a\n  rootVolumeSize", "  - us-east-1b\n  rootVolumeSize"),
        ("unknown_field", "  rootVolumeSize: 64", "  rootVolumeShape: round"),
        ("load_balancer", "dns: {}", "loadBalancer: { type: Both }"),
        ("twice", "name: control-plane-us-east-1a", "name: nodes-us-east-1a"),
    ] {
        let folder = Folder::new();
        let file = changed(&folder, from, to);
        let answer = folder.run(&["--cluster", ONE_ZONE.1, "-f", &file, "--kubeconfig", "kubeconfig.yaml"]);
        assert_eq!(answer.code, Some(2), "{name}: {}", answer.stdout);
        assert!(folder.names().is_empty(), "{name}");
        insta::assert_snapshot!(format!("kops_{name}"), answer.stderr);
    }
}

#[test]
fn what_a_kubeconfig_says_and_setup_cannot_use() {
    let ca = "certificate-authority-data: AAAA";
    for (name, text) in [
        ("no_context", "contexts: [{ name: other, context: { cluster: c } }]\n".to_owned()),
        ("empty", "{}\n".to_owned()),
        ("not_yaml", "a: [1\n".to_owned()),
        ("here", kubeconfig(&format!("{{ server: 'https://127.0.0.1:6443', {ca} }}"))),
        ("http", kubeconfig(&format!("{{ server: 'http://api.one.example.com', {ca} }}"))),
        ("no_ca", kubeconfig("{ server: 'https://api.one.example.com' }")),
        ("bad_ca", kubeconfig("{ server: 'https://api.one.example.com', certificate-authority-data: '%' }")),
        ("other_cluster", kubeconfig(&format!("{{ server: 'https://api.two.example.com', {ca} }}"))),
        ("no_cluster", kubeconfig("{}").replace("name: c, ", "name: d, ")),
    ] {
        let folder = Folder::new();
        let path = folder.write("config", &text);
        let answer = folder.run(&["--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--kubeconfig", &path]);
        assert_eq!(answer.code, Some(2), "{name}: {}", answer.stdout);
        assert!(folder.names().is_empty(), "{name}");
        insta::assert_snapshot!(format!("kubeconfig_{name}"), answer.stderr);
    }
}

#[test]
fn arguments_that_do_not_fit_the_cluster() {
    let folder = Folder::new();
    let stack = std::fs::read_to_string(data().join("stack.json")).expect("it is there");
    let lacking = folder.write("lacking.json", &stack.replace("DisruptRole", "OtherRole"));
    let list = folder.write("list.json", r#"{"Stacks": []}"#);
    let backend = std::fs::read_to_string(data().join(ARM64_SPOT.0)).expect("it is there");
    let backend = folder.write("backend.yaml", &backend.replace("MountedFile", "EKSConfigMap"));
    let config = ["--kubeconfig", "kubeconfig.yaml"];
    let iam = ["--cluster", "iam.example.com", "-f", "identity-mappings.yaml"];
    for (name, arguments) in [
        ("cluster", vec!["--cluster", "four.example.com", "-f", ONE_ZONE.0, "-f", THREE_ZONES.0]),
        ("region", vec!["--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--region", "eu-west-1"]),
        ("like", vec!["--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--like", "control-plane-us-east-1a"]),
        ("group", vec!["--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--group", "nodes-us-east-1a"]),
        ("stack_of_other", vec!["--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--stack-outputs", "stack.json"]),
        (
            "stack_account",
            [&iam[..], &["--stack-outputs", "stack.json", "--account", "999999999999"]].concat(),
        ),
        ("stack_lacks", [&iam[..], &["--stack-outputs", &lacking]].concat()),
        ("stack_list", [&iam[..], &["--stack-outputs", &list]].concat()),
        ("stack_yaml", [&iam[..], &["--stack-outputs", "kubeconfig.yaml"]].concat()),
        ("backend", vec!["--cluster", ARM64_SPOT.1, "-f", &backend]),
    ] {
        let answer = folder.run(&[&arguments[..], &config].concat());
        assert_eq!(answer.code, Some(2), "{name}: {}", answer.stdout);
        assert!(folder.names().is_empty(), "{name}");
        insta::assert_snapshot!(format!("argument_{name}"), answer.stderr);
    }
}
