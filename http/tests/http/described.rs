//! The server does what its description says: schemathesis makes calls from the description, and compares the answers.

use std::process::Command;

use tubewell::{Failure, Put, TubeOptions};

use super::client::Served;
use super::tools::are_there;

/// Calls that the description allows and that no data of the store makes sense for are refused, which the check
/// `positive_data_acceptance` would not allow.
#[test]
fn calls_made_from_the_description_get_the_answers_that_it_describes() {
    if !are_there("the check of the description", &["schemathesis"]) {
        return;
    }
    let served = Served::new();
    served.store.create_tube("pages", TubeOptions::new().driver("utubettl").metrics(3)).unwrap();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put(Put::new("x").key("k").tag("t")).unwrap();
    jobs.put("y").unwrap();
    jobs.try_take().unwrap().unwrap().bury(Failure::new("smtp", "refused")).unwrap();
    // It keeps notes in the folder in which it runs.
    let folder = tempfile::tempdir().unwrap();
    let report = Command::new("schemathesis")
        .current_dir(&folder)
        .arg("run")
        .arg(format!("http://{}/openapi.json", served.address()))
        .args(["--exclude-checks", "positive_data_acceptance", "--exclude-path", "/v1/events"])
        .args(["--max-examples", "20", "--seed", "1", "--workers", "1", "--no-color"])
        .args(["--generation-database", "none", "--request-timeout", "60"])
        .env("no_proxy", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(report.status.success(), "{text}\n{}", String::from_utf8_lossy(&report.stderr));
    assert_eq!(served.store.admin().verify().unwrap(), [""; 0]);
}
