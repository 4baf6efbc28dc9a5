//! In which domains a planned node may come up.

use outrigger_model::Requirement;

use super::Draft;
use crate::columns::type_of;
use crate::selection::Aspect;
use crate::templates::Template;

impl Draft {
    /// Whether its node may have a value of a label.
    pub(crate) fn may_have(&self, template: &Template<'_>, key: &str, value: &str) -> bool {
        match template.aspect(key) {
            Aspect::Zone => template.zones_meeting(key, &Requirement::exactly(value)) & self.zones != 0,
            Aspect::CapacityType => self.capacity_type.as_str() == value,
            Aspect::InstanceType => {
                self.offers.iter().any(|column| template.label(type_of(*column), key) == Some(value))
            }
            Aspect::Node => {
                let own = self.node.get(key).or_else(|| template.requirements.get(key));
                own.is_none_or(|own| own.has(value))
            }
        }
    }
}
