//! How nodes are handed to kube-scheduler: by a rehearsal it leaves hardly a pod of crowded services without a node, where rules
//! alone leave many, and what that costs is little.

use std::sync::Arc;

use outrigger_bench::scenario::{Recipe, Scenario};
use outrigger_bench::{catalogue, snapshot};
use outrigger_model::Plan;
use outrigger_planning::check::check_with_report;
use outrigger_planning::{Options, handover, provision};

const PODS: usize = 1_000;

fn price(plan: &Plan) -> f64 {
    (plan.price() + plan.node_price()).dollars()
}

#[test]
fn rehearsals_leave_fewer_pods_than_rules() {
    let types = Arc::new(catalogue::embedded().unwrap());
    let (mut by_rules, mut rehearsed, mut wider) = (0, 0, 0);
    for seed in 1..=6 {
        let recipe = Recipe { scenario: Scenario::Fleet, pods: PODS, seed, types: &types, trace: None };
        let list = recipe.list().unwrap().to_string();
        let snapshot = snapshot::parse(&list, &types).unwrap();
        let (plan, report) = provision(&snapshot, &Options::default());
        let rehearse = |options: &Options<'_>| {
            let (mut plan, mut report) = (plan.clone(), report.clone());
            let left = handover::rehearse(&snapshot, &mut plan, &mut report, options);
            (left, plan, report)
        };
        let (before, unchanged, _) = rehearse(&Options { time_is_up: &|| true, ..Options::default() });
        assert_eq!(unchanged.nodes.len(), plan.nodes.len(), "seed {seed}: there was no time for more nodes");
        let (after, opened, told) = rehearse(&Options::default());
        assert_eq!(check_with_report(&snapshot, &opened, &told), [], "seed {seed}");
        assert!(after <= before && after * 200 <= PODS, "seed {seed}: {before} by rules, then {after}");
        let (planned, cost) = (price(&plan), price(&opened));
        assert!(cost <= 1.05 * planned, "seed {seed}: {cost} where {planned} was planned");
        (by_rules, rehearsed) = (by_rules + before, rehearsed + after);
        wider += usize::from(opened.nodes.len() > plan.nodes.len());
        if seed == 3 {
            assert_eq!(
                rehearse(&Options::default()),
                (after, opened, told),
                "the same plan, the same answer"
            );
        }
    }
    assert!(wider > 0, "no plan got further nodes");
    assert!(rehearsed * 20 < by_rules, "{by_rules} by rules, {rehearsed} rehearsed");
}
