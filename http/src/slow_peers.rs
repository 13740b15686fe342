//! Peers that send and read slowly, or not at all.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tubewell::{Put, Store};

use crate::options::Patience;
use crate::{HttpOptions, HttpServer, serve};

/// More than the sockets of both sides hold.
const LARGE: usize = 16 << 20;
/// How long an answer may take, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);

fn served(change: impl FnOnce(&mut Patience)) -> (Store, HttpServer) {
    let store = Store::in_memory().unwrap();
    store.tube("jobs").unwrap();
    let mut options = HttpOptions::new("127.0.0.1:0");
    change(&mut options.patience);
    let server = serve(&store, options).unwrap();
    (store, server)
}

fn begin(server: &HttpServer, call: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{}", call.replace("HOST", &server.address().to_string())).unwrap();
    stream
}

/// From now on the server holds the answer.
fn begins_to_answer(stream: &mut TcpStream) {
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

/// What comes until the server ends the connection.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    bytes
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn get(id: u64) -> String {
    format!("GET /v1/tasks/{id} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n")
}

/// The status of the answer, which is read to its end.
fn status(server: &HttpServer, call: &str) -> u16 {
    let answer = rest(begin(server, call));
    text(&answer[9..12]).parse().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "sockets and threads run by the clock")]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn connection_whose_head_does_not_come_is_ended() {
    let (_store, server) = served(|patience| patience.head = Duration::from_millis(300));
    for head in ["", "GET /v1/tubes HTTP/1.1\r\nHost: HOST\r\n", "G"] {
        let answer = text(&rest(begin(&server, head)));
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    // A head that comes in time: the machine may be slower than that now and then.
    let whole = "GET /v1/tubes HTTP/1.1\r\nHost: HOST\r\n\r\n";
    wait_until(|| rest(begin(&server, whole)).starts_with(b"HTTP/1.1 200"));
}

#[test]
fn content_that_does_not_come_is_refused_and_puts_nothing() {
    let (store, server) = served(|patience| patience.content = Duration::from_millis(300));
    let head = "POST /v1/tubes/jobs/tasks HTTP/1.1\r\nHost: HOST\r\nContent-Type: text/plain\r\n";
    for content in
        ["Content-Length: 10\r\n\r\n123456789", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"]
    {
        let answer = text(&rest(begin(&server, &format!("{head}{content}"))));
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains(r#""kind":"content_late""#), "{answer}");
    }
    assert_eq!(store.find_tube("jobs").unwrap().statistics().unwrap().tasks.total, 0);
}

#[test]
fn answer_that_is_not_read_ends_its_connection() {
    let (store, server) = served(|patience| {
        patience.unread = Duration::from_secs(2);
        patience.answers = LARGE;
    });
    let id = store.find_tube("jobs").unwrap().put(vec![b'x'; LARGE]).unwrap().id;
    let mut unread = begin(&server, &get(id));
    begins_to_answer(&mut unread);
    // The client reads no more, until the server has let go of the answer, which had all the room.
    wait_until(|| status(&server, &get(id)) == 200);
    assert!(rest(unread).len() < LARGE);
}

/// Regression: the receipts of a list of many tasks found no room, so that its client put them again.
#[test]
fn list_whose_receipts_have_no_room_is_refused_before_it_is_put() {
    let (store, server) = served(|patience| patience.answers = LARGE);
    let jobs = store.find_tube("jobs").unwrap();
    let id = jobs.put(Put::new(vec![b'x'; LARGE])).unwrap().id;
    let small = jobs.put(Put::new(vec![b'x'; 100_000])).unwrap().id;
    let mut unread = begin(&server, &get(id));
    begins_to_answer(&mut unread);
    assert_eq!(status(&server, &get(small)), 429);
    let put = |tasks: usize| {
        let content = format!("[{}]", vec![r#"{"data":"x"}"#; tasks].join(","));
        let length = content.len();
        let head = "Host: HOST\r\nConnection: close\r\nContent-Type: application/json\r\n";
        let call = format!(
            "POST /v1/tubes/jobs/tasks HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{content}"
        );
        text(&rest(begin(&server, &call)))
    };
    let refused = put(2000);
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("overloaded"), "{refused}");
    assert_eq!(jobs.statistics().unwrap().tasks.total, 2);
    assert!(put(10).starts_with("HTTP/1.1 201"));
    drop(unread);
    wait_until(|| status(&server, &get(small)) == 200);
    assert!(put(2000).starts_with("HTTP/1.1 201"));
    assert_eq!(jobs.statistics().unwrap().tasks.total, 2012);
}
