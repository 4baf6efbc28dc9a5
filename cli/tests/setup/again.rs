//! Running setup once more: what somebody has changed stays, and what has become known is added.

use crate::{Folder, IDENTITY_MAPPINGS, ONE_ZONE, THREE_ZONES};

#[test]
fn a_second_run_changes_nothing() {
    let folder = Folder::new();
    folder.setup(ONE_ZONE, &[]);
    let before: Vec<String> = folder.names().iter().map(|name| folder.text(name)).collect();
    let answer = folder.setup(ONE_ZONE, &[]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert_eq!(answer.stdout.matches("unchanged ").count(), before.len());
    let after: Vec<String> = folder.names().iter().map(|name| folder.text(name)).collect();
    assert_eq!(after, before);
}

#[test]
fn a_file_that_somebody_changed_is_left_and_named() {
    let folder = Folder::new();
    folder.setup(ONE_ZONE, &[]);
    let pool = folder.text("nodepool.yaml");
    std::fs::write(folder.out().join("nodepool.yaml"), "mine\n").expect("it can be written");
    let answer = folder.setup(ONE_ZONE, &[]);
    assert_eq!(answer.code, Some(1));
    let line = "left as it is [folder]/out/nodepool.yaml: it differs; --force overwrites it";
    assert!(answer.stdout.contains(line), "{}", answer.stdout);
    assert_eq!(folder.text("nodepool.yaml"), "mine\n");
    assert_eq!(folder.setup(ONE_ZONE, &["--force"]).code, Some(0));
    assert_eq!(folder.text("nodepool.yaml"), pool);
}

#[test]
fn the_stacks_outputs_take_the_place_of_the_placeholders() {
    let folder = Folder::new();
    let first = folder.setup(IDENTITY_MAPPINGS, &[]);
    let placeholder = "to be replaced authentication.yaml: REPLACE-WITH-ProvisionRole";
    assert!(first.stdout.contains(placeholder), "{}", first.stdout);
    let second = folder.setup(IDENTITY_MAPPINGS, &["--stack-outputs", "stack.json"]);
    assert_eq!(second.code, Some(0), "no other file changes: {}", second.stdout);
    assert!(!second.stdout.contains("to be replaced"), "{}", second.stdout);
    insta::assert_snapshot!("mapped_roles", folder.text("authentication.yaml"));
}

#[test]
fn what_somebody_wrote_into_the_mappings_stays() {
    let folder = Folder::new();
    folder.setup(IDENTITY_MAPPINGS, &[]);
    let changed = folder.text("authentication.yaml") + "# mine\n";
    std::fs::write(folder.out().join("authentication.yaml"), &changed).expect("it can be written");
    let answer = folder.setup(IDENTITY_MAPPINGS, &["--stack-outputs", "stack.json"]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(folder.text("authentication.yaml"), changed);
}

#[test]
fn subnets_and_security_groups_take_the_place_of_the_placeholders() {
    let folder = Folder::new();
    folder.setup(THREE_ZONES, &[]);
    assert!(folder.text("samconfig.yaml").contains("SubnetIds=REPLACE-WITH-SUBNET-IDS"));
    let more = ["--subnet-ids", "subnet-0a,subnet-0b", "--security-group-ids", "sg-0a"];
    let answer = folder.setup(THREE_ZONES, &more);
    assert_eq!(answer.code, Some(0), "{}", answer.stdout);
    let parameters = folder.text("samconfig.yaml");
    assert!(parameters.contains("SubnetIds=subnet-0a,subnet-0b\n"), "{parameters}");
    assert!(parameters.contains("SecurityGroupIds=sg-0a\n"), "{parameters}");
}

/// After `kops create -f`, kOps prints the group with the others.
#[test]
fn a_group_that_kops_has_already_is_no_obstacle() {
    let folder = Folder::new();
    folder.setup(ONE_ZONE, &[]);
    let group = folder.out().join("instancegroup.yaml").display().to_string();
    let answer = folder.setup(ONE_ZONE, &["-f", &group, "--force"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(answer.stdout.contains("kOps has it already"), "{}", answer.stdout);
    assert!(!answer.stdout.contains("kops create"), "{}", answer.stdout);
    let changed = folder.text("instancegroup.yaml").replace("maxSize: 0", "maxSize: 3");
    let changed = folder.write("changed.yaml", &changed);
    let refused = folder.setup(ONE_ZONE, &["-f", &changed]);
    assert_eq!(refused.code, Some(2));
    insta::assert_snapshot!("group_of_another", refused.stderr);
}
