//! Long calls: a server holds a limited number of their bytes.

use std::thread;
use std::time::Duration;

use tubewell_wire::Limits;

use crate::raw::{ANSWER, CALL, CANCEL, END, REFUSED, Raw, frame};
use crate::support::{ALWAYS, Place, Serving, ask, options, text};

/// The body of a long call. 64 KiB of each connection do not count for all connections.
const LONG: usize = 256 * 1024;

/// A call that holds its body until it may end.
fn hold(number: u64) -> Vec<u8> {
    let mut body = b"hold:".to_vec();
    body.resize(LONG, b'x');
    frame(CALL, number, &body)
}

/// Two long calls of a connection, and four of all of them.
fn limits() -> Limits {
    Limits { call_bytes: 600 * 1024, all_call_bytes: 1000 * 1024, ..Limits::default() }
}

/// A server that holds one long call.
fn one_alone() -> Limits {
    Limits { all_call_bytes: 300 * 1024, ..Limits::default() }
}

#[test]
fn flood_of_long_calls_is_carried_out_whole_with_few_of_them_held() {
    const PEERS: usize = 4;
    const CALLS: u64 = 12;
    let place = Place::new();
    let serving = Serving::with(&place, limits());
    let floods: Vec<_> = (0..PEERS)
        .map(|_| {
            let mut raw = Raw::welcomed(&serving.address);
            thread::spawn(move || {
                (1..=CALLS).for_each(|number| raw.send(&hold(number)));
                let mut numbers: Vec<u64> = (0..CALLS)
                    .map(|_| {
                        let (kind, number, body) = raw.receive().unwrap();
                        assert_eq!((kind, &body[..]), (ANSWER, &b"held"[..]));
                        number
                    })
                    .collect();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(1..=CALLS));
            })
        })
        .collect();
    let (client, _) = serving.client();
    let all = PEERS * usize::try_from(CALLS).unwrap();
    serving.desk.wait_for_holds(4, 0);
    for ended in 1..=all {
        // Other connections have their turns.
        assert_eq!(ask(&client, "next"), "next");
        serving.desk.permit(1);
        serving.desk.wait_for_ended(ended);
    }
    assert_eq!(serving.desk.wait_for_holds(0, all), 4 * LONG);
    for flood in floods {
        flood.join().unwrap();
    }
}

#[test]
fn long_calls_of_a_connection_wait_for_each_other_and_short_ones_pass_before() {
    let place = Place::new();
    let serving = Serving::with(&place, limits());
    let mut raw = Raw::welcomed(&serving.address);
    let sender = thread::spawn(move || {
        (1..=2).for_each(|number| raw.send(&hold(number)));
        raw.call(3, "short");
        (4..=5).for_each(|number| raw.send(&hold(number)));
        raw
    });
    serving.desk.wait_for_holds(2, 0);
    serving.desk.log.wait_for("call short", 1);
    serving.desk.permit(1);
    serving.desk.wait_for_holds(2, 1);
    serving.desk.permit(3);
    assert_eq!(serving.desk.wait_for_holds(0, 4), 2 * LONG);
    let mut raw = sender.join().unwrap();
    let mut numbers: Vec<u64> = (0..5).map(|_| raw.receive().unwrap().1).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn call_that_ends_without_an_answer_gives_its_bytes_back() {
    let place = Place::new();
    let serving = Serving::with(&place, one_alone());
    let mut first = Raw::welcomed(&serving.address);
    first.send(&hold(1));
    serving.desk.wait_for_holds(1, 0);
    first.send(&frame(CANCEL, 1, b""));
    assert_eq!(first.receive().unwrap(), (END, 1, Vec::new()));
    first.send(&hold(2));
    serving.desk.wait_for_holds(1, 1);
    let mut second = Raw::welcomed(&serving.address);
    second.send(&hold(1)[..LONG / 2]);
    drop(first);
    serving.desk.wait_for_holds(0, 2);
    second.send(&hold(1)[LONG / 2..]);
    serving.desk.wait_for_holds(1, 2);
}

#[test]
fn connection_that_waits_for_bytes_and_ends_keeps_no_other_waiting() {
    let place = Place::new();
    let serving = Serving::with(&place, one_alone());
    let mut raws: Vec<Raw> = (0..3).map(|_| Raw::welcomed(&serving.address)).collect();
    raws[0].send(&hold(1));
    serving.desk.wait_for_holds(1, 0);
    let (client, _) = serving.client();
    // What a socket takes at once: the server has the length.
    for raw in &mut raws[1..] {
        raw.send(&hold(1)[..1000]);
        assert_eq!(ask(&client, "next"), "next");
    }
    drop(raws.remove(1));
    serving.desk.log.wait_for("disconnect", 1);
    serving.desk.permit(1);
    serving.desk.wait_for_holds(0, 1);
    raws[1].send(&hold(1)[1000..]);
    serving.desk.wait_for_holds(1, 1);
}

/// What it has begun to send would keep others from sending.
#[test]
fn peer_that_stops_in_the_midst_of_a_long_call_is_disconnected() {
    let place = Place::new();
    let limits = Limits { stalled: Duration::from_millis(100), ..one_alone() };
    let serving = Serving::with(&place, limits);
    let (mut short, mut long) = (Raw::welcomed(&serving.address), Raw::welcomed(&serving.address));
    short.send(&frame(CALL, 1, b"short")[..10]);
    long.send(&hold(1)[..LONG / 2]);
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "next"), "next");
    let mut other = Raw::welcomed(&serving.address);
    other.send(&hold(1));
    serving.desk.wait_for_holds(1, 0);
    assert_eq!(long.receive(), None);
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("disconnect"), 1);
    // A short call may take any time.
    short.send(&frame(CALL, 1, b"short")[10..]);
    assert_eq!(short.receive().unwrap(), (ANSWER, 1, b"short".to_vec()));
}

/// The thread that reads was busy meanwhile.
#[test]
fn long_call_whose_rest_has_arrived_is_read_before_its_peer_counts_as_stopped() {
    const FIRST: usize = 1024;
    let place = Place::new();
    let stalled = Duration::from_millis(100);
    let serving = Serving::with(&place, Limits { stalled, ..one_alone() });
    let [mut long, mut first, mut second] = [(); 3].map(|()| Raw::welcomed(&serving.address));
    let call = frame(CALL, 1, &vec![b'x'; LONG / 2]);
    first.call(1, "gate");
    serving.desk.log.wait_for("at gate", 1);
    // Both are read once the thread has passed the gate, in this order.
    long.send(&call[..FIRST]);
    second.call(1, "gate");
    serving.desk.open_gate_once();
    serving.desk.log.wait_for("at gate", 2);
    long.send(&call[FIRST..]);
    thread::park_timeout(stalled * 2);
    serving.desk.open_gate_once();
    assert_eq!(long.receive().map(|(kind, ..)| kind), Some(ANSWER));
}

/// Its heartbeats are behind the call that is not read: what is unread counts for one.
#[test]
fn connection_whose_call_waits_for_bytes_is_not_taken_for_silent() {
    let place = Place::new();
    let limits = Limits { silence: Duration::from_secs(1), ..limits() };
    let serving = Serving::with(&place, limits);
    let expect_beats = || {
        let mut raw = Raw::welcomed(&serving.address);
        raw.call(9, "beats:on");
        assert_eq!(raw.receive().unwrap().0, ANSWER);
        raw
    };
    let mut waits = expect_beats();
    let sender = thread::spawn(move || {
        (1..=3).for_each(|number| waits.send(&hold(number)));
        waits
    });
    serving.desk.wait_for_holds(2, 0);
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "next"), "next");
    assert_eq!(expect_beats().receive(), None, "this one is silent for too long");
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("disconnect"), 1);
    serving.desk.permit(3);
    let mut waits = sender.join().unwrap();
    (0..3).for_each(|_| assert_eq!(waits.receive().unwrap().0, ANSWER));
}

#[test]
fn long_frame_that_is_no_call_is_refused_before_its_body() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut raw = Raw::welcomed(&serving.address);
    raw.send(&frame(CANCEL, 1, &vec![0; 65_537])[..6]);
    let (kind, _, body) = raw.last().unwrap();
    assert_eq!(kind, REFUSED);
    assert!(text(&body).contains("is longer than the limit of 65536"), "{}", text(&body));
}

/// The server reads what is behind the calls, such as cancellations: the client leaves none of its calls unread.
#[test]
fn client_keeps_to_the_bytes_in_flight() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let options = tubewell_wire::ClientOptions { limits: limits(), ..options() };
    let (client, _) = serving.client_with(options);
    let body = || {
        let mut body = b"hold:".to_vec();
        body.resize(LONG, b'x');
        body
    };
    let calls: Vec<_> = (0..5).map(|_| client.call(body(), ALWAYS)).collect();
    serving.desk.wait_for_holds(2, 0);
    // Meanwhile the server could read all of them.
    let (other, _) = serving.client();
    (0..200).for_each(|_| assert_eq!(ask(&other, "quiet"), "quiet"));
    for ended in 0..5 {
        serving.desk.wait_for_holds((5 - ended).min(2), ended);
        serving.desk.permit(1);
    }
    for call in calls {
        assert_eq!(call.wait().unwrap(), b"held");
    }
    assert_eq!(serving.desk.wait_for_holds(0, 5), 2 * LONG);
}

/// It would keep others from sending for as long as it likes: much more time is left for the rest, at the least rate.
#[test]
fn long_call_that_arrives_too_slowly_is_broken_off_once_another_waits_for_its_bytes() {
    let place = Place::new();
    let limits = Limits { stalled: Duration::from_millis(300), rate: LONG / 100, ..one_alone() };
    let serving = Serving::with(&place, limits);
    let mut slow = Raw::welcomed(&serving.address);
    slow.send(&hold(1)[..LONG / 2]);
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "next"), "next");
    let slow = thread::spawn(move || {
        // Far less than the call, for much longer than it may take.
        for _ in 0..4000 {
            if !slow.try_send(b"x") {
                return;
            }
            thread::park_timeout(Duration::from_millis(5));
        }
        panic!("it may go on");
    });
    let mut other = Raw::welcomed(&serving.address);
    other.send(&hold(1));
    serving.desk.wait_for_holds(1, 0);
    serving.desk.permit(1);
    assert_eq!(other.receive().unwrap().0, ANSWER);
    slow.join().unwrap();
    serving.desk.log.wait_for("disconnect", 1);
}
