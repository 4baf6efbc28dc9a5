//! The tasks of a shared GPU cluster.
//!
//! They follow what is published of Alibaba's production cluster (Weng et al., "Beware of
//! Fragmentation", USENIX ATC 2023, table 1; the trace is `cluster-trace-gpu-v2023` of
//! github.com/alibaba/clusterdata): an eighth of the tasks use no GPU, the others nearly always one
//! or a part of one, a few up to eight. The shapes of cpu and memory are ours. EC2 sells no parts
//! of GPUs and the device plugin counts whole ones, so a part takes one. The trace itself can be
//! read with `--trace openb_pod_list_default.csv`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::builder::{Builder, CAPACITY_TYPE, requests};

/// How many of a thousand tasks use so many GPUs.
const GPUS: [(u32, u32); 5] = [(133, 0), (858, 1), (2, 2), (2, 4), (5, 8)];
/// vCPUs and GiB of tasks with no GPU or one.
const SHAPES: [(u32, u32); 8] = [(3, 5), (4, 15), (6, 12), (8, 30), (12, 16), (12, 24), (16, 32), (18, 63)];
/// vCPUs and GiB for each GPU of larger tasks.
const LARGE_SHAPES: [(u32, u32); 2] = [(8, 32), (11, 40)];

/// What is read of a row of the trace.
#[derive(Deserialize)]
struct Task {
    cpu_milli: u32,
    memory_mib: u32,
    num_gpu: u32,
}

/// Drawn tasks, or the first so many of a trace.
pub(super) fn gpu(builder: &mut Builder<'_>, pods: usize, trace: Option<&Path>) -> Result<()> {
    builder.pool(&json!([
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r", "g", "p"]},
        {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
    ]));
    let tasks = match trace {
        Some(file) => read(file, pods)?,
        None => (0..pods).map(|_| draw(builder)).collect(),
    };
    for task in tasks {
        let mut size = requests(task.cpu_milli, task.memory_mib);
        if task.num_gpu > 0 {
            size["nvidia.com/gpu"] = Value::from(task.num_gpu.to_string());
        }
        builder.waiting_pod(&json!({"app": "task"}), &size, json!({}));
    }
    Ok(())
}

fn draw(builder: &mut Builder<'_>) -> Task {
    let mut drawn = u32::try_from(builder.between(0, 999)).unwrap_or(0);
    let mut gpus = 1;
    for (share, count) in GPUS {
        if drawn < share {
            gpus = count;
            break;
        }
        drawn -= share;
    }
    let (cpus, gibibytes) = if gpus > 1 { builder.pick(&LARGE_SHAPES) } else { builder.pick(&SHAPES) };
    let times = gpus.max(1);
    Task { cpu_milli: cpus * times * 1_000, memory_mib: gibibytes * times * 1_024, num_gpu: gpus }
}

fn read(file: &Path, pods: usize) -> Result<Vec<Task>> {
    let mut rows = csv::Reader::from_path(file).with_context(|| format!("reading {}", file.display()))?;
    let tasks: Vec<Task> = rows.deserialize().take(pods).collect::<Result<_, _>>().with_context(|| {
        format!("{}: columns cpu_milli, memory_mib and num_gpu are needed", file.display())
    })?;
    ensure!(tasks.len() == pods, "{}: {} tasks; {pods} are wanted", file.display(), tasks.len());
    Ok(tasks)
}
