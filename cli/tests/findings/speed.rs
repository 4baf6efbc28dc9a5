//! How long a decision about few pods takes, however many pools there are and whatever rules they
//! have, and how much memory the command needs for it.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::{all_waiting, one_of, pool, spec, spec_with};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a decision may take here. It takes half a second on a machine that does nothing else; tests
/// run beside each other on machines that may be thrice as slow.
const SECONDS_MAX: f64 = 3.0;
const KIBIBYTES_MAX: u64 = 160 * 1_024;

/// What a decision took, and what came of it.
struct Measured {
    plan: Value,
    /// The most memory that the command had at once; none where the system does not tell.
    kibibytes: Option<u64>,
}

/// Plans from a file, as pods are many, and looks how the memory grows meanwhile.
fn measured(objects: &[Value]) -> Measured {
    let mut file = tempfile::NamedTempFile::new().expect("there is room for a file");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    file.write_all(list.to_string().as_bytes()).expect("the file takes it");
    let mut child = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["plan", "-o", "json", "--timings", "-f"])
        .arg(file.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut output = child.stdout.take().expect("its output is ours");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let kibibytes = peak(&mut child);
    let text = reader.join().expect("reading ends").expect("it prints text");
    Measured { plan: serde_json::from_str(&text).expect("it prints JSON"), kibibytes }
}

/// Waits for the end of a child; the last peak of its memory that was seen until then.
fn peak(child: &mut Child) -> Option<u64> {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait().expect("it can be waited for").is_none() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let seen = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = seen.or(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    peak
}

/// Another process may have had the machine, so the fastest of some runs counts.
#[track_caller]
fn assert_fast(objects: &[Value]) {
    let (mut seconds, mut most) = (f64::INFINITY, 0);
    for _ in 0..3 {
        let Measured { plan, kibibytes } = measured(objects);
        assert!(plan["placedNew"].as_u64() > Some(0), "{}", plan["unplaced"]);
        most = most.max(kibibytes.unwrap_or(0));
        seconds = seconds.min(plan["planSeconds"].as_f64().unwrap_or(f64::INFINITY));
        if seconds <= SECONDS_MAX {
            break;
        }
    }
    let measured = format!("planned in {seconds:.1} s with {} MiB", most / 1_024);
    assert!(seconds <= SECONDS_MAX && most <= KIBIBYTES_MAX, "{measured}");
}

fn spread(app: &str) -> Value {
    json!({"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}}}]})
}

/// Required affinity or anti-affinity to the pods of an app.
fn affinity(kind: &str, key: &str, app: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

// D10
#[test]
fn two_hundred_equal_pools_are_planned_for_in_time() {
    let pools = (0..200).map(|number| pool(&format!("pool-{number:03}"), &json!([])));
    let mut objects: Vec<Value> = pools.collect();
    objects.extend(all_waiting("api", 40, &spec("500m", "1Gi")));
    objects.extend(all_waiting("batch", 40, &spec("1", "2Gi")));
    objects.extend(all_waiting("db", 40, &spec("2", "8Gi")));
    objects.extend(all_waiting("web", 40, &spec_with("250m", "512Mi", &spread("web"))));
    objects.extend(all_waiting("cache", 40, &spec_with("500m", "4Gi", &spread("cache"))));
    assert_fast(&objects);
}

/// Five pools of which each has some of the types that the others have, two of them with limits.
fn overlapping() -> Vec<Value> {
    let family = |names: &[&str]| json!([one_of("karpenter.k8s.aws/instance-family", names)]);
    let weighed = |mut pool: Value, weight: u32, cpus: Option<&str>| {
        pool["spec"]["weight"] = json!(weight);
        if let Some(cpus) = cpus {
            pool["spec"]["limits"] = json!({"cpu": cpus});
        }
        pool
    };
    let spot = json!([one_of("karpenter.sh/capacity-type", &["spot"])]);
    vec![
        weighed(pool("spot", &spot), 50, Some("8")),
        weighed(pool("compute", &family(&["c5", "c6i", "c6a", "c7g"])), 30, Some("16")),
        weighed(pool("arm", &json!([one_of("kubernetes.io/arch", &["arm64"])])), 20, None),
        weighed(pool("general", &json!([])), 10, None),
        weighed(pool("memory", &family(&["r5", "r6i", "r6a"])), 5, None),
    ]
}

/// 34 pods with rules of every kind.
fn mixed() -> Vec<Value> {
    let arm = json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}});
    [
        all_waiting("web", 6, &spec_with("500m", "1Gi", &spread("web"))),
        all_waiting("lone", 5, &spec_with("1", "2Gi", &affinity("podAntiAffinity", HOSTNAME, "lone"))),
        all_waiting("near", 4, &spec_with("500m", "1Gi", &affinity("podAffinity", ZONE, "web"))),
        all_waiting("self", 3, &spec_with("1", "1Gi", &affinity("podAffinity", ZONE, "self"))),
        all_waiting("api", 8, &spec("750m", "1536Mi")),
        all_waiting("arm", 4, &spec_with("2", "4Gi", &arm)),
        all_waiting("mem", 4, &spec("1", "16Gi")),
    ]
    .concat()
}

// D10
#[test]
fn pods_with_rules_are_planned_for_in_time_beside_overlapping_pools() {
    let plain = all_waiting("plain", 4, &spec("250m", "512Mi"));
    assert_fast(&[overlapping(), mixed(), plain].concat());
}

// D10: pods that no zone is left for do not make it take longer.
#[test]
fn pods_without_a_place_are_given_up_in_time() {
    let shy = all_waiting("shy", 4, &spec_with("250m", "512Mi", &affinity("podAntiAffinity", ZONE, "web")));
    assert_fast(&[overlapping(), mixed(), shy].concat());
}
