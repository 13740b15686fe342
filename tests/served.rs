//! A store that is served to other processes: each kind of call, through a connection.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/patience.rs"]
mod patience;

use std::time::Duration;

use patience::HANGS_AFTER;
use tempfile::TempDir;
use tubewell::driver::{Driver, Traits};
use tubewell::{
    Claim, ConnectOptions, Durability, Error, EventKind, FIFO, FIFOTTL, Filter, LIMFIFOTTL,
    Outcome, Put, ServeOptions, Store, TaskState, TubeOptions, UTUBE, connect,
};

/// A store, and a connection to it.
struct Pair {
    owner: Store,
    remote: Store,
    url: String,
    _folder: TempDir,
}

fn pair() -> Pair {
    pair_of(Store::in_memory().unwrap())
}

fn pair_of(owner: Store) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let served = owner.admin().serve(ServeOptions::unix(folder.path().join("sock"))).unwrap();
    let url = served.url().to_owned();
    Pair { remote: connect(&url).unwrap(), url, owner, _folder: folder }
}

#[test]
fn tasks_are_put_taken_and_acked_through_a_connection() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    assert_eq!(jobs.put("one").unwrap().id, 0);
    assert_eq!(jobs.put_many(["two", "three"]).unwrap().len(), 2);
    let claim = jobs.try_take().unwrap().unwrap();
    assert_eq!((claim.id(), claim.body(), claim.tube()), (0, &b"one"[..], "jobs"));
    assert_eq!(
        pair.owner.find_tube("jobs").unwrap().query().task(0).unwrap().info.state,
        TaskState::Taken
    );
    claim.ack().unwrap();
    let claims = jobs.take_many(10, Duration::MAX).unwrap();
    assert_eq!(claims.len(), 2);
    Claim::end_many(claims, |_| Outcome::done()).unwrap();
    assert!(jobs.try_take().unwrap().is_none());
    assert_eq!(pair.owner.admin().verify().unwrap(), [""; 0]);
}

/// The path would name another file at the owner.
#[test]
fn backup_to_a_path_that_is_not_utf_8_is_refused_through_a_connection() {
    use std::os::unix::ffi::OsStrExt;
    let (pair, folder) = (pair(), tempfile::tempdir().unwrap());
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"copy-\xff"));
    match pair.remote.admin().backup(&path) {
        Err(Error::Invalid { what }) => assert!(what.contains("not UTF-8"), "{what}"),
        other => panic!("{other:?}"),
    }
    pair.owner.admin().backup(&path).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(files.count(), 1, "the backup of the owner");
}

#[test]
fn large_bodies_go_both_ways() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    let body = vec![7; 3 << 20];
    jobs.put(body.clone()).unwrap();
    assert_eq!(jobs.query().task(0).unwrap().body, body);
    let task = jobs.try_take().unwrap().unwrap().detach();
    assert_eq!((task.body, task.info.state), (body.into(), TaskState::Taken));
    jobs.claimed(0).and_then(tubewell::Claim::ack).unwrap();
}

#[test]
fn take_of_many_large_bodies_claims_no_task_that_does_not_fit_into_the_answer() {
    let pair = pair();
    for (name, driver) in [("jobs", FIFO), ("sub-queues", UTUBE)] {
        let jobs = pair.remote.create_tube(name, TubeOptions::new().driver(driver)).unwrap();
        for n in 0..4 {
            let put = Put::new(vec![7; 6 << 20]);
            jobs.put(if driver == UTUBE { put.sub_queue(format!("{n}")) } else { put }).unwrap();
        }
        let events = pair.owner.events(Filter::new().kinds([EventKind::Take]), 100).unwrap();
        let bodies =
            |claims: &[Claim]| claims.iter().map(|claim| claim.body().len()).sum::<usize>();
        let claims = jobs.take_many(4, Duration::MAX).unwrap();
        assert_eq!((claims.len(), bodies(&claims)), (2, 12 << 20));
        assert_eq!(std::iter::from_fn(|| events.try_recv()).count(), 2);
        let others = jobs.take_many(4, Duration::MAX).unwrap();
        assert_eq!((others.len(), bodies(&others)), (2, 12 << 20));
        assert!(others.iter().all(|claim| claim.takes() == 1));
    }
}

/// Each task counts 512 bytes in an answer beside its record and its body.
#[test]
fn take_of_many_small_tasks_claims_no_task_that_does_not_fit_into_the_answer() {
    let pair = pair();
    let brief = TubeOptions::new().temporary(true);
    let jobs = pair.remote.create_tube("jobs", brief.driver(FIFO)).unwrap();
    for _ in 0..7 {
        jobs.put_many(std::iter::repeat_n("", 5000)).unwrap();
    }
    let claims = jobs.take_many(usize::MAX, Duration::MAX).unwrap();
    assert!((25_000..33_000).contains(&claims.len()), "{}", claims.len());
    let tasks = jobs.statistics().unwrap().tasks;
    assert_eq!((tasks.taken, tasks.total), (claims.len() as u64, 35_000));
    let others = jobs.take_many(usize::MAX, Duration::MAX).unwrap();
    assert_eq!(claims.len() + others.len(), 35_000);
}

#[test]
fn body_of_the_largest_size_goes_both_ways() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put(Put::new(vec![7; 64 << 20]).key("largest")).unwrap();
    let claim = jobs.try_take().unwrap().unwrap();
    assert_eq!((claim.body().len(), claim.key()), (64 << 20, Some("largest")));
    claim.ack().unwrap();
    assert!(matches!(jobs.put(vec![7; (64 << 20) + 1]), Err(Error::Invalid { .. })));
}

#[test]
fn waiting_take_gets_a_task_that_is_put_later() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| jobs.take().unwrap().ack().unwrap());
        while pair.owner.tubes().unwrap()[0].waiting == 0 {
            std::thread::yield_now();
        }
        pair.owner.find_tube("jobs").unwrap().put("late").unwrap();
        assert_eq!(taker.join().unwrap().id, 0);
    });
}

#[test]
fn dropped_claim_releases_its_task() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put("one").unwrap();
    drop(jobs.try_take().unwrap().unwrap());
    assert_eq!(jobs.try_take().unwrap().unwrap().takes(), 2);
}

#[test]
fn deferred_calls_are_answered_by_their_tickets() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    let deferred = jobs.to_async();
    let tickets: Vec<_> = (0..300).map(|n| deferred.put(format!("{n}"))).collect();
    for (id, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.wait().unwrap().id, id as u64);
    }
    assert_eq!(deferred.delete(1000).wait(), Err(Error::NotFound { id: 1000 }));
    let claim = jobs.try_take().unwrap().unwrap();
    let token = claim.into_async().park(Duration::from_secs(60)).wait();
    assert_eq!(pair.remote.resume_claim(&token.unwrap()).unwrap().body(), b"0");
}

#[test]
fn waits_for_ends_and_space_are_answered_later() {
    let pair = pair();
    let options = TubeOptions::new().capacity(1);
    let jobs = pair.remote.create_tube("jobs", options.driver(LIMFIFOTTL)).unwrap();
    jobs.put("one").unwrap();
    assert!(matches!(jobs.put_timeout("two", Duration::ZERO), Err(Error::Full { .. })));
    std::thread::scope(|scope| {
        let putter = scope.spawn(|| jobs.put_and_wait(Put::new("two").key("k"), Duration::MAX));
        assert!(matches!(putter.join().unwrap(), Err(Error::Full { .. })));
        let waiter = scope.spawn(|| jobs.wait_done(0, Duration::MAX).unwrap());
        let putter = scope.spawn(|| jobs.put_timeout("two", Duration::MAX).unwrap());
        jobs.take().unwrap().ack().unwrap();
        assert!(waiter.join().unwrap().is_some());
        assert_eq!(putter.join().unwrap().id, 1);
    });
    assert!(jobs.wait_ready(Duration::MAX).unwrap());
    assert!(!jobs.wait_drained(Duration::ZERO).unwrap());
    jobs.take().unwrap().ack().unwrap();
    assert!(jobs.wait_drained(Duration::MAX).unwrap());
}

/// The put is one of the owner itself, so that nothing but the answer of the owner orders it after
/// the subscription.
#[test]
fn subscription_through_a_connection_begins_before_it_returns() {
    let pair = pair();
    let jobs =
        pair.owner.create_tube("jobs", TubeOptions::new().temporary(true).driver(FIFO)).unwrap();
    for _ in 0..300 {
        let events = pair.remote.events(Filter::new().tube("jobs"), 10).unwrap();
        let id = jobs.put("one").unwrap().id;
        let event = events.recv_timeout(HANGS_AFTER).map(|event| (event.kind, event.id));
        assert_eq!(event, Some((EventKind::Put, id)));
    }
}

#[test]
fn subscription_without_an_owner_is_refused() {
    let pair = pair();
    pair.remote.close().unwrap();
    assert!(matches!(pair.remote.events(Filter::new(), 10), Err(Error::Closed)));
    let folder = tempfile::tempdir().unwrap();
    let served = pair.owner.admin().serve(ServeOptions::unix(folder.path().join("sock"))).unwrap();
    let options = ConnectOptions::new().timeout(Duration::from_millis(50));
    let remote = options.connect(served.url()).unwrap();
    served.stop();
    assert!(matches!(remote.events(Filter::new(), 10), Err(Error::NotConnected { .. })));
}

/// Each kind of tube, in one process and through a connection, by a subscription with a filter.
#[test]
fn reader_knows_when_it_has_seen_the_events_up_to_an_answer() {
    let pair = pair();
    for (name, options) in [
        ("flushed", TubeOptions::new()),
        (
            "written",
            TubeOptions::new()
                .durability(Durability::Write { flush_within: Duration::from_secs(1) }),
        ),
        (
            "relaxed",
            TubeOptions::new()
                .durability(Durability::Relaxed { max_delay: Duration::from_secs(1) }),
        ),
        ("temporary", TubeOptions::new().temporary(true)),
    ] {
        pair.owner.create_tube(name, options.driver(FIFO)).unwrap();
        for store in [&pair.owner, &pair.remote] {
            let jobs = store.find_tube(name).unwrap();
            let puts = Filter::new().tube(name).kinds([EventKind::Put]);
            let events = store.events(puts, 100).unwrap();
            assert_eq!(events.delivered().unwrap().seq, 0);
            for round in 1..20 {
                jobs.put_many(["one", "two"]).unwrap();
                jobs.take_many(2, Duration::MAX)
                    .unwrap()
                    .into_iter()
                    .for_each(|claim| drop(claim.ack()));
                let delivered = events.delivered().unwrap();
                let mut seen = 0;
                let mut count = 0;
                while seen < delivered.seq {
                    seen = events.recv_timeout(HANGS_AFTER).unwrap().seq;
                    count += 1;
                }
                assert_eq!((count, delivered.missed), (2, 0), "{name}: {round}");
                assert_eq!(events.try_recv(), None, "{name}: {round}");
            }
            // What is missed does not keep a reader waiting.
            jobs.put_many((0..110).map(|_| "more")).unwrap();
            let delivered = events.delivered().unwrap();
            let sent = 110 - delivered.missed;
            let mut last = None;
            for _ in 0..sent {
                last = Some(events.recv_timeout(HANGS_AFTER).unwrap().seq);
            }
            assert_eq!(last, Some(delivered.seq), "{name}");
        }
    }
}

#[test]
fn events_reach_a_subscription_through_a_connection() {
    let pair = pair();
    let events = pair.remote.events(Filter::new().tube("jobs"), 100).unwrap();
    // The answer to a later call: the subscription has begun.
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put("one").unwrap();
    let event = events.recv().unwrap();
    assert_eq!((event.id, &*event.tube), (0, "jobs"));
}

/// Its process keeps 1024 events that are not read, and the owner as many as the subscription has room for.
#[test]
fn slow_subscriber_of_a_connection_is_told_how_many_events_it_missed() {
    const CAPACITY: usize = 100;
    const PUTS: u64 = 3000;
    let pair = pair();
    let puts = Filter::new().kinds([EventKind::Put]);
    let events = pair.remote.events(puts, CAPACITY).unwrap();
    // The answer to a later call: the subscription has begun.
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    for _ in 0..PUTS / 100 {
        jobs.put_many(["x"; 100]).unwrap();
    }
    let (mut received, mut missed) = (0, 0);
    while missed < PUTS - 1024 - 2 * CAPACITY as u64 {
        while let Some(event) = events.try_recv() {
            (received, missed) = (received + 1, missed + event.missed);
            assert_eq!(event.id + 1, received + missed);
        }
        // The next event that is sent tells of those that were missed before it.
        jobs.put("x").unwrap();
    }
    assert_eq!(events.dropped(), missed);
}

#[test]
fn sessions_end_with_their_connection() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put("one").unwrap();
    let worker = pair.remote.session("worker").unwrap();
    let claim = worker.tube(&jobs).unwrap().try_take().unwrap().unwrap();
    let owner = pair.owner.find_tube("jobs").unwrap();
    assert_eq!(owner.query().owner(0).unwrap().unwrap().label.as_deref(), Some("worker"));
    pair.remote.close().unwrap();
    assert_eq!(owner.take().unwrap().takes(), 2);
    assert_eq!(claim.ack(), Err(Error::Closed));
}

/// The sessions of a connection are begun again in the first message of the next one, which has 64 KiB.
#[test]
fn session_that_does_not_fit_into_the_next_connection_is_refused() {
    const LABEL: usize = 255;
    let folder = tempfile::tempdir().unwrap();
    let socket = || ServeOptions::unix(folder.path().join("sock"));
    let owner = Store::in_memory().unwrap();
    owner.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap().put("one").unwrap();
    let served = owner.admin().serve(socket()).unwrap();
    let remote = connect(served.url()).unwrap();

    let named = || remote.session("l".repeat(LABEL)).map_err(|error| error.to_string());
    let mut sessions: Vec<_> = std::iter::from_fn(|| named().ok()).take(5000).collect();
    assert_eq!(sessions.len(), 239);
    let refused = named().unwrap_err();
    assert!(refused.contains("65536 bytes"), "{refused}");
    // One that ends leaves room for a session without a label.
    sessions.pop();
    sessions.push(remote.session("").unwrap());
    assert!(sessions[238].describe("kind", "").is_ok());
    sessions.clear();
    sessions.extend((0..3852).map(|_| remote.session("").unwrap()));
    assert!(sessions.iter().all(|session| session.describe("kind", "").is_ok()));
    let other = owner.session("").unwrap();
    for refused in [remote.session("").map(drop), remote.resume_session(other.id()).map(drop)] {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }

    served.stop();
    owner.admin().serve(socket()).unwrap();
    let claim = sessions[3851].tube(&remote.find_tube("jobs").unwrap()).unwrap().take().unwrap();
    claim.ack().unwrap();
    // A session that ends leaves room for another one.
    drop(sessions.pop());
    assert!(remote.session("").unwrap().describe("kind", "").is_ok());
}

struct Plain;

impl Driver for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }
}

#[test]
fn what_only_the_owner_can_do_is_refused() {
    let pair = pair();
    let refused = pair.remote.admin().serve(ServeOptions::unix("unused")).unwrap_err();
    assert!(matches!(refused, Error::OwnerOnly { .. }), "{refused}");
    let with_callback = TubeOptions::new().on_task_change(|_| {});
    let refused = pair.remote.create_tube("jobs", with_callback.driver(FIFO)).unwrap_err();
    assert!(matches!(refused, Error::OwnerOnly { .. }), "{refused}");
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    let refused = jobs.on_task_change(None).map(drop).unwrap_err();
    assert!(matches!(refused, Error::OwnerOnly { .. }), "{refused}");
    let refused = pair.remote.admin().register_driver(Plain).unwrap_err();
    assert!(matches!(refused, Error::OwnerOnly { .. }), "{refused}");
}

/// Their functions are not called: the owner reports no progress to a peer.
#[test]
fn verify_and_backup_of_a_peer_run_at_the_owner_without_reports() {
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put_many((0..5000).map(|_| "x")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let report = |_: u64, _: u64| panic!("a report");
    assert_eq!(pair.remote.admin().verify_with(report), Ok(Vec::new()));
    assert_eq!(pair.remote.admin().backup_with(&copy, report), Ok(true));
    assert_eq!(
        Store::open(&copy).unwrap().find_tube("jobs").unwrap().statistics().unwrap().tasks.ready,
        5000
    );
}

#[test]
fn what_needs_a_closed_file_is_refused_while_the_store_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("store"), folder.path().join("sock"));
    let owner = Store::open(&file).unwrap();
    let served = owner.admin().serve(ServeOptions::unix(&socket)).unwrap();
    let _remote = connect(served.url()).unwrap();
    for refused in [
        Store::open(&file).map(drop),
        Store::options().compact(&file, |_, _| {}).map(drop),
        Store::options().read_tubes(&file).map(drop),
        Store::options().salvage(&file, |_| Ok(())),
    ] {
        assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
    }
}

#[test]
fn store_closes_with_its_last_handle_although_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("store"), folder.path().join("sock"));
    let owner = Store::open(&file).unwrap();
    let served = owner.admin().serve(ServeOptions::unix(&socket)).unwrap();
    let remote = connect(served.url()).unwrap();
    let jobs = remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    drop(owner);
    // The lock of the file is free.
    let owner = Store::open(&file).unwrap();
    assert_eq!(owner.tubes().unwrap().len(), 1);
    assert!(!socket.exists(), "the socket is left");
    drop(jobs);
}

#[test]
fn short_secret_is_refused_on_both_sides() {
    let store = Store::in_memory().unwrap();
    let address = ([127, 0, 0, 1], 0);
    let short = store.admin().serve(ServeOptions::tcp(address).secret("short")).unwrap_err();
    assert!(short.to_string().contains("at least 16 bytes"), "{short}");
    let served =
        store.admin().serve(ServeOptions::tcp(address).secret("a secret of the test")).unwrap();
    let short = ConnectOptions::new().secret("short").connect(served.url()).unwrap_err();
    assert!(short.to_string().contains("at least 16 bytes"), "{short}");
    let options = ConnectOptions::new().secret("a secret of the test");
    assert!(options.connect(served.url()).unwrap().tubes().unwrap().is_empty());
    let other = ConnectOptions::new().secret("another secret of the test");
    let refused = other.connect(served.url()).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }) && !refused.is_transient(), "{refused}");
}

#[test]
fn address_that_cannot_be_served_at_is_refused_with_its_reason() {
    let (store, folder) = (Store::in_memory().unwrap(), tempfile::tempdir().unwrap());
    let socket = |name: &str| ServeOptions::unix(folder.path().join(name));
    let _served = store.admin().serve(socket("sock")).unwrap();
    let used = store.admin().serve(socket("sock")).unwrap_err().to_string();
    assert!(used.contains("is in use: a server listens there; use another address"), "{used}");
    // A program that serves no store.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ServeOptions::tcp(listener.local_addr().unwrap());
    let used = store.admin().serve(options.secret("a secret of the test")).unwrap_err().to_string();
    assert!(used.contains("is in use: another process listens there"), "{used}");
    let path = folder.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    let refused = store.admin().serve(socket("file")).unwrap_err();
    assert_eq!(refused, Error::FileExists { path: path.display().to_string() });
    assert!(!refused.is_transient());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn owner_that_closes_is_reported_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("store"), folder.path().join("sock"));
    let owner = Store::open(&file).unwrap();
    owner.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let url = owner.admin().serve(ServeOptions::unix(&socket)).unwrap().url().to_owned();
    let remote = connect(&url).unwrap();
    let jobs = remote.find_tube("jobs").unwrap();
    jobs.put("one").unwrap();
    owner.close().unwrap();
    drop(owner);

    let owner = Store::open(&file).unwrap();
    owner.admin().serve(ServeOptions::unix(&socket)).unwrap();
    // The handles of the connection work on.
    let claim = jobs.take_timeout(HANGS_AFTER).unwrap().unwrap();
    assert_eq!(claim.body(), b"one");
    claim.ack().unwrap();
    assert_eq!(owner.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn workers_run_through_a_connection() {
    use tubewell::worker::Worker;
    let pair = pair();
    let jobs = pair.remote.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put_many((0..20).map(|n| format!("{n}"))).unwrap();
    let worker = Worker::new(&pair.remote).on(&jobs, |_: &tubewell::worker::Job| {});
    worker.concurrency(3).run_until_idle().unwrap();
    assert_eq!(pair.owner.find_tube("jobs").unwrap().statistics().unwrap().calls.ack, 20);
    assert!(connect(&pair.url).is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn sockets_with_long_paths_are_served_and_found() {
    let (owner, folder) = (Store::in_memory().unwrap(), tempfile::tempdir().unwrap());
    for (folder_length, name_length) in [(1, 100), (100, 4), (200, 200)] {
        let folder = folder.path().join("f".repeat(folder_length));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("s".repeat(name_length));
        assert!(!tubewell::expert::is_socket_served(&socket));
        for _ in 0..2 {
            let served = owner.admin().serve(ServeOptions::unix(&socket)).unwrap();
            assert!(tubewell::expert::is_socket_served(&socket));
            let again = owner.admin().serve(ServeOptions::unix(&socket));
            assert!(matches!(again, Err(Error::AddressInUse { .. })), "{again:?}");
            let remote = connect(served.url()).unwrap();
            assert_eq!(remote.tubes().unwrap().len(), 0);
            remote.flush().unwrap();
            served.stop();
        }
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, 0, "the socket, or a folder for it");
    }
}

/// The process listens, and accepts nothing: it is stopped.
#[cfg(target_os = "linux")]
#[test]
fn process_whose_queue_of_connections_is_full_is_found_and_refused_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let longest = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    // Each look stays in the queue.
    assert!(
        (0..longest.trim().parse::<u32>().unwrap() + 2)
            .all(|_| tubewell::expert::is_socket_served(&socket))
    );
    let options = ConnectOptions::new().timeout(Duration::from_millis(20));
    match options.connect(&format!("unix:{}", socket.display())) {
        Err(Error::NotConnected { why }) => assert!(why.contains("stopped"), "{why}"),
        other => panic!("{other:?}"),
    }
}
