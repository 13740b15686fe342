//! Close of a store: no thread is left, and the file is free.

use std::any::Any;
use std::sync::{Arc, Mutex, mpsc};

use tempfile::TempDir;
use tubewell::{FIFO, Filter, Put};

use super::support::{FileStore, HANGS_AFTER, NO_TIMEOUT, eventually, waiting_take};
use crate::stores;

/// Counts the threads of the process, so the test runs itself in a separate process.
#[cfg(target_os = "linux")]
#[test]
fn dropping_last_handle_ends_all_threads() {
    const ALONE: &str = "TUBEWELL_TEST_ALONE";
    const HANDLES: usize = 7;
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::close::dropping_last_handle_ends_all_threads"])
            .args(["--test-threads=1", "--nocapture"])
            .env(ALONE, "yes")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && stdout.contains("1 passed"),
            "{stdout}{}",
            String::from_utf8_lossy(&alone.stderr)
        );
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    for order in 0..2 * HANDLES {
        let mut handles = handles(&path);
        assert_eq!(handles.len(), HANDLES);
        assert!(threads() > before, "a store has threads of its own");
        if order >= HANDLES {
            handles.reverse();
        }
        handles.rotate_left(order % HANDLES);
        for handle in handles {
            drop(handle);
        }
        // The operating system may list a thread for a short time after it was joined.
        eventually("the threads have ended", || threads() == before);
        // The file is free and sound.
        let store = stores::open(&path);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.find_tube("work").unwrap().admin().truncate().unwrap();
        stores::close(&store);
        eventually("the threads have ended", || threads() == before);
    }
    // A handle that is kept after a close keeps no thread running.
    let store = stores::open(&path);
    stores::close(&store);
    eventually("the threads have ended", || threads() == before);
    drop(store);
    assert_eq!(threads(), before);
}

/// One handle of each kind that keeps a store open.
#[cfg(target_os = "linux")]
fn handles(path: &std::path::Path) -> Vec<Box<dyn Any>> {
    let store = stores::open(path);
    let tube = store.tube("work").unwrap();
    tube.on_task_change(Some(Arc::new(|_: &tubewell::Event| {}))).unwrap();
    let session = store.session("").unwrap();
    tube.put("held").unwrap();
    let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
    tube.put(Put::new("later").delay(HANGS_AFTER)).unwrap();
    let waits = waiting_take(&tube, NO_TIMEOUT);
    let ticket = tube.to_async().put(Put::new("last").delay(HANGS_AFTER));
    let events = store.events(Filter::new(), 10).unwrap();
    vec![
        Box::new(store),
        Box::new(tube),
        Box::new(session),
        Box::new(claim),
        Box::new(ticket),
        Box::new(waits),
        Box::new(events),
    ]
}

/// A callback drops the last handle, so a thread of the store closes it.
#[test]
fn last_handle_may_be_dropped_by_a_callback() {
    let file = FileStore::new();
    let tube = file.tube(FIFO);
    let (sender, others_dropped) = mpsc::channel();
    let (closed, is_closed) = mpsc::channel();
    let last = Mutex::new(Some((file.store.clone(), others_dropped)));
    let callback = move |_: &tubewell::Event| {
        if let Some((store, others_dropped)) = last.lock().unwrap().take() {
            others_dropped.recv_timeout(HANGS_AFTER).unwrap();
            drop(store);
            closed.send(()).unwrap();
        }
    };
    tube.on_task_change(Some(Arc::new(callback))).unwrap();
    tube.put("x").unwrap();
    let FileStore { folder, store, .. } = file;
    drop((tube, store));
    sender.send(()).unwrap();
    is_closed.recv_timeout(HANGS_AFTER).unwrap();
    let store = stores::open(folder.path().join("store.tubewell"));
    assert_eq!(store.find_tube(FIFO).unwrap().statistics().unwrap().tasks.ready, 1);
}
