//! What reaches a terminal, whatever objects hold.

use serde_json::{Value, json};

use crate::objects::{one_of, pool, spec, waiting};
use crate::{run, text};

fn general() -> Value {
    pool("general", &json!([one_of("node.kubernetes.io/instance-type", &["m6i.large"])]))
}

#[test]
fn a_name_that_kubernetes_could_not_have_is_refused() {
    let table = ["x".repeat(65_536), "red\u{1b}[31m".into(), "bell\u{7}".into(), "two\nlines".into()];
    for name in table {
        for renamed in ["Pod", "NodePool"] {
            let (mut pool, mut pod) = (general(), waiting("web", 0, &spec("1", "1Gi")));
            let object = if renamed == "Pod" { &mut pod } else { &mut pool };
            object["metadata"]["name"] = json!(name);
            let output = run(&["plan", "-f", "-"], &[pool, pod]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains(&format!("refused: -: {renamed}/")), "{stderr}");
            assert!(stderr.contains("metadata.name: found") && stderr.len() < 2_000, "{stderr}");
            assert!(!stderr.trim_end().contains(['\u{1b}', '\u{7}']), "{stderr:?}");
        }
    }
}

#[test]
fn labels_cannot_act_on_a_terminal_or_begin_a_line() {
    let mut pod = waiting("web", 0, &spec("1", "1Gi"));
    pod["spec"]["nodeSelector"] = json!({"team": "a\u{1b}[2J\u{7}\nexit code 0"});
    let said = text(&["plan", "-f", "-"], &[general(), pod]);
    assert!(said.contains("a\\u{1b}[2J\\u{7}\\nexit code 0"), "{said}");
}

#[test]
fn a_long_value_is_no_reason_to_panic() {
    let mut pool = general();
    pool["spec"]["template"]["metadata"] = json!({"labels": {"team": "x".repeat(70_000)}});
    let output = run(&["plan", "-f", "-"], &[pool, waiting("web", 0, &spec("1", "1Gi"))]);
    assert!(matches!(output.status.code(), Some(0..=2)), "{output:?}");
}
