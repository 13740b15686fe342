//! Schedules on a disk that fails: a change is made wholly or not at all, and a run is put by the
//! commit that moves its schedule.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tubewell::{FIFOTTL, ManualClock, Put, Result, Schedule, ScheduleInfo, Store, TubeOptions};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_sampled_faults};
use crate::faults::Plan;
use crate::size::amount;
use crate::support::{RETRY_TIME, open};

const HOUR: Duration = Duration::from_secs(3600);

type Call = fn(&Store) -> Result<()>;

const CALLS: [(&str, Call); 6] = [
    ("schedule", |store| {
        let later = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        store.find_tube("work")?.schedule(hourly("new").starting(later), body(3000)).map(drop)
    }),
    ("stored again", |store| store.find_tube("work")?.schedule(hourly("old"), body(20)).map(drop)),
    ("change of a schedule", |store| {
        let change = Schedule::every("old", HOUR * 2).times(9);
        store.find_tube("work")?.schedules().change(change).map(drop)
    }),
    ("change of the task of a schedule", |store| {
        let task = Put::new(vec![b'n'; 2000]).priority(3);
        store.find_tube("work")?.schedules().change_task("old", task).map(drop)
    }),
    ("move", |store| store.find_tube("next")?.schedules().change(Schedule::of("old")).map(drop)),
    ("removal of a schedule", |store| store.find_tube("next")?.schedules().remove("old").map(drop)),
];

fn hourly(key: &str) -> Schedule {
    Schedule::every(key, HOUR)
}

fn body(size: usize) -> Vec<u8> {
    vec![b's'; size]
}

/// The disk of a closed store with a schedule that has put two runs.
fn disk() -> Arc<Disk> {
    let disk = Disk::new(None);
    let clock = ManualClock::new();
    let store = open(&disk, &clock);
    let tubes = ["work", "next"]
        .map(|name| store.create_tube(name, TubeOptions::new().driver(FIFOTTL)).unwrap());
    tubes[0].schedule(hourly("old"), body(2000)).unwrap();
    clock.advance(HOUR);
    drop(tubes);
    store.close().unwrap();
    disk
}

/// The schedules of both tubes, and how many tasks these have. The time goes on.
fn contents(store: &Store) -> Vec<(ScheduleInfo, Vec<u8>, u64)> {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let mut found = Vec::new();
    for name in ["work", "next"] {
        let tube = store.find_tube(name).unwrap();
        for mut schedule in tube.schedules().list(None, 10).unwrap().items {
            schedule.due_in = Duration::ZERO;
            let body = tube.query().task(schedule.id).unwrap().body.to_vec();
            found.push((schedule, body, tube.statistics().unwrap().tasks.total));
        }
    }
    found
}

#[test]
fn failed_change_of_a_schedule_is_made_wholly_or_not_at_all() {
    let (disk, mut runs) = (disk(), 0);
    for (what, call) in CALLS {
        let call = FailingCall::new(&disk, &call, &contents, true);
        fail_with_sampled_faults(what, 1, &mut runs, |plan| call.fails(plan));
    }
    assert!(runs > amount(5, 20, 20), "{runs} runs");
}

/// The runs that the schedule has counted, and those that are there.
fn counted_and_stored(store: &Store) -> (u64, u64) {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("work").unwrap();
    let runs = tube.schedules().list(None, 10).unwrap().items[0].runs;
    (runs, tube.statistics().unwrap().tasks.ready)
}

#[test]
fn failing_disk_neither_loses_nor_doubles_a_run() {
    let (disk, mut runs) = (disk(), 0);
    let fails = |plan: Plan| {
        let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
        clock.advance(HOUR);
        let store = open(&disk, &clock);
        disk.fail(plan);
        clock.advance(HOUR);
        let now = Duration::from_secs(1_767_225_600) + HOUR * 2;
        for copy in [disk.after_kill(), disk.after_power_cut()] {
            let clock = ManualClock::at(now);
            let store = open(&copy, &clock);
            let (counted, stored) = counted_and_stored(&store);
            assert!(counted == stored && (2..=3).contains(&counted), "{plan:?}: {counted}");
            clock.advance(Duration::ZERO);
            store.flush().unwrap();
            assert_eq!(counted_and_stored(&store), (3, 3), "{plan:?}");
        }
        let has_failed = disk.has_failed();
        disk.repair();
        clock.advance(RETRY_TIME);
        store.flush().unwrap();
        assert_eq!(counted_and_stored(&store), (3, 3), "{plan:?}");
        store.close().unwrap();
        let store = open(&disk.after_power_cut(), &ManualClock::at(now));
        assert_eq!(counted_and_stored(&store), (3, 3), "{plan:?}");
        has_failed
    };
    fail_with_sampled_faults("a run", 1, &mut runs, fails);
    assert!(runs > 3, "{runs} runs");
}
