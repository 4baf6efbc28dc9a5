//! A company's services: many small ones, a few large ones, cpu and memory in all proportions, some
//! tied to an architecture or to on-demand capacity, most of them spread over zones.

use serde_json::{Value, json};

use super::builder::{ARCH, Builder, CAPACITY_TYPE, HOST, ZONE, near, requests, spread};

/// GiB of memory for each vCPU.
const SHAPES: [f64; 6] = [2.0, 2.0, 4.0, 4.0, 8.0, 1.0];
const CPU_MILLIS: [u32; 10] = [50, 100, 100, 200, 250, 500, 500, 1_000, 2_000, 4_000];
/// The exponent of the Pareto law that replicas follow.
const PARETO: f64 = 1.1;
const REPLICAS_MAX: usize = 60;

/// Services until there are so many pods, and two daemonsets.
pub(super) fn fleet(builder: &mut Builder<'_>, pods: usize) {
    builder.general_pool();
    builder.daemon_set("cni", &requests(50, 64));
    builder.daemon_set("logs", &requests(100, 200));
    let mut service = 0;
    while builder.pods() < pods {
        service += 1;
        let replicas = replicas(builder).min(pods - builder.pods());
        let labels = json!({"app": format!("service-{service}")});
        let cpu = builder.pick(&CPU_MILLIS);
        let size = requests(cpu, memory(builder, cpu));
        let rest = rest(builder, replicas, &labels);
        for _ in 0..replicas {
            builder.waiting_pod(&labels, &size, rest.clone());
        }
    }
}

fn replicas(builder: &mut Builder<'_>) -> usize {
    if !builder.chance(0.8) {
        return builder.between(10, REPLICAS_MAX);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 1 and the cap"
    )]
    let drawn = (1.0 - builder.fraction()).powf(-1.0 / PARETO).min(REPLICAS_MAX as f64) as usize;
    drawn
}

fn memory(builder: &mut Builder<'_>, cpu_millis: u32) -> u32 {
    let shape = builder.pick(&SHAPES);
    let mebibytes = f64::from(cpu_millis) / 1_000.0 * shape * 1_024.0 * (0.6 + 0.7 * builder.fraction());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below 2^20")]
    let whole = mebibytes as u32;
    whole + 32
}

fn rest(builder: &mut Builder<'_>, replicas: usize, labels: &Value) -> Value {
    let mut rest = json!({});
    if replicas > 2 && builder.chance(0.6) {
        let when = builder.pick(&["DoNotSchedule", "ScheduleAnyway"]);
        rest["topologySpreadConstraints"] = spread(ZONE, when, labels);
    }
    if builder.chance(0.1) {
        rest["nodeSelector"][ARCH] = json!("arm64");
    } else if builder.chance(0.3) {
        rest["nodeSelector"][ARCH] = json!("amd64");
    }
    if builder.chance(0.15) {
        rest["nodeSelector"][CAPACITY_TYPE] = json!("on-demand");
    }
    if (2..20).contains(&replicas) && builder.chance(0.25) {
        let terms = json!([near(HOST, labels)]);
        rest["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
    }
    rest
}
