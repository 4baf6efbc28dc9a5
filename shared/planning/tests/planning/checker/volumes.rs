//! Rules about volumes that hold for nodes of every kind: how many a node attaches, and who may use
//! them.

use outrigger_model::{PodState, Target, labels};
use serde_json::json;

use super::existing::on_claim;
use super::setup::{Case, Setup, case, volume};

const A: &str = "us-east-1a";

pub(super) fn cases() -> Vec<Case> {
    [ATTACHMENTS, FOR_ONE_POD].concat()
}

/// The pod `web-0` with so many volumes.
fn mounting(mut setup: Setup, count: usize) -> Setup {
    for name in (0..count).map(|number| format!("data-{number}")) {
        setup.snapshot.volume_claims.push(volume(&name, &[]));
        setup.pod("web-0").volume_claims.push(name);
    }
    setup
}

fn one_more(setup: &mut Setup) {
    setup.snapshot.volume_claims.push(volume("more", &[]));
    setup.pod("web-0").volume_claims.push("more".into());
}

/// What an unknown type attaches.
fn on_new_node() -> Setup {
    mounting(Setup::new().wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"]), 24)
}

fn on_node_of_pool() -> Setup {
    let mut setup = Setup::new().node("i-1", A, &[]).wait("web", 1, json!({}));
    for (key, value) in [(labels::NODE_POOL, "default"), (labels::INITIALIZED, "true")] {
        setup.snapshot.nodes[0].labels.insert(key.into(), value.into());
    }
    mounting(setup.place_on(Target::Node("i-1".into()), &["web-0"]), 24)
}

/// A volume that one pod alone may use, on a node that is going, and the pod's successor.
fn handed_on() -> Setup {
    let mut setup = Setup::new().node("i-1", A, &[("old", json!({}))]).wait("web", 1, json!({})).plan(
        "default-a",
        &[A],
        &["web-0"],
    );
    setup.snapshot.volume_claims = vec![volume("data", &[A])];
    setup.snapshot.volume_claims[0].for_one_pod = true;
    setup.pod("old-0").state = PodState::Leaving;
    for pod in ["old-0", "web-0"] {
        setup.pod(pod).volume_claims = vec!["data".into()];
    }
    setup
}

/// Two pods on one new node, each with a volume of its own for one pod alone.
fn each_with_its_own() -> Setup {
    let mut setup = Setup::new().wait("web", 2, json!({})).plan("default-a", &[A], &["web-0", "web-1"]);
    setup.snapshot.volume_claims = vec![volume("data", &[A]), volume("logs", &[A])];
    setup.snapshot.volume_claims.iter_mut().for_each(|claim| claim.for_one_pod = true);
    setup.pod("web-0").volume_claims = vec!["data".into()];
    setup.pod("web-1").volume_claims = vec!["logs".into()];
    setup
}

const ATTACHMENTS: &[Case] = &[
    case(
        "a new node attaches what its type does",
        on_new_node,
        one_more,
        &["node default-a: 25 volumes of ebs.csi.aws.com attached after the plan; allowed: 24"],
    ),
    case(
        "the least of the types counts that a claim may come up as",
        || {
            let mut setup = mounting(on_claim(), 24);
            let types = std::sync::Arc::make_mut(&mut setup.snapshot.classes[0].instance_types);
            let large = types.iter_mut().find(|kind| kind.name == "m6a.xlarge").unwrap();
            large.ebs_volumes = Some(31);
            setup
        },
        one_more,
        &["node default-a: 25 volumes of ebs.csi.aws.com attached after the plan; allowed: 24"],
    ),
    case(
        "a node of which no CSINode tells attaches what its type does",
        on_node_of_pool,
        one_more,
        &["node i-1: 25 volumes of ebs.csi.aws.com attached after the plan; allowed: 24"],
    ),
    case(
        "what the CSINode tells comes before what the type promises",
        || {
            let mut setup = on_node_of_pool();
            setup.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 30);
            setup
        },
        |setup| {
            setup.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 23);
        },
        &["node i-1: 24 volumes of ebs.csi.aws.com attached after the plan; allowed: 23"],
    ),
];

const FOR_ONE_POD: &[Case] = &[
    case(
        "a pod that runs keeps a volume for one pod",
        handed_on,
        |setup| setup.pod("old-0").state = PodState::Bound,
        &["pod default/web-0: placed on default-a, but its PersistentVolumeClaim data is for one pod, and \
               default/old-0 has it"],
    ),
    case(
        "a pod that ends keeps it until it is gone",
        handed_on,
        |setup| setup.pod("old-0").state = PodState::Terminating,
        &["pod default/web-0: placed on default-a, but its PersistentVolumeClaim data is for one pod, and \
               default/old-0 has it"],
    ),
    case(
        "of two pods one is placed",
        each_with_its_own,
        |setup| setup.pod("web-1").volume_claims = vec!["data".into()],
        &["pod default/web-1: placed on default-a, but its PersistentVolumeClaim data is for one pod, and \
               default/web-0 has it"],
    ),
];
