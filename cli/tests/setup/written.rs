//! The files of each cluster, whole.

use std::fmt::Write as _;

use crate::{ARM64_SPOT, CLUSTERS, Folder, IDENTITY_MAPPINGS, ONE_ZONE, THREE_ZONES, WITHOUT_DNS};

#[test]
fn every_file_of_every_cluster() {
    for fixture in CLUSTERS {
        let folder = Folder::new();
        let answer = folder.setup(fixture, &[]);
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        let mut text = String::new();
        for name in folder.names() {
            write!(text, "=== {name}\n{}", folder.without_path(&folder.text(&name))).expect("it takes text");
        }
        insta::assert_snapshot!(fixture.1, text);
    }
}

#[test]
fn what_is_printed_in_each_format() {
    for format in ["text", "json"] {
        let answer = Folder::new().setup(ONE_ZONE, &["-o", format]);
        insta::assert_snapshot!(format!("printed_{format}"), answer.stdout);
    }
}

#[test]
fn the_token_of_a_service_account_takes_the_place_of_roles() {
    let folder = Folder::new();
    let answer = folder.setup(THREE_ZONES, &["--token-parameter", "/outrigger/three"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(folder.text("samconfig.yaml").contains("ApiTokenParameter=/outrigger/three"));
    assert!(!folder.text("samconfig.yaml").contains("ApiClusterId"));
    assert_eq!(
        folder.names(),
        ["README.md", "instancegroup.yaml", "nodepool.yaml", "samconfig.yaml", "token.yaml"]
    );
    let readme = folder.text("README.md");
    assert!(readme.contains("--name /outrigger/three"), "{readme}");
    assert!(!readme.contains("describe-stacks"), "{readme}");
}

/// A service account that lacks one of the roles can do less than the functions.
#[test]
fn the_service_account_has_every_role_of_rbac_yaml() {
    let folder = Folder::new();
    folder.setup(ONE_ZONE, &[]);
    let token = folder.text("token.yaml");
    let rbac = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/kubernetes/rbac.yaml");
    let rbac = std::fs::read_to_string(rbac).expect("it is there");
    let documents = rbac.split("\n---\n").filter(|document| document.contains("\nkind: ClusterRole\n"));
    let names =
        documents.filter_map(|document| document.lines().find_map(|line| line.strip_prefix("  name: ")));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in &names {
        assert!(
            token.contains(&format!("  name: {name}\n")) || token.contains(&format!("  name: \"{name}\"\n")),
            "{name}"
        );
    }
    assert_eq!(token.matches("kind: ClusterRoleBinding").count(), names.len());
}

#[test]
fn the_current_context_serves_where_none_has_the_clusters_name() {
    let folder = Folder::new();
    let kubeconfig = "\
current-context: work
contexts: [{ name: work, context: { cluster: c } }]
clusters:
- name: c
  cluster: { server: 'https://203.0.113.7:6443', certificate-authority: ca.pem }
";
    folder.write("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let path = folder.write("config", kubeconfig);
    let answer = folder.run(&["--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--kubeconfig", &path]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(answer.stdout.contains("the current one is used, work"), "{}", answer.stdout);
    let parameters = folder.text("samconfig.yaml");
    assert!(parameters.contains("ApiServer=https://203.0.113.7:6443\n"), "{parameters}");
    assert!(parameters.contains("ApiServerCa=LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"), "{parameters}");
    assert!(
        parameters.contains("ApiServerName=api.internal.one.example.com"),
        "an address is in no certificate"
    );
}

#[test]
fn the_kubeconfig_is_that_of_kubectl() {
    let folder = Folder::new();
    let out = folder.out().display().to_string();
    let run = |name: &str, value: &std::path::Path| {
        std::process::Command::new(env!("CARGO_BIN_EXE_outrigger"))
            .args(["setup", "--cluster", ONE_ZONE.1, "-f", ONE_ZONE.0, "--out", &out])
            .current_dir(crate::data())
            .env_remove("KUBECONFIG")
            .env(name, value)
            .output()
            .expect("the command runs")
    };
    let list = std::env::join_paths([&folder.out().join("missing"), &crate::data().join("kubeconfig.yaml")]);
    let list = list.expect("paths without colons");
    assert_eq!(run("KUBECONFIG", std::path::Path::new(&list)).status.code(), Some(0));
    std::fs::create_dir_all(folder.inside.path().join(".kube")).expect("it can be made");
    std::fs::copy(crate::data().join("kubeconfig.yaml"), folder.inside.path().join(".kube/config"))
        .expect("copied");
    assert_eq!(run("HOME", folder.inside.path()).status.code(), Some(0));
}

#[test]
fn another_group_is_the_model_where_it_is_asked_for() {
    let folder = Folder::new();
    let more = ["--like", "gpu", "--group", "gpu-outrigger"];
    let answer = folder.setup(THREE_ZONES, &more);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let group = folder.text("instancegroup.yaml");
    assert!(group.contains("machineType: g5.xlarge") && group.contains("name: gpu-outrigger"), "{group}");
    assert!(!group.contains("nvidia.com/gpu"), "only our own taint: {group}");
    assert!(answer.stdout.contains("not taken of gpu: taints"), "{}", answer.stdout);
    assert!(folder.text("nodepool.yaml").contains("name: gpu-outrigger"));
}

#[test]
fn parameters_follow_the_flags() {
    let folder = Folder::new();
    let more = ["--state", "s3://other/path", "--account", "123456789012"];
    let answer = folder.setup(WITHOUT_DNS, &more);
    assert!(answer.stdout.contains("note --state is s3://other/path"), "{}", answer.stdout);
    let parameters = folder.text("samconfig.yaml");
    assert!(
        parameters.contains("StateStoreBucket=other\n") && parameters.contains("StateStorePrefix=path\n")
    );
    assert!(folder.text("README.md").contains("--state s3://other/path"));
    assert!(
        folder
            .text("authentication.yaml")
            .contains("arn:aws:iam::123456789012:role/REPLACE-WITH-ProvisionRole")
    );
}

/// kOps names one group for each zone; none of them is touched.
#[test]
fn the_written_group_is_new_in_every_cluster() {
    for fixture in [ARM64_SPOT, IDENTITY_MAPPINGS, THREE_ZONES] {
        let folder = Folder::new();
        folder.setup(fixture, &[]);
        let group = folder.text("instancegroup.yaml");
        assert_eq!(group.matches("kind: InstanceGroup").count(), 1);
        assert!(group.contains("name: outrigger\n"), "{group}");
    }
}
