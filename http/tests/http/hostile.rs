//! Peers that send what no client should. The store is as it was, and other clients are served.

use super::client::Served;

#[test]
fn unknown_calls_are_refused_as_problems() {
    let served = Served::new();
    assert_eq!(served.get("/v2").refused(404), "unknown_call");
    assert_eq!(served.get("/v1/tubes/jobs/tasks/0").refused(404), "unknown_call");
    assert_eq!(served.call("PATCH", "/v1/tubes", &[], b"").refused(405), "unknown_call");
    assert_eq!(served.get("/v1/tasks/x").refused(400), "invalid");
    assert_eq!(served.get("/v1/tubes/%FF").refused(400), "invalid");
    assert_eq!(served.post("/v1/tasks/0/forgive", "").refused(404), "unknown_call");
}

#[test]
fn content_over_the_limit_is_refused_and_not_read() {
    let served = Served::with(|options| options.max_body(1000));
    served.post("/v1/tubes/jobs/tasks", &"x".repeat(1000)).expect(201);
    let over = served.post("/v1/tubes/jobs/tasks", &"x".repeat(1001));
    assert_eq!(over.refused(413), "content_too_large");
    let mut client = served.client();
    let head = format!(
        "POST /v1/tubes/jobs/tasks HTTP/1.1\r\nHost: {}\r\nContent-Length: 1000000000000\r\n\r\n",
        served.address()
    );
    client.send(head.as_bytes());
    assert_eq!(client.answer().unwrap().refused(413), "content_too_large");
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 1);
}

#[test]
fn content_without_a_length_is_refused_once_it_is_over_the_limit() {
    let served = Served::with(|options| options.max_body(1 << 20));
    let mut client = served.client();
    let head = "POST /v1/tubes/jobs/tasks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n";
    client.send(format!("{head}Host: {}\r\n\r\n", served.address()).as_bytes());
    let chunk = [&b"10000\r\n"[..], &vec![b'x'; 0x10000], b"\r\n"].concat();
    // A gigabyte, if the server reads it.
    let sent = (0..1 << 14).take_while(|_| client.sends(&chunk)).count();
    assert!(sent < 1 << 10, "{sent} chunks");
    if let Some(answer) = client.answer() {
        assert_eq!(answer.refused(413), "content_too_large");
    }
    assert_eq!(served.get("/v1/tubes/jobs").expect(200)["tasks"]["ready"], 0);
}

/// A proxy and this server must not disagree about where a call ends.
#[test]
fn calls_whose_end_is_unclear_are_refused() {
    let served = Served::new();
    let host = served.address();
    for lengths in [
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 2\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +1\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Content-Length : 1\r\n",
    ] {
        let mut client = served.client();
        let call = format!(
            "POST /v1/tubes/jobs/tasks HTTP/1.1\r\nHost: {host}\r\n{lengths}\r\nx\r\n\
             DELETE /v1/tubes/jobs HTTP/1.1\r\nHost: {host}\r\n\r\n"
        );
        client.send(call.as_bytes());
        let mut answers = Vec::new();
        while let Some(answer) = client.answer() {
            answers.push(answer.status);
        }
        let are_refused = answers.iter().all(|status| *status == 400);
        assert!(are_refused && !answers.is_empty(), "{lengths}: {answers:?}");
        served.get("/v1/tubes/jobs").expect(200);
    }
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 0);
}

#[test]
fn content_in_a_coding_that_is_not_undone_is_refused() {
    let served = Served::new();
    let host = served.address();
    let chunks = "1\r\nx\r\n0\r\n\r\n";
    for (codings, status) in [
        ("Transfer-Encoding: chunked\r\n", 201),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: chunked, chunked\r\n", 501),
        ("Transfer-Encoding: xchunked\r\n", 400),
        ("Transfer-Encoding: chunked, identity\r\n", 400),
    ] {
        let mut client = served.client();
        let head = format!("POST /v1/tubes/jobs/tasks HTTP/1.1\r\nHost: {host}\r\n{codings}\r\n");
        client.send(format!("{head}{chunks}").as_bytes());
        assert_eq!(client.answer().map(|answer| answer.status), Some(status), "{codings}");
    }
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 1);
    // The chunks count, and what a proxy may see as the next call is not read (RFC 9112, 6.3).
    let mut client = served.client();
    let both = "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n";
    let head = format!("POST /v1/tubes/jobs/tasks HTTP/1.1\r\nHost: {host}\r\n{both}\r\n");
    let next = format!("DELETE /v1/tubes/jobs HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.send(format!("{head}{chunks}{next}").as_bytes());
    client.answer().unwrap().expect(201);
    assert!(client.answer().is_none());
    served.get("/v1/tubes/jobs").expect(200);
}

#[test]
fn heads_over_the_limit_and_noise_end_their_connection_only() {
    let served = Served::new();
    let mut patient = served.client();
    patient.call("GET", "/v1/tubes", &[], b"").expect(200);
    let large = format!("X: {}", "x".repeat(1 << 20));
    let many: Vec<String> = (0..1000).map(|n| format!("X-{n}: x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for headers in [&[large.as_str()][..], &many] {
        let mut client = served.client();
        client.begin("GET", "/v1/tubes", headers, b"");
        // What is still being sent when the connection ends may take the answer with it.
        assert!(client.answer().is_none_or(|answer| answer.status == 431));
        assert!(client.answer().is_none());
    }
    for noise in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\n",
    ] {
        let mut client = served.client();
        client.send(noise);
        client.send(b"\r\n\r\n");
        while client.answer().is_some_and(|answer| answer.status >= 400) {}
    }
    patient.call("GET", "/v1/tubes", &[], b"").expect(200);
}

#[test]
fn connections_over_the_limit_wait_for_one_to_end() {
    let served = Served::with(|options| options.max_connections(1));
    let mut first = served.client();
    first.call("GET", "/v1/tubes", &[], b"").expect(200);
    let mut second = served.client();
    second.begin("GET", "/v1/tubes", &[], b"");
    first.call("GET", "/v1/tubes", &[], b"").expect(200);
    assert!(second.has_no_answer());
    drop(first);
    second.answer().unwrap().expect(200);
}

#[test]
fn calls_of_one_connection_are_answered_in_their_order() {
    let served = Served::new();
    let mut client = served.client();
    for n in 0..100 {
        client.begin("POST", "/v1/tubes/jobs/tasks", &[], n.to_string().as_bytes());
    }
    let ids: Vec<u64> =
        (0..100).map(|_| client.answer().unwrap().expect(201)["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
}
