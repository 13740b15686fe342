//! Connections that break, and servers that go and come back.

use std::time::Duration;

use tubewell_wire::{CallError, ClientOptions};

use crate::raw::{ANSWER, CALL, HELLO, Raw, frame, listen, welcome};
use crate::support::{AGAIN, ALWAYS, CHANGES, Ears, NOT_NOW, ONCE, Place, Serving, ask, options};

fn quick() -> ClientOptions {
    let backoff = Duration::from_millis(1)..=Duration::from_millis(20);
    ClientOptions { backoff, ..options() }
}

#[test]
fn calls_go_on_when_the_server_is_back() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let (client, ears) = serving.client_with(quick());
        let again = client.call(b"later:again".to_vec(), AGAIN);
        let once = client.call(b"later:once".to_vec(), ONCE);
        let items = client.subscribe(b"stream:name".to_vec());
        serving.desk.log.wait_for("pending name", 1);
        let place = place.at(serving.address.clone());
        drop(serving);
        assert!(matches!(once.wait(), Err(CallError::Broken { .. })));
        assert_eq!(items.recv(), None);
        assert!(matches!(items.error(), Some(CallError::Broken { .. })));
        // Made while there is no server.
        let new = client.call(b"new".to_vec(), ONCE);
        let dropped = client.call(b"dropped".to_vec(), ONCE);
        drop(client.call(b"not cancelled".to_vec(), ALWAYS));
        drop(dropped);
        assert!(!again.is_done() && !new.is_done());
        let serving = Serving::start(&place);
        assert_eq!(new.wait().unwrap(), b"new");
        serving.desk.log.wait_for("call not cancelled", 1);
        serving.desk.finish("again", tubewell_wire::Reply::new(b"answer".to_vec()));
        assert_eq!(again.wait().unwrap(), b"answer");
        assert_eq!(serving.desk.log.count("call later:once"), 0);
        assert_eq!(serving.desk.log.count("call dropped"), 0);
        ears.log.wait_for("orphan not cancelled", 1);
        assert_eq!(ears.log.lines(), ["welcome ", "broken", "welcome ", "orphan not cancelled"]);
        // The one in flight comes before those that were made later.
        let lines = serving.desk.log.lines();
        let calls = lines.iter().filter(|line| line.starts_with("call")).take(2);
        assert_eq!(calls.collect::<Vec<_>>(), ["call later:again", "call new"]);
    }
}

#[test]
fn without_a_server_calls_fail_in_time() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let options = ClientOptions { connect_timeout: Duration::from_millis(250), ..options() };
    let (client, ears) = serving.client_with(options);
    let again = client.call(b"later:again".to_vec(), AGAIN);
    serving.desk.log.wait_for("pending again", 1);
    serving.server.stop();
    ears.log.wait_for("broken", 1);
    let answer = again.wait();
    assert!(matches!(answer, Err(CallError::NotConnected { .. })), "{answer:?}");
    for _ in 0..3 {
        let answer = client.call(b"new".to_vec(), ONCE).wait();
        let Err(CallError::NotConnected { why }) = answer else { panic!("{answer:?}") };
        assert!(why.contains("cannot connect to"), "{why}");
    }
    let items = client.subscribe(b"stream:name".to_vec());
    assert_eq!(items.recv(), None);
    assert!(matches!(items.error(), Some(CallError::NotConnected { .. })));
    // The client is as good as before when the server is back.
    let _serving = Serving::start(&place);
    let end = crate::support::deadline();
    while client.call(b"back".to_vec(), ONCE).wait().is_err() {
        assert!(crate::support::now() < end);
    }
}

/// A call that was sent and changes something may have had its effect, however the client goes on.
#[test]
fn a_sent_call_that_changes_something_is_never_reported_as_not_made() {
    let ends: [fn(&Serving, &tubewell_wire::Client); 3] = [
        |serving, _| serving.server.stop(),
        |_, client| client.close(),
        |serving, client| {
            *serving.desk.refusal.lock().unwrap() = Some("not again".to_owned());
            drop(client.call(b"panic".to_vec(), ONCE));
        },
    ];
    for end in ends {
        let place = Place::new();
        let serving = Serving::start(&place);
        let options = ClientOptions { connect_timeout: Duration::from_millis(250), ..quick() };
        let (client, _) = serving.client_with(options);
        let reads = client.call(b"later:reads".to_vec(), AGAIN);
        let changes = client.call(b"later:changes".to_vec(), CHANGES);
        serving.desk.log.wait_for("pending changes", 1);
        end(&serving, &client);
        let answer = changes.wait();
        assert!(matches!(answer, Err(CallError::Broken { .. })), "{answer:?}");
        let answer = reads.wait();
        assert!(!matches!(answer, Ok(_) | Err(CallError::Broken { .. })), "{answer:?}");
        // Not sent.
        let answer = client.call(b"new".to_vec(), CHANGES).wait();
        assert!(!matches!(answer, Ok(_) | Err(CallError::Broken { .. })), "{answer:?}");
    }
}

#[test]
fn a_refusal_of_a_later_connection_ends_the_client() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client_with(quick());
    let again = client.call(b"panic".to_vec(), AGAIN);
    *serving.desk.refusal.lock().unwrap() = Some("not again".to_owned());
    let Err(CallError::Refused { why }) = again.wait() else { panic!("no refusal") };
    assert!(why.contains("not again"), "{why}");
    let answer = client.call(b"new".to_vec(), ONCE).wait();
    assert_eq!(answer, Err(CallError::Refused { why }));
    assert_eq!(ears.log.lines(), ["welcome ", "broken"]);
}

#[test]
fn a_temporary_refusal_of_a_later_connection_does_not_end_the_client() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let options = ClientOptions { connect_timeout: Duration::from_millis(50), ..quick() };
    let (client, _) = serving.client_with(options);
    *serving.desk.refusal.lock().unwrap() = Some(NOT_NOW.to_owned());
    let again = client.call(b"panic".to_vec(), AGAIN);
    let Err(CallError::NotConnected { why }) = again.wait() else { panic!("no refusal") };
    assert!(why.contains(NOT_NOW), "{why}");
    *serving.desk.refusal.lock().unwrap() = None;
    let end = crate::support::deadline();
    while client.call(b"new".to_vec(), ONCE).wait().is_err() {
        assert!(crate::support::now() < end);
    }
}

#[test]
fn a_refusal_of_the_handler_of_a_later_connection_ends_the_client() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client_with(quick());
    *ears.refuse.lock().unwrap() = Some("another store".to_owned());
    let again = client.call(b"panic".to_vec(), AGAIN);
    let Err(CallError::Refused { why }) = again.wait() else { panic!("no refusal") };
    assert!(why.contains("another store"), "{why}");
}

#[test]
fn closing_a_client_ends_its_calls() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    let calls = [AGAIN, ONCE, ALWAYS].map(|kind| client.call(b"later:name".to_vec(), kind));
    let items = client.subscribe(b"stream:items".to_vec());
    serving.desk.log.wait_for("pending items", 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| items.recv());
        client.close();
        assert_eq!(waiting.join().unwrap(), None);
    });
    for call in calls {
        assert_eq!(call.wait(), Err(CallError::Closed));
    }
    assert_eq!(client.call(b"new".to_vec(), AGAIN).wait(), Err(CallError::Closed));
    assert_eq!(client.subscribe(b"new".to_vec()).error(), Some(CallError::Closed));
    client.close();
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("dropped name"), 3);
    assert_eq!(ears.log.lines(), ["welcome "]);
}

#[test]
fn a_client_without_a_server_can_be_closed() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    serving.server.stop();
    ears.log.wait_for("broken", 1);
    let pending = client.call(b"new".to_vec(), AGAIN);
    drop(client);
    assert_eq!(pending.wait(), Err(CallError::Closed));
}

/// A client of a server by hand, which has welcomed it.
#[cfg(unix)]
fn by_hand() -> (crate::raw::Listener, tubewell_wire::Client, Raw) {
    let listener = listen();
    let address = listener.address();
    let connecting = std::thread::spawn(move || {
        let ears = std::sync::Arc::new(Ears::default());
        tubewell_wire::Client::connect(&address, quick(), ears).unwrap()
    });
    let raw = welcomed(&listener);
    (listener, connecting.join().unwrap(), raw)
}

#[cfg(unix)]
fn welcomed(listener: &crate::raw::Listener) -> Raw {
    let mut raw = listener.accept();
    assert_eq!(raw.receive().unwrap().0, HELLO);
    raw.send(&welcome(100, 1 << 30));
    raw
}

#[cfg(unix)]
#[test]
fn calls_of_which_nothing_was_sent_are_made_on_the_next_connection() {
    let (listener, client, mut raw) = by_hand();
    let first = client.call(b"first".to_vec(), ONCE);
    assert_eq!(raw.receive().unwrap().2, b"first");
    // More than the socket takes: what is behind it stays here.
    let large = client.call(vec![0; 8 << 20], ONCE);
    let small = client.call(b"small".to_vec(), ONCE);
    let larger = client.call(vec![1; 1 << 20], ONCE);
    drop(raw);
    assert!(matches!(first.wait(), Err(CallError::Broken { .. })));
    assert!(matches!(large.wait(), Err(CallError::Broken { .. })));
    // It was not kept, since it is long; it is known not to have been sent.
    assert!(matches!(larger.wait(), Err(CallError::NotConnected { .. })));
    let mut raw = welcomed(&listener);
    let (kind, number, body) = raw.receive().unwrap();
    assert_eq!((kind, body), (CALL, b"small".to_vec()));
    raw.send(&frame(ANSWER, number, b"answer"));
    assert_eq!(small.wait().unwrap(), b"answer");
}

#[cfg(unix)]
#[test]
fn a_call_may_be_made_again_more_than_once() {
    let (listener, client, mut raw) = by_hand();
    let again = client.call(vec![3; 100_000], AGAIN);
    for _ in 0..5 {
        assert_eq!(raw.receive().unwrap().2.len(), 100_000);
        drop(raw);
        raw = welcomed(&listener);
    }
    let (_, number, _) = raw.receive().unwrap();
    raw.send(&frame(ANSWER, number, b"at last"));
    assert_eq!(again.wait().unwrap(), b"at last");
}

/// The refusal speaks of the second attempt, and the first one may have had its effect.
#[cfg(unix)]
#[test]
fn a_refusal_of_a_call_that_was_made_again_leaves_it_in_doubt() {
    let refused = |outcome: Result<Vec<u8>, CallError>| match outcome {
        Err(CallError::Broken { why }) => assert!(why.contains("as the test says"), "{why}"),
        outcome => panic!("{outcome:?}"),
    };
    for answer in ["refused: as the test says", "done"] {
        let (listener, client, mut raw) = by_hand();
        let changes = client.call(b"changes".to_vec(), CHANGES);
        let reads = client.call(b"reads".to_vec(), AGAIN);
        for _ in 0..2 {
            raw.receive().unwrap();
        }
        drop(raw);
        let mut raw = welcomed(&listener);
        for call in [b"changes".as_slice(), b"reads"] {
            let (_, number, body) = raw.receive().unwrap();
            assert_eq!(body, call);
            raw.send(&frame(ANSWER, number, answer.as_bytes()));
        }
        assert_eq!(reads.wait().unwrap(), answer.as_bytes());
        match answer {
            "done" => assert_eq!(changes.wait().unwrap(), answer.as_bytes()),
            _ => refused(changes.wait()),
        }
        // One attempt is refused as the server says.
        let new = client.call(b"new".to_vec(), CHANGES);
        let number = raw.receive().unwrap().1;
        raw.send(&frame(ANSWER, number, answer.as_bytes()));
        assert_eq!(new.wait().unwrap(), answer.as_bytes());
    }
}

#[cfg(unix)]
#[test]
fn a_caller_that_waits_learns_of_a_doubtful_call_unless_the_handler_panics() {
    for refusal in ["gone", "panic"] {
        let (listener, client, mut raw) = by_hand();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.call_and_wait(b"changes".to_vec(), CHANGES));
            raw.receive().unwrap();
            drop(raw);
            let mut raw = welcomed(&listener);
            let number = raw.receive().unwrap().1;
            let answer = format!("refused: {refusal}").into_bytes();
            raw.send(&frame(ANSWER, number, &answer));
            let outcome = waiting.join().unwrap();
            match refusal {
                "panic" => assert_eq!(outcome, Ok(answer)),
                _ => assert!(matches!(outcome, Err(CallError::Broken { .. })), "{outcome:?}"),
            }
        });
    }
}

#[cfg(unix)]
#[test]
fn a_half_answer_is_no_answer() {
    let (listener, client, mut raw) = by_hand();
    let again = client.call(b"again".to_vec(), AGAIN);
    let once = client.call(b"once".to_vec(), ONCE);
    let number = raw.receive().unwrap().1;
    assert_eq!(raw.receive().unwrap().2, b"once");
    let answer = frame(ANSWER, number, b"answer");
    raw.send(&answer[..answer.len() - 1]);
    drop(raw);
    assert!(matches!(once.wait(), Err(CallError::Broken { .. })));
    let mut raw = welcomed(&listener);
    assert_eq!(raw.receive().unwrap().2, b"again");
    raw.send(&answer);
    assert_eq!(again.wait().unwrap(), b"answer");
}

#[cfg(unix)]
#[test]
fn a_lower_limit_of_the_next_server_holds() {
    let (listener, client, mut raw) = by_hand();
    let long = client.call(vec![0; 1000], AGAIN);
    let sent = client.call(vec![0; 1000], CHANGES);
    for _ in 0..2 {
        raw.receive().unwrap();
    }
    drop(raw);
    let mut raw = listener.accept();
    raw.receive().unwrap();
    raw.send(&welcome(100, 10));
    assert_eq!(long.wait(), Err(CallError::TooLarge { size: 1000, limit: 10 }));
    assert!(matches!(sent.wait(), Err(CallError::Broken { .. })));
}

#[test]
fn a_client_reconnects_again_and_again() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client_with(quick());
    for count in 1..=10 {
        let broken = client.call(b"panic".to_vec(), ONCE).wait();
        assert!(matches!(broken, Err(CallError::Broken { .. })), "{broken:?}");
        ears.log.wait_for("broken", count);
        assert_eq!(ask(&client, "back"), "back");
    }
    serving.desk.log.wait_for("disconnect", 10);
}
