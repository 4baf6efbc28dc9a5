//! The API model: which parameters an operation has, and what each may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::Value;

use super::Fault;
use crate::roles::Call;

/// EC2's model as botocore carries it.
#[derive(Debug)]
pub struct Ec2Model {
    root: Value,
}

/// Parameters as a tree: `Filter.1.Name=x` is a branch in a branch.
#[derive(Debug)]
enum Node {
    Leaf(String),
    Branch(BTreeMap<String, Self>),
}

impl Ec2Model {
    /// Reads the model that is installed beside moto, whose programs lie in `programs`.
    pub fn installed(programs: &Path) -> Result<Self> {
        let library = programs.with_file_name("lib");
        let pythons = fs::read_dir(&library).with_context(|| format!("reading {}", library.display()))?;
        let path_within = "site-packages/botocore/data/ec2/2016-11-15/service-2.json.gz";
        let mut paths = pythons.filter_map(|entry| Some(entry.ok()?.path().join(path_within)));
        let path = paths.find(|path| path.is_file());
        let path = path.with_context(|| format!("there is no botocore under {}", library.display()))?;
        let file = File::open(&path).with_context(|| format!("reading {}", path.display()))?;
        let root = serde_json::from_reader(std::io::BufReader::new(GzDecoder::new(file)));
        Ok(Self { root: root.with_context(|| format!("reading {}", path.display()))? })
    }

    /// Whether the operation has these parameters, with values such as these.
    pub(super) fn check_shape(&self, call: &Call) -> Result<(), Fault> {
        let Some(operation) = self.root["operations"].get(&call.operation) else {
            let message = format!("The action {} is not valid for this web service.", call.operation);
            return Err(Fault::new("InvalidAction", message));
        };
        let Some(input) = operation["input"]["shape"].as_str() else { return Ok(()) };
        self.check_node(input, &tree(&call.parameters)?, "")
    }

    fn check_node(&self, shape: &str, node: &Node, path: &str) -> Result<(), Fault> {
        let definition = &self.root["shapes"][shape];
        match (definition["type"].as_str(), node) {
            (Some("structure"), Node::Branch(members)) => self.check_members(definition, members, path),
            (Some("list"), Node::Branch(items)) => self.check_items(definition, items, path),
            (Some("structure" | "list"), Node::Leaf(text)) => {
                Err(Fault::value(path, text, "a structure or a list"))
            }
            (_, Node::Branch(_)) => Err(Fault::new("UnknownParameter", format!("{path} has no members"))),
            (kind, Node::Leaf(text)) => check_text(definition, kind.unwrap_or_default(), text, path),
        }
    }

    fn check_members(
        &self,
        definition: &Value,
        given: &BTreeMap<String, Node>,
        path: &str,
    ) -> Result<(), Fault> {
        let allowed = members(definition);
        for (name, node) in given {
            let path = join(path, name);
            let Some((_, member)) = allowed.get(name) else {
                return Err(Fault::new(
                    "UnknownParameter",
                    format!("The parameter {path} is not recognized"),
                ));
            };
            self.check_node(member["shape"].as_str().unwrap_or_default(), node, &path)?;
        }
        let required = definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for wanted in required {
            let name = allowed.iter().find(|(_, (member, _))| *member == wanted).map(|(name, _)| name);
            if let Some(name) = name.filter(|name| !given.contains_key(*name)) {
                let message = format!("The request must contain the parameter {}", join(path, name));
                return Err(Fault::new("MissingParameter", message));
            }
        }
        Ok(())
    }

    fn check_items(
        &self,
        definition: &Value,
        items: &BTreeMap<String, Node>,
        path: &str,
    ) -> Result<(), Fault> {
        let expected: BTreeSet<String> = (1..=items.len()).map(|index| index.to_string()).collect();
        if items.keys().cloned().collect::<BTreeSet<_>>() != expected {
            return Err(Fault::value(path, &format!("{:?}", items.keys()), "members 1, 2, 3 and so on"));
        }
        check_bounds(definition, items.len() as f64, path)?;
        let member = definition["member"]["shape"].as_str().unwrap_or_default();
        items.iter().try_for_each(|(index, item)| self.check_node(member, item, &join(path, index)))
    }

    /// Whether the documentation of the operation has these filters.
    pub(super) fn check_filters(&self, call: &Call) -> Result<(), Fault> {
        let input = self.root["operations"][&call.operation]["input"]["shape"].as_str().unwrap_or_default();
        let documentation = &self.root["shapes"][input]["members"]["Filters"]["documentation"];
        let Some(documentation) = documentation.as_str() else { return Ok(()) };
        let documented = filters(documentation);
        for filter in call.entries("Filter") {
            let name = call.parameter(&format!("{filter}Name")).unwrap_or_default();
            let is_known =
                documented.contains(name) || (name.starts_with("tag:") && documented.contains("tag:"));
            if !is_known {
                return Err(Fault::new("InvalidParameterValue", format!("The filter '{name}' is invalid")));
            }
        }
        Ok(())
    }
}

/// The members of a structure by their names on the wire, each with its name in the model.
fn members(definition: &Value) -> BTreeMap<String, (&str, &Value)> {
    let members = definition["members"].as_object().into_iter().flatten();
    members.map(|(name, member)| (wire_name(name, member), (name.as_str(), member))).collect()
}

/// `queryName`, or the name of the answer with a capital, or the member's own.
fn wire_name(name: &str, member: &Value) -> String {
    if let Some(name) = member["queryName"].as_str() {
        return name.to_owned();
    }
    let name = member["locationName"].as_str().unwrap_or(name);
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn tree(parameters: &BTreeMap<String, String>) -> Result<Node, Fault> {
    let mut root = BTreeMap::new();
    for (key, value) in parameters {
        let mut node = &mut root;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let fresh = || if is_last { Node::Leaf(value.clone()) } else { Node::Branch(BTreeMap::new()) };
            match node.entry(part.to_owned()).or_insert_with(fresh) {
                Node::Branch(members) if !is_last => node = members,
                Node::Leaf(_) if is_last => break,
                _ => return Err(Fault::value(key, value, "one value for each parameter")),
            }
        }
    }
    Ok(Node::Branch(root))
}

fn check_text(definition: &Value, kind: &str, text: &str, path: &str) -> Result<(), Fault> {
    let wrong = |allowed: &str| Err(Fault::value(path, text, allowed));
    match kind {
        "integer" | "long" | "double" | "float" => match text.parse::<f64>() {
            Ok(number) if kind.starts_with(['d', 'f']) || number.fract() == 0.0 => {
                check_bounds(definition, number, path)
            }
            _ => wrong("a number"),
        },
        "boolean" if !matches!(text, "true" | "false") => wrong("true or false"),
        "timestamp" if text.parse::<Timestamp>().is_err() => wrong("a time as 2026-01-01T00:00:00Z"),
        "string" => {
            let values: Vec<&str> =
                definition["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !values.is_empty() && !values.contains(&text) {
                return wrong(&values.join(", "));
            }
            check_bounds(definition, text.chars().count() as f64, path)
        }
        _ => Ok(()),
    }
}

/// A number, or the length of a list or a text.
fn check_bounds(definition: &Value, number: f64, path: &str) -> Result<(), Fault> {
    let (least, most) = (definition["min"].as_f64(), definition["max"].as_f64());
    if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
        let allowed = format!(
            "{} to {}",
            least.unwrap_or(0.0),
            most.map_or_else(|| "any".to_owned(), |most| most.to_string())
        );
        return Err(Fault::value(path, &number.to_string(), &allowed));
    }
    Ok(())
}

/// The names of filters that a documentation lists: each entry begins with one. A tag's name goes
/// after `tag:`.
fn filters(documentation: &str) -> BTreeSet<String> {
    let entries = documentation.split("<li>").skip(1).filter_map(|entry| {
        let name = entry.split_once("<code>")?.1.split_once("</code>")?.0;
        Some(if name == "tag" || name.starts_with("tag:") { "tag:".to_owned() } else { name.to_owned() })
    });
    entries.collect()
}
