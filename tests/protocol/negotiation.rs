//! Peers of other versions, over sockets: the owner of this build with clients by hand, and the client of
//! this build with owners by hand.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};

use tubewell::{ConnectOptions, Error, Filter, Store};

use crate::frames::{
    ANSWER, CALL, Frame, ITEM, PATIENCE, REFUSED, WELCOME, connect, hello, patient,
};
use crate::owner::Owner;

/// A session of a hello: one, its id, and no label.
const SESSION: [u8; 18] = [1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0];

/// The request for the clock of a store.
const CLOCK: &[u8] = &[13];

/// The answer that the tube `jobs` was found.
const FOUND: &[u8] = b"\0\x01\x04\x04jobs\x04fifo\0";

/// What a client says of its calls: the versions, a session, and no id of the client.
fn application(lowest: u8, highest: u8) -> Vec<u8> {
    [&[lowest, highest][..], &SESSION, &[0]].concat()
}

fn say(socket: &mut UnixStream, frame: &Frame) -> Frame {
    socket.write_all(frame.bytes()).unwrap();
    Frame::read(socket).expect("the owner ended the connection")
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

#[test]
fn owner_refuses_clients_without_a_common_version_and_says_which_side_is_older() {
    let owner = Owner::start();
    let (newer, older) = ("the owner is older: update it", "this program is older: update it");
    for (hello, says) in [
        (hello(2, 9, &application(1, 1)), "versions 2 to 9 of the protocol, the server 1 to 1"),
        (hello(0, 0, &application(1, 1)), "versions 0 to 0 of the protocol, the server 1 to 1"),
        (hello(1, 1, &application(5, 9)), newer),
        (hello(1, 1, &application(0, 0)), older),
    ] {
        let mut socket = connect(&owner.socket());
        let refusal = say(&mut socket, &hello);
        assert_eq!(refusal.kind(), REFUSED);
        assert!(text(refusal.body()).contains(says), "{}", text(refusal.body()));
        assert!(Frame::read(&mut socket).is_none(), "the connection has ended");
    }
}

#[test]
fn newer_client_gets_the_newest_common_version() {
    let owner = Owner::start();
    let mut socket = connect(&owner.socket());
    // A newer client may say more than this release knows.
    let application = [&application(1, 9)[..], b"more"].concat();
    let welcome = say(&mut socket, &hello(1, 9, &application));
    assert_eq!(welcome.kind(), WELCOME);
    // The version of the frames, and behind the limits that of the calls.
    assert_eq!((welcome.body()[0], welcome.body()[9]), (1, 1));
    let clock = say(&mut socket, &Frame::new(CALL, 1, CLOCK));
    assert_eq!((clock.kind(), &clock.body()[..2]), (ANSWER, &[0, 1][..]));
}

#[test]
fn hello_of_this_version_with_more_in_it_is_refused() {
    let owner = Owner::start();
    let mut socket = connect(&owner.socket());
    let refusal = say(&mut socket, &hello(1, 1, &[&application(1, 1)[..], b"more"].concat()));
    assert_eq!(refusal.kind(), REFUSED);
    assert!(text(refusal.body()).contains("bytes after the end"), "{}", text(refusal.body()));
}

/// The welcome has the version, the longest body, the interval of heartbeats and the id of the store.
#[test]
fn owner_answers_a_hello_and_a_heartbeat() {
    let owner = Owner::start();
    let mut socket = connect(&owner.socket());
    let welcome = say(&mut socket, &hello(1, 1, &application(1, 1)));
    assert_eq!((welcome.kind(), welcome.body()[9]), (WELCOME, 1));
    assert_eq!(welcome.body().len(), 10 + 4 + 5 + 16, "{:?}", welcome.body());
    // Whether the connection has claims.
    let heartbeat = say(&mut socket, &Frame::new(CALL, 1, &[15]));
    assert_eq!((heartbeat.kind(), heartbeat.body()), (ANSWER, &[0, 1, 0][..]));
}

#[test]
fn requests_that_the_owner_does_not_know_end_only_their_calls() {
    let owner = Owner::start();
    let mut socket = connect(&owner.socket());
    assert_eq!(say(&mut socket, &hello(1, 1, &application(1, 1))).kind(), WELCOME);
    let unknown: [(&[u8], &str); 5] = [
        (&[99], "an unknown number of a request"),
        (&[1, 99], "an unknown number of a call"),
        (b"\x01\x01\0\x04jobs\x63", "an unknown number of a call"),
        // A request with a field more, and one without any.
        (&[13, 0], "bytes after the end"),
        (&[], "they end too early"),
    ];
    for (number, (body, what)) in (1..).zip(unknown) {
        let answer = say(&mut socket, &Frame::new(CALL, number, body));
        // An error of the kind `Invalid`.
        assert_eq!((answer.kind(), &answer.body()[..3]), (ANSWER, &[0, 0, 10][..]));
        let says = text(answer.body());
        assert!(says.contains(what) && says.contains("use the same release"), "{says}");
    }
    assert_eq!(say(&mut socket, &Frame::new(CALL, 99, CLOCK)).body()[..2], [0, 1]);
    assert_eq!(owner.store.admin().verify().unwrap(), [""; 0]);
}

/// The welcome of an owner that has chosen this version of the calls.
fn welcome(version: u8) -> Frame {
    let limits = [4096_u32.to_le_bytes(), (65_u32 << 20).to_le_bytes()].concat();
    // The longest body is 64 MiB, and the owner wants no heartbeats.
    let own = [version, 0x80, 0x80, 0x80, 0x20, 0];
    Frame::new(WELCOME, 0, &[&[1][..], &limits, &own, &[7; 16]].concat())
}

pub fn refusal(reason: u8, lowest: u8, highest: u8, text: &str) -> Frame {
    Frame::new(REFUSED, 0, &[&[reason, lowest, highest], text.as_bytes()].concat())
}

/// Connects to an owner that answers the hello with `first`, and calls with these frames, in order,
/// with the items that follow each other in one answer. The numbers are those of the calls.
fn with_owner(first: Frame, answers: &[(u8, &[u8])], client: impl FnOnce(Result<Store, Error>)) {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("owner")).unwrap();
    let url = format!("unix:{}", folder.path().join("owner").display());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut socket = patient(listener.accept().unwrap().0);
            Frame::read(&mut socket).unwrap();
            socket.write_all(first.bytes()).unwrap();
            let mut answers = answers.iter().peekable();
            while let Some(frame) = Frame::read(&mut socket) {
                if frame.kind() != CALL {
                    continue;
                }
                loop {
                    let (kind, body) = answers.next().expect("one call more");
                    let answer = Frame::new(*kind, frame.number(), body);
                    socket.write_all(answer.bytes()).unwrap();
                    let has_another =
                        *kind == ITEM && answers.peek().is_some_and(|it| it.0 == ITEM);
                    if !has_another {
                        break;
                    }
                }
            }
            assert!(answers.next().is_none(), "the client has made fewer calls");
        });
        client(ConnectOptions::new().timeout(PATIENCE).connect(&url));
    });
}

#[test]
fn client_is_told_which_side_is_older() {
    for (first, is_final, says) in [
        (
            refusal(1, 7, 9, ""),
            true,
            "speaks versions 7 to 9 of the protocol, and this program 1 to 1; this program is \
             older: update it",
        ),
        (
            refusal(1, 0, 0, ""),
            true,
            "speaks versions 0 to 0 of the protocol, and this program 1 to 1; the other side is \
             older: update it",
        ),
        // For now, and for good.
        (refusal(3, 7, 9, "what the owner says"), false, "what the owner says"),
        (refusal(4, 7, 9, "what the owner says"), true, "what the owner says"),
        // A later reason.
        (refusal(99, 7, 9, "what a later owner says"), false, "what a later owner says"),
        (welcome(5), true, "the owner of the store has chosen version 5 of the calls"),
    ] {
        with_owner(first, &[], |connected| match connected {
            Err(Error::Refused { why }) if is_final => assert!(why.contains(says), "{why}"),
            Err(Error::NotConnected { why }) if !is_final => assert!(why.contains(says), "{why}"),
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn answers_that_the_client_does_not_know_end_only_their_calls() {
    let longer = [FOUND, &[1]].concat();
    let unknown: [&[u8]; 6] = [
        // An end too early, and a number of an error.
        &[0, 1, 99],
        &[0, 0, 99],
        // A field more, and one less.
        &longer,
        &FOUND[..FOUND.len() - 1],
        // Another kind of answers, and an answer to another call.
        &[9, 1, 0],
        &[0, 1, 6, 3],
    ];
    let mut answers = unknown.map(|body| (ANSWER, body)).to_vec();
    answers.push((ANSWER, FOUND));
    with_owner(welcome(1), &answers, |connected| {
        let store = connected.unwrap();
        for body in unknown {
            match store.find_tube("jobs") {
                Err(Error::OutcomeUnknown { why }) => {
                    assert!(why.contains("use the same release"), "{why}");
                }
                other => panic!("{body:?}: {other:?}"),
            }
        }
        assert_eq!(store.find_tube("jobs").unwrap().name(), "jobs");
        store.close().unwrap();
    });
}

#[test]
fn event_that_the_client_does_not_know_ends_only_its_subscription() {
    // An event of a kind that this release does not have.
    let event = b"\x04jobs\x07\x63\0\0\0\0\0\0\x01";
    // The first item says that the subscription has begun.
    let answers = [(ITEM, &[0, 1, 0][..]), (ITEM, event), (ANSWER, FOUND)];
    with_owner(welcome(1), &answers, |connected| {
        let store = connected.unwrap();
        let events = store.events(Filter::new(), 10).unwrap();
        assert_eq!(events.recv(), None);
        assert_eq!(store.find_tube("jobs").unwrap().name(), "jobs");
        drop(events);
        store.close().unwrap();
    });
}
