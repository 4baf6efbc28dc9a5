//! A change of a cluster that somebody wonders about.

use std::str::FromStr;

/// What may be asked.
const ALLOWED: &str = "lose-zone=us-east-1a, lose-spot, only-types=m7g.*, no-types=t3.*, \
     scale=namespace/workload*3, no-pool=NAME, discount=28%, patience=2";

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A zone is gone with its nodes.
    LoseZone(String),
    /// There is no spot capacity, and what runs on it is gone.
    LoseSpot,
    /// Only instance types of this pattern are bought.
    OnlyTypes(String),
    /// Instance types of this pattern are not bought.
    NoTypes(String),
    /// A workload has so many times as many pods.
    Scale {
        /// Its namespace.
        namespace: String,
        /// The name that those of its pods begin with.
        workload: String,
        times: f64,
    },
    /// A NodePool buys nothing.
    NoPool(String),
    /// On-demand costs so much less, as with a Savings Plan: a share from 0 to 1.
    Discount(f64),
    /// Disruption is so patient.
    Patience(f64),
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("found {text:?}; allowed: {ALLOWED}");
        let (what, value) = text.split_once('=').unwrap_or((text, ""));
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| (0.0..=1_000.0).contains(number));
        let change = match (what.trim(), value.trim()) {
            ("lose-spot", "") => Self::LoseSpot,
            (_, "") => return Err(refused()),
            ("lose-zone", zone) => Self::LoseZone(zone.to_owned()),
            ("only-types", pattern) => Self::OnlyTypes(pattern.to_owned()),
            ("no-types", pattern) => Self::NoTypes(pattern.to_owned()),
            ("no-pool", name) => Self::NoPool(name.to_owned()),
            ("scale", what) => {
                let (workload, times) = what.rsplit_once('*').ok_or_else(refused)?;
                let (namespace, workload) = workload.split_once('/').unwrap_or(("default", workload));
                let times = number(times).ok_or_else(refused)?;
                Self::Scale { namespace: namespace.to_owned(), workload: workload.to_owned(), times }
            }
            ("discount", share) => {
                let percent = share.strip_suffix('%').and_then(number).filter(|percent| *percent <= 100.0);
                Self::Discount(percent.ok_or_else(refused)? / 100.0)
            }
            ("patience", patience) => Self::Patience(number(patience).ok_or_else(refused)?),
            _ => return Err(refused()),
        };
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_or_refused_with_what_is_allowed() {
        let scale = |times| Change::Scale { namespace: "shop".into(), workload: "web".into(), times };
        let table = [
            ("lose-zone=us-east-1a", Some(Change::LoseZone("us-east-1a".into()))),
            ("lose-spot", Some(Change::LoseSpot)),
            ("scale=shop/web*3", Some(scale(3.0))),
            ("scale=shop/web*0.5", Some(scale(0.5))),
            ("discount=28%", Some(Change::Discount(0.28))),
            ("discount=28", None),
            ("discount=101%", None),
            ("scale=web", None),
            ("lose-zone", None),
            ("win-zone=a", None),
        ];
        for (text, expected) in table {
            let read = text.parse::<Change>();
            match expected {
                Some(change) => assert_eq!(read, Ok(change), "{text}"),
                None => assert!(read.unwrap_err().contains("allowed: lose-zone="), "{text}"),
            }
        }
    }
}
