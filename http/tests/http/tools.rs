//! Programs of others that tests use.

use std::io::Write;
use std::process::Command;

/// Whether these programs are installed. Where they are required (`TUBEWELL_TOOLS=required`), a missing one is a
/// failure; elsewhere the test says what it leaves out, past the capture of its output.
pub fn are_there(test: &str, programs: &[&str]) -> bool {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let missing = programs.iter().find(|name| !is_there(name));
    missing.inspect(|missing| leave_out(test, missing)).is_none()
}

/// Leaves a test out that needs something.
pub fn leave_out(test: &str, missing: &str) {
    let is_required = std::env::var("TUBEWELL_TOOLS").is_ok_and(|value| value == "required");
    assert!(!is_required, "{test} needs {missing}, which is not installed");
    let _best_effort = writeln!(std::io::stderr(), "left out: {test} needs {missing}");
}
