//! What is known of an existing node whose labels are not all known yet.

use std::collections::BTreeSet;

use outrigger_model::Requirements;
use outrigger_model::taint::first_untolerated;

use super::{ExistingNode, Labels, Possible};
use crate::problem::topology::Standing;
use crate::problem::topology::sites::Site;

impl ExistingNode<'_> {
    /// The values that a label may turn out to have, where that is open.
    pub(crate) fn possible(&self, key: &str) -> Option<&BTreeSet<String>> {
        match &self.labels {
            Labels::Known(_) => None,
            Labels::Possible(labels) => labels.get(key).map(|possible| &possible.values),
        }
    }

    /// Whether pods here are counted where a site counts.
    pub(crate) fn standing(&self, site: &Site<'_>) -> Standing {
        if site.tolerations.is_some_and(|borne| first_untolerated(&self.taints, borne).is_some()) {
            return Standing::Out;
        }
        site.alternatives.as_ref().map_or(Standing::Counted, |alternatives| self.meets_any(alternatives))
    }

    /// Whether the node will meet one of some alternatives.
    pub(super) fn meets_any(&self, alternatives: &[Requirements]) -> Standing {
        let standings = alternatives.iter().map(|wanted| self.meets(wanted));
        standings.fold(Standing::Out, |best, one| match (best, one) {
            (Standing::Counted, _) | (_, Standing::Counted) => Standing::Counted,
            (Standing::Out, Standing::Out) => Standing::Out,
            _ => Standing::Unsure,
        })
    }

    fn meets(&self, wanted: &Requirements) -> Standing {
        let counted = |met: bool| if met { Standing::Counted } else { Standing::Out };
        let labels = match &self.labels {
            Labels::Known(labels) => return counted(wanted.match_labels(labels).is_ok()),
            Labels::Possible(labels) => labels,
        };
        let nothing = Possible { values: BTreeSet::new(), absent: true };
        let each = wanted.iter().map(|(key, requirement)| {
            let possible = labels.get(key).unwrap_or(&nothing);
            let absent = possible.absent.then(|| requirement.allows_absence());
            let values = possible.values.iter().map(|value| requirement.has(value));
            values.chain(absent).map(counted).reduce(Standing::or).unwrap_or(Standing::Out)
        });
        each.fold(Standing::Counted, |worst, one| match (worst, one) {
            (Standing::Out, _) | (_, Standing::Out) => Standing::Out,
            (Standing::Counted, Standing::Counted) => Standing::Counted,
            _ => Standing::Unsure,
        })
    }
}
