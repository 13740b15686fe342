//! Runs promtool, of the package prometheus of Debian.

use std::io::Write;
use std::process::{Command, Stdio};

/// `required`: a test that needs an installed tool fails without it.
const VARIABLE: &str = "TUBEWELL_TOOLS";

/// Returns what promtool has printed, after it has read `input`. Panics if it fails. `None` if promtool is not
/// installed and need not be.
pub fn promtool(arguments: &[&str], input: &str) -> Option<String> {
    let promtool = Command::new("promtool")
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        let is_required = std::env::var_os(VARIABLE).is_some_and(|value| value == "required");
        assert!(!is_required, "promtool is not installed (package prometheus of Debian)");
        // Past the capture of the test's output.
        let _best_effort = writeln!(std::io::stderr(), "left out: promtool is not installed");
        return None;
    };
    // A promtool that reads no input may have ended.
    let _ = promtool.stdin.take().unwrap().write_all(input.as_bytes());
    let ended = promtool.wait_with_output().unwrap();
    let printed = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    assert!(ended.status.success(), "promtool {arguments:?}: {printed}");
    Some(printed)
}
