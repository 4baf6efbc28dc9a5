//! The kubelet's hard eviction thresholds, as far as allocatable depends on them.

use outrigger_model::{KubeletSettings, Quantity};

/// The signal for memory.
pub(super) const MEMORY_AVAILABLE: &str = "memory.available";
/// The signal for the file system that holds ephemeral storage.
pub(super) const NODEFS_AVAILABLE: &str = "nodefs.available";
/// The threshold for memory that the kubelet, kOps and Karpenter share.
pub(super) const DEFAULT_MEMORY: Threshold = Threshold::Amount(Quantity::mebibytes(100));
/// The threshold for ephemeral storage that the kubelet, kOps and Karpenter share.
pub(super) const DEFAULT_NODEFS: Threshold = Threshold::Percent(Quantity::units(10));

const WHOLE: Quantity = Quantity::units(100);

/// An eviction threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threshold {
    /// So much.
    Amount(Quantity),
    /// So many percent of what there is.
    Percent(Quantity),
}

impl Threshold {
    /// Nothing is kept.
    pub(super) const NONE: Self = Self::Amount(Quantity::ZERO);

    /// The threshold of a text such as `100Mi` or `10%`. 100 % turns a threshold off, as the
    /// kubelet has it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().ok().filter(|amount: &Quantity| !amount.is_negative()).map(Self::Amount);
        };
        let percent: Quantity = percent.parse().ok()?;
        match percent {
            _ if percent == WHOLE => Some(Self::NONE),
            _ if percent.is_negative() || percent > WHOLE => None,
            _ => Some(Self::Percent(percent)),
        }
    }

    /// The setting for a signal: what stands there if it can be read, `absent` if nothing does.
    pub(super) fn from_settings(
        settings: &KubeletSettings,
        signal: &str,
        default: Self,
        absent: Self,
    ) -> Self {
        settings.eviction_hard.get(signal).map_or(absent, |text| Self::read(text).unwrap_or(default))
    }

    /// How many bytes of `total` it keeps, rounded up.
    pub(super) fn bytes_of(self, total: Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount,
            Self::Percent(percent) => {
                let part = i128::from(total.value()).saturating_mul(percent.nanos());
                let bytes = -((-part).div_euclid(WHOLE.nanos()));
                Quantity::bytes(i64::try_from(bytes).unwrap_or(i64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_amounts_or_percentages() {
        let table = [
            ("100Mi", Some(100 << 20)),
            ("10%", Some(103)),
            ("0.1%", Some(2)),
            ("0%", Some(0)),
            ("100%", Some(0)),
            ("101%", None),
            ("-1%", None),
            ("-1Mi", None),
            ("%", None),
            ("a lot", None),
            ("", None),
        ];
        for (text, expected) in table {
            let bytes =
                Threshold::read(text).map(|threshold| threshold.bytes_of(Quantity::bytes(1_025)).value());
            assert_eq!(bytes, expected, "{text:?}");
        }
    }
}
