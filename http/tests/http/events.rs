//! Events.

use serde_json::json;

use super::client::{Client, Served};

/// Begins to follow events. Returns once it has begun.
fn follow(served: &Served, path: &str, headers: &[&str]) -> (Client, String) {
    let mut client = served.client();
    client.begin("GET", path, headers, b"");
    let head = client.answer().unwrap();
    assert_eq!(head.status, 200);
    assert!(head.headers.iter().any(|line| line.ends_with("text/event-stream")), "{head:?}");
    let first = client.chunk().unwrap();
    (client, first)
}

#[test]
fn events_come_as_they_happen_and_pass_the_filter() {
    let served = Served::new();
    let (mut all, first) = follow(&served, "/v1/events", &[]);
    assert!(first.starts_with(':'), "{first}");
    let path = "/v1/events?tube=jobs&kinds=ack,bury&tag=t";
    let (mut some, _) = follow(&served, path, &[]);
    let put = json!({"data": "x\ny", "tags": ["t"]});
    served.json("POST", "/v1/tubes/jobs/tasks", &put).expect(201);
    let claim = served.take();
    served.post(&format!("/v1/claims/{claim}/ack"), "").expect(200);
    let kinds = [(); 3].map(|()| all.event()["kind"].clone());
    assert_eq!(kinds, ["put", "take", "ack"]);
    assert_eq!(some.event()["kind"], "ack");
    assert_eq!(served.get("/v1/events?kinds=pt").refused(400), "invalid");
    assert_eq!(served.get("/v1/events?tubes=x").refused(400), "invalid");
}

#[test]
fn client_that_comes_back_is_told_that_events_may_be_missing() {
    let served = Served::new();
    let (_, first) = follow(&served, "/v1/events", &["Last-Event-ID: 7"]);
    assert_eq!(first, "event: gap\ndata: {\"after\":7}\n\n");
}

#[test]
fn stop_and_close_end_the_events() {
    let mut served = Served::new();
    let (mut client, _) = follow(&served, "/v1/events", &[]);
    served.stop();
    assert_eq!(client.chunk(), None);
    let served = Served::new();
    let (mut client, _) = follow(&served, "/v1/events", &[]);
    served.store.close().unwrap();
    assert_eq!(client.chunk(), None);
}
