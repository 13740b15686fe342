//! Calls and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake};

use tubewell_wire::{CallError, Client, ClientOptions, Limits, Reply};

use crate::support::{AGAIN, Ears, ONCE, Place, Serving, ask, options, options_at, text};

#[test]
fn calls_are_answered_over_each_kind_of_socket() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let (client, _) = serving.client();
        for number in 0..100 {
            let call = format!("call {number}");
            assert_eq!(ask(&client, &call), call);
        }
        assert_eq!(ask(&client, ""), "");
    }
}

#[test]
fn answers_arrive_in_any_order() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let first = client.call(b"later:first".to_vec(), AGAIN);
    let second = client.call(b"later:second".to_vec(), AGAIN);
    assert_eq!(ask(&client, "third"), "third");
    serving.desk.finish("second", Reply::new(b"2".to_vec()));
    assert_eq!(second.wait().unwrap(), b"2");
    assert!(!first.is_done());
    serving.desk.finish("first", Reply::new(b"1".to_vec()));
    assert_eq!(first.wait().unwrap(), b"1");
}

#[test]
fn calls_of_one_connection_are_first_polled_in_order() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let call = |n| client.call(format!("later:{n}").into_bytes(), ONCE);
    let pending: Vec<_> = (0..300).map(call).collect();
    serving.desk.log.wait_for("pending 299", 1);
    let lines = (0..300).flat_map(|n| [format!("call later:{n}"), format!("pending {n}")]);
    assert_eq!(serving.desk.log.lines()[1..], lines.collect::<Vec<_>>());
    drop(pending);
}

#[test]
fn a_future_that_is_ready_at_once_is_answered() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    serving.desk.finish("name", Reply::new(b"ready".to_vec()));
    assert_eq!(ask(&client, "later:name"), "ready");
}

struct Wakes(AtomicUsize, std::thread::Thread);

impl Wake for Wakes {
    fn wake(self: Arc<Wakes>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.unpark();
    }
}

#[test]
fn a_polled_call_wakes_its_last_waker() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let mut pending = client.call(b"later:name".to_vec(), ONCE);
    let wakes = [(); 2].map(|()| Arc::new(Wakes(AtomicUsize::new(0), std::thread::current())));
    for wakes in &wakes {
        assert_eq!(pending.poll(&wakes.clone().into()), Poll::Pending);
    }
    serving.desk.finish("name", Reply::new(b"done".to_vec()));
    while wakes[1].0.load(Ordering::SeqCst) == 0 {
        std::thread::park();
    }
    let waker = wakes[1].clone().into();
    assert_eq!(pending.poll(&waker), Poll::Ready(Ok(b"done".to_vec())));
    assert_eq!(pending.poll(&waker), Poll::Ready(Err(CallError::Closed)));
    assert_eq!(wakes[0].0.load(Ordering::SeqCst), 0);
}

#[test]
fn many_callers_share_a_connection() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    std::thread::scope(|scope| {
        for caller in 0..16 {
            let client = &client;
            scope.spawn(move || {
                for number in 0..200 {
                    let call = format!("quiet:{caller}:{number}");
                    assert_eq!(ask(client, &call), call);
                }
            });
        }
    });
    assert_eq!(serving.desk.log.lines(), ["hello "]);
}

#[test]
fn long_calls_and_answers_arrive_whole() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let mut call = b"quiet:".to_vec();
    call.resize(20 << 20, 3);
    let pending: Vec<_> = (0..3).map(|_| client.call(call.clone(), ONCE)).collect();
    for pending in pending {
        assert!(pending.wait().unwrap() == call);
    }
}

#[test]
fn a_call_above_the_limit_of_either_side_is_not_sent() {
    let low = Limits { frame: 100, ..Limits::default() };
    for (server, client) in [(low.clone(), Limits::default()), (Limits::default(), low)] {
        let place = Place::new();
        let serving = Serving::with(&place, server);
        let (client, _) = serving.client_with(ClientOptions { limits: client, ..options() });
        let answer = client.call(vec![b'x'; 101], ONCE).wait();
        assert_eq!(answer, Err(CallError::TooLarge { size: 101, limit: 100 }));
        assert_eq!(ask(&client, &"x".repeat(100)).len(), 100);
    }
}

#[test]
fn an_answer_above_the_limit_of_either_side_fails_its_call_alone() {
    let low = Limits { frame: 100, ..Limits::default() };
    for (server, client) in [(low.clone(), Limits::default()), (Limits::default(), low)] {
        let place = Place::new();
        let serving = Serving::with(&place, server);
        let (client, ears) = serving.client_with(ClientOptions { limits: client, ..options() });
        let other = client.call(b"later:other".to_vec(), ONCE);
        let answer = client.call(b"tracked-bytes:101".to_vec(), AGAIN).wait();
        let why = "the answer of 101 bytes is longer than the limit of 100".to_owned();
        assert_eq!(answer, Err(CallError::Broken { why }));
        assert_eq!(serving.desk.log.count("lost bytes"), 1);
        assert_eq!(ask(&client, "bytes:100").len(), 100);
        serving.desk.finish("other", Reply::new(Vec::new()));
        assert_eq!(other.wait(), Ok(Vec::new()));
        assert_eq!(ears.log.count("broken"), 0);
    }
}

#[test]
fn calls_above_the_limit_of_either_side_wait_their_turn() {
    let low = Limits { calls: 2, ..Limits::default() };
    for (server, client) in [(low.clone(), Limits::default()), (Limits::default(), low)] {
        let place = Place::new();
        let serving = Serving::with(&place, server);
        let (client, _) = serving.client_with(ClientOptions { limits: client, ..options() });
        let call = |name| client.call(format!("later:{name}").into_bytes(), ONCE);
        let (a, _b, c, _d) = (call("a"), call("b"), call("c"), call("d"));
        serving.desk.log.wait_for("pending b", 1);
        // Cancelled before it was sent.
        drop(c);
        serving.desk.finish("a", Reply::new(b"done".to_vec()));
        assert_eq!(text(&a.wait().unwrap()), "done");
        serving.desk.log.wait_for("pending d", 1);
        assert_eq!(serving.desk.log.count("call later:c"), 0);
    }
}

#[test]
fn hello_and_welcome_reach_the_other_side() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        *serving.desk.welcome.lock().unwrap() = b"glad".to_vec();
        let ears = Arc::new(Ears::default());
        *ears.hello.lock().unwrap() = b"me".to_vec();
        let client =
            Client::connect(&serving.address, options_at(&serving.address), ears.clone()).unwrap();
        assert_eq!(client.address(), &serving.address);
        assert_eq!(serving.desk.log.lines(), ["hello me"]);
        assert_eq!(ears.log.lines(), ["welcome glad"]);
    }
}

#[test]
fn servers_clients_and_calls_may_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<tubewell_wire::Server>();
    shared::<Client>();
    shared::<tubewell_wire::Pending>();
    shared::<tubewell_wire::Items>();
    shared::<tubewell_wire::WireError>();
}
