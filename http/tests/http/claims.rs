//! The ends of claims.

use serde_json::json;
use tubewell::{Put, TaskState};

use super::client::Served;

#[test]
fn ack_ends_the_task_with_the_content_as_its_result() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let id = jobs.put("x").unwrap().id;
    let waits = served.get(&format!("/v1/tasks/{id}/outcome"));
    assert_eq!(waits.refused(404), "not_ended");
    let mut waiting = served.client();
    waiting.begin("GET", &format!("/v1/tasks/{id}/outcome?wait=60s"), &[], b"");
    let claim = served.take();
    let acked = served.post(&format!("/v1/claims/{claim}/ack"), "42").expect(200);
    assert_eq!(acked["id"], id);
    let outcome = waiting.answer().unwrap().expect(200);
    assert_eq!((&outcome["state"], &outcome["result"]), (&json!("done"), &json!("42")));
    assert_eq!(served.post(&format!("/v1/claims/{claim}/ack"), "").refused(409), "not_taken");
}

#[test]
fn outcome_says_how_a_task_went_that_left_nothing() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let id = jobs.put("x").unwrap().id;
    let path = format!("/v1/tasks/{id}/outcome");
    let mut waiting = served.client();
    waiting.begin("GET", &format!("{path}?wait=60s"), &[], b"");
    assert!(waiting.has_no_answer());
    served.post(&format!("/v1/tasks/{id}/cancel"), "").expect(200);
    assert_eq!(waiting.answer().unwrap().refused(410), "deleted");
    assert_eq!(served.get(&path).refused(404), "not_found");
}

#[test]
fn claim_of_an_earlier_take_ends_nothing() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let id = jobs.put("x").unwrap().id;
    let first = served.take();
    served.post(&format!("/v1/claims/{first}/release"), "").expect(200);
    let second = served.take();
    assert_ne!(first, second);
    for end in [
        "ack",
        "release",
        "fail",
        "bury",
        "snooze?delay=1s",
        "renew?hold=1s",
        "checkpoint",
        "progress?done=1",
    ] {
        let refused = served.post(&format!("/v1/claims/{first}/{end}"), "why");
        assert_eq!(refused.refused(409), "not_taken", "{end}");
    }
    assert_eq!(jobs.query().task(id).unwrap().info.state, TaskState::Taken);
    served.post(&format!("/v1/claims/{second}/renew?hold=1h"), "").expect(204);
    served.post(&format!("/v1/claims/{second}/ack"), "").expect(200);
}

#[test]
fn failures_have_their_group_and_message_and_delay() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let id = jobs.put("x").unwrap().id;
    let claim = served.take();
    let why = json!({"group": "dns", "message": "no such host"});
    let path = format!("/v1/claims/{claim}/fail");
    assert_eq!(served.post(&path, "").refused(400), "invalid");
    assert_eq!(served.json("POST", &path, &json!({"group": ""})).refused(400), "invalid");
    assert_eq!(served.json("POST", &path, &json!({"grp": "dns"})).refused(400), "invalid");
    assert_eq!(served.json("POST", &path, &json!(["dns", "x"])).refused(400), "invalid");
    // A client that sends no type of its own.
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    let content = why.to_string();
    let path = format!("{path}?delay=1h");
    served.call("POST", &path, &form, content.as_bytes()).expect(200);
    let task = served.get(&format!("/v1/tasks/{id}")).expect(200);
    assert_eq!((&task["state"], &task["failure"]["group"]), (&json!("delayed"), &json!("dns")));
    served.json("POST", &format!("/v1/tasks/{id}/bury"), &why).expect(200);
    assert_eq!(served.get("/v1/tasks?group=dns").expect(200)["tasks"][0]["id"], id);
    served.post(&format!("/v1/tasks/{id}/kick"), "").expect(200);
    let claim = served.take();
    served.post(&format!("/v1/claims/{claim}/bury"), "no use").expect(200);
    let outcome = served.get(&format!("/v1/tasks/{id}/outcome")).expect(200);
    assert_eq!(outcome["failure"]["message"], "no use");
    assert_eq!(served.get("/v1/tasks?group=failed").expect(200)["tasks"][0]["id"], id);
}

#[test]
fn progress_is_shown_and_a_checkpoint_is_what_the_next_take_gets() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let id = jobs.put(Put::new("page 0").ttr(std::time::Duration::from_secs(60))).unwrap().id;
    let claim = served.take();
    served.post(&format!("/v1/claims/{claim}/progress?done=3&total=10"), "").expect(204);
    served.post(&format!("/v1/claims/{claim}/progress"), "page 3 — déjà").expect(204);
    let progress = served.get(&format!("/v1/tasks/{id}")).expect(200)["progress"].clone();
    assert_eq!(progress, json!({ "done": 3, "total": 10, "text": "page 3 — déjà" }));
    served.post(&format!("/v1/claims/{claim}/progress?done=4"), "page 4").expect(204);
    let progress = jobs.query().task(id).unwrap().info.progress.unwrap();
    assert_eq!((progress.done, progress.total, progress.text.as_deref()), (4, 0, Some("page 4")));
    let long = "x".repeat(1025);
    let path = format!("/v1/claims/{claim}/progress");
    assert_eq!(served.post(&path, &long).refused(400), "invalid");
    assert_eq!(served.call("POST", &path, &[], b"\xff").refused(400), "invalid");
    let stored = served.call("POST", &format!("/v1/claims/{claim}/checkpoint"), &[], b"page \xff");
    assert_eq!(stored.expect(200)["state"], "taken");
    served.post(&format!("/v1/claims/{claim}/release"), "").expect(200);
    assert_eq!(jobs.try_take().unwrap().unwrap().body(), b"page \xff");
}

/// Regression: a client that died after a checkpoint held a task without a ttr until the server ended.
#[test]
fn claim_of_a_task_without_a_ttr_has_its_end_after_a_checkpoint() {
    let served = Served::new();
    served.store.find_tube("jobs").unwrap().put("x").unwrap();
    let claim = served.take();
    let id = served.get("/v1/tasks?state=taken").expect(200)["tasks"][0]["id"].clone();
    let left = || served.get(&format!("/v1/tasks/{id}")).expect(200)["due_in"].as_f64().unwrap();
    let before = left();
    served.post(&format!("/v1/claims/{claim}/checkpoint"), "y").expect(200);
    assert!(left() <= before);
}

#[test]
fn wrong_ends_are_refused_and_leave_the_claim() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    jobs.put("x").unwrap();
    let claim = served.take();
    for (path, status) in [
        (format!("/v1/claims/{claim}/forget"), 404),
        (format!("/v1/claims/{claim}/ack?delay=1s"), 400),
        (format!("/v1/claims/{claim}/ack?hold=1s"), 400),
        (format!("/v1/claims/{claim}/renew"), 400),
        (format!("/v1/claims/{claim}/renew?hold=0"), 400),
        (format!("/v1/claims/{claim}/ack?done=1"), 400),
        (format!("/v1/claims/{claim}/progress"), 400),
        (format!("/v1/claims/{claim}/progress?total=3"), 400),
        (format!("/v1/claims/{claim}/progress?done=-1"), 400),
        (format!("/v1/claims/{claim}/checkpoint?hold=1s"), 400),
        (format!("/v1/claims/{claim}/release?delay=x"), 400),
        (format!("/v1/claims/{claim}/snooze"), 400),
        ("/v1/claims/x/ack".into(), 400),
        ("/v1/claims/7.1.am9icw/ack".into(), 409),
        ("/v1/claims/7.1.eA/ack".into(), 404),
    ] {
        served.post(&path, "").refused(status);
    }
    assert_eq!(jobs.statistics().unwrap().tasks.taken, 1);
    served.post(&format!("/v1/claims/{claim}/snooze?delay=1h"), "").expect(200);
    assert_eq!(jobs.statistics().unwrap().tasks.delayed, 1);
}
