//! A program with a store runs under valgrind, which hides the vDSO from it.

use std::process::{Command, Stdio};

use tubewell::{FIFO, Store, TubeOptions};

/// Regression: the program died with SIGSEGV when the store looked for the vDSO.
#[test]
fn program_with_a_store_runs_under_valgrind() {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("valgrind");
    // Without a tool it checks nothing, and is quick.
    command.args(["--tool=none", "--quiet"]).arg(program);
    let output = command
        .args(["--exact", "valgrind::store_is_opened_used_and_closed", "--ignored"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[test]
#[ignore = "it runs under valgrind, in the test above"]
fn store_is_opened_used_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("work").unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
    store.close().unwrap();
}
