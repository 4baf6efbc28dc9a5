//! Karpenter's `karpenter.sh/v1beta1` NodePool and `karpenter.k8s.aws/v1beta1` EC2NodeClass: made
//! into v1 as the conversion webhooks of Karpenter 1.0 do.

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::note::{Fate, Notes, shown};

/// How many hops an answer of the metadata travels by default; in v1 it is 1.
const DEFAULT_HOPS: u32 = 2;
const EXPIRY_ADVICE: &str = "nodes that expire are drained at once; the annotation outrigger.dev/graceful-expiry: \
                             \"true\" replaces them first, as Karpenter did before v1";

/// Makes a NodePool into v1, and gives back the kubelet settings that v1 has in the class.
pub(super) fn convert_pool(draft: &mut Draft, notes: &mut Notes) -> Option<Value> {
    let kubelet = draft.map("/spec/template/spec").and_then(|template| template.remove("kubelet"));
    convert_class_ref(draft);
    convert_disruption(draft, notes);
    kubelet.filter(|kubelet| !kubelet.is_null())
}

/// v1beta1 names group and version together, and lets both and the kind be left out.
fn convert_class_ref(draft: &mut Draft) {
    let Some(reference) = draft.map("/spec/template/spec/nodeClassRef") else { return };
    let version = reference.remove("apiVersion");
    let group = version.as_ref().and_then(Value::as_str).and_then(|version| version.split('/').next());
    let group = group.filter(|group| !group.is_empty()).unwrap_or("karpenter.k8s.aws");
    reference.entry("group").or_insert_with(|| group.into());
    reference.entry("kind").or_insert_with(|| "EC2NodeClass".into());
}

/// `expireAfter` moves into the template. `WhenUnderutilized` has another name, and there waits for
/// nothing.
fn convert_disruption(draft: &mut Draft, notes: &mut Notes) {
    let origin = draft.origin.clone();
    let Some(spec) = draft.spec() else { return };
    let disruption = spec.entry("disruption").or_insert_with(|| json!({}));
    let Some(disruption) = disruption.as_object_mut() else { return };
    let expire_after = disruption.remove("expireAfter");
    let policy = disruption.get("consolidationPolicy").and_then(Value::as_str).unwrap_or("WhenUnderutilized");
    match policy {
        "WhenUnderutilized" => {
            let waits = disruption.get("consolidateAfter").and_then(Value::as_str) == Some("Never");
            let after = if waits { "Never" } else { "0s" };
            disruption.insert("consolidationPolicy".to_owned(), "WhenEmptyOrUnderutilized".into());
            let before = disruption.insert("consolidateAfter".to_owned(), after.into());
            if let Some(before) = before.filter(|before| before != after) {
                let advice = "WhenUnderutilized of v1beta1 did not wait, so 0s stands there";
                notes.add(
                    Fate::NotCarried,
                    &origin,
                    "spec.disruption.consolidateAfter",
                    shown(&before),
                    advice,
                );
            }
        }
        "WhenEmpty" if !disruption.contains_key("consolidateAfter") => {
            disruption.insert("consolidateAfter".to_owned(), "Never".into());
            let advice =
                "Never stands there, which ends no node; say how long nodes are empty before they go";
            notes.add(Fate::ToDo, &origin, "spec.disruption.consolidateAfter", "nothing", advice);
        }
        _ => {}
    }
    let Some(expire_after) = expire_after.filter(|after| !after.is_null()) else { return };
    note_expiry(&expire_after, "spec.disruption.expireAfter", draft, notes);
    if let Some(template) = draft.map("/spec/template/spec") {
        template.insert("expireAfter".to_owned(), expire_after);
    }
}

/// Tells that nodes end in another way than before v1.
pub(super) fn note_expiry(expire_after: &Value, field: &str, draft: &Draft, notes: &mut Notes) {
    if expire_after != "Never" {
        notes.add(Fate::ToDo, &draft.origin, field, shown(expire_after), EXPIRY_ADVICE);
    }
}

/// Makes an EC2NodeClass into v1: the defaults of v1beta1 are written out where those of v1 differ.
///
/// The conversion of Karpenter gives families their alias besides. Outrigger takes neither, so the
/// families are left to be refused by name.
pub(super) fn convert_class(draft: &mut Draft) {
    let Some(spec) = draft.spec() else { return };
    write_out_hops(spec);
}

/// Writes the default of the hop limit out where nothing is said.
pub(super) fn write_out_hops(spec: &mut Map<String, Value>) {
    let options = spec.entry("metadataOptions").or_insert_with(|| json!({}));
    if let Some(options) = options.as_object_mut() {
        options.entry("httpPutResponseHopLimit").or_insert_with(|| DEFAULT_HOPS.into());
    }
}
