//! The memory of idle event streams, and how long a call takes beside them. The server is a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tubewell::{Store, TubeOptions};
use tubewell_http::{HttpOptions, serve};

use crate::client::Client;

const PUTS: usize = 1000;

/// Measures the server without streams and beside them.
pub fn streams(count: usize) {
    let mut server = Server::start();
    let mut client = Client::to(server.address);
    put_times(&mut client);
    let before = (server.resident(), put_times(&mut client));
    let began = Instant::now();
    let streams: Vec<Client> = (0..count).map(|_| opened(server.address)).collect();
    let opened = began.elapsed();
    let after = (server.resident(), put_times(&mut client));
    let each = (after.0 - before.0) as f64 / count as f64;
    println!("{count} event streams, opened in {opened:.1?}");
    println!("the server: {} kB before, {} kB after, {each:.1} kB for each", before.0, after.0);
    println!("a put, median and p99: {} before, {} beside them", before.1, after.1);
    drop(streams);
    server.running.kill().unwrap();
    server.running.wait().unwrap();
}

/// A stream of events that do not occur.
fn opened(server: SocketAddr) -> Client {
    let mut stream = Client::to(server);
    stream.send("GET", "/v1/events?tube=jobs&kinds=delete");
    let status = stream.status();
    assert!(status.contains("200"), "{status}");
    stream
}

/// How long a put takes: the median and the 99th of 100.
fn put_times(client: &mut Client) -> String {
    let mut times: Vec<Duration> = (0..PUTS)
        .map(|_| {
            let began = Instant::now();
            client.post("/v1/tubes/jobs/tasks");
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    format!("{:.0?} and {:.0?}", times[PUTS / 2], times[PUTS * 99 / 100])
}

struct Server {
    running: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Server {
    fn start() -> Server {
        let mut running = Command::new(std::env::current_exe().unwrap())
            .arg("streams-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asks = running.stdin.take().unwrap();
        let mut answers = BufReader::new(running.stdout.take().unwrap());
        let address = line(&mut answers).parse().unwrap();
        Server { running, asks, answers, address }
    }

    /// The memory of its process in kilobytes.
    fn resident(&mut self) -> u64 {
        writeln!(self.asks, "memory").unwrap();
        line(&mut self.answers).parse().unwrap()
    }
}

fn line(from: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Serves a store in memory, and answers each line of input with the memory of this process.
pub fn server() {
    let store = Store::in_memory().unwrap();
    store.create_tube("jobs", TubeOptions::new().ttr(Duration::from_secs(600))).unwrap();
    let server = serve(&store, HttpOptions::new("127.0.0.1:0")).unwrap();
    println!("{}", server.address());
    for _ in std::io::stdin().lines() {
        println!("{}", resident());
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
