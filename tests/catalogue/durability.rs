//! Group L: what a restart keeps at each durability, after a close and after a kill.
//!
//! A copy of the file of an open store is what a killed process leaves: the operating system has
//! everything that was written. The clock does not advance, so that no flush falls due.

use std::time::Duration;

use tubewell::{Durability, FIFO, Put, Store, TaskState, Tube, TubeOptions};

use super::support::*;
use crate::stores;

const FLUSH: Durability = Durability::Flush;
const WRITE: Durability = Durability::Write { flush_within: ms(50) };
const WRITE_ONLY: Durability = Durability::Write { flush_within: Duration::MAX };
const RELAXED: Durability = Durability::Relaxed { max_delay: ms(50) };

fn create(store: &Store, name: &str, driver: &str, durability: Durability) -> Tube {
    store.create_tube(name, TubeOptions::new().durability(durability).driver(driver)).unwrap()
}

/// The file that a process leaves which is killed now.
fn killed(file: &StoreFile) -> StoreFile {
    let left = StoreFile::new();
    std::fs::copy(file.path(), left.path()).unwrap();
    left
}

fn draft(driver: &str, data: &str) -> Put {
    let put = Put::new(data.into());
    if SUB_QUEUED.contains(&driver) { put.sub_queue(data) } else { put }
}

/// Calls every verb that changes stored tasks.
fn make_changes(tube: &Tube) {
    let driver = tube.driver();
    tube.put(draft(driver, "acked")).unwrap();
    tube.put_many(["taken", "buried", "deleted", "released", "kicked"].map(|it| draft(driver, it)))
        .unwrap();
    assert_eq!((take(tube), take(tube)), (Some(0), Some(1)));
    tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    tube.admin().bury(2, None).unwrap();
    tube.delete(3).unwrap();
    tube.admin().bury(5, None).unwrap();
    tube.kick(5).unwrap();
    assert_eq!(take(tube), Some(4));
    let delay = if TIMED.contains(&driver) { secs(1) } else { ZERO };
    tube.claimed(4).and_then(|claim| claim.release_in(delay)).unwrap();
    if TIMED.contains(&driver) {
        tube.claimed(1).and_then(|claim| claim.touch(secs(1))).unwrap();
    }
}

/// Checks what [`make_changes`] leaves after a restart.
fn assert_changes_kept(store: &Store) {
    let tube = store.find_tube("case").unwrap();
    let released =
        if TIMED.contains(&tube.driver()) { TaskState::Delayed } else { TaskState::Ready };
    let expected = [None, Some(TaskState::Ready), Some(TaskState::Buried), None, Some(released)];
    for (id, expected) in (0..).zip(expected.into_iter().chain([Some(TaskState::Ready)])) {
        assert_eq!(state(&tube, id), expected, "task {id}");
    }
    assert_eq!(take(&tube), Some(1));
    let new = tube.put(draft(tube.driver(), "new")).unwrap().id;
    assert!(new > 5, "id {new} was reused");
    assert_sound(store);
}

/// L01
#[test]
fn close_keeps_changes_at_every_durability() {
    for durability in [FLUSH, WRITE, WRITE_ONLY, RELAXED] {
        for driver in ALL {
            println!("{driver}, {durability}");
            let file = StoreFile::new();
            let store = file.open();
            make_changes(&create(&store, "case", driver, durability));
            assert_changes_kept(&file.reopen(store));
        }
    }
}

/// L01
#[test]
fn kill_keeps_changes_in_flushed_and_written_tubes() {
    for durability in [FLUSH, WRITE, WRITE_ONLY] {
        for driver in ALL {
            println!("{driver}, {durability}");
            let file = StoreFile::new();
            let store = file.open();
            make_changes(&create(&store, "case", driver, durability));
            let left = killed(&file);
            assert_changes_kept(&left.open());
            stores::close(&store);
        }
    }
}

/// L01
#[test]
fn kill_keeps_changes_of_the_stores_durability() {
    for durability in [FLUSH, WRITE, WRITE_ONLY] {
        let file = StoreFile::new();
        let options = || Store::options().clock(&file.clock).durability(durability);
        let store = options().open(file.path()).unwrap();
        make_changes(&store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap());
        let left = killed(&file);
        assert_changes_kept(&left.open());
        stores::close(&store);
    }
}

/// L01
#[test]
fn kill_loses_newest_changes_of_relaxed_tube_only() {
    const TASKS: usize = 10;
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube = create(&store, "case", driver, RELAXED);
        let bodies: Vec<String> = (0..TASKS).map(|n| n.to_string()).collect();
        for (n, body) in bodies.iter().enumerate() {
            tube.put(draft(driver, body)).unwrap();
            if n == TASKS / 2 {
                store.flush().unwrap();
            }
        }
        let left = killed(&file);
        let left = left.open();
        let found = std::iter::from_fn(|| left.find_tube("case").unwrap().try_take().unwrap());
        let found: Vec<String> =
            found.map(|claim| String::from_utf8(claim.detach().body.to_vec()).unwrap()).collect();
        assert!(found.len() > TASKS / 2, "{driver}: flushed tasks are missing: {found:?}");
        assert_eq!(found, bodies[..found.len()], "{driver}");
        assert_sound(&left);
        stores::close(&store);
    }
}

/// L01
#[test]
fn acknowledged_put_survives_a_kill_with_every_earlier_relaxed_change() {
    for durability in [FLUSH, WRITE, WRITE_ONLY] {
        for driver in ALL {
            let file = StoreFile::new();
            let store = file.open();
            make_changes(&create(&store, "case", driver, RELAXED));
            create(&store, "other", FIFO, durability).put("acknowledged").unwrap();
            let left = killed(&file);
            let left = left.open();
            assert_eq!(left.find_tube("other").unwrap().statistics().unwrap().tasks.ready, 1);
            assert_changes_kept(&left);
            stores::close(&store);
        }
    }
}

/// K16, L01
#[test]
fn kill_empties_temporary_tube_and_keeps_the_others() {
    for durability in [FLUSH, WRITE] {
        let file = StoreFile::new();
        let store = file.open();
        let temporary = TubeOptions::new().temporary(true).durability(durability);
        let temporary = store.create_tube("temporary", temporary.driver(FIFO)).unwrap();
        let kept = create(&store, "kept", FIFO, durability);
        temporary.put("lost").unwrap();
        kept.put("kept").unwrap();
        let left = killed(&file);
        let left = left.open();
        assert_eq!(tasks(&left.find_tube("temporary").unwrap()), counts([]));
        assert_eq!(tasks(&left.find_tube("kept").unwrap()), counts([("ready", 1), ("total", 1)]));
        assert_sound(&left);
        stores::close(&store);
    }
}
