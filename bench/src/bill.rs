//! What Outrigger itself costs in a month, by what its functions do in a minute.

use std::collections::BTreeMap;

/// Minutes of a month of 730 hours.
const MINUTES: f64 = 43_800.0;
/// The functions' memory in GB: the parameter `MemorySize` is 256 unless somebody changes it.
const MEMORY_GB: f64 = 0.25;
const BYTES_OF_A_GB: f64 = 1e9;

/// List prices of us-east-1 in dollars, before any free tier, as AWS' price pages had them in
/// November 2026.
mod price {
    /// Lambda on x86, for a GB-second and for an invocation.
    pub(super) const GB_SECOND: f64 = 0.000_016_666_7;
    pub(super) const INVOCATION: f64 = 0.000_000_2;
    /// DynamoDB on demand, for a unit.
    pub(super) const READ_UNIT: f64 = 0.000_000_125;
    pub(super) const WRITE_UNIT: f64 = 0.000_000_625;
    /// A GB between two zones, once for whoever sends it and once for whoever gets it.
    pub(super) const GB_BETWEEN_ZONES: f64 = 0.02;
    /// A GB from EC2 to the internet.
    pub(super) const GB_TO_THE_INTERNET: f64 = 0.09;
}

/// What goes on in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hour {
    /// Nothing changes.
    Quiet,
    /// Pods come each minute that need a new node.
    Busy,
    /// A node is drained at any time.
    Draining,
}

impl Hour {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Quiet, Self::Busy, Self::Draining];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Busy => "busy",
            Self::Draining => "draining",
        }
    }
}

/// What a function does in a minute of such an hour, on average.
#[derive(Clone, Debug, PartialEq)]
pub struct Minute {
    /// How many nodes the cluster has.
    pub nodes: usize,
    /// What goes on.
    pub hour: Hour,
    /// The function.
    pub function: String,
    /// Bytes from the API server.
    pub received: f64,
    /// Bytes to the API server.
    pub sent: f64,
    /// How long the function runs.
    pub seconds: f64,
    /// DynamoDB's read units.
    pub reads: f64,
    /// DynamoDB's write units.
    pub writes: f64,
}

impl Minute {
    /// As [`minutes_table`] shows it, so that whoever reads that comes to the same dollars.
    #[must_use]
    pub fn rounded(self) -> Self {
        Self {
            received: (self.received / 1e3).round() * 1e3,
            sent: (self.sent / 1e3).round() * 1e3,
            seconds: (self.seconds * 10.0).round() / 10.0,
            reads: self.reads.round(),
            writes: self.writes.round(),
            ..self
        }
    }
}

/// Dollars of a month of such minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bill {
    /// Lambda.
    pub lambda: f64,
    /// DynamoDB.
    pub dynamodb: f64,
    /// The API server's traffic, where it is in another zone of the VPC.
    pub private: f64,
    /// The same, where it is public.
    pub public: f64,
}

impl Bill {
    fn plus(self, minute: &Minute) -> Self {
        let gb = |bytes: f64| bytes * MINUTES / BYTES_OF_A_GB;
        let compute = minute.seconds * MEMORY_GB * price::GB_SECOND + price::INVOCATION;
        let items = minute.reads * price::READ_UNIT + minute.writes * price::WRITE_UNIT;
        Self {
            lambda: self.lambda + compute * MINUTES,
            dynamodb: self.dynamodb + items * MINUTES,
            private: self.private + gb(minute.received + minute.sent) * price::GB_BETWEEN_ZONES,
            // Nobody pays for what comes from the internet.
            public: self.public + gb(minute.received) * price::GB_TO_THE_INTERNET,
        }
    }
}

/// The bill of each cluster and hour.
pub fn bills(minutes: &[Minute]) -> BTreeMap<(usize, Hour), Bill> {
    let mut bills: BTreeMap<(usize, Hour), Bill> = BTreeMap::new();
    for minute in minutes {
        let bill = bills.entry((minute.nodes, minute.hour)).or_default();
        *bill = bill.plus(minute);
    }
    bills
}

const MINUTES_HEAD: &str = "\
| nodes | hour | function | received, KB | sent, KB | seconds | read units | write units |
|---|---|---|---|---|---|---|---|
";
const BILLS_HEAD: &str = "\
| nodes | hour | Lambda | DynamoDB | traffic, private | traffic, public | all, private | all, public |
|---|---|---|---|---|---|---|---|
";

/// What was measured, as a table of Markdown.
pub fn minutes_table(minutes: &[Minute]) -> String {
    let row = |minute: &Minute| {
        let Minute { nodes, hour, function, received, sent, seconds, reads, writes } = minute;
        format!(
            "| {nodes} | {} | `{function}` | {:.0} | {:.0} | {seconds:.1} | {reads:.0} | {writes:.0} |\n",
            hour.as_str(),
            received / 1e3,
            sent / 1e3
        )
    };
    format!("{MINUTES_HEAD}{}", minutes.iter().map(row).collect::<String>())
}

/// Dollars a month, as a table of Markdown.
pub fn bills_table(minutes: &[Minute]) -> String {
    let row = |(&(nodes, hour), bill): (&(usize, Hour), &Bill)| {
        let Bill { lambda, dynamodb, private, public } = bill;
        let fixed = lambda + dynamodb;
        format!(
            "| {nodes} | {} | ${lambda:.2} | ${dynamodb:.2} | ${private:.2} | ${public:.2} | ${:.2} | ${:.2} |\n",
            hour.as_str(),
            fixed + private,
            fixed + public
        )
    };
    format!("{BILLS_HEAD}{}", bills(minutes).iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../docs/cost.md");

    /// The measurements that the document shows.
    fn shown() -> Vec<Minute> {
        let rows = DOCUMENT.split_once(MINUTES_HEAD).expect("a table of measurements").1.lines();
        rows.take_while(|line| line.starts_with('|')).map(minute).collect()
    }

    fn minute(row: &str) -> Minute {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let number = |index: usize| -> f64 { cells[index].parse().unwrap() };
        Minute {
            nodes: cells[0].parse().unwrap(),
            hour: Hour::ALL.into_iter().find(|hour| hour.as_str() == cells[1]).unwrap(),
            function: cells[2].trim_matches('`').to_owned(),
            received: number(3) * 1e3,
            sent: number(4) * 1e3,
            seconds: number(5),
            reads: number(6),
            writes: number(7),
        }
    }

    #[test]
    fn the_dollars_of_the_document_follow_from_its_measurements() {
        let shown = shown();
        assert_eq!(shown.len(), 3 * 3 * Hour::ALL.len());
        assert!(DOCUMENT.contains(&bills_table(&shown)), "the table is to say:\n{}", bills_table(&shown));
    }

    #[test]
    fn a_function_that_runs_all_the_time_costs_what_lambda_asks() {
        let minute = Minute {
            nodes: 1,
            hour: Hour::Quiet,
            function: "provision".into(),
            received: 1e9,
            sent: 1e9,
            seconds: 60.0,
            reads: 8e6 / MINUTES,
            writes: 0.0,
        };
        let bill = bills(&[minute])[&(1, Hour::Quiet)];
        assert!((bill.lambda - (10.95 + 0.008_76)).abs() < 0.001, "{bill:?}");
        assert!((bill.dynamodb - 1.0).abs() < 0.001, "{bill:?}");
        assert!((bill.private - 1_752.0).abs() < 0.1 && (bill.public - 3_942.0).abs() < 0.1, "{bill:?}");
    }
}
