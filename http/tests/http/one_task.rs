//! One task: its changes, its history, its steps, and the tasks that it waits for.

use serde_json::{Value, json};
use tubewell::{Put, TubeOptions};

use super::client::Served;

fn with_history() -> (Served, u64) {
    let served = Served::new();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.admin().alter(jobs.info().unwrap().options().history(20)).unwrap();
    let id = jobs.put(Put::new("x").key("k")).unwrap().id;
    (served, id)
}

#[test]
fn task_is_changed_as_the_content_says() {
    let (served, id) = with_history();
    let path = format!("/v1/tasks/{id}");
    let change = json!({ "priority": 7, "delay": "1h", "tags": ["t"], "data_base64": "AP8=" });
    assert_eq!(served.json("PATCH", &path, &change).expect(200)["state"], "delayed");
    let task = served.get(&path).expect(200);
    assert_eq!((&task["priority"], &task["tags"][0]), (&json!(7), &json!("t")));
    assert_eq!(task["data_base64"], "AP8=");
    assert!(task["due_in"].as_f64().unwrap() > 3500.0);

    let moment = json!({ "not_before": "2030-01-01T00:00:00Z" });
    served.json("PATCH", &path, &moment).expect(200);
    assert!(served.get(&path).expect(200)["not_before"].is_string());
    served.json("PATCH", &path, &json!({ "not_before": null })).expect(200);
    assert_eq!(served.get(&path).expect(200)["not_before"], Value::Null);
    served.json("PATCH", &path, &json!({ "priority": 1 })).expect(200);

    for wrong in [
        json!({}),
        json!({ "prio": 1 }),
        json!({ "delay": "soon" }),
        json!({ "data": "x", "data_base64": "eA==" }),
    ] {
        assert_eq!(served.json("PATCH", &path, &wrong).refused(400), "invalid", "{wrong}");
    }
    assert_eq!(
        served.json("PATCH", "/v1/tasks/99", &json!({ "priority": 1 })).refused(404),
        "not_found"
    );
}

#[test]
fn what_has_happened_to_a_task_is_told() {
    let (served, id) = with_history();
    assert_eq!(served.post(&format!("/v1/tasks/{id}/log"), "looked at it").expect(200)["id"], id);
    served.post(&format!("/v1/claims/{}/bury", served.take()), "broken").expect(200);
    let history = served.get(&format!("/v1/tasks/{id}/history")).expect(200);
    let what: Vec<&str> = history["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["what"].as_str().unwrap())
        .collect();
    assert_eq!(what, ["put", "log", "take", "bury"]);
    assert_eq!(history["entries"][1]["text"], "looked at it");
    assert_eq!(served.get("/v1/keys/k").expect(200)["id"], id);
    assert_eq!(served.get("/v1/keys/other").refused(404), "key_not_found");
    assert_eq!(served.get("/v1/tasks/99/history").refused(404), "not_found");
}

#[test]
fn task_without_a_worker_is_finished_by_hand_and_forgotten() {
    let (served, id) = with_history();
    served.post(&format!("/v1/tasks/{id}/resolve"), "by telephone").expect(200);
    let outcome = served.get(&format!("/v1/tasks/{id}/outcome")).expect(200);
    assert_eq!((&outcome["state"], &outcome["result"]), (&json!("done"), &json!("by telephone")));
    served.post(&format!("/v1/tasks/{id}/forget"), "").expect(200);
    assert_eq!(served.get(&format!("/v1/tasks/{id}")).refused(404), "not_found");
}

#[test]
fn claim_on_a_task_is_ended_and_the_task_moved() {
    let (served, id) = with_history();
    served.store.create_tube("later", TubeOptions::new()).unwrap();
    let claim = served.take();
    assert_eq!(served.post(&format!("/v1/tasks/{id}/revoke"), "").expect(200)["changed"], 1);
    assert_eq!(served.post(&format!("/v1/tasks/{id}/release"), "").expect(200)["changed"], 0);
    assert_eq!(served.post(&format!("/v1/claims/{claim}/ack"), "").refused(409), "not_taken");
    let moved = served.post(&format!("/v1/tasks/{id}/move?to=later"), "").expect(200);
    assert_eq!(moved["changed"], 1);
    assert_eq!(served.get(&format!("/v1/tasks/{id}")).expect(200)["tube"], "later");
    assert_eq!(served.post(&format!("/v1/tasks/{id}/move"), "").refused(400), "invalid");
    assert_eq!(served.post(&format!("/v1/tasks/{id}/kick?to=jobs"), "").refused(400), "invalid");
}

#[test]
fn steps_and_relations_of_a_task_are_told() {
    let served = Served::new();
    let jobs = served.store.find_tube("jobs").unwrap();
    let other = served.store.create_tube("other", TubeOptions::new()).unwrap();
    let parent = jobs.put(Put::new("x").key("first")).unwrap().id;
    let child = other.put(Put::new("x").after(&jobs, [parent])).unwrap().id;
    let claim = jobs.claim(parent).unwrap();
    claim.step("resized", || Ok::<_, tubewell::Error>(17)).unwrap();
    let steps = served.get(&format!("/v1/tasks/{parent}/steps")).expect(200);
    assert_eq!(steps["steps"][0]["name"], "resized");
    assert_eq!(steps["steps"][0]["value"], "17");
    claim.step("uploaded", || Ok::<_, tubewell::Error>(18)).unwrap();
    let first = served.get(&format!("/v1/tasks/{parent}/steps?limit=1")).expect(200);
    assert_eq!((&first["steps"], &first["left_out"]), (&steps["steps"], &json!(1)));
    assert_eq!(
        served.get(&format!("/v1/tasks/{parent}/steps?limit=10001")).refused(400),
        "invalid"
    );
    assert_eq!(served.get(&format!("/v1/tasks/{parent}")).expect(200)["steps"], 2);

    let relations = served.get(&format!("/v1/tasks/{child}/relations")).expect(200);
    let first = &relations["parents"][0];
    assert_eq!((&first["id"], &first["tube"]), (&json!(parent), &json!("jobs")));
    assert_eq!((&first["state"], &first["key"]), (&json!("taken"), &json!("first")));
    assert_eq!(relations["children"], json!([]));
    let relations = served.get(&format!("/v1/tasks/{parent}/relations")).expect(200);
    assert_eq!(relations["children"][0]["id"], child);
    assert_eq!(relations["children_left_out"], 0);
}
