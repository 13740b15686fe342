//! The programs of docs/http.md, as they are written there.

use std::process::Command;

use super::client::Served;
use super::tools::are_there;

const DOCUMENT: &str = include_str!("../../../docs/http.md");

/// The only program of the document in this language.
pub fn program(language: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("```{language}\n")).unwrap();
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
