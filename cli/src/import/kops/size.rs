//! The sizes of an InstanceGroup. Those of an Auto Scaling group must be 0 before anybody launches
//! from its template, so that it launches nothing itself.

use outrigger_kops::InstanceGroup;
use outrigger_model::labels;
use serde_json::Value;

use crate::import::draft::Draft;
use crate::import::note::{Fate, Notes, Origin};

/// How many machines kOps takes for a size that nobody has written.
const DEFAULT_SIZE: u64 = 2;

/// Least and most machines, as somebody wrote them.
pub(super) struct Sizes {
    least: Option<u64>,
    most: Option<u64>,
}

impl Sizes {
    /// Those of a group.
    pub(super) fn of(group: &Draft) -> Self {
        let size = |field: &str| group.value.pointer(field).and_then(Value::as_u64);
        Self { least: size("/spec/minSize"), most: size("/spec/maxSize") }
    }

    /// The most machines; `None` where the group is made for borrowing.
    pub(super) fn most(&self) -> Option<u64> {
        Some(self.most.unwrap_or(DEFAULT_SIZE)).filter(|most| *most > 0)
    }

    /// Says what is to be done before the group can be borrowed.
    pub(super) fn note(&self, group: &InstanceGroup, origin: &Origin, notes: &mut Notes) {
        let name = &group.metadata.name;
        let shown = |size: Option<u64>| size.map_or_else(|| "nothing".to_owned(), |size| size.to_string());
        if self.least.unwrap_or(DEFAULT_SIZE) > 0 || self.most().is_some() {
            let advice = format!(
                "borrow a copy: give it to kops create -f as {name}-outrigger with minSize 0, maxSize 0 and the taint \
                 {}=:NoExecute, and name that in nodeClassRef; or set both sizes to 0 here, once its nodes are drained",
                labels::UNREGISTERED_TAINT
            );
            let found = format!("minSize {}, maxSize {}", shown(self.least), shown(self.most));
            notes.add(Fate::ToDo, origin, "spec.maxSize", found, advice);
        } else if !group.spec.taints.iter().any(|taint| taint.starts_with(labels::UNREGISTERED_TAINT)) {
            let advice = format!(
                "add {}=:NoExecute, which keeps pods off a node until it has its labels",
                labels::UNREGISTERED_TAINT
            );
            notes.add(Fate::ToDo, origin, "spec.taints", format!("{:?}", group.spec.taints), advice);
        }
        if let Some(least) = self.least.filter(|least| *least > 0) {
            let advice = format!(
                "the NodePool has as many nodes as pods ask for; for {least} that are always there write a second \
                 NodePool with replicas: {least}"
            );
            notes.add(Fate::NotCarried, origin, "spec.minSize", least.to_string(), advice);
        }
    }
}
