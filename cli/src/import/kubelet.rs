//! Kubelet settings of NodePools, which v1 has in the EC2NodeClass.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::class_ref::ClassRef;
use super::draft::{self, Draft, Drafts};
use super::note::{Fate, Notes, shown};

/// Kubelet settings of a NodePool.
#[derive(Debug)]
pub(super) struct Kubelet {
    /// The field that has them.
    pub(super) field: &'static str,
    /// The settings, as v1 has them in a class.
    pub(super) settings: Value,
}

/// Moves the settings, by the names of their NodePools, into the classes. Pools of one class that
/// differ get a copy of it each, `CLASS-POOL`.
pub(super) fn move_to_classes(
    kubelets: &BTreeMap<String, Kubelet>,
    pools: &mut Drafts,
    classes: &mut Drafts,
    notes: &mut Notes,
) {
    let mut wishes: BTreeMap<ClassRef, BTreeSet<Option<String>>> = BTreeMap::new();
    for (name, pool) in pools.iter() {
        let wish = kubelets.get(name).map(|kubelet| kubelet.settings.to_string());
        wishes.entry(ClassRef::of(pool)).or_default().insert(wish);
    }
    for (name, Kubelet { field, settings }) in kubelets {
        let Some(pool) = pools.get_mut(name) else { continue };
        let reference = ClassRef::of(pool);
        let class = classes.get_mut(&reference.name).filter(|_| reference.is_ec2());
        let Some(class) = class else {
            let advice =
                format!("write it into spec.kubelet of {reference}, which is not among what is printed");
            notes.add(Fate::NotCarried, &pool.origin, *field, shown(settings), advice);
            continue;
        };
        if wishes.get(&reference).is_some_and(|wishes| wishes.len() == 1) {
            replace(class, settings, notes);
            continue;
        }
        let copy = copy_for(name, class, settings);
        let advice = format!(
            "EC2NodeClass/{} has it, a copy of {} for this NodePool: others of that class differ",
            copy.name, class.name
        );
        notes.add(Fate::NotCarried, &pool.origin, *field, shown(settings), advice);
        ClassRef::ec2(&copy.name).write_into(pool);
        draft::add(classes, copy, notes);
    }
}

/// Gives a class the settings of its NodePools.
fn replace(class: &mut Draft, settings: &Value, notes: &mut Notes) {
    let origin = class.origin.clone();
    let own = class.spec().and_then(|spec| spec.insert("kubelet".to_owned(), settings.clone()));
    if let Some(own) = own.filter(|own| !own.is_null() && own != settings) {
        let advice = "the settings of its NodePools stand there, as in Karpenter's conversion";
        notes.add(Fate::NotCarried, &origin, "spec.kubelet", shown(&own), advice);
    }
}

fn copy_for(pool: &str, class: &Draft, settings: &Value) -> Draft {
    let mut copy = class.clone();
    copy.name = format!("{}-{pool}", class.name);
    copy.origin.object = format!("EC2NodeClass/{}", copy.name);
    let name = copy.name.clone();
    if let Some(metadata) = copy.map("/metadata") {
        metadata.insert("name".to_owned(), name.into());
    }
    if let Some(spec) = copy.spec() {
        spec.insert("kubelet".to_owned(), settings.clone());
    }
    copy
}
