//! How the tests of whole commands run them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the built command in a folder, with a text on its standard input.
pub(crate) fn outrigger(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(arguments)
        // Nobody asks the cluster of whoever runs the tests.
        .env("KUBECONFIG", "no/such/kubeconfig")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input closes it, which is no failure here.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output().expect("the command ends")
}
