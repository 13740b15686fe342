//! A real block device fails for a while and works again: what the store acknowledged before, during
//! and after the failure survives a kill and a power cut.
//!
//! The tests need Linux and root. They take seconds each, so quick runs leave them out (`TUBEWELL_TESTS=full` and
//! `soak` run them).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "a device fails in the time of the machine")]

mod device;
#[path = "../common/size.rs"]
mod size;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use device::{BTRFS, Device, EXT4, EXT4_WRITTEN_EXTENTS, FileSystem, XFS};
use size::amount;
use tubewell::{Durability, Error, FIFO, Result, Store, TaskState, Tube, TubeOptions};

/// How often a store is asked whether it works again.
const TRIES: u32 = 300;

/// The tasks that a store must have, by the first word of their bodies.
#[derive(Clone, Default)]
struct Expected {
    tasks: BTreeSet<String>,
    /// Those that it may or may not have.
    unknown: BTreeSet<String>,
    /// Those that were put or ended since the last flush of the store.
    unflushed: BTreeSet<String>,
}

/// A tube, and the tasks that were acknowledged.
struct Load {
    tube: Tube,
    puts: u32,
    expected: Expected,
}

impl Load {
    fn new(store: &Store, name: &str, durability: Durability) -> Load {
        let tube = store
            .create_tube(name, TubeOptions::new().durability(durability).driver(FIFO))
            .unwrap();
        Load { tube, puts: 0, expected: Expected::default() }
    }

    /// Puts a task, and ends every third task. Returns whether both calls have succeeded.
    fn step(&mut self) -> bool {
        self.puts += 1;
        let label = format!("{}{}", self.tube.name(), self.puts);
        let length = (self.puts as usize * 7919) % 6000;
        let put = self.tube.put(format!("{label} {}", "x".repeat(length)));
        let mut works = put.is_ok();
        if self.note(&label, &put) {
            self.expected.tasks.insert(label);
        }
        if self.puts.is_multiple_of(3) {
            works &= self.end_first();
        }
        works
    }

    fn end_first(&mut self) -> bool {
        let Ok(Some(claim)) = self.tube.try_take() else { return false };
        let label = label(claim.body());
        let ended = claim.ack();
        if self.note(&label, &ended.as_ref().map_err(Error::clone)) {
            self.expected.tasks.remove(&label);
        }
        ended.is_ok()
    }

    /// Whether the change stands while the process lives.
    fn note<T>(&mut self, label: &str, outcome: &Result<T>) -> bool {
        let is_unknown = matches!(outcome, Err(Error::OutcomeUnknown { .. }));
        self.expected.unflushed.insert(label.to_owned());
        if is_unknown {
            self.expected.unknown.insert(label.to_owned());
        }
        is_unknown || outcome.is_ok()
    }
}

fn label(body: &[u8]) -> String {
    String::from_utf8_lossy(body).split(' ').next().unwrap_or_default().to_owned()
}

/// What a store that is opened on this file lacks or should not have.
fn differences(path: &Path, expected: &[Expected]) -> Vec<String> {
    let store = match Store::open(path) {
        Ok(store) => store,
        Err(error) => return vec![error.to_string()],
    };
    let mut found = BTreeSet::new();
    for name in ["flushed", "written"] {
        let tube = match store.find_tube(name) {
            Ok(tube) => tube,
            Err(error) => return vec![error.to_string()],
        };
        let page = tube.query().list(TaskState::Ready, None, 100_000).unwrap();
        for task in page.items {
            match tube.query().task(task.id) {
                Ok(task) => drop(found.insert(label(&task.body))),
                Err(error) => return vec![error.to_string()],
            }
        }
    }
    let mut differences = store.admin().verify().unwrap_or_else(|error| vec![error.to_string()]);
    for Expected { tasks, unknown, .. } in expected {
        let lost = tasks.difference(&found).filter(|label| !unknown.contains(*label));
        differences.extend(lost.map(|label| format!("{label} is lost")));
    }
    let may_be_there = |label: &String| {
        expected.iter().any(|it| it.tasks.contains(label) || it.unknown.contains(label))
    };
    let back = found.iter().filter(|label| !may_be_there(label));
    differences.extend(back.map(|label| format!("{label} is there, and was acked")));
    differences
}

/// One run. Returns what was lost, and whether the store worked again before the device was
/// mounted again; `None` if there is no device.
fn run(file_system: &'static FileSystem, run: u32) -> Option<(Vec<String>, bool)> {
    let mut device = Device::new(file_system)?;
    let store = Store::open(device.path("store")).unwrap();
    let mut loads = [
        Load::new(&store, "flushed", Durability::Flush),
        Load::new(&store, "written", Durability::write()),
    ];
    for n in 0..run * 37 % 400 {
        assert!(loads[n as usize % 2].step());
    }
    store.flush().unwrap();
    for load in &mut loads {
        load.expected.unflushed.clear();
    }
    device.begin_failure();
    let failed = (0..4000).any(|n| !loads[n % 2].step());
    assert!(failed, "the device does not fail");
    for n in 0..40 {
        let _ = loads[n % 2].step();
        std::thread::sleep(Duration::from_millis(u64::from(1 + run % 8)));
    }
    device.end_failure();
    let works = (0..TRIES).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        store.flush().is_ok()
    });
    if works {
        // What was unknown is decided once the store works again.
        for load in &mut loads {
            load.expected.unknown.clear();
        }
        for n in 0..300 {
            assert!(loads[n % 2].step(), "the device works again");
        }
        store.flush().unwrap();
    } else {
        let [_, written] = &mut loads;
        written.expected.unknown.append(&mut written.expected.unflushed);
    }
    let power_cut = device.image("power-cut");
    device.flush();
    let killed = device.image("killed");
    let _ = store.close();
    device.unmount();
    let expected = loads.map(|load| load.expected);
    let mut differs = Vec::new();
    for (what, image) in [("power cut", power_cut), ("kill", killed)] {
        image.check("store", |path| {
            let found = differences(path, &expected);
            let text = |first| format!("{what}: {} differences, {first}", found.len());
            differs.extend(found.first().map(text));
        });
    }
    Some((differs, works))
}

/// Runs the test as often as the size of this run says. Those of a full run each lose something on ext4 if the
/// repair writes through the cache; the first five do not.
fn runs(file_system: &'static FileSystem) {
    let numbers = amount(0..0, 5..8, 0..20);
    let count = numbers.len();
    if count == 0 {
        eprintln!("skipped: the test takes long; TUBEWELL_TESTS=full runs it");
        return;
    }
    let (mut bad, mut working) = (0, 0);
    for number in numbers {
        let Some((differs, works)) = run(file_system, number) else {
            eprintln!("skipped: this process cannot mount {} on a loop device", file_system.name);
            return;
        };
        for text in &differs {
            eprintln!("{}, run {number}: {text}", file_system.name);
        }
        bad += u32::from(!differs.is_empty());
        working += u32::from(works);
    }
    let name = file_system.name;
    eprintln!("{name}: {bad} of {count} runs lost something, the store worked again in {working}");
    assert_eq!(bad, 0, "runs on {name} lost something");
}

#[test]
fn store_on_ext4_loses_nothing_when_its_device_fails_for_a_while() {
    runs(&EXT4);
}

#[test]
fn store_on_ext4_with_written_extents_loses_nothing_when_its_device_fails_for_a_while() {
    runs(&EXT4_WRITTEN_EXTENTS);
}

#[test]
fn store_on_xfs_loses_nothing_when_its_device_fails_for_a_while() {
    runs(&XFS);
}

#[test]
fn store_on_btrfs_loses_nothing_when_its_device_fails_for_a_while() {
    runs(&BTRFS);
}
