//! `outrigger top` on a real terminal, 80 columns wide: what stands on its screen.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

const EXAMPLE: [&str; 3] = ["top", "-f", "examples/half-empty.yaml"];

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A terminal of tmux in which the command runs.
struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Self {
        let terminal = Self { folder: tempfile::tempdir().expect("there is room for a folder") };
        let size = ["new-session", "-d", "-x", "80", "-y", "24"];
        let program = [env!("CARGO_BIN_EXE_outrigger")];
        terminal.tmux(&[&size[..], &program, arguments].concat());
        terminal
    }

    /// What a command of tmux prints.
    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(["-f", "/dev/null"])
            .args(arguments)
            .current_dir(root())
            .output()
            .expect("tmux is installed, as CONTRIBUTING.md asks");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The screen, once it has this in it.
    #[track_caller]
    fn shows(&self, expected: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(expected) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "no {expected:?} on\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether the command still runs.
    fn lives(&self) -> bool {
        !self.tmux(&["list-sessions"]).is_empty()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn nodes_fit_eighty_columns_and_say_how_full_they_are_and_what_becomes_of_them() {
    let terminal = Terminal::start(&EXAMPLE);
    let screen = terminal.shows("VERDICT");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.contains("#1 ") && screen.contains('█') && screen.contains("/month)"), "{screen}");
    terminal.press(&["s"]);
    terminal.shows("by cpu");
    terminal.press(&["/", "spot", "Enter"]);
    terminal.shows("only spot");
    terminal.press(&["/", "Escape"]);
    terminal.press(&["Enter"]);
    let detail = terminal.shows("NodePool  ");
    assert!(detail.contains("Memory    ") && detail.contains("GiB"), "{detail}");
    terminal.press(&["Escape"]);
    terminal.press(&["Tab"]);
    terminal.shows("NODE, OR WHY");
    terminal.press(&["Tab"]);
    terminal.shows("PODS GO TO");
    terminal.press(&["?"]);
    terminal.shows("another row");
    terminal.press(&["Escape"]);
    terminal.press(&["q"]);
    let begun = Instant::now();
    while terminal.lives() {
        assert!(begun.elapsed() < Duration::from_secs(10), "q does not end it");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn elsewhere_it_prints_once_in_each_format() {
    let printed = |more: &[&str]| {
        let output = support::outrigger(&root(), &[&EXAMPLE, more].concat(), "");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = printed(&["--sort", "cpu"]);
    assert!(text.contains("NODEPOOL") && text.contains("fewer save $"), "{text}");
    let overview: Value = serde_json::from_str(&printed(&["-o", "json"])).expect("it prints JSON");
    assert_eq!(overview["kind"], "Overview");
    let names = printed(&["-o", "name"]);
    assert_eq!(names.lines().count(), overview["nodes"].as_array().map_or(0, Vec::len));
    let shares: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("i-"))
        .filter_map(|line| line.split_whitespace().find_map(|cell| cell.strip_suffix('%')?.parse().ok()))
        .collect();
    assert!(shares.len() > 3 && shares.is_sorted(), "{text}");
}
