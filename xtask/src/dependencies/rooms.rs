//! Rooms: the modules at the top of a crate. They know one another in one direction only, so that a
//! reader can begin at the bottom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result, bail};

use crate::command::{output, program, root};

/// Each room, and the rooms that it names.
type Rooms = BTreeMap<String, BTreeSet<String>>;

/// Errors with the first circle of each crate that has one.
pub(super) fn check() -> Result<()> {
    let manifests = output(program("git")?.args(["ls-files", "--", "*Cargo.toml"]))?;
    let mut circles = Vec::new();
    for manifest in manifests.lines() {
        let source = root()?.join(manifest).with_file_name("src");
        let rooms = rooms(&source).with_context(|| format!("reading {}", source.display()))?;
        if let Some(circle) = circle(&rooms) {
            circles.push(format!("{}: {}", manifest.trim_end_matches("/Cargo.toml"), circle.join(" -> ")));
        }
    }
    if circles.is_empty() {
        return Ok(());
    }
    bail!("rooms that know one another in a circle:\n{}", circles.join("\n"))
}

/// The rooms below a crate's `src`; none where it has none.
fn rooms(source: &Path) -> io::Result<Rooms> {
    let mut files = Vec::new();
    if source.is_dir() {
        list(source, &mut files)?;
    }
    let room_of = |file: &Path| {
        let first = file.strip_prefix(source).ok()?.iter().next()?;
        let room = Path::new(first).file_stem()?.to_str()?.to_owned();
        (!matches!(room.as_str(), "lib" | "main" | "bin")).then_some(room)
    };
    let all_rooms: BTreeSet<String> = files.iter().filter_map(|file| room_of(file)).collect();
    let mut rooms = Rooms::new();
    for file in files.iter().filter(|file| file.file_stem().is_some_and(|stem| stem != "tests")) {
        let Some(room) = room_of(file) else { continue };
        let mut uses = named_in(&fs::read_to_string(file)?);
        uses.retain(|other| *other != room && all_rooms.contains(other));
        rooms.entry(room).or_default().extend(uses);
    }
    Ok(rooms)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The modules that follow `crate::` in a source, alone or in braces; its tests may name any.
fn named_in(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<&str> = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut named = BTreeSet::new();
    for after in code.join("\n").split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => named.insert(first_word(after)),
            Some(group) => {
                let mut depth = 0;
                let parts = group.split(|letter| {
                    depth += i32::from(letter == '{') - i32::from(letter == '}');
                    letter == ',' && depth == 0
                });
                named.extend(parts.map(|part| first_word(part.trim_start())));
                true
            }
        };
    }
    named
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// A circle among the rooms, from one of them back to itself.
fn circle(rooms: &Rooms) -> Option<Vec<&str>> {
    let mut finished = BTreeSet::new();
    rooms.keys().find_map(|room| walk(rooms, room, &mut Vec::new(), &mut finished))
}

fn walk<'r>(
    rooms: &'r Rooms,
    room: &'r str,
    path: &mut Vec<&'r str>,
    finished: &mut BTreeSet<&'r str>,
) -> Option<Vec<&'r str>> {
    if let Some(start) = path.iter().position(|passed| *passed == room) {
        return Some(path[start..].iter().copied().chain([room]).collect());
    }
    if finished.contains(room) {
        return None;
    }
    path.push(room);
    let circle = rooms.get(room)?.iter().find_map(|next| walk(rooms, next, path, finished));
    path.pop();
    finished.insert(room);
    circle
}

#[cfg(test)]
mod tests {
    use super::{Rooms, circle, named_in};

    #[test]
    fn names_are_read_from_paths_and_groups() {
        let source = "use crate::plan::{Plan, b};\nuse crate::{args, text::{a, b}, unreadable};\n// crate::no\n\
            fn f() { crate::deep::call() }\n#[cfg(test)]\nmod tests { use crate::only_tests; }\n";
        let named: Vec<String> = named_in(source).into_iter().collect();
        assert_eq!(named, ["args", "deep", "plan", "text", "unreadable"]);
    }

    #[test]
    fn a_circle_is_seen_and_a_diamond_is_none() {
        let rooms = |edges: &[(&str, &str)]| {
            let mut rooms = Rooms::new();
            for (from, to) in edges {
                rooms.entry((*from).to_owned()).or_default().insert((*to).to_owned());
                rooms.entry((*to).to_owned()).or_default();
            }
            rooms
        };
        let diamond = rooms(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]);
        assert_eq!(circle(&diamond), None);
        let ring = rooms(&[("a", "b"), ("b", "c"), ("c", "b")]);
        assert_eq!(circle(&ring), Some(vec!["b", "c", "b"]));
    }
}
