//! Peers that keep to nothing, and peers that do not read.

use std::time::Duration;

use tubewell_wire::{Client, Limits, Reply, WireError};

use crate::raw::{ANSWER, CALL, CANCEL, END, HELLO, ITEM, REFUSED, Raw, WELCOME, frame, hello};
use crate::support::{Ears, ONCE, Place, Serving, ask, now, options_at, text};

#[test]
fn frames_may_arrive_byte_by_byte() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let mut raw = Raw::met(&serving.address);
        let mut bytes = hello(1, 1, b"slow");
        bytes.extend(frame(CALL, 1, b"call"));
        for byte in bytes {
            raw.send(&[byte]);
        }
        assert_eq!(raw.receive().unwrap().0, WELCOME);
        assert_eq!(raw.receive().unwrap(), (ANSWER, 1, b"call".to_vec()));
    }
}

#[test]
fn frames_may_arrive_all_at_once() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let mut raw = Raw::met(&serving.address);
        let mut bytes = hello(1, 1, b"fast");
        for number in 1..=10_000 {
            bytes.extend(frame(CALL, number, b"quiet"));
        }
        raw.send(&bytes);
        assert_eq!(raw.receive().unwrap().0, WELCOME);
        for number in 1..=10_000 {
            assert_eq!(raw.receive().unwrap(), (ANSWER, number, b"quiet".to_vec()));
        }
    }
}

/// After the hello, `bytes` end the connection with a refusal that contains `why`.
#[track_caller]
fn refused(bytes: &[u8], why: &str) {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let (client, _) = serving.client();
        let mut raw = Raw::welcomed(&serving.address);
        raw.call(1, "later:name");
        serving.desk.log.wait_for("pending name", 1);
        raw.try_send(bytes);
        let (kind, _, body) = raw.last().expect("a refusal");
        assert_eq!(kind, REFUSED);
        assert!(text(&body).contains(why), "{}", text(&body));
        serving.desk.log.wait_for("disconnect", 1);
        assert_eq!(serving.desk.log.count("dropped name"), 1);
        assert_eq!(ask(&client, "next"), "next");
    }
}

#[test]
fn a_length_above_the_limit_is_refused() {
    refused(&u32::MAX.to_le_bytes(), "a frame of 4294967295 bytes is longer than the limit");
}

#[test]
fn a_length_without_a_head_is_refused() {
    refused(&9_u32.to_le_bytes(), "a frame of 9 bytes is too short");
}

#[test]
fn an_unknown_kind_is_refused_with_the_versions() {
    refused(&frame(99, 1, b""), "the unknown kind 99; the server speaks versions 1 to 1");
}

#[test]
fn an_unknown_version_is_refused_with_both_versions() {
    let mut bytes = frame(CALL, 1, b"");
    bytes[4] = 3;
    refused(&bytes, "version 3 of the protocol; the server speaks versions 1 to 1");
}

#[test]
fn frames_of_a_server_are_refused() {
    for kind in [HELLO, WELCOME, REFUSED, ANSWER, ITEM, END] {
        refused(&frame(kind, 1, b""), "a client may not send");
    }
}

#[test]
fn a_call_without_a_number_is_refused() {
    refused(&frame(CALL, 0, b"call"), "a client may not send Call");
}

#[test]
fn a_number_that_is_in_flight_is_refused() {
    refused(&frame(CALL, 1, b"later:other"), "two calls in flight have one number");
}

#[test]
fn garbage_instead_of_a_hello_is_refused() {
    let place = Place::new();
    let serving = Serving::start(&place);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[255; 100], &frame(CALL, 1, b"call")]
    {
        let mut raw = Raw::connect(&serving.address);
        raw.send(bytes);
        assert_eq!(raw.last().unwrap().0, REFUSED);
    }
    let mut raw = Raw::connect(&serving.address);
    raw.send(&frame(HELLO, 0, &[1; 5]));
    assert_eq!(raw.last().unwrap().0, REFUSED);
    assert_eq!(serving.desk.log.lines(), [""; 0]);
}

#[test]
fn cancelling_what_is_not_there_changes_nothing() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut raw = Raw::welcomed(&serving.address);
    raw.send(&frame(CANCEL, 77, b""));
    raw.call(1, "call");
    assert_eq!(raw.receive().unwrap(), (ANSWER, 1, b"call".to_vec()));
}

#[test]
fn a_connection_above_the_limit_is_told_so() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { connections: 2, ..Limits::default() });
    let (first, _) = serving.client();
    let (_second, _) = serving.client();
    let connect = || {
        Client::connect(
            &place.address,
            options_at(&place.address),
            std::sync::Arc::new(Ears::default()),
        )
    };
    match connect().unwrap_err() {
        WireError::Refused { why, temporary, .. } => {
            assert_eq!((why.as_str(), temporary), ("the server has too many connections", true));
        }
        error => panic!("{error}"),
    }
    drop(first);
    serving.desk.log.wait_for("disconnect", 1);
    // The refused one may still be there for a moment.
    let end = crate::support::deadline();
    let client = loop {
        match connect() {
            Ok(client) => break client,
            Err(error) => assert!(now() < end, "{error}"),
        }
    };
    assert_eq!(ask(&client, "next"), "next");
}

#[test]
fn a_thousand_idle_connections_are_kept() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { connections: 1000, ..Limits::default() });
    raise_file_limit();
    let mut idle: Vec<Raw> = (0..999).map(|_| Raw::welcomed(&serving.address)).collect();
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "call"), "call");
    for (number, raw) in (1..).zip(&mut idle) {
        raw.call(number, "quiet");
        assert_eq!(raw.receive().unwrap().1, number);
    }
    drop(idle);
    serving.desk.log.wait_for("disconnect", 999);
    assert_eq!(ask(&client, "call"), "call");
}

/// Both ends of each connection are files of this process.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_some_and(|current| current < 4096) {
            let current = limit.maximum.map_or(4096, |maximum| maximum.min(4096));
            setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).unwrap();
        }
    }
}

#[test]
fn calls_above_the_limit_are_not_read_and_cancellations_are() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { calls: 2, ..Limits::default() });
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "later:1");
    raw.call(2, "later:2");
    raw.send(&frame(CANCEL, 1, b""));
    assert_eq!(raw.receive().unwrap(), (END, 1, Vec::new()));
    raw.call(3, "later:3");
    raw.call(4, "later:4");
    serving.desk.log.wait_for("pending 3", 1);
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "next"), "next");
    assert_eq!(serving.desk.log.count("call later:4"), 0);
    serving.desk.finish("2", Reply::new(Vec::new()));
    serving.desk.log.wait_for("pending 4", 1);
    // The end of a connection that is not read is noticed.
    raw.call(5, "later:5");
    drop(raw);
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("call later:5"), 0);
}

#[test]
fn a_peer_that_does_not_read_costs_bounded_memory_and_harms_no_other() {
    for place in [Place::new(), Place::tcp()] {
        let limits = Limits { unsent: 1 << 20, ..Limits::default() };
        let serving = Serving::with(&place, limits);
        let mut raw = Raw::welcomed(&serving.address);
        // 200 MB of answers, at once and later. A single write: the server may not read more than that.
        let call = |number| if number % 2 == 0 { &b"bytes:200000"[..] } else { b"future:later" };
        let bytes: Vec<u8> =
            (1..=2000).flat_map(|number| frame(CALL, number, call(number))).collect();
        raw.send(&bytes);
        let (client, _) = serving.client();
        for _ in 0..100 {
            assert_eq!(ask(&client, "next"), "next");
        }
        // What the socket takes, 1 MiB, and one answer.
        assert!(serving.desk.log.count("call bytes:200000") < 100);
        // It is served on when it reads.
        let mut numbers: Vec<u64> = (0..2000).map(|_| raw.receive().unwrap().1).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=2000).collect::<Vec<_>>());
    }
}

#[test]
fn a_peer_that_does_not_read_for_long_is_disconnected() {
    for call in ["bytes:10000000", "tracked-bytes:10000000"] {
        let place = Place::new();
        let limits = Limits { stalled: Duration::from_millis(50), ..Limits::default() };
        let serving = Serving::with(&place, limits);
        let (client, _) = serving.client();
        let mut raw = Raw::welcomed(&serving.address);
        raw.call(1, "later:name");
        raw.call(2, call);
        serving.desk.log.wait_for("disconnect", 1);
        assert_eq!(serving.desk.log.count("dropped name"), 1);
        assert_eq!(serving.desk.log.count("lost bytes"), usize::from(call.starts_with("tracked")));
        assert_eq!(ask(&client, "next"), "next");
    }
}

#[test]
fn a_flood_of_one_connection_leaves_turns_to_others() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut flood = Raw::welcomed(&serving.address);
    let (client, _) = serving.client();
    // While the reading thread waits, the frames of both arrive.
    let mut bytes = frame(CALL, 1, b"gate");
    for number in 2..=3000 {
        bytes.extend(frame(CALL, number, b"flood"));
    }
    flood.send(&bytes);
    serving.desk.log.wait_for("at gate", 1);
    let pending = client.call(b"other".to_vec(), ONCE);
    serving.desk.open_gate();
    pending.wait().unwrap();
    let lines = serving.desk.log.lines();
    let before = lines.iter().take_while(|line| *line != "call other");
    let before = before.filter(|line| *line == "call flood").count();
    // The turn in which it waited, and the one after.
    assert!(before <= 128, "{before} calls of one connection before the first of another");
    assert_eq!(flood.receive().unwrap().1, 1);
}

#[cfg(unix)]
#[test]
fn a_server_that_keeps_to_nothing_breaks_the_connection() {
    let too_many: Vec<u8> = (0..1025).flat_map(|_| frame(ITEM, 2, b"item")).collect();
    for bytes in [
        frame(ANSWER, 99, b""),
        frame(END, 99, b""),
        frame(ITEM, 99, b""),
        frame(CALL, 1, b""),
        frame(99, 1, b""),
        u32::MAX.to_le_bytes().to_vec(),
        frame(REFUSED, 0, b"\x05\x01\x01text"),
        too_many,
    ] {
        let listener = crate::raw::listen();
        let address = listener.address();
        let server = std::thread::spawn(move || {
            let mut raw = listener.accept();
            assert_eq!(raw.receive().unwrap().0, HELLO);
            raw.send(&crate::raw::welcome(100, 1000));
            assert_eq!(raw.receive().unwrap().0, CALL);
            assert_eq!(raw.receive().unwrap().0, CALL);
            raw.try_send(&bytes);
            raw.last();
        });
        let ears = std::sync::Arc::new(Ears::default());
        let client = Client::connect(&address, options_at(&address), ears.clone()).unwrap();
        let pending = client.call(b"call".to_vec(), ONCE);
        let items = client.subscribe(b"items".to_vec());
        let answer = pending.wait();
        assert!(matches!(answer, Err(tubewell_wire::CallError::Broken { .. })), "{answer:?}");
        ears.log.wait_for("broken", 1);
        while items.recv().is_some() {}
        server.join().unwrap();
    }
}

#[test]
fn sockets_without_a_hello_keep_no_client_out() {
    const SILENT: usize = 6;
    let place = Place::new();
    let limits = Limits {
        connections: 2,
        strangers: 4,
        // A thirty-second part of it is half a second.
        hello: Duration::from_secs(16),
        ..Limits::default()
    };
    let serving = Serving::with(&place, limits);
    let mut silent: Vec<Raw> = (0..SILENT).map(|_| Raw::connect(&serving.address)).collect();
    let (first, _) = serving.client();
    let (second, _) = serving.client();
    assert_eq!((ask(&first, "call"), ask(&second, "call")), ("call".into(), "call".into()));
    assert_eq!(silent[0].receive(), None, "it has made room for them");
    drop(first);
    serving.desk.log.wait_for("disconnect", 1);
    // There is room again.
    let mut late = Raw::connect(&serving.address);
    late.send(&hello(1, 1, b"late"));
    assert_eq!(late.receive().unwrap().0, WELCOME);
}

/// Regression: only the oldest of them was hurried, so that a hundred kept a client out for seconds.
#[test]
fn sockets_without_a_hello_make_room_together() {
    let place = Place::new();
    let limits = Limits {
        strangers: 4,
        // A thirty-second part of it is a second.
        hello: Duration::from_secs(32),
        ..Limits::default()
    };
    let serving = Serving::with(&place, limits);
    let mut silent: Vec<Raw> = (0..4).map(|_| Raw::connect(&serving.address)).collect();
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "call"), "call");
    let begun = now();
    assert!(silent.iter_mut().all(|socket| socket.receive().is_none()));
    assert!(now() < begun + Duration::from_secs(16), "one that is not hurried has half a minute");
}

#[test]
fn answers_that_no_client_reads_are_limited_for_all_connections_together() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { all_unsent: 1 << 20, ..Limits::default() });
    let mut raws: Vec<Raw> = (0..5).map(|_| Raw::welcomed(&serving.address)).collect();
    let (client, _) = serving.client();
    raws[0].call(1, "bytes:900000");
    serving.desk.log.wait_for("call bytes:900000", 1);
    assert_eq!(ask(&client, "next"), "next");
    for raw in &mut raws[1..] {
        raw.call(1, "tracked-bytes:900000");
        let (kind, number, why) = raw.receive().unwrap();
        assert_eq!((kind, number), (END, 1));
        assert!(text(&why).contains("have left too many bytes of other answers unread"));
        raw.call(2, "bytes:60000");
        assert_eq!(raw.receive().unwrap().2.len(), 60_000, "a short one is sent in any case");
    }
    assert_eq!(serving.desk.log.count("lost bytes"), 4);
    assert_eq!(raws[0].receive().unwrap().2.len(), 900_000);
    raws[1].call(3, "bytes:900000");
    assert_eq!(raws[1].receive().unwrap().2.len(), 900_000);
}

/// It reads often enough not to count as stalled.
#[test]
fn client_that_reads_too_slowly_is_ended_once_unread_answers_are_short_of_room() {
    const ANSWER: usize = 6_000_000;
    for (all_unsent, ends) in [(8 << 20, true), (64 << 20, false)] {
        let place = Place::new();
        let stalled = Duration::from_millis(1500);
        let limits = Limits { all_unsent, stalled, rate: 1 << 30, ..Limits::default() };
        let serving = Serving::with(&place, limits);
        let (client, _) = serving.client();
        let mut slow = Raw::welcomed(&serving.address);
        slow.call(1, &format!("bytes:{ANSWER}"));
        let mut read = 0;
        let begun = now();
        while read < ANSWER && (ends || now() < begun + stalled * 2) {
            std::thread::park_timeout(Duration::from_millis(50));
            match slow.read_some(32 << 10) {
                0 => break,
                more => read += more,
            }
        }
        assert!(read < ANSWER, "it may read at its leisure");
        assert_eq!(ask(&client, "next"), "next");
        if ends {
            serving.desk.log.wait_for("disconnect", 1);
        }
        assert_eq!(serving.desk.log.count("disconnect"), usize::from(ends));
    }
}

#[test]
fn end_of_a_connection_with_much_behind_it_leaves_turns_to_others() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut much = Raw::connect(&serving.address);
    let mut bytes = hello(1, 1, b"ends slowly");
    for number in 1..=3000 {
        bytes.extend(frame(CALL, number, b"later:name"));
    }
    much.send(&bytes);
    serving.desk.log.wait_for("pending name", 3000);
    let (client, _) = serving.client();
    let mut gate = Raw::welcomed(&serving.address);
    gate.call(1, "gate");
    serving.desk.log.wait_for("at gate", 1);
    // While the reading thread waits, both arrive, this one first.
    drop(much);
    let pending = client.call(b"other".to_vec(), ONCE);
    serving.desk.open_gate();
    pending.wait().unwrap();
    let lines = serving.desk.log.lines();
    let before = |line: &str| {
        let lines = lines.iter().take_while(|line| *line != "call other");
        lines.filter(|other| *other == line).count()
    };
    assert!(before("dropped name") <= 128, "{}", before("dropped name"));
    // The service ends its peer in steps too.
    serving.desk.log.wait_for("step of disconnect", 64);
    assert_eq!(ask(&client, "next"), "next");
    serving.desk.log.wait_for("disconnect", 1);
}
