//! Takes and acks a second: over HTTP, and through a unix socket.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tubewell::{Store, TubeOptions};
use tubewell_http::{HttpOptions, serve};

use crate::client::Client;

/// How many tasks all connections take and ack.
const TASKS: usize = 4_000;
const CONNECTIONS: [usize; 3] = [1, 16, 64];

/// Takes and acks a second.
pub fn cycles() {
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
