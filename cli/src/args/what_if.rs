//! What `what-if` takes.

use std::str::FromStr;

use clap::Args as Arguments;

use super::{Change, Source};

/// What `what-if` takes.
#[derive(Debug, Arguments)]
#[command(after_long_help = HELP)]
pub(crate) struct WhatIf {
    /// A name and the changes that it stands for, up to four times: NAME:CHANGE[,CHANGE...]
    #[arg(long = "variant", value_name = "NAME:CHANGES", required = true, num_args = 1)]
    pub(crate) variants: Vec<Variant>,
    #[command(flatten)]
    pub(crate) source: Source,
}

/// Changes that somebody wonders about together.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) changes: Vec<Change>,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, changes) = text.split_once(':').unwrap_or((text, text));
        let changes = changes.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), changes })
    }
}

const HELP: &str = "\
Examples:
  outrigger what-if --context CLUSTER --variant 'storm:lose-spot' --variant 'zone:lose-zone=us-east-1a'
  outrigger what-if -f examples/half-empty.yaml --variant 'arm:only-types=*g.*' --variant 'plan:discount=28%'
  outrigger what-if -f examples/cluster.yaml --variant 'sale:scale=default/web*3,no-types=t3.*' -o json

Changes:
  lose-zone=ZONE        the zone is gone with its nodes
  lose-spot             there is no spot capacity, and what runs on it is gone
  only-types=PATTERN    only such instance types are bought, as m7g.* or *.large
  no-types=PATTERN      such instance types are not bought
  scale=NS/WORKLOAD*N   the workload has N times as many pods
  no-pool=NAME          the NodePool is gone; nodes that it has run on
  discount=PERCENT%     on-demand costs so much less, as with a Savings Plan
  patience=N            disruption is so patient, as with outrigger consolidate --patience";
