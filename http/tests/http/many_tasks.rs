//! Changes of many tasks.

use serde_json::json;
use tubewell::{Failure, Put, TubeOptions};

use super::client::Served;

fn put(served: &Served, tag: &str) -> u64 {
    served.store.find_tube("jobs").unwrap().put(Put::new("x").tag(tag)).unwrap().id
}

fn bury(served: &Served, tag: &str) -> u64 {
    let id = put(served, tag);
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.claim(id).unwrap().bury(Failure::new("smtp", "refused")).unwrap();
    id
}

fn changed(served: &Served, path: &str) -> u64 {
    served.post(path, "").expect(200)["changed"].as_u64().unwrap()
}

#[test]
fn tasks_that_meet_the_conditions_are_changed() {
    let served = Served::new();
    let later = served.store.create_tube("later", TubeOptions::new()).unwrap();
    for _ in 0..3 {
        bury(&served, "a");
        bury(&served, "b");
    }
    assert_eq!(changed(&served, "/v1/tubes/jobs/kick?group=smtp&tag=a&limit=2"), 2);
    assert_eq!(changed(&served, "/v1/tubes/jobs/kick?group=unknown"), 0);
    assert_eq!(changed(&served, "/v1/tubes/jobs/move?to=later&state=buried&tag=b"), 3);
    assert_eq!(later.statistics().unwrap().tasks.buried, 3);
    assert_eq!(changed(&served, "/v1/all/kick"), 4);
    served.take();
    served.take();
    assert_eq!(changed(&served, "/v1/tubes/jobs/revoke?state=taken&limit=1"), 1);
    assert_eq!(changed(&served, "/v1/tubes/jobs/release"), 1);
    assert_eq!(changed(&served, "/v1/tubes/jobs/delete?state=ready"), 3);
    assert_eq!(changed(&served, "/v1/all/delete?tag=b"), 3);
    assert_eq!(served.store.statistics().unwrap()["later"].tasks.total, 0);
}

#[test]
fn chosen_tasks_are_deleted_together() {
    let served = Served::new();
    let ids = [put(&served, "a"), put(&served, "a"), put(&served, "a")];
    let chosen = json!({ "ids": &ids[..2] });
    let answer = served.json("POST", "/v1/tubes/jobs/delete", &chosen).expect(200);
    assert_eq!(answer["changed"], 2);
    assert_eq!(served.json("POST", "/v1/all/delete", &chosen).expect(200)["changed"], 0);
    assert_eq!(served.store.find_tube("jobs").unwrap().statistics().unwrap().tasks.total, 1);
}

/// A misspelt condition would change all tasks.
#[test]
fn change_without_a_condition_that_it_needs_is_refused() {
    let served = Served::new();
    put(&served, "a");
    for path in [
        "/v1/tubes/jobs/delete",
        "/v1/all/delete",
        "/v1/all/delete?stat=ready",
        "/v1/tubes/jobs/move",
        "/v1/tubes/jobs/kick?to=jobs",
        "/v1/tubes/jobs/kick?state=ready",
        "/v1/tubes/jobs/kick?owner=me",
        "/v1/tubes/jobs/delete?limit=many",
    ] {
        assert_eq!(served.post(path, "").refused(400), "invalid", "{path}");
    }
    assert_eq!(served.post("/v1/tubes/jobs/burn", "").refused(404), "unknown_call");
    assert_eq!(served.post("/v1/tubes/none/kick", "").refused(404), "tube_not_found");
    let missing = served.post("/v1/tubes/jobs/move?to=none&state=ready", "");
    assert_eq!(missing.refused(404), "tube_not_found");
    let unknown = json!({ "id": [0] });
    assert_eq!(served.json("POST", "/v1/tubes/jobs/delete", &unknown).refused(400), "invalid");
    assert_eq!(served.store.find_tube("jobs").unwrap().statistics().unwrap().tasks.ready, 1);
}

/// A query that is no text was read with replacements, and met other tasks.
#[test]
fn condition_that_is_no_text_is_refused() {
    let served = Served::new();
    put(&served, "\u{fffd}");
    assert_eq!(served.post("/v1/tubes/jobs/delete?tag=%ff", "").refused(400), "invalid");
    assert_eq!(served.post("/v1/tubes/jobs/delete?tag=%ef%bf", "").refused(400), "invalid");
    assert_eq!(changed(&served, "/v1/tubes/jobs/delete?tag=%EF%BF%BD"), 1);
}

/// A list of the fields was read as the object.
#[test]
fn content_that_is_no_object_is_refused() {
    let served = Served::new();
    let id = put(&served, "a");
    let path = format!("/v1/tasks/{id}");
    for wrong in [json!([7, null, null, null, null, null]), json!("x"), json!(7)] {
        assert_eq!(served.json("PATCH", &path, &wrong).refused(400), "invalid", "{wrong}");
    }
    let list = json!([[id]]);
    assert_eq!(served.json("POST", "/v1/tubes/jobs/delete", &list).refused(400), "invalid");
    for id in ["+0", "00"] {
        assert_eq!(served.get(&format!("/v1/tasks/{id}")).refused(400), "invalid");
    }
}

/// Two parsers of large contents kept all other calls waiting.
#[test]
fn object_without_a_body_has_a_limit_of_its_own() {
    let served = Served::new();
    let ids: Vec<u64> = (0..300_000).collect();
    let answer = served.json("POST", "/v1/tubes/jobs/delete", &json!({ "ids": ids }));
    assert_eq!(answer.refused(413), "content_too_large");
    let answer = served.json("POST", "/v1/tubes/jobs/delete", &json!({ "ids": ids[..10_000] }));
    assert_eq!(answer.expect(200)["changed"], 0);
}
