//! The programs of docs/http.md and docs/traces.md, as they are written there.

use std::process::{Child, Command, Stdio};

use tubewell::{Put, TaskState};
use tubewell_http::HttpOptions;

use super::client::{Served, wait_until};
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
fn worker_in_python_goes_on_with_the_next_server_and_says_why_a_task_has_failed() {
    if !are_there("the worker in Python", &["python3"]) {
        return;
    }
    let mut served = Served::new();
    let address = served.address();
    let worker = Command::new("python3")
        .args(["-c", program("python3")])
        .env("URL", format!("http://{address}/v1"))
        .env("no_proxy", "*")
        .stderr(Stdio::null())
        .spawn();
    let _worker = Running(worker.unwrap());
    let jobs = served.store.find_tube("jobs").unwrap();
    let state = |id| jobs.query().task_info(id).unwrap().state;
    let ann = jobs.put("to: ann").unwrap().id;
    wait_until(|| state(ann) == TaskState::Done);
    served.stop();
    let bob = jobs.put("to: bob").unwrap().id;
    // A client of another test may have the port for a moment.
    let mut again = None;
    wait_until(|| {
        let served = tubewell_http::serve(&served.store, HttpOptions::new(address.to_string()));
        again = served.ok();
        again.is_some()
    });
    wait_until(|| state(bob) == TaskState::Done);
    let eve = jobs.put(Put::new("eve").max_attempts(1)).unwrap().id;
    wait_until(|| state(eve) == TaskState::Buried);
    let failure = jobs.query().task_info(eve).unwrap().failure.unwrap();
    assert_eq!((&*failure.group, &*failure.message), ("ValueError", "no address"));
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _may_have_ended = self.0.kill();
        let _may_have_ended = self.0.wait();
    }
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
