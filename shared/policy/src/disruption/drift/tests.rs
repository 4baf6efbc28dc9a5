//! Each reason with a node that it drifts, and what is no drift.

use std::sync::Arc;

use outrigger_model::{Image, LaunchTemplate, NillableDuration, Operator, Requirement, RequirementSpec};

use super::*;
use crate::disruption::fixtures::{World, minutes_ago};
use crate::disruption::managed_nodes::managed_nodes;

type Change = fn(&mut World);

/// The codes of why the only node of a world has drifted.
fn drift(world: &World) -> Vec<&'static str> {
    let managed = managed_nodes(&world.snapshot);
    reasons(&managed[0], world.snapshot.taken_at).iter().map(DriftReason::as_str).collect()
}

/// A world whose class can be launched and whose node was planned in it.
fn planned() -> World {
    let mut world = World::new();
    let class = &mut world.snapshot.classes[0].class;
    class.launch = LaunchTemplate::Borrowed { name: "nodes.c".into(), version: "1".into() };
    class.images = vec![Image { id: "ami-1".into(), arch: "amd64".into() }];
    let class_hash = class.template_hash().unwrap();
    let pool_hash = world.pool().template_hash();
    world.annotate(labels::NODE_POOL_HASH, &pool_hash);
    world.annotate(labels::NODE_CLASS_HASH, &class_hash);
    world
}

fn require(world: &mut World, key: &str, operator: Operator, value: &str) {
    let values = if value.is_empty() { Vec::new() } else { vec![value.to_owned()] };
    let wanted = RequirementSpec { key: key.into(), operator, values, min_values: None };
    world.pool().spec.template.spec.requirements.push(wanted);
}

fn check(table: &[(&str, Change, &[&str])]) {
    for (what, change, expected) in table {
        let mut world = planned();
        change(&mut world);
        assert_eq!(drift(&world), *expected, "{what}");
    }
}

fn new_pool(world: &mut World) {
    world.pool().spec.template.spec.expire_after = NillableDuration::seconds(1);
}

fn new_version(world: &mut World) {
    world.snapshot.classes[0].class.launch =
        LaunchTemplate::Borrowed { name: "nodes.c".into(), version: "2".into() };
}

fn new_image(world: &mut World) {
    world.snapshot.classes[0].class.images[0].id = "ami-2".into();
}

#[test]
fn hashes_tell_pools_and_classes_that_have_changed() {
    check(&[
        ("nothing", |_| {}, &[]),
        ("pool", new_pool, &["NodePoolDrifted"]),
        ("class", new_version, &["NodeClassDrift"]),
        ("both", |world| (new_pool(world), new_version(world)).1, &["NodePoolDrifted", "NodeClassDrift"]),
        ("pool, not known then", |world| (new_pool(world), world.unhash()).1, &[]),
        ("pool, of another version", |world| world.annotate(labels::NODE_POOL_HASH, "v0-1"), &[]),
        ("class, of another version", |world| world.annotate(labels::NODE_CLASS_HASH, "v0-1"), &[]),
        ("no version", |world| world.annotate(labels::NODE_POOL_HASH, "1"), &[]),
        (
            "the node alone knows",
            |world| (new_pool(world), world.hash_on_node_alone()).1,
            &["NodePoolDrifted"],
        ),
        (
            "class that only plans now",
            |world| world.snapshot.classes[0].class.launch = LaunchTemplate::None,
            &[],
        ),
    ]);
}

#[test]
fn labels_are_compared_with_requirements() {
    use Operator::{DoesNotExist, In, NotIn};
    let drifted: &[&str] = &["RequirementsDrifted"];
    check(&[
        ("zone", |world| require(world, labels::ZONE, In, "us-east-1b"), drifted),
        ("same zone", |world| require(world, labels::ZONE, In, "us-east-1a"), &[]),
        (
            "old name of zone",
            |world| require(world, "failure-domain.beta.kubernetes.io/zone", In, "us-east-1b"),
            drifted,
        ),
        ("label of the type", |world| require(world, labels::ARCH, In, "arm64"), drifted),
        ("not written down", |world| require(world, labels::WINDOWS_BUILD, In, "10"), &[]),
        ("custom label", |world| require(world, "tier", In, "gold"), drifted),
        ("absent", |world| require(world, "tier", DoesNotExist, ""), &[]),
        ("another", |world| require(world, "tier", NotIn, "gold"), &[]),
        (
            "of the class",
            |world| {
                let wanted = Requirement::exactly("m6.large");
                world.snapshot.classes[0].class.requirements.add(labels::INSTANCE_TYPE, wanted);
            },
            drifted,
        ),
    ]);
}

#[test]
fn images_and_instance_types_that_are_gone() {
    fn no_types(world: &mut World) {
        let mut other = world.snapshot.classes[0].instance_types[0].clone();
        other.name = "m6.large".into();
        world.snapshot.classes[0].instance_types = Arc::new(vec![other]);
    }
    check(&[
        ("image", new_image, &["AMIDrift"]),
        ("no images", |world| world.snapshot.classes[0].class.images.clear(), &[]),
        ("no claim", |world| (new_image(world), world.snapshot.claims.clear()).1, &[]),
        ("type", no_types, &["InstanceTypeNotFound"]),
        ("young", |world| (no_types(world), world.set_created(minutes_ago(59))).1, &[]),
        (
            "an hour old",
            |world| (no_types(world), world.set_created(minutes_ago(60))).1,
            &["InstanceTypeNotFound"],
        ),
        ("no catalogue", |world| world.snapshot.classes[0].instance_types = Arc::default(), &[]),
    ]);
}

#[test]
fn a_class_that_could_not_be_resolved_freezes_drift() {
    check(&[
        (
            "not ready",
            |world| {
                new_pool(world);
                new_image(world);
                world.snapshot.classes[0].class.not_ready = Some("S3 is away".into());
            },
            &[],
        ),
        ("absent", |world| (new_pool(world), world.snapshot.classes.clear()).1, &[]),
    ]);
}
