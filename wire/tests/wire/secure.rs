//! What stands between a client and a server with a secret: it sees nothing, and changes nothing unnoticed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell_wire::{Address, CallError, Client, ClientOptions, WireError};

use crate::raw::{HANDSHAKE, REFUSED, Raw, WELCOME, begin_handshake, frame, hello};
use crate::support::{Ears, Log, ONCE, Place, SECRET, Serving, ask, options_at, text};

/// From whom to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

const WAYS: [Way; 2] = [Way::ToServer, Way::ToClient];

/// One message of the handshake, or one record.
struct Unit {
    /// The number of the connection.
    connection: usize,
    way: Way,
    /// Its number on its way.
    number: usize,
    bytes: Vec<u8>,
}

impl Unit {
    /// Whether it has the first call of the first connection, or the answer: before it are the handshake, and hello or
    /// welcome.
    fn is_first(&self, way: Way) -> bool {
        (self.connection, self.way, self.number) == (0, way, 2)
    }
}

/// A man in the middle. It knows where messages of the handshake and records begin.
struct Proxy {
    address: Address,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    bytes: Mutex<Vec<u8>>,
    log: Log,
}

type Change = dyn Fn(Unit) -> Vec<u8> + Send + Sync;

impl Proxy {
    /// `change` returns what the proxy sends in place of a unit.
    fn start(server: &Address, change: impl Fn(Unit) -> Vec<u8> + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let Address::Tcp(server) = *server else { panic!("a proxy is for TCP") };
        let (seen, change) = (Arc::new(Seen::default()), Arc::new(change));
        let noted = seen.clone();
        // It ends with the test.
        std::thread::spawn(move || {
            for (connection, client) in listener.incoming().enumerate() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(server) else { continue };
                for (way, from, to) in
                    [(Way::ToServer, &client, &server), (Way::ToClient, &server, &client)]
                {
                    let sockets = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (noted, change) = (noted.clone(), change.clone());
                    std::thread::spawn(move || relay(connection, way, sockets, &noted, &*change));
                }
            }
        });
        Proxy { address, seen }
    }

    fn connect(&self, options: ClientOptions) -> Result<(Client, Arc<Ears>), WireError> {
        let ears = Arc::new(Ears::default());
        let backoff = Duration::from_millis(1)..=Duration::from_millis(20);
        let options = ClientOptions { backoff, ..options };
        Ok((Client::connect(&self.address, options, ears.clone())?, ears))
    }

    fn client(&self) -> (Client, Arc<Ears>) {
        self.connect(options_at(&self.address)).unwrap()
    }

    fn has_seen(&self, bytes: &[u8]) -> bool {
        self.seen.bytes.lock().unwrap().windows(bytes.len()).any(|window| window == bytes)
    }

    /// Waits until it has got this unit.
    fn wait_for(&self, way: Way, number: usize) {
        self.seen.log.wait_for(&format!("{way:?} {number}"), 1);
    }
}

fn relay(
    connection: usize,
    way: Way,
    (mut from, mut to): (TcpStream, TcpStream),
    seen: &Seen,
    change: &Change,
) {
    to.set_nodelay(true).unwrap();
    for number in 0.. {
        let Some(bytes) = read_unit(&mut from, number == 0) else { break };
        seen.bytes.lock().unwrap().extend_from_slice(&bytes);
        seen.log.add(format!("{way:?} {number}"));
        let sent = change(Unit { connection, way, number, bytes });
        // In pieces, so that records arrive in parts.
        if sent.chunks(10_000).any(|piece| to.write_all(piece).is_err()) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A frame, or a record.
fn read_unit(from: &mut impl Read, is_frame: bool) -> Option<Vec<u8>> {
    let mut unit = vec![0; if is_frame { 4 } else { 2 }];
    from.read_exact(&mut unit).ok()?;
    let length = match unit[..] {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        [a, b] => usize::from(u16::from_le_bytes([a, b])),
        _ => unreachable!(),
    };
    let head = unit.len();
    unit.resize(head + length, 0);
    from.read_exact(&mut unit[head..]).ok()?;
    Some(unit)
}

fn serve() -> Serving {
    Serving::start(&Place::tcp())
}

#[test]
fn relayed_connection_works_and_shows_nothing_of_what_is_said() {
    let serving = serve();
    *serving.desk.welcome.lock().unwrap() = b"the welcome of the server".to_vec();
    let proxy = Proxy::start(&serving.address, |unit| unit.bytes);
    let ears = Arc::new(Ears::default());
    *ears.hello.lock().unwrap() = b"the hello of the client".to_vec();
    let client = Client::connect(&proxy.address, options_at(&proxy.address), ears.clone()).unwrap();
    assert_eq!(ask(&client, "the body of a call"), "the body of a call");
    assert_eq!(ears.log.lines(), ["welcome the welcome of the server"]);
    assert_eq!(serving.desk.log.lines()[0], "hello the hello of the client");
    for said in ["the body", "the hello", "the welcome"] {
        assert!(!proxy.has_seen(said.as_bytes()), "{said}");
    }
    assert!(!proxy.has_seen(SECRET));
    // The head of the first call: its length, version, kind and number.
    assert!(!proxy.has_seen(&frame(5, 1, b"the body of a call")[..14]));
}

#[test]
fn long_and_many_frames_pass() {
    let serving = serve();
    let proxy = Proxy::start(&serving.address, |unit| unit.bytes);
    let (client, ears) = proxy.client();
    for length in [65_000, 65_519, 65_520, 66_000, 131_038, 3_000_000] {
        let call = "x".repeat(length);
        assert!(ask(&client, &call) == call, "{length}");
        assert_eq!(ask(&client, &format!("bytes:{length}")).len(), length);
    }
    let pending: Vec<_> = (0..5000).map(|n| client.call(n.to_string().into(), ONCE)).collect();
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(text(&pending.wait().unwrap()), n.to_string());
    }
    assert_eq!(ears.log.count("broken"), 0);
}

/// What has become of a connection on which something was changed.
struct Broken {
    serving: Serving,
    /// The outcome of the call `one`, which is the first one.
    one: Result<Vec<u8>, CallError>,
}

/// Changes what is sent this way, and returns when the client has noticed that the connection is broken.
#[track_caller]
fn changed(way: Way, change: impl Fn(Unit) -> Vec<u8> + Send + Sync + 'static) -> Broken {
    let serving = serve();
    let proxy = Proxy::start(&serving.address, change);
    let (client, ears) = proxy.client();
    let one = client.call(b"one".to_vec(), ONCE);
    proxy.wait_for(way, 2);
    // Bytes enough for the end of any record.
    let two = match way {
        Way::ToServer => client.call(vec![b'x'; 200_000], ONCE),
        Way::ToClient => client.call(b"bytes:200000".to_vec(), ONCE),
    };
    ears.log.wait_for("broken", 1);
    let one = one.wait();
    // It was on the broken connection, or on the next one.
    let two = two.wait();
    assert!(matches!(two, Ok(_) | Err(CallError::Broken { .. })), "{two:?}");
    let (other, _) = serving.client();
    assert_eq!(ask(&other, "next"), "next");
    Broken { serving, one }
}

impl Broken {
    /// The first call had no answer. Returns how often the server has carried it out.
    #[track_caller]
    fn unanswered(self, way: Way) -> usize {
        let Err(CallError::Broken { why }) = &self.one else { panic!("{:?}", self.one) };
        if way == Way::ToClient {
            assert!(why.contains("the server sent a record that is damaged"), "{why}");
        }
        self.serving.desk.log.count("call one")
    }
}

#[test]
fn changed_bit_of_a_record_ends_the_connection() {
    for way in WAYS {
        // Both bytes of the length, the first and the last byte of the content, and both ends of the tag.
        let content = frame(5, 1, b"one").len();
        for at in [0, 1, 2, 1 + content, 2 + content, 2 + content + 15] {
            let broken = changed(way, move |mut unit| {
                if unit.is_first(way) {
                    assert_eq!(unit.bytes.len(), 2 + content + 16);
                    unit.bytes[at] ^= 1 << (at % 8);
                }
                unit.bytes
            });
            assert_eq!(broken.unanswered(way), usize::from(way == Way::ToClient), "{way:?} {at}");
        }
    }
}

#[test]
fn record_that_is_left_out_ends_the_connection() {
    for way in WAYS {
        let change = move |unit: Unit| if unit.is_first(way) { Vec::new() } else { unit.bytes };
        assert_eq!(changed(way, change).unanswered(way), usize::from(way == Way::ToClient));
    }
}

#[test]
fn records_in_another_order_end_the_connection() {
    for way in WAYS {
        let held = Mutex::new(Vec::new());
        let broken = changed(way, move |mut unit| {
            let mut held = held.lock().unwrap();
            if unit.is_first(way) {
                *held = unit.bytes;
                return Vec::new();
            }
            if unit.way == way && unit.number == 3 {
                unit.bytes.append(&mut held);
            }
            unit.bytes
        });
        assert_eq!(broken.unanswered(way), usize::from(way == Way::ToClient));
    }
}

#[test]
fn repeated_record_ends_the_connection_and_is_carried_out_once() {
    for way in WAYS {
        let broken =
            changed(
                way,
                move |unit| {
                    if unit.is_first(way) { unit.bytes.repeat(2) } else { unit.bytes }
                },
            );
        assert_eq!(broken.serving.desk.log.count("call one"), 1);
        if way == Way::ToClient {
            assert_eq!(broken.one.unwrap(), b"one");
        }
    }
}

/// A refusal that the man in the middle makes is none: the client connects again.
#[test]
fn frame_that_is_put_between_records_ends_the_connection_alone() {
    for way in WAYS {
        let refusal = frame(REFUSED, 0, &[&[4, 1, 1][..], &vec![b'x'; 70_000]].concat());
        let broken = changed(way, move |unit| {
            if unit.is_first(way) { [refusal.clone(), unit.bytes].concat() } else { unit.bytes }
        });
        assert_eq!(broken.unanswered(way), usize::from(way == Way::ToClient));
    }
}

#[test]
fn changed_handshake_is_refused_and_names_the_secret() {
    for way in WAYS {
        for at in (14..62).step_by(3) {
            let serving = serve();
            let proxy = Proxy::start(&serving.address, move |mut unit| {
                if (unit.way, unit.number) == (way, 0) {
                    unit.bytes[at] ^= 1 << (at % 8);
                }
                unit.bytes
            });
            let error = proxy.connect(options_at(&proxy.address)).err().unwrap();
            assert!(matches!(error, WireError::WrongSecret { .. }), "{way:?}, {at}: {error}");
            assert_eq!(serving.desk.log.lines(), [""; 0]);
        }
    }
}

/// Without the secret it can make no keys that either side shares with it.
#[test]
fn man_in_the_middle_with_keys_of_his_own_is_refused_by_both_sides() {
    let serving = serve();
    for way in WAYS {
        let own = begin_handshake(b"a secret that he has guessed").1;
        let proxy = Proxy::start(&serving.address, move |unit| {
            if (unit.way, unit.number) == (way, 0) { own.clone() } else { unit.bytes }
        });
        let error = proxy.connect(options_at(&proxy.address)).err().unwrap();
        assert!(matches!(error, WireError::WrongSecret { .. }), "{way:?}: {error}");
    }
    assert_eq!(serving.desk.log.lines(), [""; 0]);
}

#[test]
fn conversation_that_is_repeated_to_the_server_is_refused() {
    let serving = serve();
    let said = Arc::new(Mutex::new(Vec::new()));
    let noted = said.clone();
    let proxy = Proxy::start(&serving.address, move |unit| {
        if unit.way == Way::ToServer {
            noted.lock().unwrap().extend_from_slice(&unit.bytes);
        }
        unit.bytes
    });
    let (client, _) = proxy.client();
    assert_eq!(ask(&client, "one"), "one");
    drop(client);
    serving.desk.log.wait_for("disconnect", 1);
    let mut raw = Raw::connect(&serving.address);
    let said = said.lock().unwrap().clone();
    let (handshake, records) = said.split_at(62);
    raw.send(handshake);
    assert_eq!(raw.receive().unwrap().0, HANDSHAKE);
    raw.send(records);
    while raw.receive_byte().is_some() {}
    let (other, _) = serving.client();
    assert_eq!(ask(&other, "next"), "next");
    assert_eq!(serving.desk.log.count("call one"), 1);
    assert_eq!(serving.desk.log.count("hello "), 2, "{:?}", serving.desk.log.lines());
}

#[test]
fn handshake_that_ends_early_leaves_nothing() {
    let serving = serve();
    let (_, handshake) = begin_handshake(SECRET);
    for length in 0..handshake.len() {
        let mut raw = Raw::connect(&serving.address);
        raw.send(&handshake[..length]);
    }
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "call"), "call");
    assert_eq!(serving.desk.log.lines(), ["hello ", "call call"]);
}

#[test]
fn record_that_is_none_is_refused_with_the_reason() {
    let serving = serve();
    let Address::Tcp(address) = serving.address else { panic!("TCP") };
    let garbage = [&16_u16.to_le_bytes()[..], &[7; 16]].concat();
    let empty = 0_u16.to_le_bytes().to_vec();
    let long = [&u16::MAX.to_le_bytes()[..], &vec![7; 65_535]].concat();
    for bytes in [garbage, empty, long, frame(5, 1, &[0; 100])] {
        for is_welcome in [false, true] {
            let mut socket = TcpStream::connect(address).unwrap();
            let mut raw = Raw::sealed(&socket);
            if is_welcome {
                raw.send(&hello(1, 1, b"raw"));
                assert_eq!(raw.receive().unwrap().0, WELCOME);
            }
            socket.write_all(&bytes).unwrap();
            let (kind, _, body) = raw.last().unwrap();
            assert_eq!((kind, body[0]), (REFUSED, 5));
            assert!(text(&body).contains("a record that is damaged"), "{}", text(&body));
        }
    }
}

#[test]
fn end_of_either_side_reaches_the_other_one() {
    let serving = serve();
    let (one, _) = serving.client();
    let (two, ears) = serving.client();
    assert_eq!((ask(&one, "call"), ask(&two, "call")), ("call".into(), "call".into()));
    let pending = one.call(b"later:name".to_vec(), ONCE);
    serving.desk.log.wait_for("pending name", 1);
    drop(one);
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(pending.wait(), Err(CallError::Closed));
    serving.server.stop();
    ears.log.wait_for("broken", 1);
    serving.desk.log.wait_for("disconnect", 2);
}
