//! Events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tubewell::Put;

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
fn client_that_does_not_read_is_told_how_many_events_it_has_missed() {
    let served = Served::new();
    let (mut client, _) = follow(&served, "/v1/events?kinds=put", &[]);
    let jobs = served.store.find_tube("jobs").unwrap();
    // More than the sockets and the server hold: some 100 bytes each, and a tag of 200 bytes.
    let tag = "t".repeat(200);
    for _ in 0..60 {
        let puts = (0..1000).map(|n| Put::new(n.to_string()).tag(&*tag));
        jobs.put_many(puts).unwrap();
    }
    // An event tells what was missed before it.
    let is_told = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It ends by itself if the client has failed.
            for _ in (0..100_000).take_while(|_| !is_told.load(Ordering::SeqCst)) {
                jobs.put("one more").unwrap();
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        let (mut told, mut missed) = (0, 0);
        while told + missed < 60_000 {
            missed += client.event()["missed"].as_u64().unwrap();
            told += 1;
        }
        is_told.store(true, Ordering::SeqCst);
        assert!(told >= 1000 && missed > 0, "{told} told, {missed} missed");
    });
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
