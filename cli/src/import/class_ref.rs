//! What a NodePool's `nodeClassRef` names, whatever else is wrong with the NodePool.

use std::fmt;

use outrigger_model::{NodeClassRef, labels};
use serde_json::json;

use super::draft::Draft;

const REFERENCE: &str = "/spec/template/spec/nodeClassRef";

/// Kind and name of a node class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassRef {
    group: String,
    kind: String,
    /// Its name; empty where the NodePool has none.
    pub(super) name: String,
}

impl ClassRef {
    /// That of a NodePool in the form of v1.
    pub(super) fn of(pool: &Draft) -> Self {
        let text = |field: &str| pool.text(&format!("{REFERENCE}/{field}")).unwrap_or_default().to_owned();
        Self { group: text("group"), kind: text("kind"), name: text("name") }
    }

    /// An EC2NodeClass.
    pub(super) fn ec2(name: &str) -> Self {
        NodeClassRef::ec2(name).into()
    }

    /// An InstanceGroup.
    pub(super) fn instance_group(name: &str) -> Self {
        NodeClassRef::instance_group(name).into()
    }

    /// Whether it is an EC2NodeClass.
    pub(super) fn is_ec2(&self) -> bool {
        self.group == labels::EC2_GROUP && self.kind == "EC2NodeClass"
    }

    /// Makes a NodePool name it.
    pub(super) fn write_into(&self, pool: &mut Draft) {
        if let Some(template) = pool.map("/spec/template/spec") {
            let Self { group, kind, name } = self;
            template.insert("nodeClassRef".to_owned(), json!({"group": group, "kind": kind, "name": name}));
        }
    }
}

impl From<NodeClassRef> for ClassRef {
    fn from(NodeClassRef { group, kind, name }: NodeClassRef) -> Self {
        Self { group, kind, name }
    }
}

impl fmt::Display for ClassRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            f.write_str("the node class")
        } else {
            write!(f, "{}/{}", self.kind, self.name)
        }
    }
}
