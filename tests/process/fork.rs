//! A fork of the process that has opened a store: it is refused every call, and changes nothing of the store.

use std::future::Future;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use tempfile::TempDir;
use tubewell::worker::{Job, Worker, WorkerHandle};
use tubewell::{
    Claim, Error, FIFOTTL, Filter, Result, ServeOptions, Served, Session, Store, Tube, TubeOptions,
    connect,
};

use crate::patience::HANGS_AFTER;

/// Runs `child` in a fork of this process, and returns the lines that it reports. A child that hangs
/// reports that.
fn in_fork(child: impl FnOnce() -> Vec<String>) -> Vec<String> {
    // One fork at a time: the other threads of the tests may hold locks of the test framework.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let (mut reader, writer) = std::io::pipe().unwrap();
    match fork().unwrap() {
        Fork::Child => {
            drop(reader);
            let mut hung = writer.try_clone().unwrap();
            std::thread::spawn(move || {
                std::thread::park_timeout(HANGS_AFTER);
                let _ = hung.write_all(b"the child hangs\n");
                std::process::abort();
            });
            let report = catch_unwind(AssertUnwindSafe(child));
            let report = report.unwrap_or_else(|_| vec!["the child has panicked".to_owned()]);
            let _ = (&writer).write_all(report.join("\n").as_bytes());
            std::process::exit(0);
        }
        Fork::Parent(child) => {
            drop(writer);
            let mut report = String::new();
            reader.read_to_string(&mut report).unwrap();
            waitpid(child).unwrap();
            report.lines().map(str::to_owned).collect()
        }
    }
}

/// A file, and what a process may have of its store.
struct Owner {
    store: Store,
    tube: Tube,
    session: Session,
    claim: Option<Claim>,
    served: Served,
    folder: TempDir,
}

fn owner() -> Owner {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put("taken").unwrap();
    let session = store.session("").unwrap();
    let claim = session.tube(&tube).unwrap().try_take().unwrap();
    tube.put("ready").unwrap();
    let served = store.admin().serve(ServeOptions::unix(folder.path().join("sock"))).unwrap();
    Owner { store, tube, session, claim, served, folder }
}

/// A worker that waits for tasks.
fn worker(store: &Store) -> WorkerHandle {
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    Worker::new(store).on(&work, |_: &Job| Ok::<(), Error>(())).start().unwrap()
}

/// The names of the calls that were not refused with `Forked`.
fn not_refused(calls: Vec<(&str, Result<()>)>) -> Vec<String> {
    let parent = std::os::unix::process::parent_id();
    let refused = Err(Error::Forked { opened_in: parent });
    let others = calls.into_iter().filter(|(_, answer)| *answer != refused);
    others.map(|(name, answer)| format!("{name}: {answer:?}")).collect()
}

fn poll_once<T>(future: impl Future<Output = Result<T>>) -> Result<()> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(answer) => answer.map(drop),
        Poll::Pending => Ok(()),
    }
}

/// The calls of all handles, with or without an owner in this process.
fn calls<'a>(
    store: &Store,
    tube: &Tube,
    session: &Session,
    claim: Claim,
) -> Vec<(&'a str, Result<()>)> {
    let deferred = tube.to_async();
    vec![
        ("put", tube.put("lost").map(drop)),
        ("put_many", tube.put_many(["lost"]).map(drop)),
        ("put_timeout", tube.put_timeout("lost", Duration::MAX).map(drop)),
        ("deferred put", deferred.put("lost").wait().map(drop)),
        (
            "put_timeout with a ticket",
            poll_once(tube.to_async().put_timeout("lost", Duration::MAX)),
        ),
        ("take", tube.take().map(drop)),
        ("try_take", tube.try_take().map(drop)),
        ("take with a ticket", poll_once(tube.to_async().take())),
        ("take_many", tube.take_many(9, Duration::MAX).map(drop)),
        ("wait_ready", tube.wait_ready(Duration::MAX).map(drop)),
        ("peek", tube.query().task(1).map(drop)),
        ("statistics", tube.statistics().map(drop)),
        ("truncate", tube.admin().truncate().map(drop)),
        ("tubes", store.tubes().map(drop)),
        ("owners", store.owners().map(drop)),
        ("next_id", store.admin().next_id().map(drop)),
        ("limits", store.admin().limits().map(drop)),
        ("counters", store.admin().counters().map(drop)),
        ("statistics of the store", store.statistics().map(drop)),
        ("tube", store.find_tube("jobs").map(drop)),
        ("create_tube", store.create_tube("more", TubeOptions::new().driver(FIFOTTL)).map(drop)),
        ("drop_tube", store.drop_tube("jobs").map(drop)),
        ("find", store.find(0).map(drop)),
        ("flush", store.flush().map(drop)),
        ("flush of an async store", poll_once(store.to_async().flush())),
        ("verify", store.admin().verify().map(drop)),
        ("catch_up", store.admin().catch_up()),
        ("backup", store.admin().backup("/nowhere")),
        ("a new session", store.session("").map(drop)),
        ("session tube", session.tube(tube).map(drop)),
        ("renew", claim.renew(Duration::from_secs(9))),
        ("progress", claim.progress(1, 2).map(drop)),
        ("ack", claim.ack().map(drop)),
        ("end session", session.clone().end()),
        ("close", store.close()),
        ("close of an async store", poll_once(store.to_async().close())),
    ]
}

#[test]
fn every_call_of_a_fork_is_refused() {
    let Owner { store, tube, session, claim, served, folder } = owner();
    let ticket = tube.to_async().put("deferred");
    let take = tube.to_async().take_timeout(Duration::MAX);
    let events = store.events(Filter::new(), 10).unwrap();
    let worker = worker(&store);
    let refused = in_fork(|| {
        let mut calls = calls(&store, &tube, &session, claim.unwrap());
        calls.push(("a ticket", ticket.wait().map(drop)));
        calls.push(("a future of the owner", poll_once(take)));
        calls.push(("stop of a worker", worker.stop(Duration::MAX).map(drop)));
        calls.push(("wait for a worker", worker.wait().map(drop)));
        calls.push(("serve", store.admin().serve(ServeOptions::unix("/nowhere")).map(drop)));
        let mut found = not_refused(calls);
        served.stop();
        if !worker.running().is_empty()
            || events.recv().is_some()
            || store.events(Filter::new(), 1).is_ok()
        {
            found.push("a read without errors has returned something".to_owned());
        }
        drop((store, tube, session, worker, events, served));
        found
    });
    assert_eq!(refused, [""; 0]);
    drop(folder);
}

#[test]
fn drops_of_a_fork_leave_the_store_to_its_owner() {
    let Owner { store, tube, session, claim, served, folder } = owner();
    let path = folder.path().join("store");
    let (events, take, url) = (
        store.events(Filter::new(), 10).unwrap(),
        tube.to_async().take_timeout(Duration::MAX),
        served.url().to_owned(),
    );
    let worker = worker(&store);
    assert_eq!(claim.as_ref().unwrap().id(), 0);
    let mut all = Some((claim, take, events, worker, served, session, tube, store));
    // All that the process has. In the fork, the threads of the worker have handles of the store for ever.
    let reported = in_fork(|| {
        drop(all.take());
        Vec::new()
    });
    assert_eq!(reported, [""; 0]);
    let (claim, take, events, worker, served, session, tube, store) = all.unwrap();
    worker.stop(Duration::MAX).unwrap();
    drop(worker);
    let mut all = Some((claim, take, events, served, session, tube, store));
    // The last handle of the store, too.
    let reported = in_fork(|| {
        drop(all.take());
        Vec::new()
    });
    assert_eq!(reported, [""; 0]);
    let (claim, _take, _events, _served, _session, tube, store) = all.unwrap();
    assert!(claim.unwrap().is_current().unwrap());
    // The file is still locked, its socket still there, and the store as it was.
    assert!(matches!(Store::open(&path), Err(Error::InUse { .. })));
    let remote = connect(&url).unwrap();
    assert_eq!(remote.find_tube("jobs").unwrap().put("later").unwrap().id, 2);
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(store.find_tube("jobs").unwrap().statistics().unwrap().tasks.total, 3);
    drop(tube);
}

/// Nothing else keeps the store open: no server, and no worker.
#[test]
fn drop_of_the_last_handle_in_a_fork_leaves_the_store_to_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put("one").unwrap();
    let mut all = Some((tube, store));
    let reported = in_fork(|| {
        drop(all.take());
        Vec::new()
    });
    assert_eq!(reported, [""; 0]);
    let (tube, store) = all.unwrap();
    assert!(matches!(Store::open(&path), Err(Error::InUse { .. })));
    tube.put("two").unwrap();
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(store.find_tube("jobs").unwrap().statistics().unwrap().tasks.total, 2);
}

#[test]
fn fork_of_a_connected_process_does_not_share_the_connection() {
    let Owner { store, tube, served, folder, .. } = owner();
    let remote = connect(served.url()).unwrap();
    let jobs = remote.find_tube("jobs").unwrap();
    let session = remote.session("").unwrap();
    let claim = session.tube(&jobs).unwrap().try_take().unwrap().unwrap();
    let (events, pending) =
        (remote.events(Filter::new(), 10).unwrap(), jobs.to_async().put("deferred"));
    let mut parts = Some((remote, jobs, session, claim, events, pending));
    let found = in_fork(|| {
        let (remote, jobs, session, claim, events, pending) = parts.take().unwrap();
        let mut found = not_refused(
            calls(&remote, &jobs, &session, claim)
                .into_iter()
                .chain([("a ticket", pending.wait().map(drop))])
                .collect(),
        );
        if events.recv().is_some() {
            found.push("an event".to_owned());
        }
        drop((remote, jobs, session, events));
        found
    });
    assert_eq!(found, [""; 0]);
    // The connection of the parent goes on.
    let (_remote, jobs, _session, claim, _events, pending) = parts.unwrap();
    assert_eq!(pending.wait().unwrap().id, 2);
    claim.ack().unwrap();
    jobs.put("after the fork").unwrap();
    assert_eq!(tube.statistics().unwrap().tasks.total, 3);
    store.close().unwrap();
    drop(folder);
}

/// A thread of the parent may hold any lock when the process forks: the child takes none of them.
#[test]
fn fork_beside_busy_threads_does_not_hang() {
    let Owner { store, tube, folder, .. } = owner();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (tube, stop) = (tube.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut puts = 0;
                while !stop.load(Ordering::SeqCst) {
                    drop(tube.to_async().put("busy"));
                    puts += 1;
                }
                puts
            })
        })
        .collect();
    for _ in 0..10 {
        let found = in_fork(|| {
            not_refused(vec![
                ("put", tube.put("lost").map(drop)),
                ("tubes", store.tubes().map(drop)),
            ])
        });
        assert_eq!(found, [""; 0]);
    }
    stop.store(true, Ordering::SeqCst);
    let puts: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    store.close().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    assert_eq!(store.find_tube("jobs").unwrap().statistics().unwrap().tasks.total, puts + 2);
}
