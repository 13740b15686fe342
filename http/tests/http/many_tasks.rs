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

/// Makes the call until it says that there is nothing left, and returns how many each of the calls has changed.
fn change_in_steps(served: &Served, path: &str) -> Vec<u64> {
    let mut steps = Vec::new();
    let mut after = String::new();
    loop {
        let answer = served.post(&format!("{path}{after}"), "").expect(200);
        steps.push(answer["changed"].as_u64().unwrap());
        let Some(next) = answer["next"].as_str() else { return steps };
        after = format!("&after={next}");
    }
}

#[test]
fn change_with_a_tag_and_a_limit_goes_on_where_the_one_before_has_ended() {
    let served = Served::new();
    let later = served.store.create_tube("later", TubeOptions::new()).unwrap();
    let jobs = served.store.find_tube("jobs").unwrap();
    for _ in 0..5 {
        bury(&served, "a");
        put(&served, "a");
        bury(&served, "b");
    }
    let buried = later.put(Put::new("x").tag("a")).unwrap().id;
    later.admin().bury(buried, None).unwrap();
    let path = "/v1/tubes/jobs/kick?tag=a&limit=2";
    let first = served.post(path, "").expect(200);
    assert_eq!(first["changed"], 2);
    // A task that is buried behind the place of the next call is left, and one before it is kicked.
    let next = first["next"].as_str().unwrap();
    jobs.claim(0).unwrap().bury(None).unwrap();
    let second = served.post(&format!("{path}&after={next}"), "").expect(200);
    assert_eq!(second["changed"], 2);
    let next = second["next"].as_str().unwrap();
    assert_eq!(served.post(&format!("{path}&after={next}"), "").expect(200)["changed"], 1);
    assert_eq!(jobs.statistics().unwrap().tasks.buried, 6);
    assert_eq!(change_in_steps(&served, "/v1/all/kick?tag=a&limit=1").iter().sum::<u64>(), 2);
    for _ in 0..3 {
        let taken = jobs.query().list(tubewell::Filter::new().tag("a"), None, 100).unwrap();
        let ready = taken.items.iter().find(|task| task.state == tubewell::TaskState::Ready);
        let _left_to_the_session = jobs.claim(ready.unwrap().id).unwrap().detach();
    }
    assert_eq!(
        change_in_steps(&served, "/v1/tubes/jobs/revoke?tag=a&limit=2").iter().sum::<u64>(),
        3
    );
    jobs.take().unwrap().ack().unwrap();
    let moved = change_in_steps(&served, "/v1/tubes/jobs/move?to=later&tag=a&limit=3");
    assert_eq!((moved.iter().sum::<u64>(), later.statistics().unwrap().tasks.total), (9, 10));
}

#[test]
fn change_that_does_not_go_on_refuses_the_place_of_another() {
    let served = Served::new();
    for _ in 0..2 {
        bury(&served, "a");
    }
    let first = served.post("/v1/tubes/jobs/kick?tag=a&limit=1", "").expect(200);
    let after = first["next"].as_str().unwrap();
    for path in
        ["kick?limit=1", "kick?tag=a", "delete?tag=a&limit=1", "kick?tag=a&state=ready&limit=1"]
    {
        let refused = served.post(&format!("/v1/tubes/jobs/{path}&after={after}"), "");
        assert_eq!(refused.refused(400), "invalid", "{path}");
    }
    for path in ["/v1/tubes/jobs/kick?tag=a&limit=0", "/v1/tubes/jobs/kick?tag=b&limit=9"] {
        assert_eq!(changed(&served, path), 0);
    }
    assert_eq!(
        served.post("/v1/tubes/jobs/kick?tag=b&owner=x&limit=9", "").refused(400),
        "invalid"
    );
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
