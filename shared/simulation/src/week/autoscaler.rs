//! What a HorizontalPodAutoscaler makes of a load, with the defaults of Kubernetes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::scenario::Scale;

/// How often it looks (`--horizontal-pod-autoscaler-sync-period`).
const SYNC: Duration = Duration::from_secs(15);
/// A load that differs by no more than this from what the pods are meant for changes nothing, in
/// thousandths (`--horizontal-pod-autoscaler-tolerance`).
const TOLERANCE: u64 = 100;
/// It goes down to the most that it has wanted for so long
/// (`--horizontal-pod-autoscaler-downscale-stabilization`).
const STABILIZATION: Duration = Duration::from_mins(5);
/// It adds so many pods at once, or as many as there are.
const MOST_ADDED: u64 = 4;

/// The replicas over time. The load is in thousandths of what one pod is meant for, and is asked
/// for every minute. The autoscaler looks for the first time after `phase`.
pub(super) fn scales(length: Duration, phase: Duration, load: impl Fn(u64) -> u64) -> Vec<Scale> {
    let mut replicas = load(0).div_ceil(1_000).max(1);
    let mut scales = vec![scale(Duration::from_secs(2), replicas)];
    let mut wanted_lately: VecDeque<(Duration, u64)> = VecDeque::new();
    let mut at = phase;
    while at < length {
        let load = load(at.as_secs() / 60);
        let is_tolerated = load.abs_diff(replicas * 1_000) <= replicas * TOLERANCE;
        let wanted = if is_tolerated { replicas } else { load.div_ceil(1_000).max(1) };
        wanted_lately.push_back((at, wanted));
        while wanted_lately.front().is_some_and(|(then, _)| *then + STABILIZATION < at) {
            wanted_lately.pop_front();
        }
        let most = wanted_lately.iter().map(|(_, wanted)| *wanted).max().unwrap_or(wanted);
        let next = if wanted > replicas {
            wanted.min((replicas + MOST_ADDED).max(replicas * 2))
        } else {
            most.min(replicas)
        };
        if next != replicas {
            replicas = next;
            scales.push(scale(at, replicas));
        }
        at += SYNC;
    }
    scales
}

fn scale(at: Duration, replicas: u64) -> Scale {
    Scale { at, replicas: u32::try_from(replicas).unwrap_or(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASE: Duration = Duration::from_secs(15);

    /// When it scales to what, in seconds.
    fn replicas(load: impl Fn(u64) -> u64) -> Vec<(u64, u32)> {
        let scales = scales(Duration::from_mins(20), PHASE, load);
        scales.into_iter().map(|scale| (scale.at.as_secs(), scale.replicas)).collect()
    }

    #[test]
    fn it_goes_up_in_steps_and_down_once_nothing_asks_for_more_in_five_minutes() {
        let load = |minute| if (2..5).contains(&minute) { 40_000 } else { 3_000 };
        // The last minute with much to do ends at 300 s; the last look at it was at 285 s.
        assert_eq!(replicas(load), [(2, 3), (120, 7), (135, 14), (150, 28), (165, 40), (600, 3)]);
    }

    #[test]
    fn small_differences_change_nothing() {
        let load = |minute| if minute % 2 == 0 { 9_100 } else { 10_900 };
        assert_eq!(replicas(load), [(2, 10)]);
        let more = |minute| if minute < 3 { 10_000 } else { 11_001 };
        assert_eq!(replicas(more), [(2, 10), (180, 12)]);
    }

    #[test]
    fn one_pod_stays() {
        assert_eq!(replicas(|_| 0), [(2, 1)]);
    }
}
