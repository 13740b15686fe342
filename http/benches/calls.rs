//! The costs of calls over HTTP beside calls through a unix socket, and of idle event streams.
//!
//! `cargo bench -p tubewell-http` takes and acks the tasks of a store on disk over 1, 16 and 64 connections that are
//! kept open. `cargo bench -p tubewell-http -- streams 10000` opens that many event streams, which needs a limit of open
//! files above four times their number.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]
#![allow(clippy::cast_precision_loss, reason = "rates for people")]
#![allow(clippy::disallowed_methods, reason = "real time is what is measured")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tubewell::{Store, TubeOptions};
use tubewell_http::{HttpOptions, serve};

/// How many tasks all connections take and ack.
const TASKS: usize = 4_000;
const CONNECTIONS: [usize; 3] = [1, 16, 64];

fn main() {
    // `cargo bench` adds an argument of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["streams", count] => streams(count.parse().unwrap()),
        _ => cycles(),
    }
}

/// Takes and acks a second.
fn cycles() {
    println!(
        "{:<12}{:>12}{:>14}{:>14}{:>8}",
        "durability", "connections", "unix socket", "HTTP", "ratio"
    );
    for durability in ["flush", "write(50ms)"] {
        for connections in CONNECTIONS {
            let socket = rate(durability, connections, Surface::Socket);
            let http = rate(durability, connections, Surface::Http);
            println!(
                "{durability:<12}{connections:>12}{socket:>12.0}/s{http:>12.0}/s{:>8.2}",
                http / socket
            );
        }
    }
}

#[derive(Clone, Copy)]
enum Surface {
    Socket,
    Http,
}

fn rate(durability: &str, connections: usize, surface: Surface) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("store")).unwrap();
    let options = TubeOptions::new().ttr(Duration::from_secs(600)).set("durability", durability);
    let jobs = store.create_tube("jobs", options.unwrap()).unwrap();
    let cycles = if connections == 1 { TASKS / 4 } else { TASKS };
    jobs.put_many((0..cycles).map(|number| format!("task {number}"))).unwrap();
    let each = cycles / connections;
    let begin = Barrier::new(connections + 1);
    let elapsed = match surface {
        Surface::Socket => {
            let path = directory.path().join("socket");
            let _serving = store.admin().serve(tubewell::ServeOptions::unix(&path)).unwrap();
            run(connections, &begin, || through_socket(&path, each, &begin))
        }
        Surface::Http => {
            let server = serve(&store, HttpOptions::new("127.0.0.1:0")).unwrap();
            let address = server.address();
            run(connections, &begin, || over_http(address, each, &begin))
        }
    };
    assert_eq!(jobs.statistics().unwrap().tasks.total, (cycles - each * connections) as u64);
    (each * connections) as f64 / elapsed.as_secs_f64()
}

fn run(connections: usize, begin: &Barrier, client: impl Fn() + Sync) -> Duration {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(&client)).collect();
        begin.wait();
        let began = Instant::now();
        for client in clients {
            client.join().unwrap();
        }
        began.elapsed()
    })
}

fn through_socket(path: &Path, cycles: usize, begin: &Barrier) {
    let store = tubewell::connect(&format!("unix:{}", path.display())).unwrap();
    let jobs = store.find_tube("jobs").unwrap();
    begin.wait();
    for _ in 0..cycles {
        jobs.try_take().unwrap().unwrap().ack().unwrap();
    }
}

fn over_http(address: SocketAddr, cycles: usize, begin: &Barrier) {
    let mut client = Client::to(address);
    begin.wait();
    for _ in 0..cycles {
        let taken = client.post("/v1/tubes/jobs/take");
        let claim = taken.split("\"claim\":\"").nth(1).unwrap().split('"').next().unwrap();
        client.post(&format!("/v1/claims/{claim}/ack"));
    }
}

/// A connection that is kept open.
struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Client {
    fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream), address }
    }

    fn post(&mut self, path: &str) -> String {
        self.call("POST", path)
    }

    fn call(&mut self, method: &str, path: &str) -> String {
        self.send(method, path);
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).unwrap();
        String::from_utf8(content).unwrap()
    }

    fn send(&mut self, method: &str, path: &str) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
            self.address
        );
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
    }
}

/// The memory of idle event streams, and how long a call takes beside them.
fn streams(count: usize) {
    let store = Store::in_memory().unwrap();
    store.create_tube("jobs", TubeOptions::new().ttr(Duration::from_secs(600))).unwrap();
    let server =
        serve(&store, HttpOptions::new("127.0.0.1:0").max_connections(count + 10)).unwrap();
    let address = server.address();
    let mut client = Client::to(address);
    let before = (resident(), median_call(&mut client));
    let began = Instant::now();
    let streams: Vec<Client> = (0..count)
        .map(|_| {
            let mut stream = Client::to(address);
            stream.send("GET", "/v1/events?tube=jobs&kinds=delete");
            let mut line = String::new();
            stream.stream.read_line(&mut line).unwrap();
            assert!(line.contains("200"), "{line}");
            stream
        })
        .collect();
    let opened = began.elapsed();
    let after = (resident(), median_call(&mut client));
    println!("{count} event streams, opened in {opened:.1?}");
    println!("memory of the server and the clients: {} kB before, {} kB after", before.0, after.0);
    println!("a put: {:.0?} before, {:.0?} beside them", before.1, after.1);
    drop(streams);
}

/// How long a put takes, in the middle of 1,000.
fn median_call(client: &mut Client) -> Duration {
    let mut times: Vec<Duration> = (0..1000)
        .map(|_| {
            let began = Instant::now();
            client.post("/v1/tubes/jobs/tasks");
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// The memory of this process in kilobytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
