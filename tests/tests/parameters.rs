//! The template's parameters reach the functions: their environment, their memory and their
//! processors.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

fn template() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = std::fs::read_to_string(root.join("template.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// A parameter that is referred to is read as its name.
#[test]
fn karpenters_policies_reach_the_functions_that_plan() {
    let template = template();
    let environment =
        |function: &str| &template["Resources"][function]["Properties"]["Environment"]["Variables"];
    let provision = environment("ProvisionFunction");
    assert_eq!(provision["OUTRIGGER_BATCH_IDLE_DURATION"], "BatchIdleDuration");
    assert_eq!(provision["OUTRIGGER_BATCH_MAX_DURATION"], "BatchMaxDuration");
    for planner in [provision, environment("DisruptFunction")] {
        assert_eq!(planner["OUTRIGGER_PREFERENCE_POLICY"], "PreferencePolicy");
        assert_eq!(planner["OUTRIGGER_MIN_VALUES_POLICY"], "MinValuesPolicy");
    }
}

#[test]
fn memory_and_processors_are_parameters() {
    let template = template();
    let function = &template["Globals"]["Function"];
    assert_eq!(function["MemorySize"], "MemorySize");
    assert_eq!(function["Architectures"], json!(["Architecture"]));
    assert_eq!(template["Resources"]["RefreshFunction"]["Properties"]["MemorySize"], "RefreshMemorySize");
    let parameter = |name: &str, field: &str| template["Parameters"][name][field].clone();
    assert_eq!(parameter("Architecture", "AllowedValues"), json!(["x86_64", "arm64"]));
    for name in ["MemorySize", "RefreshMemorySize"] {
        let allowed = parameter(name, "AllowedValues");
        assert!(allowed.as_array().unwrap().contains(&parameter(name, "Default")), "{name}: {allowed}");
    }
}

/// An account has one such role, and to make it a second time fails.
#[test]
fn the_role_for_spot_is_made_only_where_it_is_asked_for_and_outlives_the_stack() {
    let template = template();
    let role = &template["Resources"]["SpotRole"];
    assert_eq!(role["Properties"]["AWSServiceName"], "spot.amazonaws.com");
    assert_eq!(
        (&role["Condition"], &role["DeletionPolicy"]),
        (&json!("CreatesSpotRole"), &json!("RetainExceptOnCreate"))
    );
    assert_eq!(template["Parameters"]["CreateSpotRole"]["Default"], "false");
    assert_eq!(template["Conditions"]["CreatesSpotRole"], json!(["CreateSpotRole", "true"]));
}

/// A stack that fails to be made takes its table and bucket with it, one that is deleted leaves
/// them.
#[test]
fn what_holds_state_outlives_the_stack_but_not_a_failed_deployment() {
    let template = template();
    let kept = template["Resources"].as_object().unwrap().values();
    let kept = kept.filter(|resource| !resource["DeletionPolicy"].is_null());
    let kept: Vec<_> = kept.map(|resource| (&resource["Type"], &resource["DeletionPolicy"])).collect();
    let types = ["AWS::DynamoDB::Table", "AWS::IAM::ServiceLinkedRole", "AWS::S3::Bucket"];
    for name in types {
        assert!(kept.iter().any(|(kind, _)| *kind == name), "{name}: {kept:?}");
    }
    assert!(kept.iter().all(|(_, policy)| *policy == "RetainExceptOnCreate"), "{kept:?}");
}

/// A new account may run ten functions at once, and AWS leaves a hundred to others before any can
/// be reserved.
#[test]
fn no_concurrency_is_reserved_unless_it_is_asked_for() {
    let template = template();
    let functions = template["Resources"].as_object().unwrap().values();
    let functions = functions.filter(|resource| resource["Type"] == "AWS::Serverless::Function");
    let mut reserved = 0;
    for function in functions {
        let limit = &function["Properties"]["ReservedConcurrentExecutions"];
        assert_eq!((&limit[0], &limit[2]), (&json!("Reserves"), &json!("AWS::NoValue")), "{function}");
        reserved += limit[1].as_u64().unwrap();
    }
    let parameter = &template["Parameters"]["ReserveConcurrency"];
    assert_eq!(parameter["Default"], "false");
    assert_eq!(template["Conditions"]["Reserves"], json!(["ReserveConcurrency", "true"]));
    let description = parameter["Description"].as_str().unwrap();
    assert!(description.starts_with(&format!("Keep {reserved} of ")), "{reserved}: {description}");
}

/// The names of all metrics that functions send.
fn metrics_sent() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let code = std::fs::read_to_string(root.join("shared/runtime/src/metrics.rs")).unwrap();
    let names = code.lines().filter_map(|line| line.split_once("= Metric(\"")?.1.strip_suffix("\");"));
    names.map(str::to_owned).collect()
}

fn resources_of<'t>(template: &'t Value, kind: &str) -> Vec<(&'t String, &'t Value)> {
    let resources = template["Resources"].as_object().unwrap().iter();
    resources.filter(|(_, resource)| resource["Type"] == kind).collect()
}

/// Three alarms are always there, the others where a topic hears them, and none waits for a metric
/// that nobody sends.
#[test]
fn alarms_watch_what_is_sent_and_tell_the_topic() {
    let template = template();
    let sent = metrics_sent();
    assert!(sent.contains("BreakerOpen"), "{sent:?}");
    let mut without_topic = 0;
    let alarms = resources_of(&template, "AWS::CloudWatch::Alarm");
    for (name, alarm) in &alarms {
        let properties = &alarm["Properties"];
        if properties["Namespace"] == "Outrigger" {
            assert!(sent.contains(properties["MetricName"].as_str().unwrap()), "{name}: {properties}");
        }
        let expected = if alarm["Condition"] == "HasAlarmTopic" {
            json!(["AlarmTopic"])
        } else {
            without_topic += 1;
            json!(["HasAlarmTopic", ["AlarmTopic"], "AWS::NoValue"])
        };
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(properties[actions], expected, "{name}: {actions}");
        }
        // What is missing is bad news only where it is an invocation.
        let counts_runs = properties["ComparisonOperator"] == "LessThanThreshold";
        let missing = if counts_runs { "breaching" } else { "notBreaching" };
        assert_eq!(properties["TreatMissingData"], missing, "{name}");
    }
    assert_eq!((alarms.len(), without_topic), (11, 3));
    let description = template["Parameters"]["AlarmTopic"]["Description"].as_str().unwrap();
    assert!(description.ends_with("makes eight more alarms."), "{description}");
}

#[test]
fn the_dashboard_shows_what_is_sent() {
    let template = template();
    let [(_, dashboard)] = resources_of(&template, "AWS::CloudWatch::Dashboard")[..] else { panic!() };
    assert_eq!(dashboard["Condition"], "HasDashboard");
    let body: Value =
        serde_json::from_str(dashboard["Properties"]["DashboardBody"].as_str().unwrap()).unwrap();
    let sent = metrics_sent();
    let mut shown = BTreeSet::new();
    for widget in body["widgets"].as_array().unwrap() {
        let metrics = widget["properties"]["metrics"].as_array().unwrap();
        let of_ours = metrics.iter().filter(|_| metrics[0][0] == "Outrigger");
        shown.extend(of_ours.map(|metric| metric[1].as_str().unwrap().to_owned()));
    }
    assert!(shown.is_subset(&sent) && shown.len() > 6, "{shown:?} of {sent:?}");
}

/// docs/parameters.md as template.yaml has it.
fn reference(template: &Value) -> String {
    let mut text = "# Parameters of the stack\n\n\
        template.yaml says all of this, and a test compares the two. `outrigger setup` writes those that a\n\
        cluster needs into `samconfig.yaml`; the others may be added there.\n"
        .to_owned();
    let groups = &template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"];
    for group in groups.as_array().unwrap() {
        let _ = writeln!(text, "\n## {}\n", group["Label"]["default"].as_str().unwrap());
        text.push_str("| parameter | default | allowed | what it is |\n|---|---|---|---|\n");
        for name in group["Parameters"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let parameter = &template["Parameters"][name];
            let default = match &parameter["Default"] {
                Value::Null => "must be given".to_owned(),
                Value::String(empty) if empty.is_empty() => String::new(),
                Value::String(text) => format!("`{text}`"),
                other => format!("`{other}`"),
            };
            let description = parameter["Description"].as_str().unwrap();
            let _ = writeln!(text, "| `{name}` | {default} | {} | {description} |", allowed(parameter));
        }
    }
    text
}

fn allowed(parameter: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = parameter["AllowedValues"].as_array() {
        return values.iter().map(|value| format!("`{}`", plain(value))).collect::<Vec<_>>().join(", ");
    }
    match (parameter["MinValue"].as_u64(), parameter["MaxValue"].as_u64()) {
        (Some(least), Some(most)) => return format!("{least} to {most}"),
        (Some(least), None) => return format!("{least} or more"),
        (None, _) => {}
    }
    if let Some(words) = parameter["ConstraintDescription"].as_str() {
        return words.to_owned();
    }
    match parameter["Type"].as_str().unwrap() {
        "CommaDelimitedList" => "texts, separated by commas".to_owned(),
        "Number" => "a number".to_owned(),
        _ => "a text".to_owned(),
    }
}

/// `OUTRIGGER_WRITE_DOCS=1` writes the file instead.
#[test]
fn each_parameter_is_in_the_reference() {
    let template = template();
    let groups =
        template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"].as_array().unwrap();
    let grouped = groups.iter().flat_map(|group| group["Parameters"].as_array().unwrap());
    let grouped: BTreeSet<&str> = grouped.map(|name| name.as_str().unwrap()).collect();
    let all: BTreeSet<&str> =
        template["Parameters"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(grouped, all, "each parameter stands in a group");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/parameters.md");
    let reference = reference(&template);
    if std::env::var_os("OUTRIGGER_WRITE_DOCS").is_some() {
        std::fs::write(&path, &reference).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == reference, "docs/parameters.md is old: OUTRIGGER_WRITE_DOCS=1 writes it anew");
}
