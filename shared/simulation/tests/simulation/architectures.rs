//! One pool whose nodes are of both architectures: kOps gives a group one image, an annotation
//! names the second.

use std::collections::BTreeSet;

use outrigger_model::labels;
use outrigger_simulation::Expect;

use crate::common::{Pool, Workload, World, minutes, seconds};

fn images(world: World, expect_arm: Expect) -> BTreeSet<String> {
    let workload = |name, architecture| {
        let pods = Workload::new(name, 2, "400m", "1Gi").at(seconds(10));
        pods.select(labels::ARCH, architecture)
    };
    let world = world.sold(&["m6a", "m6g"]).pool(Pool::new("both"));
    let world = world.workload(workload("x86", "amd64"));
    let ending = world.workload(workload("arm", "arm64").expect(expect_arm)).play_as_expected();
    let claims = ending.claims.iter().filter_map(|claim| claim.status.instance.as_ref());
    claims.map(|instance| instance.image_id.clone()).collect()
}

#[test]
fn a_group_has_one_image_and_with_a_second_one_both_architectures() {
    let world = World::new("architectures", minutes(6));
    assert_eq!(images(world.clone(), Expect::Waiting), BTreeSet::from(["ami-amd64".to_owned()]));
    let both = ["ami-amd64", "ami-arm64"].map(str::to_owned);
    assert_eq!(images(world.both_architectures("nodes"), Expect::Running), BTreeSet::from(both));
}
