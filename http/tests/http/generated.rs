//! A client that a public generator makes of the description of the calls.

use std::process::Command;

use tubewell::TaskState;

use super::client::Served;
use super::languages::program;
use super::tools::leave_out;

/// The Python that has the generator.
pub const PYTHON: &str = "TUBEWELL_CLIENT_PYTHON";

/// The program of the document puts a task, takes it and ends it, lists tasks, and makes a call that is refused.
#[test]
fn generated_client_puts_takes_ends_and_lists_tasks_and_reads_refusals() {
    let Some(python) = std::env::var_os(PYTHON) else {
        return leave_out("the generated client", PYTHON);
    };
    let served = Served::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("openapi.json"), served.get("/openapi.json").content)
        .unwrap();
    // The formatter of generated code is of no use here.
    std::fs::write(folder.path().join("config.yml"), "post_hooks: []\n").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.current_dir(&folder).args(arguments);
        let url = format!("http://{}", served.address());
        let ended = command.env("URL", url).env("no_proxy", "*").output().unwrap();
        let text = [ended.stdout, ended.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(ended.status.success(), "{arguments:?}: {text}");
        text
    };
    // A part of the description that the generator does not understand is a failure.
    run(&[
        "-m",
        "openapi_python_client",
        "generate",
        "--path",
        "openapi.json",
        "--config",
        "config.yml",
        "--meta",
        "none",
        "--output-path",
        "tubewell_client",
        "--fail-on-warning",
    ]);
    let printed = run(&["-c", program("py")]);
    let jobs = served.store.find_tube("jobs").unwrap();
    let task = jobs.query().task(0).unwrap();
    assert_eq!((&*task.body, task.result.as_deref()), (&b"to: ann"[..], Some(&b"sent"[..])));
    assert_eq!((task.info.state, &task.info.tags[..]), (TaskState::Done, &["news".to_owned()][..]));
    assert_eq!(printed.trim(), "[1] not_taken");
}
