//! The end of a store: no thread and no file is left in use.

use std::any::Any;
use std::sync::{Arc, Mutex, mpsc};

use tempfile::TempDir;
use tubewell::{FIFO, FIFOTTL, Put, Store, TubeOptions, WhenFull};

use crate::support::{Disk, FOR_EVER, PATIENCE, eventually, in_line};

/// Counts all threads of the process, so it runs once more in a process of its own.
#[cfg(target_os = "linux")]
#[test]
fn no_thread_is_left_when_the_last_handle_has_gone() {
    const ALONE: &str = "TUBEWELL_TEST_ALONE";
    const HANDLES: usize = 7;
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "endings::no_thread_is_left_when_the_last_handle_has_gone"])
            .args(["--test-threads=1", "--nocapture"])
            .env(ALONE, "yes")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && told.contains("1 passed"),
            "{told}{}",
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
        // The system may show a thread for a moment after it was joined.
        eventually("they are gone", || threads() == before);
        // Nothing of it is left in the file either.
        let store = Store::open(&path).unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0]);
        store.tube("work").unwrap().truncate().unwrap();
        store.close().unwrap();
        eventually("they are gone", || threads() == before);
    }
    // A handle that outlives a close holds no thread.
    let store = Store::open(&path).unwrap();
    store.close().unwrap();
    eventually("they are gone", || threads() == before);
    drop(store);
    assert_eq!(threads(), before);
}

/// Of everything that keeps a store open, one.
#[cfg(target_os = "linux")]
fn handles(path: &std::path::Path) -> Vec<Box<dyn Any>> {
    let store = Store::open(path).unwrap();
    let options = TubeOptions::new().if_not_exists(true);
    let tube = store.create_tube("work", FIFOTTL, options).unwrap();
    tube.on_task_change(Some(Arc::new(|_: &tubewell::Event| {}))).unwrap();
    let session = store.session();
    tube.put("held").unwrap();
    let claim = session.tube("work").unwrap().try_take().unwrap().unwrap();
    tube.put(Put::new("later").delay(PATIENCE)).unwrap();
    let waits = in_line(&tube, FOR_EVER);
    let ticket = tube.deferred(WhenFull::Block).put(Put::new("last").delay(PATIENCE)).unwrap();
    let events = store.subscribe(10);
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

/// A callback drops the last handle: the store is closed by its own thread.
#[test]
fn the_last_handle_may_go_on_a_thread_of_the_store() {
    let disk = Disk::new();
    let tube = disk.tube(FIFO);
    let (sender, all_others_gone) = mpsc::channel();
    let (closed, is_closed) = mpsc::channel();
    let last = Mutex::new(Some((disk.store.clone(), all_others_gone)));
    let callback = move |_: &tubewell::Event| {
        if let Some((store, all_others_gone)) = last.lock().unwrap().take() {
            all_others_gone.recv_timeout(PATIENCE).unwrap();
            drop(store);
            closed.send(()).unwrap();
        }
    };
    tube.on_task_change(Some(Arc::new(callback))).unwrap();
    tube.put("x").unwrap();
    let Disk { folder, store } = disk;
    drop((tube, store));
    sender.send(()).unwrap();
    is_closed.recv_timeout(PATIENCE).unwrap();
    let store = Store::open(folder.path().join("store.tubewell")).unwrap();
    assert_eq!(store.tube(FIFO).unwrap().statistics().unwrap().tasks.ready, 1);
}
