//! What the command says of objects that can hardly be meant, or that it does not read.

use serde_json::{Value, json};

use crate::objects::{daemon_set, node, one_of, pool, spec, waiting};
use crate::{nodes, plan, run, text};

fn general() -> Value {
    pool("general", &json!([one_of("node.kubernetes.io/instance-type", &["m6i.large"])]))
}

fn web() -> Value {
    waiting("web", 0, &spec("1", "1Gi"))
}

/// All notes of a plan.
fn notes(objects: &[Value]) -> String {
    let plan = plan(objects);
    let notes = plan["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.collect::<Vec<_>>().join("\n")
}

#[test]
fn pods_that_no_node_is_planned_for_yet_are_counted() {
    let (mut gated, mut new, mut gone) = (web(), web(), web());
    for (pod, name) in [(&mut gated, "gated"), (&mut new, "new"), (&mut gone, "gone")] {
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["uid"] = json!(name);
    }
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    new["status"]["conditions"] = json!([]);
    gone["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:30:00Z");
    let objects = [general(), web(), gated, new, gone];
    let planned = plan(&objects);
    assert_eq!(planned["pods"], 1);
    assert_eq!(planned["notYet"], json!({"gated": 1, "notJudged": 1, "terminating": 1}));
    let said = text(&["plan", "-f", "-"], &objects);
    assert!(said.contains("1 pod held back by scheduling gates, 1 pod not yet judged"), "{said}");
    let explained = |pod: &str| text(&["explain", pod, "-f", "-"], &objects);
    assert!(explained("gated").contains("once they are gone"), "{}", explained("gated"));
    assert!(explained("gone").contains("being deleted"), "{}", explained("gone"));
    assert!(explained("new").contains("once one marks it Unschedulable"), "{}", explained("new"));
}

#[test]
fn a_class_that_is_refused_launches_nothing() {
    let mut of_class = general();
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "own"});
    of_class["spec"]["template"]["spec"]["nodeClassRef"] = reference;
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own"},
        "spec": {"amiFamily": "NoSuch"}});
    let output = run(&["plan", "-f", "-", "-o", "json"], &[of_class, class, web()]);
    let planned: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!((output.status.code(), nodes(&planned).len()), (Some(2), 0), "{planned}");
    assert!(planned["refused"].to_string().contains("EC2NodeClass/own"), "{planned}");
    assert!(planned["unplaced"][0]["reason"].to_string().contains("refused"), "{planned}");
}

#[test]
fn an_instance_group_that_says_nothing_of_its_image_runs_amd64() {
    let any = pool("general", &json!([one_of("karpenter.sh/capacity-type", &["on-demand"])]));
    let planned = plan(&[any, web()]);
    let types = nodes(&planned)[0]["instanceTypes"].to_string();
    assert!(!types.contains("g."), "{types}");
}

#[test]
fn no_objects_at_all_is_no_answer() {
    for command in ["plan", "consolidate"] {
        let output = run(&[command, "-f", "-"], &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("-: found no Kubernetes objects; allowed: "), "{stderr}");
    }
}

#[test]
fn kinds_that_are_not_read_are_named_where_they_may_be_meant() {
    let metadata = json!({"name": "x", "namespace": "default"});
    let object =
        |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    let said = notes(&[
        general(),
        web(),
        object("karpenter.sh/v1alpha5", "Provisioner"),
        object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
        object("karpenter.sh/v1", "Nodepool"),
        object("v1", "Pods"),
        object("v1", "Service"),
    ]);
    for expected in [
        "1 object of the kind Provisioner.karpenter.sh not read; outrigger import",
        "1 object of the kind AWSNodeTemplate.karpenter.k8s.aws not read; outrigger import",
        "1 object of the kind Nodepool.karpenter.sh not read; did you mean NodePool?",
        "1 object of the kind Pods not read; did you mean Pod?",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!said.contains("Service"), "{said}");
}

#[test]
fn what_can_hardly_be_meant_is_said() {
    let mut limited = general();
    limited["spec"]["limits"] = json!({"cpus": "100", "memory": "1Ti", "nvidia.com/gpu": "8"});
    let mut little = web();
    little["spec"] = spec("1", "512m");
    let mut lost = web();
    lost["metadata"]["name"] = json!("lost");
    lost["metadata"]["uid"] = json!("lost");
    lost["spec"]["nodeName"] = json!("i-nowhere");
    lost["status"] = json!({"phase": "Running"});
    let said = notes(&[limited, little, lost, node("i-1"), daemon_set("huge", "500")]);
    for expected in [
        "NodePool/general: spec.limits.cpus limits nothing, since no node has cpus; nodes have cpu,",
        "default/web-0: 1 pod with less than 1Ki of memory, as 512m;",
        "1 pod on nodes that are not among the objects count nowhere: i-nowhere",
        "DaemonSet/kube-system/huge: no instance type of a NodePool has room for its pods, which ask for",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert!(!said.contains("nvidia.com/gpu limits") && !said.contains("limits.memory"), "{said}");
}

#[test]
fn the_same_object_twice_counts_once_and_another_of_its_name_is_refused() {
    let twice = run(&["plan", "-f", "-", "-o", "json"], &[general(), web(), general(), web()]);
    assert_eq!(twice.status.code(), Some(0), "{}", String::from_utf8_lossy(&twice.stderr));
    let mut other = web();
    other["spec"] = spec("2", "1Gi");
    let differs = run(&["plan", "-f", "-"], &[general(), web(), other]);
    let stderr = String::from_utf8_lossy(&differs.stderr);
    assert_eq!(differs.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("a second time"), "{stderr}");
}

#[test]
fn what_is_printed_for_programs_says_what_it_is_and_holds_every_warning() {
    let mut wrong = general();
    wrong["metadata"]["name"] = json!("wrong");
    wrong["spec"]["template"]["spec"]["requirements"][0]["operator"] = json!("Inside");
    for (command, kind) in [("plan", "Plan"), ("consolidate", "Consolidation")] {
        let output =
            run(&[command, "-f", "-", "-o", "json"], &[general(), wrong.clone(), web(), node("i-1")]);
        let printed: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        assert_eq!((&printed["apiVersion"], &printed["kind"]), (&json!("outrigger.dev/v1"), &json!(kind)));
        assert!(printed["refused"].to_string().contains("Inside"), "{printed}");
        assert_eq!(printed.get("planSeconds"), None, "{printed}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        for note in printed["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(stderr.contains(note), "{stderr}");
        }
    }
    let timed = run(&["plan", "-f", "-", "-o", "json", "--timings"], &[general(), web()]);
    assert!(String::from_utf8_lossy(&timed.stdout).contains("planSeconds"));
}

#[test]
fn names_alone_are_for_other_programs() {
    let objects = [general(), web()];
    let named = text(&["plan", "-f", "-", "-o", "name"], &objects);
    let planned = plan(&objects);
    assert_eq!(named.trim_end(), format!("nodeclaim/{}", nodes(&planned)[0]["claim"].as_str().unwrap_or("")));
    let refused = run(&["explain", "web-0", "-f", "-", "-o", "name"], &objects);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("-o name: found a result without names; allowed: text, wide, json or yaml"));
}

#[test]
fn what_yaml_does_not_allow_is_said_in_one_line() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let together = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\napiVersion: v1\nkind: Pod\n";
    let lists = |line: usize| {
        let inner = vec![format!("*a{}", line.saturating_sub(1)); 9].join(", ");
        if line == 0 {
            "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned()
        } else {
            format!("a{line}: &a{line} [{inner}]\n")
        }
    };
    let bomb: String = (0..9).map(lists).collect();
    for (text, expected) in [(together, "between two objects there is a line ---"), (&bomb, "limit exceeded")]
    {
        let output = crate::support::outrigger(root, &["plan", "-f", "-"], text);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn a_day_is_a_time_and_a_scenario_may_be_named_like_other_files() {
    let on = |at: &str| run(&["consolidate", "-f", "-", "--at", at], &[general(), node("i-1")]);
    assert_eq!(on("2026-11-21").stdout, on("2026-11-21T00:00:00Z").stdout);
    let stderr = String::from_utf8_lossy(&on("yesterday").stderr).into_owned();
    assert!(stderr.contains("allowed: a time as 2026-11-20T09:00:00Z, or a day as 2026-11-20"), "{stderr}");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let simulate = |more: &[&str]| {
        let arguments = [&["simulate", "--speed", "max", "--quiet"][..], more].concat();
        crate::support::outrigger(&root, &arguments, "").stdout
    };
    assert_eq!(simulate(&["-f", "examples/drain.yaml"]), simulate(&["examples/drain.yaml"]));
}
