//! Backup of an open store: the contents of the copy, and that no partial copy is left.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tubewell::{Durability, Error, FIFO, FIFOTTL, ManualClock, Put, Store, TaskState, TubeOptions};

/// The names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn bodies(store: &Store, tube: &str) -> Vec<u64> {
    let tube = store.find_tube(tube).unwrap();
    let (mut bodies, mut place) = (Vec::new(), None);
    loop {
        let page = tube.query().list(TaskState::Ready, place, 10_000).unwrap();
        let data = page.items.iter().map(|task| tube.query().task(task.id).unwrap().body);
        bodies.extend(data.map(|data| u64::from_be_bytes(data[..8].try_into().unwrap())));
        match page.next {
            Some(next) => place = Some(next),
            None => return bodies,
        }
    }
}

#[test]
fn backup_under_load_is_a_prefix_with_all_acknowledged_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many((0..3000_u64).map(|n| n.to_be_bytes().to_vec())).unwrap();
    let (acknowledged, stop) = (AtomicU64::new(3000), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Bodies are consecutive numbers. Every third body is large.
            while !stop.load(Ordering::SeqCst) {
                let next = acknowledged.load(Ordering::SeqCst);
                let mut body = next.to_be_bytes().to_vec();
                body.resize(if next.is_multiple_of(3) { 5000 } else { 8 }, 7);
                tube.put(body).unwrap();
                acknowledged.store(next + 1, Ordering::SeqCst);
            }
        });
        for round in 0..4 {
            let path = dir.path().join(format!("copy {round}"));
            let before = acknowledged.load(Ordering::SeqCst);
            store.admin().backup(&path).unwrap();
            let after = acknowledged.load(Ordering::SeqCst);
            let copy = Store::open(&path).unwrap();
            assert_eq!(copy.admin().verify().unwrap(), [""; 0]);
            let found = bodies(&copy, "work");
            let count = found.len() as u64;
            assert!(found.iter().copied().eq(0..count), "not a prefix");
            assert!(before <= count && count <= after + 1, "{before} <= {count} <= {after}");
            // Ids of the copy continue after all ids that the store has returned.
            let id = copy.find_tube("work").unwrap().put("x").unwrap().id;
            assert!(id >= count, "{id} of {count}");
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn backup_opens_like_a_killed_store() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let work = store.create_tube("work", TubeOptions::new().priority(3).driver(FIFOTTL)).unwrap();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let relaxed = store.create_tube("relaxed", relaxed.driver(FIFO)).unwrap();
    let memory =
        store.create_tube("memory", TubeOptions::new().temporary(true).driver(FIFO)).unwrap();
    let dropped = store.create_tube("dropped", TubeOptions::new().driver(FIFO)).unwrap();
    dropped.put_many(vec!["x"; 2000]).unwrap();
    store.drop_tube("dropped").unwrap();
    work.put("taken").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    work.put(Put::new("later").delay(Duration::from_secs(60))).unwrap();
    let buried = work.put(vec![9; 100_000]).unwrap().id;
    work.admin().bury(buried, None).unwrap();
    relaxed.put("not flushed").unwrap();
    memory.put("in memory").unwrap();
    store.admin().backup(dir.path().join("copy")).unwrap();
    assert_eq!(claim.body(), b"taken");

    let copy = Store::options().clock(&clock).open(dir.path().join("copy")).unwrap();
    assert_eq!(copy.admin().verify().unwrap(), [""; 0]);
    let infos = |store: &Store| store.tubes().unwrap();
    assert_eq!(infos(&copy), infos(&store));
    let tasks = copy.find_tube("work").unwrap().statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.taken, tasks.delayed, tasks.buried), (1, 0, 1, 1));
    assert_eq!(
        copy.find_tube("work").unwrap().query().task(buried).unwrap().body,
        vec![9; 100_000]
    );
    assert_eq!(copy.find_tube("relaxed").unwrap().statistics().unwrap().tasks.ready, 1);
    assert_eq!(copy.find_tube("memory").unwrap().statistics().unwrap().tasks.total, 0);
    clock.advance(Duration::from_secs(60));
    assert_eq!(copy.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 2);
}

#[test]
fn backup_refuses_to_overwrite_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    let path = dir.path().join("precious");
    std::fs::write(&path, "something else").unwrap();
    let refused = Error::FileExists { path: path.display().to_string() };
    assert_eq!(store.admin().backup(&path), Err(refused));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else");
    assert_eq!(names(dir.path()), ["precious"]);
    assert!(matches!(store.admin().backup(dir.path().join("no/such/dir")), Err(Error::Io { .. })));
}

#[test]
fn backup_file_gets_its_name_only_when_complete() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(vec![vec![1; 1000]; 20_000]).unwrap();
    let path = dir.path().join("copy");
    let seen = Arc::new(AtomicU64::new(0));
    store
        .admin()
        .backup_with(&path, |copied, all| {
            assert!(copied <= all && all == 20_000);
            assert!(!path.exists(), "after {copied} tasks");
            assert!(names(dir.path())[0].ends_with(".partial"));
            seen.fetch_add(1, Ordering::SeqCst);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(seen.load(Ordering::SeqCst) > 3, "20 MB are copied in several steps");
    assert_eq!(names(dir.path()), ["copy"]);

    // A failed backup leaves no file. Here its directory is removed during the backup.
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let ended = store.admin().backup_with(sub.join("copy"), |_, _| {
        let _ = std::fs::remove_dir_all(&sub);
        ControlFlow::Continue(())
    });
    assert!(matches!(ended, Err(Error::Io { .. })), "{ended:?}");
    assert_eq!(names(dir.path()), ["copy"]);
}

#[test]
fn backup_that_its_callback_ends_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(vec![vec![1; 100_000]; 100]).unwrap();
    let path = dir.path().join("copy");
    let goes_on_for = |calls: usize| {
        let mut made = 0;
        let copied = store.admin().backup_with(&path, |_, _| {
            made += 1;
            if made > calls { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (copied.unwrap(), made)
    };
    let mut calls = 0;
    while let (false, made) = goes_on_for(calls) {
        assert_eq!(made, calls + 1, "it goes on after its end");
        assert_eq!(names(dir.path()), [""; 0]);
        calls += 1;
    }
    assert!(calls > 3, "10 MB are copied in several steps");
    assert_eq!(names(dir.path()), ["copy"]);
    let copy = Store::open(&path).unwrap();
    assert_eq!(copy.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 100);
    tube.put("the store still works").unwrap();
}

#[test]
fn backup_leaves_no_file_when_progress_callback_panics() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    let copy = || {
        store.admin().backup_with(dir.path().join("copy"), |_, _| panic!("a defect of the caller"))
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(copy)).is_err());
    assert_eq!(names(dir.path()), [""; 0]);
    tube.put("the store still works").unwrap();
}

/// The engine would report the panic as damage.
#[test]
fn compact_completes_when_progress_callback_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(vec![vec![1; 3000]; 2000]).unwrap();
    tube.admin().truncate().unwrap();
    tube.put("kept").unwrap();
    drop((tube, store));
    let (before, after) =
        Store::options().compact(&path, |_, _| panic!("a defect of the caller")).unwrap();
    assert!(after < before, "{after} bytes of {before}");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(bodies_of(&store), ["kept"]);
}

fn bodies_of(store: &Store) -> Vec<String> {
    let claims = store.find_tube("work").unwrap().take_many(10, Duration::ZERO).unwrap();
    claims.iter().map(|claim| String::from_utf8_lossy(claim.body()).into_owned()).collect()
}
