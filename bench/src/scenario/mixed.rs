//! The pods of Karpenter's scheduling benchmark (`scheduling_benchmark_test.go`): plain ones, and
//! its diverse mix.

use serde_json::{Value, json};

use super::builder::{Builder, HOST, ZONE, near, spread};

const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Plain pods only.
pub(super) fn generic(builder: &mut Builder<'_>, pods: usize) {
    builder.general_pool();
    fill(builder, pods);
}

/// A fifth each of five kinds; what is left over is plain.
pub(super) fn diverse(builder: &mut Builder<'_>, pods: usize) {
    builder.general_pool();
    let fifth = pods / 5;
    fill(builder, fifth);
    for key in [ZONE, HOST] {
        for _ in 0..fifth {
            // The selector is drawn apart from the pod's own label: most of these pods count
            // others, not themselves.
            let counted = letter(builder);
            let rest = json!({"topologySpreadConstraints": spread(key, "DoNotSchedule", &counted)});
            plain(builder, rest);
        }
    }
    for _ in 0..fifth {
        let labels = json!({"zonal": builder.pick(&LETTERS)});
        let terms = json!([near(ZONE, &labels)]);
        let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let size = builder.size();
        builder.waiting_pod(&labels, &size, json!({"affinity": affinity}));
    }
    for _ in 0..fifth {
        let labels = json!({"app": "nginx"});
        let terms = json!([near(HOST, &labels)]);
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let size = builder.size();
        builder.waiting_pod(&labels, &size, json!({"affinity": affinity}));
    }
    fill(builder, pods);
}

/// Plain pods until there are so many pods.
fn fill(builder: &mut Builder<'_>, pods: usize) {
    while builder.pods() < pods {
        plain(builder, json!({}));
    }
}

fn plain(builder: &mut Builder<'_>, rest: Value) {
    let (labels, size) = (letter(builder), builder.size());
    builder.waiting_pod(&labels, &size, rest);
}

fn letter(builder: &mut Builder<'_>) -> Value {
    json!({"my-label": builder.pick(&LETTERS)})
}
