//! A connection without calls and claims costs nothing, on either side. A process of its own: all threads of servers
//! and connections in it are those of this test.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "that threads are idle shows over real time")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::time::Duration;

use tubewell::{FIFO, Filter, ServeOptions, Store, TubeOptions, connect};

/// So long that a busy machine keeps no connection from making its heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(400);

/// How often each thread of a server or a connection has begun to wait, by its name.
fn waits() -> Vec<(String, String)> {
    let mut waits = Vec::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let path = thread.unwrap().path();
        let name = fs::read_to_string(path.join("comm")).unwrap().trim().to_owned();
        if ["tubewell-serve", "tubewell-answer", "tubewell-connect"]
            .iter()
            .any(|known| known.starts_with(&name) && name.len() >= 14)
        {
            let status = fs::read_to_string(path.join("status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
            waits.push((name, line.unwrap().to_owned()));
        }
    }
    waits.sort();
    waits
}

#[test]
fn idle_connections_wake_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    let socket = ServeOptions::unix(folder.path().join("sock"));
    let served = store.admin().serve(socket.heartbeat(HEARTBEAT)).unwrap();
    let connections: Vec<Store> = (0..3).map(|_| connect(served.url()).unwrap()).collect();
    let events = connections[0].events(Filter::new(), 10).unwrap();
    // Without a claim, its heartbeats end.
    let jobs = connections[0].find_tube("jobs").unwrap();
    jobs.put("done").unwrap();
    let claim = jobs.try_take().unwrap().unwrap();
    std::thread::sleep(HEARTBEAT);
    claim.ack().unwrap();
    let waiting = connections[1].find_tube("jobs").unwrap();
    let taker = std::thread::spawn(move || waiting.take().unwrap().ack().unwrap());
    while store.tubes().unwrap()[0].waiting == 0 {
        std::thread::yield_now();
    }

    // What the calls above have begun ends first.
    let mut before = waits();
    loop {
        std::thread::sleep(HEARTBEAT * 2);
        let now = waits();
        if now == before {
            break;
        }
        before = now;
    }
    assert_eq!(before.len(), 5, "two threads serve, and each connection has one: {before:?}");
    std::thread::sleep(HEARTBEAT * 3);
    assert_eq!(waits(), before);

    // They are there all the same.
    connections[2].find_tube("jobs").unwrap().put("one").unwrap();
    taker.join().unwrap();
    assert!(events.recv().is_some());
}
