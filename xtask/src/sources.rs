//! Rules for files that no compiler checks.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{metadata, output, program, root};
use crate::prose;

/// A longer file has two subjects.
const FILE_LINES: usize = 600;
/// A function's main only wires.
const MAIN_LINES: usize = 40;
/// First folders of paths that exist on one machine only.
const MACHINE_FOLDERS: [&str; 4] = ["home", "Users", "root", "work"];

/// Checks every file that git knows or would take, and every member's manifest.
pub(crate) fn run() -> Result<()> {
    let mut complaints = Vec::new();
    let root = root()?;
    let files = output(program("git")?.args(["ls-files", "-co", "--exclude-standard"]))?;
    for name in files.lines() {
        // What is deleted but not committed is listed, and binary files have no lines.
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            complaints.extend(complaints_about(name, &text));
            complaints.extend(prose::complaints_about(name, &text));
        }
    }
    for package in metadata()?["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let text = fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
        if !inherits_lints(&text) {
            complaints.push(format!("{}: lacks [lints] workspace = true", manifest.display()));
        }
    }
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    eprintln!("{} files: nothing to complain about", files.lines().count());
    Ok(())
}

fn complaints_about(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_rust = Path::new(name).extension().is_some_and(|end| end == "rs");
    if is_rust {
        let lines = text.lines().count();
        if !text.starts_with("//!") {
            complaints.push(format!("{name}: does not open with //! and what it is for"));
        }
        if lines > FILE_LINES {
            complaints.push(format!("{name}: {lines} lines, more than {FILE_LINES}"));
        }
        let main = name.starts_with("functions/") && name.ends_with("/src/main.rs");
        if main && lines > MAIN_LINES {
            complaints
                .push(format!("{name}: {lines} lines, more than {MAIN_LINES} for a main that only wires"));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if is_rust && prose::is_wide_comment(line) {
            complaints.push(format!("{name}:{}: a comment wider than {} columns", index + 1, prose::WIDTH));
        }
        if MACHINE_FOLDERS.iter().any(|folder| has_path(line, folder)) {
            complaints.push(format!("{name}:{}: a path of one machine", index + 1));
        }
    }
    complaints
}

/// Whether the line holds an absolute path that starts with the folder: `/folder/x`, with no part
/// before it.
fn has_path(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}/");
    line.match_indices(&path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let starts = before.is_none_or(|letter| letter.is_whitespace() || "\"'`=(:,".contains(letter));
        starts && after.is_some_and(char::is_alphanumeric)
    })
}

fn inherits_lints(manifest: &str) -> bool {
    let lines: Vec<&str> = manifest.lines().map(str::trim).collect();
    lines.contains(&"lints.workspace = true")
        || lines.windows(2).any(|two| two == ["[lints]", "workspace = true"])
}

#[cfg(test)]
mod tests {
    use super::{complaints_about, has_path, inherits_lints};

    #[test]
    fn paths_of_one_machine_are_found() {
        let path = ["", "home", "me", "x"].join("/");
        assert!(has_path(&format!("see {path}"), "home"));
        assert!(!has_path(&format!("https://example.com{path}"), "home"));
    }

    #[test]
    fn a_long_main_and_a_missing_heading_are_named() {
        let complaints = complaints_about("functions/x/src/main.rs", &"fn main() {}\n".repeat(41));
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }

    #[test]
    fn both_ways_to_inherit_lints_count() {
        assert!(inherits_lints("[lints]\nworkspace = true\n") && inherits_lints("lints.workspace = true\n"));
        assert!(!inherits_lints("[package]\n"));
    }
}
