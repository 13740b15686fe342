//! Puts, pages, and changes of tasks.

use serde_json::{Value, json};
use tubewell::TaskState;

use super::client::Served;

#[test]
fn put_of_any_content_stores_exactly_its_bytes() {
    let served = Served::new();
    let bytes: Vec<u8> = (0..=255).collect();
    for (kind, content) in [
        ("Content-Type: application/octet-stream", &bytes[..]),
        ("Content-Type: text/plain", "to: ännchen\r\n".as_bytes()),
        ("X-None: x", b"{\"not\": \"read\"}"),
        ("X-None: x", b""),
    ] {
        let put = served.call("POST", "/v1/tubes/jobs/tasks", &[kind], content).expect(201);
        let id = put["id"].as_u64().unwrap();
        let task = served.store.tube("jobs").unwrap().query().task(id).unwrap();
        assert_eq!(&*task.body, content);
    }
    let shown = served.get("/v1/tasks/1").expect(200);
    assert_eq!((&shown["data"], &shown["state"]), (&json!("to: ännchen\r\n"), &json!("ready")));
    assert!(served.get("/v1/tasks/0").expect(200)["data_base64"].is_string());
}

#[test]
fn put_of_json_has_the_options_of_the_task() {
    let served = Served::new();
    let task = json!({"data": "x", "priority": 7, "delay": "1h", "key": "k", "tags": ["t"]});
    let put = served.json("POST", "/v1/tubes/jobs/tasks", &task).expect(201);
    assert_eq!(put["state"], "delayed");
    let shown = served.get(&format!("/v1/tasks/{}", put["id"])).expect(200);
    assert_eq!((&shown["priority"], &shown["key"]), (&json!(7), &json!("k")));
    assert_eq!(shown["tags"], json!(["t"]));
    let again = served.json("POST", "/v1/tubes/jobs/tasks", &task);
    assert_eq!(again.refused(409), "key_in_use");
    // What to do is a call over HTTP, and not one of the library.
    let detail = again.expect(409)["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("?on_key=keep") && !detail.contains("::"), "{detail}");
    let kept = served.json("POST", "/v1/tubes/jobs/tasks?on_key=keep", &task).expect(201);
    assert_eq!(kept["id"], put["id"]);
    served.post(&format!("/v1/tasks/{}/kick", put["id"]), "").refused(409);
    served.post(&format!("/v1/tasks/{}/cancel", put["id"]), "").expect(200);
    assert_eq!(served.get(&format!("/v1/tasks/{}", put["id"])).refused(404), "not_found");
}

#[test]
fn metrics_are_those_of_the_library() {
    let served = Served::new();
    served.post("/v1/tubes/jobs/tasks", "x").expect(201);
    let scraped = served.get("/metrics");
    assert_eq!(scraped.status, 200);
    let text = String::from_utf8(scraped.content).unwrap();
    assert!(text.contains("tubewell_tasks{tube=\"jobs\",state=\"ready\"} 1\n"), "{text}");
    let own = served.store.prometheus().unwrap();
    let names = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(names(&text), names(&own));
}

#[test]
fn list_of_tasks_is_put_whole_or_not_at_all() {
    let served = Served::new();
    let tasks = json!([{"data": "a"}, {"data": "b", "tags": ["t"]}]);
    let put = served.json("POST", "/v1/tubes/jobs/tasks", &tasks).expect(201);
    assert_eq!(put["tasks"].as_array().unwrap().len(), 2);
    for wrong in [
        json!([{"data": "c"}, {"dta": "d"}]),
        json!([{"data": "c"}, 7]),
        json!([{"data": "c"}, {"data": "d", "priority": -1}]),
        json!([{"data": "c"}, {"data": "d", "tags": [""]}]),
        json!({"tasks": [{"data": "c"}, 7]}),
        json!({"tasks": [{"data": "c"}], "taks": 1}),
    ] {
        assert_eq!(served.json("POST", "/v1/tubes/jobs/tasks", &wrong).refused(400), "invalid");
    }
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 2);
    let put = served
        .json("POST", "/v1/tubes/jobs/tasks", &json!({ "tasks": [{"data": "e"}] }))
        .expect(201);
    assert_eq!(put["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn put_with_an_idempotency_key_is_made_once() {
    let served = Served::new();
    let put = |key: &str| {
        let headers = [format!("Idempotency-Key: {key}")];
        let headers = headers.each_ref().map(String::as_str);
        served.call("POST", "/v1/tubes/jobs/tasks", &headers, b"x").expect(201)["id"].clone()
    };
    assert_eq!(put("request 1"), put("\"request 1\""));
    assert_ne!(put("request 1"), put("request 2"));
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 2);
}

#[test]
fn list_of_tasks_with_idempotency_keys_is_put_once() {
    let served = Served::new();
    let put = |tasks: &Value| {
        let put = served.json("POST", "/v1/tubes/jobs/tasks", tasks).expect(201);
        let ids = put["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone());
        ids.collect::<Vec<_>>()
    };
    let task = |key: &str| json!({ "data": key, "idempotency_key": key });
    let first = put(&json!([task("a"), task("b")]));
    assert_eq!(put(&json!([task("a"), task("b")])), first);
    // A list that is longer puts what is new.
    let longer = put(&json!([task("a"), task("b"), task("c")]));
    assert_eq!(longer[..2], first);
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 3);
}

#[test]
fn pages_have_the_tasks_that_are_asked_for() {
    let served = Served::new();
    let tasks: Vec<_> = (0..5).map(|n| json!({"data": n.to_string(), "tags": ["t"]})).collect();
    served.json("POST", "/v1/tubes/jobs/tasks", &tasks.into()).expect(201);
    served.json("PUT", "/v1/tubes/other", &json!({})).expect(200);
    served.post("/v1/tubes/other/tasks", "x").expect(201);
    served.post("/v1/tasks/3/bury", "").expect(200);
    let ids = |path: &str| {
        let (mut ids, mut next) = (Vec::new(), String::new());
        loop {
            let page = served.get(&format!("{path}{next}")).expect(200);
            let tasks = page["tasks"].as_array().unwrap();
            ids.extend(tasks.iter().map(|task| task["id"].as_u64().unwrap()));
            let Some(after) = page["next"].as_str() else { return ids };
            next = format!("&after={after}");
        }
    };
    assert_eq!(ids("/v1/tubes/jobs/tasks?limit=2"), [0, 1, 2, 4, 3]);
    assert_eq!(ids("/v1/tasks?limit=2"), [0, 1, 2, 4, 3, 5]);
    assert_eq!(ids("/v1/tasks?state=buried&limit=2"), [3]);
    assert_eq!(ids("/v1/tasks?tag=t&newest_first=true&limit=2"), [4, 3, 2, 1, 0]);
    assert_eq!(served.get("/v1/tasks?limit=1001").refused(400), "invalid");
    assert_eq!(served.get("/v1/tasks?stat=ready").refused(400), "invalid");
    assert_eq!(served.get("/v1/tasks?after=x").refused(400), "invalid");
    let task = served.store.find(3).unwrap().unwrap();
    assert_eq!(task.state, TaskState::Buried);
    served.post("/v1/tasks/3/kick", "").expect(200);
    served.call("DELETE", "/v1/tasks/3", &[], b"").expect(204);
    assert_eq!(served.get("/v1/tasks/3").refused(404), "not_found");
}

#[test]
fn tasks_belong_to_the_trace_of_their_put() {
    let served = Served::new();
    let (request, own) = (
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
    );
    let header = format!("traceparent: {request}");
    let headers = ["Content-Type: application/json", &header];
    let tasks = json!([{"data": "a"}, {"data": "b", "traceparent": own}]).to_string();
    served.call("POST", "/v1/tubes/jobs/tasks", &headers, tasks.as_bytes()).expect(201);
    // The standard wants a header of another form to be ignored.
    let wrong = ["traceparent: 00-none"];
    served.call("POST", "/v1/tubes/jobs/tasks", &wrong, b"c").expect(201);
    let taken = served.post("/v1/tubes/jobs/take?max=3&hold=60s", "").expect(200);
    let traces: Vec<_> =
        taken["tasks"].as_array().unwrap().iter().map(|task| &task["traceparent"]).collect();
    assert_eq!(traces, [&json!(request), &json!(own), &json!(null)]);
    let wrong = json!({"data": "d", "traceparent": "00-none"});
    assert_eq!(served.json("POST", "/v1/tubes/jobs/tasks", &wrong).refused(400), "invalid");
}

#[test]
fn list_may_have_tasks_with_and_without_idempotency_keys() {
    let served = Served::new();
    let tasks = json!([{"data": "a", "idempotency_key": "a"}, {"data": "b"}]);
    let put = || served.json("POST", "/v1/tubes/jobs/tasks?unique_for=1d", &tasks).expect(201);
    assert_eq!(put()["tasks"][0]["id"], put()["tasks"][0]["id"]);
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 3);
    let headers = ["Content-Type: application/json", "Idempotency-Key: other"];
    let task = tasks[0].to_string();
    let refused = served.call("POST", "/v1/tubes/jobs/tasks", &headers, task.as_bytes());
    assert_eq!(refused.refused(400), "invalid");
}
