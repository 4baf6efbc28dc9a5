//! Whole commands, run as a user runs them: what they print and how they exit.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

/// Runs the command in the folder that the examples are named from.
fn outrigger(arguments: &[&str], input: &str) -> Output {
    support::outrigger(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), arguments, input)
}

/// What a command prints, its exit code first, with the one figure that differs from run to run
/// made equal.
fn transcript(arguments: &[&str], input: &str) -> String {
    let output = outrigger(arguments, input);
    let code = output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string());
    let streams = [("stdout", output.stdout), ("stderr", output.stderr)];
    let mut text = format!("exit code: {code}\n");
    for (name, bytes) in streams {
        let lines = String::from_utf8_lossy(&bytes).lines().map(timeless).collect::<Vec<_>>().join("\n");
        if !lines.is_empty() {
            write!(text, "--- {name}\n{lines}\n").expect("a string takes text");
        }
    }
    text
}

fn timeless(line: &str) -> String {
    for words in ["planned in ", "decided in "] {
        if let Some((head, _)) = line.split_once(words) {
            return format!("{head}{words}[time]");
        }
    }
    line.to_owned()
}

const SMALL: [&str; 4] = ["-f", "cli/tests/data/small.yaml", "--catalog", "cli/tests/data/catalog.json"];

fn with_small(arguments: &[&'static str]) -> Vec<&'static str> {
    arguments.iter().chain(&SMALL).copied().collect()
}

#[test]
fn plan_in_each_format() {
    for format in ["text", "json", "yaml"] {
        insta::assert_snapshot!(
            format!("plan_{format}"),
            transcript(&with_small(&["plan", "-o", format]), "")
        );
    }
}

#[test]
fn consolidate_in_each_format() {
    for format in ["text", "json", "yaml"] {
        let at = ["--at", "2026-11-21T09:00:00Z", "-f", "examples/half-empty.yaml"];
        let arguments = [&["consolidate", "-o", format][..], &at].concat();
        insta::assert_snapshot!(format!("consolidate_{format}"), transcript(&arguments, ""));
    }
}

#[test]
fn explain_says_whether_a_cluster_can_do_without_a_node() {
    let explained = |node: &str| {
        let output = outrigger(&["explain", node, "-f", "examples/half-empty.yaml"], "");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ended = explained("i-00000000000000002");
    assert!(
        ended.contains("The cluster can do without it (Underutilized): it saves $0.3596/h for 3 evictions"),
        "{ended}"
    );
    let kept = explained("i-00000000000000004");
    assert!(kept.contains("It stays: the pod default/batch-14 asks not to be disrupted"), "{kept}");
}

#[test]
fn patience_and_when_it_is_decide_what_is_ended() {
    let ended = |more: &[&str]| {
        let arguments = [&["consolidate", "-o", "json", "-f", "examples/half-empty.yaml"][..], more].concat();
        let output = outrigger(&arguments, "");
        assert_eq!(output.status.code(), Some(0));
        let consolidation: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        consolidation["commands"]
            .as_array()
            .unwrap()
            .iter()
            .map(|command| command["delete"].as_array().unwrap().len())
            .sum::<usize>()
    };
    let later = ["--at", "2026-11-21T09:00:00Z"];
    let young = ["--at", "2026-11-20T09:10:00Z"];
    assert_eq!(ended(&later), 4);
    assert_eq!(ended(&[&later[..], &["--patience", "1000"]].concat()), 1, "only the empty one");
    assert_eq!(ended(&young), 1, "pods of young nodes are not moved");
    assert_eq!(ended(&[&young[..], &["--patience", "0"]].concat()), 5);
    assert_eq!(ended(&[]), 4, "files are of now");
}

#[test]
fn node_cost_replaces_the_root_volume() {
    let output = outrigger(&with_small(&["plan", "-o", "json", "--node-cost", "0.5"]), "");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = plan["nodes"].as_array().unwrap().len();
    assert_eq!(plan["nodeCostPerHour"], serde_json::json!(nodes as f64 * 0.5));
}

#[test]
fn explain_says_where_a_pod_goes_or_why_not_and_what_a_node_is() {
    for pod in ["web-0", "default/huge-0", "default/running-0", "missing", "1", "i-1"] {
        let name = pod.replace('/', "_");
        insta::assert_snapshot!(format!("explain_{name}"), transcript(&with_small(&["explain", pod]), ""));
    }
}

#[test]
fn a_planned_node_is_known_by_its_claim_as_well() {
    let output = outrigger(&with_small(&["plan", "-o", "json"]), "");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let claim = plan["nodes"][0]["claim"].as_str().unwrap();
    let by = |name: &str| outrigger(&[&["explain", name][..], &SMALL].concat(), "").stdout;
    assert_eq!(String::from_utf8_lossy(&by(claim)), String::from_utf8_lossy(&by("1")));
    assert!(String::from_utf8_lossy(&by(claim)).starts_with(claim));
}

#[test]
fn a_namespace_means_no_pod_of_another_one() {
    let code = |namespace: &'static str| {
        let output = outrigger(&with_small(&["explain", "po/web-0", "-n", namespace]), "");
        output.status.code()
    };
    assert_eq!((code("default"), code("kube-system")), (Some(0), Some(2)));
}

#[test]
fn a_checked_plan_says_so() {
    let output = outrigger(&with_small(&["plan", "--check"]), "");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.trim_end().ends_with("checked: 4 pods on 4 nodes hold every rule"), "{text}");
    let output = outrigger(&with_small(&["plan", "--check", "-o", "json"]), "");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("checked: 4 pods on 4 nodes hold every rule"), "{stderr}");
    assert!(
        serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(),
        "one JSON value on standard output"
    );
}

#[test]
fn what_pods_refer_to_is_read_and_what_is_wrong_with_it_is_named() {
    let arguments = ["plan", "-f", "cli/tests/data/related.yaml", "--catalog", "cli/tests/data/catalog.json"];
    let output = outrigger(&arguments, "");
    insta::assert_snapshot!("related", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn pods_with_volumes_ask_for_what_the_files_lack() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [], volumes: [{name: d, \
               persistentVolumeClaim: {claimName: c}}]}\nstatus: {conditions: [{type: PodScheduled, status: 'False', \
               reason: Unschedulable}]}\n";
    let output = outrigger(&["plan", "-f", "-"], pod);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr
            .contains("note: pods mount volumes, of which the files say nothing; add persistentvolumeclaims"),
        "{stderr}"
    );
}

#[test]
fn reservations_that_no_file_can_know_are_said_to_be_left_out() {
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: own}\nspec: {\
                 amiFamily: Custom, amiSelectorTerms: [{id: ami-1}], subnetSelectorTerms: [{id: subnet-1}], \
                 securityGroupSelectorTerms: [{id: sg-1}], instanceProfile: nodes, \
                 capacityReservationSelectorTerms: [{id: cr-1}]}\n";
    let output = outrigger(&["plan", "-f", "-"], class);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("note: EC2NodeClass/own: its capacity reservations are in the account"),
        "{stderr}"
    );
}

#[test]
fn hostile_files_are_refused_without_a_crash() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let nested = format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "deep", "annotations": {}}}}}"#,
        deep("[", "]")
    );
    let pool = format!(
        r#"{{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {{"name": "deep"}}, "spec": {}}}"#,
        deep("[", "]")
    );
    let many_keys =
        format!("{{{}}}", (0..300_000).map(|n| format!("\"k{n}\":0")).collect::<Vec<_>>().join(","));
    let cases = [
        (deep("[", "]"), "because: recursion limit exceeded"),
        (deep("{\"items\":[", "]}"), "because: recursion limit exceeded"),
        (nested, "refused: -: Pod/deep: the object: found"),
        (pool, "refused: -: NodePool/deep: the object: found"),
        (deep("- ", "\n"), "error: -: this is not YAML"),
        (format!("a: {}", deep("[", "]")), "error: -: this is not YAML"),
        ("{\"kind\": \"List\", \"items\": 3}".to_owned(), "refused: -: object 2: kind: found 3"),
        (many_keys, "refused: -: object 1: kind: found nothing"),
        ("\u{0}".to_owned(), "error: -: this is not YAML"),
    ];
    for (input, expected) in cases {
        let output = outrigger(&["plan", "-f", "-"], &input);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
}

#[test]
fn plan_reads_standard_input() {
    let dump =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/small.yaml")).unwrap();
    let from_input = outrigger(&["plan", "-f", "-", "--catalog", "cli/tests/data/catalog.json"], &dump);
    let from_file = outrigger(&with_small(&["plan"]), "");
    let text =
        |output: &Output| String::from_utf8_lossy(&output.stdout).lines().map(timeless).collect::<Vec<_>>();
    assert_eq!(text(&from_input), text(&from_file));
}

#[test]
fn bad_input_says_what_is_allowed() {
    let cases: [(&str, &[&str], &str); 6] = [
        ("bad_missing_file", &["plan", "-f", "no/such/file.yaml"], ""),
        ("bad_not_yaml", &["plan", "-f", "-"], "a: [1"),
        ("bad_region", &["plan", "-f", "-", "--region", "mars-1"], "{}"),
        ("bad_pod", &["plan", "-f", "-"], "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"),
        (
            "bad_catalog",
            &["plan", "-f", "cli/tests/data/small.yaml", "--catalog", "-"],
            "[{\"name\": \"m5.large\"}]",
        ),
        (
            "bad_scenario",
            &["simulate", "-"],
            "kind: Scenario\napiVersion: outrigger.dev/v1alpha1\nmetadata: {name: x}\nspec: {durration: 1m}\n",
        ),
    ];
    for (name, arguments, input) in cases {
        insta::assert_snapshot!(name, transcript(arguments, input));
    }
}

#[test]
fn bad_usage_exits_with_two() {
    for arguments in [
        &["plan"][..],
        &["fly"],
        &["plan", "-f", "x", "--node-cost", "-1"],
        &["simulate", "x", "--speed", "0"],
        &["plan", "-f", "x", "--preferences", "sometimes"],
        &["plan", "-f", "x", "--min-values", "none"],
    ] {
        assert_eq!(outrigger(arguments, "").status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_quickstart_ends_as_it_says() {
    let run = || outrigger(&["simulate", "examples/quickstart.yaml", "-o", "json"], "");
    let output = run();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", summary["unexpected"]);
    assert_eq!(summary["pods"]["running"], 81);
    assert_eq!(
        summary["pods"]["waiting"][0]["pods"],
        serde_json::json!(["default/render-0", "default/render-1"])
    );
    assert_eq!(summary["brokenLaws"], serde_json::json!([]));
    assert_eq!(run().stdout, output.stdout, "two runs print the same bytes");
}

#[test]
fn the_nodes_of_the_drain_example_end_as_it_says() {
    let output = outrigger(&["simulate", "examples/drain.yaml", "-o", "json"], "");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", summary["unexpected"]);
    assert_eq!(summary["brokenLaws"], serde_json::json!([]));
    let timeline = summary["timeline"].to_string();
    for part in ["gone: Deleted", "gone: Lost", "gone: NotRegistered", "by force", "1 orphan terminated"] {
        assert!(timeline.contains(part), "{part} in {timeline}");
    }
}

#[test]
fn the_machines_of_the_interruption_example_are_replaced() {
    let output = outrigger(&["simulate", "examples/interruption.yaml", "-o", "json"], "");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", summary["unexpected"]);
    assert_eq!(summary["brokenLaws"], serde_json::json!([]));
    let timeline = summary["timeline"].to_string();
    for part in ["gone: Interrupted", "gone: Lost", "gone: Rebalanced", "is closed"] {
        assert!(timeline.contains(part), "{part} in {timeline}");
    }
}

#[test]
fn a_simulation_off_a_terminal_is_plain_lines() {
    let output = outrigger(&["simulate", "examples/quickstart.yaml"], "");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("  0:05.0  default/web scaled from 0 to 6\n"), "{text}");
    assert!(text.contains("provision died after"), "{text}");
    assert!(!text.contains('\u{1b}'), "no escape codes off a terminal");
}

#[test]
fn crds_are_printed_or_written() {
    let printed = outrigger(&["crds"], "");
    assert_eq!(String::from_utf8_lossy(&printed.stdout).matches("kind: CustomResourceDefinition").count(), 5);
    let listed = outrigger(&["crds", "-o", "json"], "");
    let list: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    let dir = tempfile::tempdir().unwrap();
    let written = outrigger(&["crds", "--dir", dir.path().to_str().unwrap()], "");
    assert_eq!(written.status.code(), Some(0));
    let pools = std::fs::read_to_string(dir.path().join("nodepools.karpenter.sh.yaml")).unwrap();
    assert!(pools.contains("kind: CustomResourceDefinition"));
}

/// Every example of the help texts that is one command runs as it is written.
#[test]
fn the_examples_of_the_help_texts_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = 0;
    for command in ["simulate", "plan", "consolidate", "explain", "import", "crds"] {
        let help = outrigger(&[command, "--help"], "");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let examples = help.lines().filter_map(|line| line.trim().strip_prefix("outrigger "));
        // What reads a ledger or a cluster needs one; the system tests run it.
        let needs_files_alone =
            |example: &&str| !["|", "--ledger", "--context"].iter().any(|part| example.contains(part));
        for example in examples.filter(needs_files_alone) {
            let [here, snapshot] =
                ["crds", "snapshot.json"].map(|name| dir.path().join(name).display().to_string());
            let named = |word| if word == "snapshot.json" { snapshot.as_str() } else { word };
            let mut arguments: Vec<&str> = example.split_whitespace().map(named).collect();
            if let Some(last) =
                arguments.last_mut().filter(|last| **last == "crds" && example.contains("--dir"))
            {
                *last = &here;
            }
            let code = outrigger(&arguments, "").status.code();
            assert!(matches!(code, Some(0 | 1)), "outrigger {example} exits with {code:?}");
            run += 1;
        }
    }
    assert!(run >= 8, "only {run} examples were found");
}

#[test]
fn help_texts() {
    for command in ["simulate", "plan", "consolidate", "explain", "import", "crds", "setup", "policy"] {
        insta::assert_snapshot!(format!("help_{command}"), transcript(&[command, "--help"], ""));
    }
}

#[cfg(feature = "aws")]
#[test]
fn what_the_commands_of_a_cluster_take() {
    for command in ["adopt", "pause", "resume", "token", "doctor"] {
        insta::assert_snapshot!(format!("help_{command}"), transcript(&[command, "--help"], ""));
    }
    let ledger = ["--table", "t", "--cluster", "c"];
    for (name, arguments) in [
        ("length", &["pause", "--for", "soon"][..]),
        ("reason", &["pause", "--reason", ""]),
        ("show", &["pause", "--show", "--for", "1h"]),
        ("kubeconfig", &["resume", "--kubeconfig", "no/such/file"]),
    ] {
        insta::assert_snapshot!(format!("bad_pause_{name}"), transcript(&[arguments, &ledger].concat(), ""));
    }
    insta::assert_snapshot!("bad_pause_table", transcript(&["pause", "--table", "", "--cluster", "c"], ""));
    for (name, pool) in [("without_pool", "nodes"), ("empty_pool", "nodes=")] {
        let adopt = ["adopt", "--pool", pool];
        insta::assert_snapshot!(format!("bad_adopt_{name}"), transcript(&[&adopt[..], &ledger].concat(), ""));
    }
}

/// What a command prints without the note on how old its prices are, which a Snapshot does not say.
fn without_prices(printed: &str) -> String {
    let lines = printed.lines().filter(|line| !line.contains("prices of us-east-1 are those"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    text.trim_end_matches("--- stderr\n").replace("[\n  ]", "[]")
}

#[test]
fn a_snapshot_that_is_written_and_read_back_gives_the_same_plan() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["first.json", "second.json"].map(|name| folder.path().join(name));
    let [first, second] = paths.each_ref().map(|path| path.to_str().unwrap());
    let of_kubectl: [&[&str]; 3] = [
        &SMALL,
        &["-f", "cli/tests/data/related.yaml", "--catalog", "cli/tests/data/catalog.json"],
        &["-f", "examples/cluster.yaml"],
    ];
    for files in of_kubectl {
        let plan = ["plan", "-o", "json", "--write-snapshot"];
        let decided = without_prices(&transcript(&[&plan[..], &[first], files].concat(), ""));
        assert!(decided.contains("\"placedNew\""), "it is decided: {decided}");
        let again = transcript(&[&plan[..], &[second, "--snapshot", first]].concat(), "");
        assert_eq!(again, decided, "{files:?}");
        let [before, after] = [first, second].map(|file| std::fs::read(file).unwrap());
        assert!(before == after, "what is read is what was written: {files:?}");
    }
}

#[test]
fn a_folder_stands_for_its_files_and_gzip_for_what_it_has_made_smaller() {
    use std::io::Write as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let plan = |file: &str| {
        transcript(&["plan", "-o", "json", "-f", file, "--catalog", "cli/tests/data/catalog.json"], "")
    };
    let empty = plan(path);
    assert!(
        empty.contains("found a folder without such files; allowed: files that end in .gz, .json"),
        "{empty}"
    );

    let written = std::fs::read("../cli/tests/data/small.yaml").unwrap();
    let zipped = folder.path().join("small.yaml.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&written).unwrap();
    let bytes = encoder.finish().unwrap();
    std::fs::write(&zipped, &bytes).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no object").unwrap();
    let expected = plan("cli/tests/data/small.yaml");
    for file in [path, zipped.to_str().unwrap()] {
        // Complaints name the file.
        assert_eq!(plan(file).replace(zipped.to_str().unwrap(), "cli/tests/data/small.yaml"), expected);
    }
    std::fs::write(&zipped, &bytes[..bytes.len() / 2]).unwrap();
    let broken = plan(zipped.to_str().unwrap());
    assert!(broken.starts_with("exit code: 2") && broken.contains("cannot be read"), "{broken}");
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let list = r#"{"kind": "List", "items": []}"#;
    for (name, arguments, input) in [
        ("kubectl", &["plan", "--snapshot", "-"][..], list),
        ("empty", &["explain", "web-0", "--snapshot", "-"], "{}"),
        ("missing", &["plan", "--snapshot", "no/such.json"], ""),
        ("with_files", &["plan", "--snapshot", "-", "-f", "-"], ""),
    ] {
        insta::assert_snapshot!(format!("bad_snapshot_{name}"), transcript(arguments, input));
    }
}
