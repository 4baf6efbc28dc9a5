//! What is asked of us on a random cluster: a plan that holds, no pod less placed than Karpenter
//! places, and no more paid for the same.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use anyhow::{Context, Result};
use outrigger_model::{Plan, Snapshot};
use outrigger_planning::provision;
use outrigger_policy::{Options, Preferences};
use outrigger_referee as referee;
use serde_json::Value;
use tempfile::TempDir;

use super::laws::passed_over;
use super::{Case, foreign};
use crate::figures::NODE_PRICE;
use crate::karpenter::ForeignPlan;
use crate::{Figures, Karpenter, catalogue, snapshot};

/// How much more than Karpenter we may pay for the same pods, of 1.
const DEARER: f64 = 0.01;
/// Dollars per hour that rounding may add.
const ROUNDING: f64 = 1e-6;

/// Something that is wrong with our plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The planner panicked.
    Panic(String),
    /// The checker found violations.
    Violations(Vec<String>),
    /// We place fewer pods.
    Fewer {
        /// Pods that we place.
        ours: usize,
        /// Pods that Karpenter places.
        theirs: usize,
        /// Our reasons.
        reasons: Vec<String>,
    },
    /// We pay more for as many pods.
    Dearer {
        /// Dollars per hour that we pay.
        ours: f64,
        /// Dollars per hour that Karpenter pays.
        theirs: f64,
        /// The nodes of both, for people.
        nodes: String,
    },
    /// A law of every plan is broken.
    Law(&'static str, String),
}

/// What came of a case.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What is wrong with our plan.
    pub faults: Vec<Fault>,
    /// What is wrong with Karpenter's: a plan that would not hold is no yardstick, and is not
    /// compared with.
    pub theirs: Vec<String>,
    /// Whether we place more pods than Karpenter.
    pub places_more: bool,
    /// Whether what we pay more goes into wishes that Karpenter gives up.
    pub pays_for_wishes: bool,
    /// What we pay of what Karpenter pays, where as many pods are placed.
    pub cost_ratio: Option<f64>,
}

/// Asks both sides.
pub struct Judge {
    karpenter: Karpenter,
    program: PathBuf,
    folder: TempDir,
}

impl Judge {
    /// Starts Karpenter's scheduler, and builds it first where that has not been done.
    pub fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        catalogue::write(&Case::types(), &folder.path().join("catalog.json"))?;
        let program = Karpenter::install()?;
        Ok(Self { karpenter: Karpenter::start(&program)?, program, folder })
    }

    /// Both sides' plans for one List, compared.
    pub fn judge(&mut self, list: &Value) -> Result<Comparison> {
        let mut verdict = self.compare(list, Preferences::Respect)?;
        let is_dearer = matches!(verdict.faults[..], [Fault::Dearer { .. }]);
        if is_dearer && has_wishes(list) {
            // Karpenter gives wishes up that it need not, and then pays for fewer of them. What is
            // compared then is what both pay when neither looks at wishes.
            verdict.faults = self.compare(list, Preferences::Ignore)?.faults;
            verdict.pays_for_wishes = verdict.faults.is_empty();
        }
        Ok(verdict)
    }

    fn compare(&mut self, list: &Value, preferences: Preferences) -> Result<Comparison> {
        let snapshot = snapshot::parse(&list.to_string(), &Case::types())?;
        let catalog = self.folder.path().join("catalog.json");
        let (theirs, foreign) = match self.karpenter.plan(list, &catalog, preferences) {
            Ok(answer) => answer,
            Err(error) => {
                // One scenario that it stumbles over shall not end the others.
                self.karpenter = Karpenter::start(&self.program)?;
                return Ok(Comparison { theirs: vec![format!("{error:#}")], ..Comparison::default() });
            }
        };
        let ours = match ours(&snapshot, preferences) {
            Ok(ours) => ours,
            Err(fault) => return Ok(Comparison { faults: vec![fault], ..Comparison::default() }),
        };
        let foreign_plan = foreign::plan(&snapshot, &foreign);
        let invalid = referee::check(&snapshot, &foreign_plan);
        let mut verdict =
            Comparison { theirs: invalid.iter().map(ToString::to_string).collect(), ..Comparison::default() };
        // Who fills the heavier pools further may pay for it.
        let is_priced = passed_over(&snapshot, &ours.plan) >= passed_over(&snapshot, &foreign_plan);
        if verdict.theirs.is_empty() {
            verdict.compare(&ours, &theirs, &foreign, is_priced);
        }
        Ok(verdict)
    }
}

impl Comparison {
    fn compare(&mut self, ours: &Ours, theirs: &Figures, foreign: &ForeignPlan, is_priced: bool) {
        let Ours { figures, reasons, shape, .. } = ours;
        self.places_more = figures.placed() > theirs.placed();
        if figures.placed() < theirs.placed() {
            let (ours, theirs) = (figures.placed(), theirs.placed());
            self.faults.push(Fault::Fewer { ours, theirs, reasons: reasons.clone() });
        } else if figures.placed() == theirs.placed() && is_priced {
            let (paid, they_pay) = (figures.total_cost(NODE_PRICE), theirs.total_cost(NODE_PRICE));
            self.cost_ratio = (they_pay > 0.0).then(|| paid / they_pay);
            if paid > they_pay * (1.0 + DEARER) + ROUNDING {
                let their_shape = foreign.nodes.iter().map(|node| {
                    let first = node.instance_types.first().map_or("?", String::as_str);
                    format!("{first} {} x{}", node.capacity_type, node.pods.len())
                });
                let nodes = format!("ours {shape}; theirs {}", their_shape.collect::<Vec<_>>().join(", "));
                self.faults.push(Fault::Dearer { ours: paid, theirs: they_pay, nodes });
            }
        }
    }
}

/// Whether anything in the List is only a wish.
pub(super) fn has_wishes(list: &Value) -> bool {
    let text = list.to_string();
    ["preferredDuring", "ScheduleAnyway", "PreferNoSchedule"].iter().any(|wish| text.contains(wish))
}

/// Our plan in figures.
struct Ours {
    plan: Plan,
    figures: Figures,
    /// Why pods have no place, each reason once.
    reasons: Vec<String>,
    /// The nodes, for people.
    shape: String,
}

/// Decides; a fault when the plan does not hold.
fn ours(snapshot: &Snapshot, preferences: Preferences) -> Result<Ours, Fault> {
    // Karpenter's scheduler gives up any choice of types for a lower price; where prices are
    // compared, so do we.
    let options =
        Options { node_price: Some(NODE_PRICE), preferences, spot_types_min: 1, ..Options::default() };
    let decided = catch_unwind(AssertUnwindSafe(|| provision(snapshot, &options)));
    let (plan, report) = decided.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Fault::Panic(
            text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned())).unwrap_or_default(),
        )
    })?;
    let violations = referee::check_with_report(snapshot, &plan, &report);
    if !violations.is_empty() {
        return Err(Fault::Violations(violations.iter().map(ToString::to_string).collect()));
    }
    let mut reasons: Vec<String> = report.unplaced().map(|(_, reason)| reason).collect();
    reasons.sort();
    reasons.dedup();
    let shape = plan.nodes.iter().map(|node| {
        let first = node.instance_types.first().map_or("?", |kind| kind.name.as_str());
        format!("{first} {} x{}", node.capacity_type, node.pods.len())
    });
    let shape = shape.collect::<Vec<_>>().join(", ");
    Ok(Ours { figures: Figures::of_plan(snapshot, &plan, 0.0), plan, reasons, shape })
}

impl Fault {
    /// What sort of fault it is; a case is made smaller as long as the sort stays.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Panic(_) => "panic",
            Self::Violations(_) => "violations",
            Self::Fewer { .. } => "fewer pods",
            Self::Dearer { .. } => "dearer",
            Self::Law(law, _) => law,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(text) => write!(f, "the planner panicked: {text}"),
            Self::Violations(violations) => write!(f, "our plan does not hold: {}", violations.join("; ")),
            Self::Fewer { ours, theirs, reasons } => {
                write!(f, "we place {ours} pods, Karpenter {theirs}; our reasons: {}", reasons.join(" | "))
            }
            Self::Dearer { ours, theirs, nodes } => {
                write!(f, "we pay {ours:.4}, Karpenter {theirs:.4} $/h; {nodes}")
            }
            Self::Law(law, what) => write!(f, "{law}: {what}"),
        }
    }
}

/// Reads a small catalogue's List, for callers that have one List only.
pub(super) fn read(list: &Value) -> Result<Snapshot> {
    snapshot::parse(&list.to_string(), &Case::types()).context("a random cluster cannot be read")
}
