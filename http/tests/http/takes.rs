//! Takes.

use serde_json::{Value, json};
use tubewell::{Put, TaskState};
use tubewell_http::{HttpOptions, serve};

use super::client::{Client, Served, wait_until};

#[test]
fn take_returns_tasks_with_their_claims_or_none() {
    let served = Served::new();
    let none = served.post("/v1/tubes/jobs/take?hold=60s", "").expect(200);
    assert_eq!(none, json!({"tasks": []}));
    let jobs = served.store.tube("jobs").unwrap();
    jobs.put_many(["a", "b", "c"]).unwrap();
    let taken = served.post("/v1/tubes/jobs/take?hold=60s&max=2", "").expect(200);
    let tasks = taken["tasks"].as_array().unwrap();
    assert_eq!(tasks.iter().map(|task| &task["data"]).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tasks[0]["state"], "taken");
    assert_eq!(tasks[0]["owner"], format!("http://{}", served.address()));
    for wrong in [
        "hold=0",
        "hold=1us",
        "hold=never",
        "hold=60s&max=0",
        "hold=60s&max=1001",
        "hold=x",
        "hold=60s&wait=301s",
        "hold=60s&x=1",
    ] {
        let refused = served.post(&format!("/v1/tubes/jobs/take?{wrong}"), "");
        assert_eq!(refused.refused(400), "invalid", "{wrong}");
    }
    // Without a ttr, the claim of a client that is gone would never end.
    assert_eq!(served.post("/v1/tubes/jobs/take", "").refused(400), "invalid");
    assert_eq!(served.post("/v1/tubes/unknown/take?hold=1s", "").refused(404), "tube_not_found");
    assert_eq!(jobs.statistics().unwrap().tasks.ready, 1);
}

#[test]
fn takes_that_wait_are_served_in_the_order_of_their_arrival() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    for (waiting, client) in clients.iter_mut().enumerate() {
        client.begin("POST", "/v1/tubes/jobs/take?wait=60s&hold=60s", &[], b"");
        wait_until(|| jobs.info().unwrap().waiting == waiting as u64 + 1);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        jobs.put(Put::new(n.to_string())).unwrap();
        let taken = client.answer().unwrap().expect(200);
        assert_eq!(taken["tasks"][0]["data"], n.to_string());
    }
}

#[test]
fn client_that_goes_away_gets_no_task_and_uses_no_attempt() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    // What a client sends behind its call must not hide that it has gone.
    for behind in [&b""[..], b"\r\n", b"GET /v1/tubes HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut client = served.client();
        client.begin("POST", "/v1/tubes/jobs/take?wait=60s&hold=60s", &[], b"");
        client.send(behind);
        wait_until(|| jobs.info().unwrap().waiting == 1);
        drop(client);
        wait_until(|| jobs.info().unwrap().waiting == 0);
    }
    // A take begins once its call is complete.
    let mut client = served.client();
    let host = served.address();
    let head = format!("POST /v1/tubes/jobs/take?wait=60s&hold=60s HTTP/1.1\r\nHost: {host}\r\n");
    client.send(format!("{head}Content-Length: 5\r\n\r\nabc").as_bytes());
    assert!(client.has_no_answer());
    assert_eq!(jobs.info().unwrap().waiting, 0);
    drop(client);
    let id = jobs.put("x").unwrap().id;
    let task = jobs.query().task(id).unwrap().info;
    assert_eq!((task.state, task.takes), (tubewell::TaskState::Ready, 0));
}

#[test]
fn take_ends_with_the_task_with_which_it_has_much_to_send() {
    let served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    jobs.put_many(vec![vec![b'x'; 5 << 20]; 4]).unwrap();
    let taken = served.post("/v1/tubes/jobs/take?max=4&hold=60s", "").expect(200);
    assert_eq!(taken["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(jobs.statistics().unwrap().tasks.taken, 2);
}

/// A runtime of the application must not keep the server from waiting for its own.
#[test]
fn server_is_dropped_in_an_async_program() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut served = Served::new();
        served.stop();
        assert!(serve(&served.store, HttpOptions::new("0.0.0.0:0")).is_err());
    });
}

#[test]
fn wait_ends_without_a_task() {
    let served = Served::new();
    let none = served.post("/v1/tubes/jobs/take?wait=50ms&hold=60s", "").expect(200);
    assert_eq!(none, json!({"tasks": []}));
}

#[test]
fn stop_ends_the_takes_that_wait_and_the_claims_of_clients() {
    let mut served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    let id = jobs.put(Put::new("x").max_attempts(1)).unwrap().id;
    served.take();
    let mut client = served.client();
    client.begin("POST", "/v1/tubes/jobs/take?wait=300s&hold=60s", &[], b"");
    wait_until(|| jobs.info().unwrap().waiting == 1);
    served.stop();
    assert_eq!(client.answer().unwrap().expect(200), json!({"tasks": []}));
    assert_eq!(jobs.info().unwrap().waiting, 0);
    // The stop has used up no attempt.
    let task = jobs.query().task(id).unwrap().info;
    assert_eq!((task.state, task.attempts_left), (tubewell::TaskState::Ready, Some(1)));
}

/// The owner of what they take ends with their names. A name is not that of a worker of the owner's own process.
#[test]
fn workers_that_name_themselves_are_owners_of_their_tasks() {
    let mut served = Served::new();
    let jobs = served.store.tube("jobs").unwrap();
    jobs.put_many([Put::new("x").max_attempts(1), Put::new("x").max_attempts(1)]).unwrap();
    jobs.put("y").unwrap();
    let session = served.store.session("a").unwrap();
    let own = session.tube(&jobs).unwrap();
    let take = |name: &str| {
        let taken = served.post(&format!("/v1/tubes/jobs/take?hold=60s&worker={name}"), "");
        taken.expect(200)["tasks"][0].clone()
    };
    let (first, second) = (take("a"), take("b"));
    let mine = own.try_take().unwrap().unwrap();
    assert!(first["owner"].as_str().unwrap().ends_with("/a"), "{first}");
    let owners = served.get("/v1/owners").expect(200);
    let names: Vec<&str> = owners["owners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["label"].as_str().unwrap())
        .collect();
    let address = served.address();
    assert_eq!(
        names,
        ["a".to_owned(), format!("http://{address}/a"), format!("http://{address}/b")]
    );
    // The claim of one names its worker.
    let end = |claim: &Value| format!("/v1/claims/{}/ack", claim["claim"].as_str().unwrap());
    let other = end(&first).replace(".YQ/ack", ".Yg/ack");
    assert_eq!(served.post(&other, "").refused(409), "not_taken");
    served.post(&end(&first), "").expect(200);
    for wrong in ["", &"x".repeat(129)] {
        let path = format!("/v1/tubes/jobs/take?hold=60s&worker={wrong}");
        assert_eq!(served.post(&path, "").refused(400), "invalid");
    }
    served.stop();
    let task = jobs.query().task(second["id"].as_u64().unwrap()).unwrap().info;
    assert_eq!((task.state, task.attempts), (TaskState::Ready, 0));
    mine.ack().unwrap();
}
