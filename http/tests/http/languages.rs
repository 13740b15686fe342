//! The programs of docs/http.md and docs/traces.md, as they are written there.

use std::process::Command;

use super::client::Served;
use super::generated::PYTHON;
use super::tools::{are_there, leave_out};

const DOCUMENT: &str = include_str!("../../../docs/http.md");

/// The only program of the document in this language.
pub fn program(language: &str) -> &'static str {
    program_in(DOCUMENT, language)
}

fn program_in(document: &'static str, language: &str) -> &'static str {
    let (_, rest) = document.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs a program, if all that it needs is installed.
fn run(language: &str, command: &[&str], needs: &[&str]) {
    if !are_there(&format!("the program in {language}"), needs) {
        return;
    }
    let served = Served::new();
    let url = format!("http://{}/v1", served.address());
    let ended = Command::new(command[0])
        .args(&command[1..])
        .arg(program(language))
        .env("URL", url)
        .env("no_proxy", "*")
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let jobs = served.store.tube("jobs").unwrap();
    let task = jobs.query().task(0).unwrap();
    assert_eq!((&*task.body, task.result.as_deref()), (&b"to: ann"[..], Some(&b"sent"[..])));
}

#[test]
fn program_in_shell_does_its_task() {
    run("sh", &["sh", "-ec"], &["sh", "curl", "jq"]);
}

#[test]
fn program_in_python_does_its_task() {
    run("python", &["python3", "-c"], &["python3"]);
}

#[test]
fn program_in_javascript_does_its_task() {
    run("js", &["node", "-e"], &["node"]);
}

#[test]
fn program_with_a_library_for_tracing_works_in_the_trace_of_the_put() {
    let Ok(python) = std::env::var(PYTHON) else {
        return leave_out("the trace over Python", PYTHON);
    };
    let served = Served::new();
    let ended = Command::new(python)
        .args(["-c", program_in(include_str!("../../../docs/traces.md"), "python")])
        .env("URL", format!("http://{}/v1", served.address()))
        .env("no_proxy", "*")
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let task = served.store.find_tube("jobs").unwrap().query().task(0).unwrap();
    let traceparent = task.info.traceparent.unwrap();
    let ids: Vec<&str> = traceparent.split('-').collect();
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(printed.trim(), format!("{} {}", ids[1], ids[2]));
}
