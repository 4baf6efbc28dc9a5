//! The environment of each function: what it must hold, what is wrong with one, and that the
//! template sets it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger_engine::interruption::RebalancePolicy;
use outrigger_engine::{DEFAULT_SCHEDULER, MinValuesPolicy, PlacePods, Preferences};
use serde_json::Value;

use super::*;

const SHARED: [(&str, &str); 6] = [
    ("OUTRIGGER_CLUSTER", "c.example.com"),
    ("OUTRIGGER_TABLE", "outrigger"),
    ("OUTRIGGER_STATE_STORE", "s3://store"),
    ("OUTRIGGER_CATALOG", "s3://bucket/catalog"),
    ("OUTRIGGER_EVENT_BUS", "default"),
    ("OUTRIGGER_API_SERVER", "https://api.c.example.com"),
];
const OF_DISRUPT: [(&str, &str); 2] =
    [("OUTRIGGER_PREFERENCE_POLICY", "Ignore"), ("OUTRIGGER_MIN_VALUES_POLICY", "BestEffort")];
const OF_PROVISION: [(&str, &str); 7] = [
    ("OUTRIGGER_POLL_WINDOW_SECONDS", "55"),
    ("OUTRIGGER_BATCH_IDLE_DURATION", "3s"),
    ("OUTRIGGER_BATCH_MAX_DURATION", "1m"),
    ("OUTRIGGER_PREFERENCE_POLICY", "Respect"),
    ("OUTRIGGER_MIN_VALUES_POLICY", "Strict"),
    ("OUTRIGGER_HEADROOM", "8"),
    ("OUTRIGGER_MAX_NEW_NODES_PER_MINUTE", "500"),
];
const OF_LIFECYCLE: [(&str, &str); 7] = [
    ("OUTRIGGER_POLL_WINDOW_SECONDS", "0"),
    ("OUTRIGGER_INITIALIZATION_TIMEOUT", "Never"),
    ("OUTRIGGER_NODE_REPAIR", "true"),
    ("OUTRIGGER_PLACE_PODS", "bind"),
    ("OUTRIGGER_SCHEDULERS", "default-scheduler"),
    ("OUTRIGGER_ADOPT", "false"),
    ("OUTRIGGER_SWEEP_ANYWAY", "false"),
];
const OF_INTERRUPT: [(&str, &str); 3] = [
    ("OUTRIGGER_REBALANCE", "drain"),
    ("OUTRIGGER_DEAD_LETTERS", "https://sqs/dead"),
    ("OUTRIGGER_INTERRUPTIONS", "https://sqs/queue"),
];

/// Reads variables; of several of one name the last counts.
fn read<T: FunctionConfig>(pairs: &[(&str, &str)]) -> Result<(Config, T), ConfigError> {
    Config::from(&|name| pairs.iter().rfind(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

fn with<'p>(variables: &[(&'p str, &'p str)]) -> Vec<(&'p str, &'p str)> {
    [&SHARED[..], variables].concat()
}

#[test]
fn a_whole_environment_is_taken() {
    let (config, ()) = read(&SHARED).unwrap();
    assert_eq!(config.api_server.auth, Auth::Iam { cluster_id: "c.example.com".into() });
    let named = with(&[("OUTRIGGER_API_CLUSTER_ID", "c"), ("OUTRIGGER_API_SERVER_NAME", "")]);
    let (config, ()) = read(&named).unwrap();
    assert_eq!(config.api_server.auth, Auth::Iam { cluster_id: "c".into() });
    assert_eq!(config.api_server.server_name, None, "an empty variable is none");

    let (_, config) = read::<PlanningConfig>(&with(&OF_DISRUPT)).unwrap();
    assert_eq!((config.preferences, config.min_values), (Preferences::Ignore, MinValuesPolicy::BestEffort));
    let (_, config) = read::<ProvisionConfig>(&with(&OF_PROVISION)).unwrap();
    assert_eq!((config.poll_window.as_secs(), config.max_new_nodes_per_minute), (55, 500));
    assert_eq!(config.headroom, 8);
    assert_eq!((config.batch_idle.as_secs(), config.batch_max.as_secs()), (3, 60));
    assert_eq!(
        (config.planning.preferences, config.planning.min_values),
        (Preferences::Respect, MinValuesPolicy::Strict)
    );
    let (_, config) = read::<LifecycleConfig>(&with(&OF_LIFECYCLE)).unwrap();
    assert_eq!(
        (config.initialization_timeout, config.node_repair, config.place_pods),
        (None, true, PlacePods::Bind)
    );
    assert_eq!(config.schedulers, BTreeSet::from([DEFAULT_SCHEDULER.to_owned()]));
    let (_, config) = read::<InterruptConfig>(&with(&OF_INTERRUPT)).unwrap();
    assert_eq!((config.rebalance, config.queue.as_str()), (RebalancePolicy::Drain, "https://sqs/queue"));
}

/// The variables that a function reads.
fn reads<T: FunctionConfig>() -> BTreeSet<String> {
    let seen = RefCell::new(BTreeSet::new());
    let note = |name: &str| {
        seen.borrow_mut().insert(name.to_owned());
        None
    };
    assert!(Config::from::<T>(&note).is_err(), "a function without an environment does not run");
    seen.into_inner()
}

#[test]
fn the_template_sets_what_each_function_reads_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("template.yaml")).unwrap();
    let template: Value = serde_saphyr::from_str(&text).unwrap();
    let names = |function: &Value| -> BTreeSet<String> {
        let variables = function.pointer("/Environment/Variables").and_then(Value::as_object);
        variables.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    for (function, read) in [
        ("DisruptFunction", reads::<PlanningConfig>()),
        ("InterruptFunction", reads::<InterruptConfig>()),
        ("LifecycleFunction", reads::<LifecycleConfig>()),
        ("ProvisionFunction", reads::<ProvisionConfig>()),
        ("RefreshFunction", reads::<()>()),
    ] {
        let mut set = names(&template["Globals"]["Function"]);
        set.extend(names(&template["Resources"][function]["Properties"]));
        assert!(set.remove("RUST_LOG"), "which the logs read");
        assert_eq!(set, read, "{function}");
    }
}

#[test]
fn the_template_allows_what_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let template: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(root.join("template.yaml")).unwrap()).unwrap();
    for (parameter, variable) in [
        ("BatchIdleDuration", "OUTRIGGER_BATCH_IDLE_DURATION"),
        ("BatchMaxDuration", "OUTRIGGER_BATCH_MAX_DURATION"),
        ("PreferencePolicy", "OUTRIGGER_PREFERENCE_POLICY"),
        ("MinValuesPolicy", "OUTRIGGER_MIN_VALUES_POLICY"),
    ] {
        let parameter = &template["Parameters"][parameter];
        let allowed = parameter["AllowedValues"].as_array().into_iter().flatten();
        for value in allowed.chain([&parameter["Default"]]) {
            let variables = [&OF_PROVISION[..], &[(variable, value.as_str().unwrap())]].concat();
            assert!(read::<ProvisionConfig>(&with(&variables)).is_ok(), "{variable} is {value}");
        }
    }
}

#[test]
fn a_role_whose_name_kops_has_cut_must_be_named() {
    let long = "this.is.truly.a.really.really.long.cluster-name.minimal.example.com";
    let cut = "nodes.this.is.truly.a.really.really.long.cluster-name.min-h1jir9";
    let mut pairs = with(&OF_PROVISION);
    assert!(read::<ProvisionConfig>(&pairs).is_ok());
    pairs.push(("OUTRIGGER_CLUSTER", long));
    let error = read::<ProvisionConfig>(&pairs).unwrap_err().to_string();
    let named = format!("set the parameter NodeRoleName to the role that kOps has made instead, {cut}");
    assert!(error.contains(&named), "{error}");
    assert!(read::<()>(&pairs).is_ok(), "only provision gives nodes a role");
    pairs.push(("OUTRIGGER_NODE_ROLE", cut));
    assert!(read::<ProvisionConfig>(&pairs).is_ok());
}

/// The CA that a value of `OUTRIGGER_API_CA` comes to.
fn authority(value: &str) -> Result<Option<String>, ConfigError> {
    read::<()>(&with(&[("OUTRIGGER_API_CA", value)])).map(|(config, ())| config.api_server.ca)
}

#[test]
fn a_ca_may_come_in_one_line_as_in_a_kubeconfig() {
    let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let line = STANDARD.encode(pem);
    assert!(!line.contains('\n'));
    for value in [pem, &line, &format!(" {}\n{}", &line[..8], &line[8..])] {
        assert_eq!(authority(value).unwrap().as_deref(), Some(pem), "{value}");
    }
    for value in ["/etc/kubernetes/ca.crt", &STANDARD.encode("no certificate"), "MIIDBTCCAe2gAwIBAgIIcbI="] {
        let error = authority(value).unwrap_err().to_string();
        assert!(error.contains("OUTRIGGER_API_CA begins with") && error.contains("allowed: "), "{error}");
    }
}

#[track_caller]
fn refuses<T: FunctionConfig>(pairs: &[(&str, &str)], complaints: &[&str]) {
    let Err(error) = read::<T>(pairs) else { panic!("{pairs:?} is taken") };
    let error = error.to_string();
    for complaint in complaints {
        assert!(error.contains(complaint), "{complaint} in {error}");
    }
}

#[test]
fn every_complaint_is_named_at_once() {
    let broken = [
        ("OUTRIGGER_CLUSTER", "c"),
        ("OUTRIGGER_CATALOG", "/tmp/catalog"),
        ("OUTRIGGER_API_SERVER", "http://plain"),
        ("OUTRIGGER_POLL_WINDOW_SECONDS", "soon"),
        ("OUTRIGGER_INITIALIZATION_TIMEOUT", "later"),
        ("OUTRIGGER_SWEEP_ANYWAY", "yes"),
        ("OUTRIGGER_NODE_REPAIR", "1"),
        ("OUTRIGGER_REBALANCE", "true"),
        ("OUTRIGGER_PLACE_PODS", "yes"),
        ("OUTRIGGER_SCHEDULERS", " , "),
        ("OUTRIGGER_HEADROOM", "1001"),
        ("OUTRIGGER_MAX_NEW_NODES_PER_MINUTE", "0"),
        ("OUTRIGGER_BATCH_IDLE_DURATION", "Never"),
        ("OUTRIGGER_BATCH_MAX_DURATION", "2m"),
        ("OUTRIGGER_PREFERENCE_POLICY", "ignore"),
        ("OUTRIGGER_MIN_VALUES_POLICY", "Relaxed"),
    ];
    let shared = [
        "OUTRIGGER_TABLE is not set",
        "OUTRIGGER_STATE_STORE is not set",
        "OUTRIGGER_EVENT_BUS is not set",
        "OUTRIGGER_CATALOG is \"/tmp/catalog\"; allowed: s3://bucket/prefix",
        "OUTRIGGER_API_SERVER is \"http://plain\"",
    ];
    let window = "OUTRIGGER_POLL_WINDOW_SECONDS is \"soon\"; allowed: 0 to 840";
    refuses::<()>(&broken, &shared);
    let of_disrupt = [
        "OUTRIGGER_PREFERENCE_POLICY is \"ignore\"; allowed: Respect or Ignore",
        "OUTRIGGER_MIN_VALUES_POLICY is \"Relaxed\"; allowed: Strict or BestEffort",
    ];
    refuses::<PlanningConfig>(&broken, &[&shared[..], &of_disrupt].concat());
    let of_provision = [
        window,
        "OUTRIGGER_BATCH_IDLE_DURATION is \"Never\"; allowed: a duration from 0s to 1m, as 10s",
        "OUTRIGGER_BATCH_MAX_DURATION is \"2m\"; allowed: a duration from 0s to 1m, as 10s",
        "OUTRIGGER_HEADROOM is \"1001\"; allowed: a whole number from 0 to 1000",
        "OUTRIGGER_MAX_NEW_NODES_PER_MINUTE is \"0\"; allowed: a whole number from 1",
    ];
    refuses::<ProvisionConfig>(&broken, &[&shared[..], &of_disrupt, &of_provision].concat());
    let of_lifecycle = [
        window,
        "OUTRIGGER_INITIALIZATION_TIMEOUT is \"later\"; allowed: a duration",
        "OUTRIGGER_NODE_REPAIR is \"1\"; allowed: true or false",
        "OUTRIGGER_PLACE_PODS is \"yes\"; allowed: bind or nominate",
        "OUTRIGGER_SCHEDULERS is \" , \"; allowed: names of schedulers",
        "OUTRIGGER_SWEEP_ANYWAY is \"yes\"; allowed: true or false",
        "OUTRIGGER_ADOPT is not set; allowed: true or false",
    ];
    refuses::<LifecycleConfig>(&broken, &[&shared[..], &of_lifecycle].concat());
    let of_interrupt = [
        "OUTRIGGER_REBALANCE is \"true\"; allowed: event or drain",
        "OUTRIGGER_DEAD_LETTERS is not set; it must be the URL",
        "OUTRIGGER_INTERRUPTIONS is not set; it must be the URL",
    ];
    refuses::<InterruptConfig>(&broken, &[&shared[..], &of_interrupt].concat());
}
