//! A full disk: the store refuses puts before a commit fails, all stored tasks can still be
//! finished, and puts resume in the same process once there is free disk space again.
//!
//! The tests run on a simulated disk, and on a small real file system (tmpfs) if the process may
//! mount one, which needs root.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod disk;
mod steps;

use std::time::Duration;

use disk::Disk;
use tubewell::{
    Durability, Error, FIFO, FIFOTTL, Filter, ManualClock, Put, Store, StoreOptions, TaskState,
    TubeOptions, UTUBETTL,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Puts until the disk is full; returns the number of puts.
fn fill(store: &Store, names: &[&str]) -> u64 {
    let body = "x".repeat(3000);
    let mut stored = 0;
    loop {
        for name in names {
            match store.find_tube(name).unwrap().put(body.as_str()) {
                Ok(_) => stored += 1,
                Err(Error::DiskFull { .. }) => return stored,
                Err(error) => panic!("after {stored} tasks: {error}"),
            }
        }
    }
}

/// Finishes all tasks with every call that a full disk must allow; returns their number.
fn finish_all(store: &Store, names: &[&str]) -> u64 {
    let mut done = 0;
    for name in names {
        let tube = store.find_tube(name).unwrap();
        while let Some(claim) = tube.try_take().unwrap() {
            match done % 5 {
                0 => drop(claim.ack().unwrap()),
                1 => {
                    let id = claim.id();
                    claim.bury(None).unwrap();
                    tube.delete(id).unwrap();
                }
                2 => {
                    claim.bury(None).unwrap();
                    assert_eq!(tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
                    tube.try_take().unwrap().unwrap().ack().unwrap();
                }
                3 => {
                    drop(claim);
                    tube.try_take().unwrap().unwrap().ack().unwrap();
                }
                _ => {
                    tube.delete(claim.id()).unwrap();
                }
            }
            done += 1;
        }
    }
    done
}

fn create_tubes(store: &Store) -> [&'static str; 5] {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    store.create_tube("fifo", TubeOptions::new().driver(FIFO)).unwrap();
    store.create_tube("utubettl", TubeOptions::new().driver(UTUBETTL)).unwrap();
    store.create_tube("relaxed", relaxed.driver(FIFOTTL)).unwrap();
    store.create_tube("written", written().driver(FIFO)).unwrap();
    store.create_tube("temporary", TubeOptions::new().temporary(true).driver(UTUBETTL)).unwrap();
    ["fifo", "utubettl", "relaxed", "written", "temporary"]
}

/// The options of a written tube whose later flush does not come.
fn written() -> TubeOptions {
    TubeOptions::new().durability(Durability::Write { flush_within: Duration::MAX })
}

fn options() -> StoreOptions {
    Store::options().cache_size(1 << 20).disk_reserve(256 * KIB)
}

#[test]
fn full_disk_refuses_puts_and_allows_other_calls() {
    let disk = Disk::with_capacity(4 * MIB);
    let store = options().open_on(Disk::storage(&disk)).unwrap();
    let names = create_tubes(&store);
    let stored = fill(&store, &names);
    assert!(stored > 300, "{stored}");
    let many = vec![Put::new("x".repeat(2000)); 500];
    let refused = store.find_tube("fifo").unwrap().put_many(many.clone());
    assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    // A temporary tube needs no disk space.
    let in_memory =
        store.find_tube("temporary").unwrap().put_many(many.clone()).unwrap().len() as u64;
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(finish_all(&store, &names), stored + in_memory);
    disk.add_space(8 * MIB);
    store.find_tube("fifo").unwrap().put_many(many).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
}

/// Written puts stop before the disk is full, acks do not, and a kill loses neither.
#[test]
fn written_changes_on_a_full_disk_survive_a_kill() {
    let clock = ManualClock::new();
    let disk = Disk::with_capacity(4 * MIB);
    let store = options().clock(&clock).open_on(Disk::storage(&disk)).unwrap();
    for driver in [FIFO, UTUBETTL] {
        store.create_tube(driver, written().driver(driver)).unwrap();
    }
    let names = [FIFO, UTUBETTL];
    let mut left = fill(&store, &names);
    assert!(left > 300, "{left}");
    let tasks_after_kill = || {
        let clock = ManualClock::new();
        let store = options().clock(&clock).open_on(Disk::storage(&disk.after_kill())).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.statistics().unwrap().values().map(|statistics| statistics.tasks.total).sum::<u64>()
    };
    assert_eq!(tasks_after_kill(), left);
    for name in names {
        let tube = store.find_tube(name).unwrap();
        for round in 0..6 {
            for _ in 0..20 {
                tube.try_take().unwrap().unwrap().ack().unwrap();
                left -= 1;
            }
            assert_eq!(tasks_after_kill(), left, "{name}, round {round}");
        }
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(finish_all(&store, &names), left);
    assert_eq!(tasks_after_kill(), 0);
    store.close().unwrap();
}

/// Another process takes the free space and the ballast after the store has checked for them: the
/// store stops, and resumes once there is space.
fn resume_when_disk_space_returns(options_of_tube: TubeOptions, min_unknown: usize) {
    let clock = ManualClock::new();
    let disk = Disk::with_capacity(4 * MIB);
    let store = options().clock(&clock).open_on(Disk::storage(&disk)).unwrap();
    let tube = store.create_tube("fifo", options_of_tube.driver(FIFO)).unwrap();
    let temporary = TubeOptions::new().temporary(true);
    let temporary = store.create_tube("temporary", temporary.driver(FIFO)).unwrap();
    let in_memory = temporary.put("in memory").unwrap().id;
    let mut accepted = vec![tube.put("kept").unwrap().id];
    disk.take_free_space_and_ballast();
    let mut errors = Vec::new();
    while errors.len() < 3 {
        match tube.put("x".repeat(60_000)) {
            Ok(receipt) => accepted.push(receipt.id),
            Err(error) => errors.push(error),
        }
    }
    let unknown =
        errors.iter().filter(|error| matches!(error, Error::OutcomeUnknown { .. })).count();
    assert!((min_unknown..=1).contains(&unknown), "{errors:?}");
    assert!(matches!(errors[2], Error::Unavailable { .. } | Error::DiskFull { .. }), "{errors:?}");
    clock.advance(Duration::from_secs(5));
    match tube.put("no space yet") {
        Err(Error::Unavailable { .. }) => {}
        // A store whose last write succeeded has not stopped.
        Err(Error::DiskFull { .. }) if unknown == 0 => {}
        other => panic!("{other:?}"),
    }
    disk.add_space(8 * MIB);
    clock.advance(Duration::from_secs(15));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tasks = tube.query().list(TaskState::Ready, None, 1000).unwrap().items;
    let ids: Vec<u64> = tasks.iter().map(|task| task.id).collect();
    // The put whose outcome was unknown is the last one.
    assert_eq!(ids.len(), accepted.len() + unknown);
    assert_eq!(ids[..accepted.len()], accepted);
    assert_eq!(tube.try_take().unwrap().unwrap().id(), accepted[0]);
    assert_eq!(temporary.try_take().unwrap().unwrap().id(), in_memory);
    tube.put("resumed").unwrap();
    store.close().unwrap();
}

#[test]
fn store_resumes_when_disk_space_returns() {
    resume_when_disk_space_returns(TubeOptions::new(), 1);
}

#[test]
fn written_tube_resumes_when_disk_space_returns() {
    // The calls have returned before a later flush or a checkpoint fails.
    resume_when_disk_space_returns(written(), 0);
}

/// When the disk is full, puts may use free pages inside the file, but not those that a drained
/// file has returned to the disk.
#[test]
fn put_is_refused_when_space_of_shrunk_file_is_taken() {
    let clock = ManualClock::new();
    let disk = Disk::with_capacity(9 * MIB);
    let store = options().clock(&clock).open_on(Disk::storage(&disk)).unwrap();
    let names = create_tubes(&store);
    let stored = fill(&store, &names);
    assert_eq!(finish_all(&store, &names), stored);
    clock.advance(Duration::from_secs(6));
    disk.take_free_space();
    let refused = store.find_tube("fifo").unwrap().put("x".repeat(1 << 20));
    assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    assert!(fill(&store, &names) < stored / 4, "the file did not shrink");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
}

#[test]
fn zero_disk_reserve_holds_no_ballast() {
    let disk = Disk::with_capacity(4 * MIB);
    let store = options().disk_reserve(0).open_on(Disk::storage(&disk)).unwrap();
    store.create_tube("fifo", TubeOptions::new().driver(FIFO)).unwrap().put("x").unwrap();
    store.close().unwrap();
    assert_eq!(disk.space_requests(), 0);
}

/// Needs the right to mount a file system; without it the test prints that it was skipped.
#[cfg(target_os = "linux")]
#[test]
fn full_tmpfs_refuses_puts_and_allows_other_calls() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::tmpfs(folder.path(), "9m") else {
        eprintln!("skipped: this process may not mount a tmpfs");
        return;
    };
    let path = folder.path().join("store");
    let ballast = folder.path().join("other-file");
    std::fs::write(&ballast, vec![1; 2 << 20]).unwrap();
    let store = options().disk_reserve(MIB).open(&path).unwrap();
    let names = create_tubes(&store);
    let stored = fill(&store, &names);
    assert!(stored > 300, "{stored}");
    assert_eq!(finish_all(&store, &names), stored);
    let refilled = fill(&store, &names);
    assert!(
        refilled > stored / 2,
        "free space inside the file was not reused: {refilled} of {stored}"
    );
    std::fs::remove_file(&ballast).unwrap();
    let tube = store.find_tube("fifo").unwrap();
    for _ in 0..100 {
        tube.put("x".repeat(3000)).unwrap();
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(finish_all(&store, &names), refilled + 100);
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    drop(store);
    drop(mount);
}

#[cfg(target_os = "linux")]
struct Mount(std::path::PathBuf);

#[cfg(target_os = "linux")]
impl Mount {
    fn tmpfs(at: &std::path::Path, size: &str) -> Option<Mount> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at);
        mount.stderr(std::process::Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        mounted.then(|| Mount(at.to_owned()))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}
