//! Namespaces, whose labels affinity terms may select by.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::Invalid;

use super::bounds;
use super::problem::{Problem, Within};

/// The label that the API server gives every namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A namespace's name and labels.
pub fn namespace(wire: wire::Namespace) -> Result<(String, BTreeMap<String, String>), Invalid> {
    let name = wire.metadata.name.unwrap_or_default();
    let labels = wire.metadata.labels.unwrap_or_default();
    let checked = match name.as_str() {
        "" => Err(Problem::new("name", "nothing", "a name")),
        _ => bounds::labels("labels", Some(&labels)),
    };
    checked.within("metadata").map_err(|problem| problem.about("Namespace", None, &name))?;
    Ok((name.clone(), with_name(&name, labels)))
}

/// The labels of a namespace of which only the name is known.
pub fn unlabelled_namespace(name: &str) -> BTreeMap<String, String> {
    with_name(name, BTreeMap::new())
}

fn with_name(name: &str, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.entry(NAME_LABEL.to_owned()).or_insert_with(|| name.to_owned());
    labels
}
