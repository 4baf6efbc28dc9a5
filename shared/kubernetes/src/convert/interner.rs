//! One copy of what many pods have in common.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use outrigger_model::PodSpec;

/// Shares equal specs and label maps between pods: 30,000 pods of a few hundred workloads then cost
/// little more than their names and uids.
#[derive(Debug, Default)]
pub struct Interner {
    specs: HashSet<Arc<PodSpec>>,
    labels: HashSet<Arc<BTreeMap<String, String>>>,
    words: HashSet<Arc<str>>,
}

impl Interner {
    /// The shared copy of a spec.
    pub fn spec(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        if let Some(shared) = self.specs.get(&spec) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(spec);
        self.specs.insert(Arc::clone(&shared));
        shared
    }

    /// The shared copy of a label map.
    pub fn labels(&mut self, labels: BTreeMap<String, String>) -> Arc<BTreeMap<String, String>> {
        if let Some(shared) = self.labels.get(&labels) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(labels);
        self.labels.insert(Arc::clone(&shared));
        shared
    }

    /// The shared copy of a word.
    pub fn word(&mut self, word: &str) -> Arc<str> {
        if let Some(shared) = self.words.get(word) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = word.into();
        self.words.insert(Arc::clone(&shared));
        shared
    }

    /// Lets go of what no pod uses any more; for an interner that outlives one list.
    pub fn forget_unused(&mut self) {
        self.specs.retain(|spec| Arc::strong_count(spec) > 1);
        self.labels.retain(|labels| Arc::strong_count(labels) > 1);
        self.words.retain(|word| Arc::strong_count(word) > 1);
    }
}
