//! A store whose disk is full, or fails, for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use tubewell::{LIMFIFOTTL, TubeOptions};

use super::client::{Answer, Served, wait_until};
use super::disk::Disk;

fn served() -> (Arc<Disk>, Served) {
    let (store, disk) = Disk::store();
    (disk, Served::of(store, |options| options))
}

fn comes_back(answer: &Answer) -> bool {
    answer.headers.iter().any(|line| line.eq_ignore_ascii_case("retry-after: 1"))
}

#[test]
fn put_on_a_full_disk_is_refused_and_the_tasks_that_are_there_are_worked_on() {
    let (disk, served) = served();
    served.post("/v1/tubes/jobs/tasks", "x").expect(201);
    disk.is_full.store(true, Ordering::SeqCst);
    // The store looks at the disk when it has written some megabytes.
    let large = "x".repeat(1 << 20);
    wait_until(|| served.post("/v1/tubes/jobs/tasks", &large).status == 507);
    let before = served.get("/v1/tubes/jobs").expect(200)["tasks"]["ready"].clone();
    let list = json!([{ "data": "a" }, { "data": "b" }]);
    assert_eq!(served.json("POST", "/v1/tubes/jobs/tasks", &list).refused(507), "disk_full");
    assert_eq!(served.post("/v1/tubes/jobs/tasks", "z").refused(507), "disk_full");
    assert_eq!(served.get("/v1/tubes/jobs").expect(200)["tasks"]["ready"], before);
    served.post(&format!("/v1/claims/{}/ack", served.take()), "").expect(200);
    disk.is_full.store(false, Ordering::SeqCst);
    wait_until(|| served.post("/v1/tubes/jobs/tasks", "y").status == 201);
}

#[test]
fn calls_to_a_disk_that_fails_say_whether_they_may_have_been_made() {
    let (disk, served) = served();
    let id = served.post("/v1/tubes/jobs/tasks", "x").expect(201)["id"].clone();
    disk.fails.store(true, Ordering::SeqCst);
    let first = served.post("/v1/tubes/jobs/tasks", "y");
    assert_eq!(first.refused(503), "outcome_unknown");
    assert!(!comes_back(&first), "the put may have been made");
    let second = served.post("/v1/tubes/jobs/tasks", "z");
    assert_eq!(second.refused(503), "unavailable");
    assert!(comes_back(&second));
    // Counts are in memory. The dashboard reads them.
    for path in ["/v1/backlog", "/v1/backlog?limit=100", "/v1/store", "/metrics"] {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    disk.fails.store(false, Ordering::SeqCst);
    wait_until(|| served.post("/v1/tubes/jobs/tasks", "last").status == 201);
    assert_eq!(served.get(&format!("/v1/tasks/{id}")).expect(200)["data"], "x");
    let tasks = served.get("/v1/tasks?state=ready").expect(200)["tasks"].as_array().unwrap().len();
    assert!((2..=3).contains(&tasks), "the first, the last, and the one whose outcome is unknown");
}

#[test]
fn put_into_a_full_tube_is_refused_for_now() {
    let served = Served::new();
    let options = TubeOptions::new().driver(LIMFIFOTTL).capacity(1);
    served.store.create_tube("narrow", options).unwrap();
    served.post("/v1/tubes/narrow/tasks", "x").expect(201);
    let refused = served.post("/v1/tubes/narrow/tasks", "y");
    assert_eq!(refused.refused(429), "full");
    assert!(comes_back(&refused));
    let list = json!([{ "data": "a" }, { "data": "b" }]);
    assert_eq!(served.json("POST", "/v1/tubes/narrow/tasks", &list).refused(429), "full");
    assert_eq!(served.get("/v1/tubes/narrow").expect(200)["tasks"]["ready"], 1);
}
