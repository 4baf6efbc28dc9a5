//! What is taken out of the optimiser to see what it is good for: a table of changes to its
//! sources, for production code carries no switches for this.
//!
//! A copy of the sources is changed in all places at once, as mutant schemata have it (Untch and
//! others 1993): each place asks whether it is the one that is missing. One build then serves all
//! mutations, and the decisions without any.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The folder, below the workspace's root, whose sources are changed.
pub const SOURCES: &str = "shared/optimizer/src";
/// The crate's root below [`SOURCES`].
const ROOT: &str = "lib.rs";
/// The environment variable with the number of the mutation that is made.
pub const MISSING: &str = "OUTRIGGER_MISSING";

/// An expression of the sources with another in its place.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// What it is called.
    pub name: String,
    /// The file, below [`SOURCES`].
    pub file: String,
    /// What is missing then, in words.
    pub missing: String,
    /// A text that stands once in the file.
    pub text: String,
    /// The expression in it that is replaced; all of it where none is given.
    #[serde(default)]
    pub part: Option<String>,
    /// What is worked out instead.
    pub with: String,
}

impl Mutation {
    /// The changes that `bench/mutations.yaml` lists.
    pub fn listed() -> Result<Vec<Self>> {
        serde_saphyr::from_str(include_str!("../mutations.yaml")).context("reading bench/mutations.yaml")
    }

    /// Where the expression stands in its file.
    fn range(&self, source: &str) -> Result<Range<usize>> {
        let part = self.part.as_deref().unwrap_or(&self.text);
        let text = only(source, &self.text)
            .with_context(|| format!("bench/mutations.yaml, {}: in {SOURCES}/{}", self.name, self.file))?;
        let within = only(&self.text, part)
            .with_context(|| format!("bench/mutations.yaml, {}: in its text", self.name))?;
        Ok(text + within..text + within + part.len())
    }
}

/// Where a text stands that must stand there once.
fn only(source: &str, text: &str) -> Result<usize> {
    let count = source.matches(text).count();
    ensure!(count == 1, "found `{text}` {count} times; allowed: once");
    source.find(text).context("it is not there")
}

/// The files that mutations change, by their name below [`SOURCES`], with all changes made: the
/// variable [`MISSING`] says which of them counts.
pub fn changed_sources(
    mutations: &[Mutation],
    read: impl Fn(&str) -> Result<String>,
) -> Result<BTreeMap<String, String>> {
    let root = format!("#![allow(warnings)]\n{}{}", read(ROOT)?, switch());
    let mut sources = BTreeMap::from([(ROOT.to_owned(), root)]);
    let mut changes: BTreeMap<&str, Vec<(Range<usize>, usize)>> = BTreeMap::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let source = read(&mutation.file)?;
        changes.entry(&mutation.file).or_default().push((mutation.range(&source)?, number));
        sources.insert(mutation.file.clone(), source);
    }
    for (file, mut changes) in changes {
        changes.sort_by_key(|(range, number)| (range.start, *number));
        let chains = changes.chunk_by(|(a, _), (b, _)| a == b);
        let chains: Vec<&[(Range<usize>, usize)]> = chains.collect();
        for pair in chains.windows(2) {
            let ((before, first), (after, second)) = (&pair[0][0], &pair[1][0]);
            let names = (&mutations[*first].name, &mutations[*second].name);
            ensure!(before.end <= after.start, "{} and {} overlap in {file}", names.0, names.1);
        }
        let Some(source) = sources.get_mut(file) else { continue };
        // From the end, so that what is to come stays where it is.
        for chain in chains.into_iter().rev() {
            let range = chain[0].0.clone();
            let mut expression = String::from("(");
            for (_, number) in chain {
                let with = &mutations[*number].with;
                let _ = write!(expression, "if crate::is_missing({number}) {{ {with} }} else ");
            }
            let _ = write!(expression, "{{ {} }})", &source[range.clone()]);
            source.replace_range(range, &expression);
        }
    }
    Ok(sources)
}

/// What each changed place asks.
fn switch() -> String {
    format!(
        "
static MISSING: std::sync::LazyLock<Option<usize>> =
    std::sync::LazyLock::new(|| std::env::var(\"{MISSING}\").ok()?.parse().ok());

fn is_missing(number: usize) -> bool {{
    *MISSING == Some(number)
}}
"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_replaced_stands_once_in_the_sources() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(SOURCES);
        let read = |file: &str| Ok(std::fs::read_to_string(sources.join(file))?);
        changed_sources(&Mutation::listed().unwrap(), read).unwrap();
    }

    #[test]
    fn names_are_different() {
        let mutations = Mutation::listed().unwrap();
        let names: BTreeSet<&str> = mutations.iter().map(|mutation| mutation.name.as_str()).collect();
        assert_eq!(names.len(), mutations.len());
    }

    #[test]
    fn a_place_asks_for_each_of_its_mutations() {
        let mutation = |name: &str, text: &str, part: Option<&str>, with: &str| Mutation {
            name: name.to_owned(),
            file: "a.rs".to_owned(),
            missing: String::new(),
            text: text.to_owned(),
            part: part.map(str::to_owned),
            with: with.to_owned(),
        };
        let read = |file: &str| Ok(if file == ROOT { String::new() } else { "f(A, B)".to_owned() });
        let twice = [mutation("none", "f(A,", Some("A"), "0"), mutation("all", "(A", Some("A"), "9")];
        let sources = changed_sources(&twice, read).unwrap();
        let expected = "f((if crate::is_missing(0) { 0 } else if crate::is_missing(1) { 9 } else { A }), B)";
        assert_eq!(sources["a.rs"], expected);
        let overlapping = [mutation("a", "A, B", None, "0"), mutation("b", "B", None, "0")];
        assert!(changed_sources(&overlapping, read).is_err());
        assert!(changed_sources(&[mutation("absent", "C", None, "0")], read).is_err());
    }
}
