//! `outrigger import`: what somebody has of Karpenter or kOps, as the YAML that Outrigger takes,
//! and a list of what that cannot say.

mod carry;
mod class_ref;
mod draft;
mod gather;
mod karpenter_v1;
mod karpenter_v1alpha5;
mod karpenter_v1beta1;
mod kops;
mod kubelet;
mod node_template;
mod note;
mod output;
mod path;
mod selectors;
mod workloads;

use std::collections::BTreeSet;

use outrigger_kubernetes::{RawObject, RawReader};

use crate::args;
use crate::error::CliError;
use crate::files::{expand, open};
use crate::output::{CommandOutcome, Format};
use class_ref::ClassRef;
use draft::{Draft, Drafts};
use gather::{ALLOWED, Gathered};
use note::{Fate, Notes};
use output::Manifest;

/// Runs the command.
pub(crate) fn run(command: &args::Import, format: Format) -> Result<CommandOutcome, CliError> {
    let mut notes = Notes::default();
    let objects = read(command, &mut notes)?;
    let gathered = Gathered::from_raw(objects, &mut notes);
    let manifests = carried(gathered, command.instance_group.as_deref(), &mut notes);
    output::print(&manifests, &notes, format)?;
    match (manifests.is_empty(), notes.has_left_out()) {
        (_, true) => Ok(CommandOutcome::Refused),
        (false, false) => Ok(CommandOutcome::Done),
        (true, false) => {
            let what = command.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
            let actual = "no object that NodePools can be made of".to_owned();
            Err(CliError::Missing { what: what.join(", "), actual, allowed: ALLOWED.to_owned() })
        }
    }
}

/// All objects of the files.
fn read(command: &args::Import, notes: &mut Notes) -> Result<Vec<RawObject>, CliError> {
    let mut reader = RawReader::default();
    for file in expand(&command.files)? {
        reader.add(&file.display().to_string(), open(&file)?)?;
    }
    let (objects, invalid) = reader.finish();
    for problem in &invalid {
        notes.complain(Fate::LeftOut, "", problem);
    }
    Ok(objects)
}

/// What Outrigger takes: EC2NodeClasses, NodePools and NodeOverlays, each in order of name.
fn carried(gathered: Gathered, instance_group: Option<&str>, notes: &mut Notes) -> Vec<Manifest> {
    let Gathered { mut pools, mut classes, overlays, kops, kubelets, borrowed, .. } = gathered;
    for pool in pools.values_mut() {
        let reference = ClassRef::of(pool);
        if let Some(group) = borrowed.get(&reference.name).filter(|_| reference.is_ec2()) {
            ClassRef::instance_group(group).write_into(pool);
        }
    }
    kubelet::move_to_classes(&kubelets, &mut pools, &mut classes, notes);
    let named: BTreeSet<String> = classes.keys().cloned().collect();
    let classes = carry_classes(classes, instance_group, notes);
    for pool in pools.values_mut() {
        let reference = ClassRef::of(pool);
        if reference.is_ec2() && !classes.contains_key(&reference.name) {
            let why = if named.contains(&reference.name) { "is left out" } else { "is not in the files" };
            settle_class(pool, &format!("{reference}, which {why}"), instance_group, notes);
        }
    }
    for pool in kops.pools(notes) {
        add_unless_written(&mut pools, pool, notes);
    }
    let mut manifests: Vec<Manifest> = classes.into_values().map(Manifest::of).collect();
    for mut pool in pools.into_values() {
        if karpenter_v1::carry_pool(&mut pool, notes).is_some() {
            manifests.push(Manifest::of(pool));
        }
    }
    for mut overlay in overlays.into_values() {
        if karpenter_v1::carry_overlay(&mut overlay, notes).is_some() {
            manifests.push(Manifest::of(overlay));
        }
    }
    manifests
}

/// The classes that Outrigger takes. Where an InstanceGroup stands in for the others, these are no
/// objects that are missing.
fn carry_classes(classes: Drafts, instance_group: Option<&str>, notes: &mut Notes) -> Drafts {
    let mut carried = Drafts::new();
    for (name, mut class) in classes {
        let mut of_class = Notes::default();
        let sound = karpenter_v1::carry_class(&mut class, &mut of_class).is_some();
        match instance_group {
            Some(group) if !sound => {
                let fields: Vec<&str> = of_class.as_slice().iter().map(|note| note.field.as_str()).collect();
                let advice = format!(
                    "InstanceGroup/{group} stands in its place; write into that what its nodes still need"
                );
                let found = format!("what Outrigger refuses: {}", fields.join(", "));
                notes.add(Fate::NotCarried, &class.origin, "spec", found, advice);
            }
            _ => notes.append(of_class),
        }
        if sound {
            carried.insert(name, class);
        }
    }
    carried
}

/// Points a NodePool at the InstanceGroup that stands in for a class that is not carried, or says
/// that it has none.
fn settle_class(pool: &mut Draft, found: &str, instance_group: Option<&str>, notes: &mut Notes) {
    const FIELD: &str = "spec.template.spec.nodeClassRef";
    if let Some(group) = instance_group {
        ClassRef::instance_group(group).write_into(pool);
        let advice = format!("InstanceGroup/{group} stands there");
        notes.add(Fate::NotCarried, &pool.origin, FIELD, found, advice);
    } else {
        let advice =
            "give an EC2NodeClass that can be carried, or --instance-group NAME, which NodePools then borrow";
        notes.add(Fate::ToDo, &pool.origin, FIELD, found, advice);
    }
}

/// A NodePool that somebody has written says more than one that is made of an InstanceGroup.
fn add_unless_written(pools: &mut Drafts, pool: Draft, notes: &mut Notes) {
    let reference = ClassRef::of(&pool);
    let is_its = |written: &&Draft| {
        written.name == pool.name || (ClassRef::of(written) == reference && written.origin != pool.origin)
    };
    match pools.values().find(is_its) {
        Some(written) => {
            let advice = format!("NodePool/{} of {} says it", written.name, written.origin.file);
            notes.add(Fate::PassedOver, &pool.origin, "", "a NodePool of its own in the files", advice);
        }
        None => {
            pools.insert(pool.name.clone(), pool);
        }
    }
}
