//! Schedules over power cuts: after each of them, as many runs are there as the schedule has counted.

use std::time::Duration;

use tubewell::{Durability, FIFO, ManualClock, Missed, Schedule, Store, StoreOptions, TubeOptions};

use crate::disk::{Disk, Medium, Op};
use crate::images::{Playback, SyncMode, crash};
use crate::rng::Rng;

const HOUR: Duration = Duration::from_secs(3600);
const ROUNDS: u32 = 6;

/// The log of a store whose schedule puts a run in each round, and another one that ends.
fn log_of(durability: Durability) -> Vec<Op> {
    let (clock, disk) = (ManualClock::new(), Disk::new(Medium::default(), Duration::ZERO));
    let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
    let tube =
        store.create_tube("tube", TubeOptions::new().durability(durability).driver(FIFO)).unwrap();
    tube.schedule(Schedule::every("long", HOUR), vec![b'x'; 1500]).unwrap();
    tube.schedule(Schedule::every("short", HOUR).times(3), "x").unwrap();
    for round in 0..ROUNDS {
        clock.advance(HOUR);
        tube.put(format!("{round}")).unwrap();
    }
    disk.log()
}

/// Opens an image. Returns how many runs its schedules have put, if they are there. The runs have
/// consecutive numbers from 1.
fn runs_in(medium: Medium, advance: bool) -> Option<u64> {
    let disk = Disk::new(medium, Duration::ZERO);
    let clock = ManualClock::new();
    clock.advance(HOUR * ROUNDS);
    let options = StoreOptions::default().clock(&clock);
    let store = options.open_on(disk.storage()).unwrap();
    if advance {
        clock.advance(HOUR);
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("tube").ok()?;
    let schedules = tube.schedules().list(None, 10).unwrap().items;
    let long = schedules.iter().find(|schedule| schedule.key == "long")?.runs;
    for (key, runs) in [("long", long), ("short", 3)] {
        let stored = schedules.iter().find(|schedule| schedule.key == key);
        let runs = stored.map_or(runs, |schedule| schedule.runs);
        for run in 1..=runs + 1 {
            let found = store.by_key(&format!("{key}-{run}")).unwrap();
            let is_before_it = key == "short" && stored.is_none() && long < 3;
            assert_eq!(found.is_some(), run <= runs && !is_before_it, "{key}-{run}");
        }
    }
    Some(long)
}

#[test]
fn power_cut_neither_loses_nor_doubles_a_run() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let log = log_of(durability);
        let mut rng = Rng::new(7);
        let mut playback = Playback::new(Medium::default(), &log, SyncMode::Reliable);
        let mut last = 0;
        for position in 0..=log.len() {
            playback.play_to(position);
            if let Some(runs) = runs_in(playback.synced().clone(), false) {
                assert!(runs >= last, "{durability}: {runs} of {last} at {position}");
                last = runs;
            }
            // What was written and not flushed may be there in parts.
            let image = crash(&Medium::default(), &log, position, &mut rng);
            if let Some(runs) = runs_in(image, true) {
                assert!(runs >= last, "{durability}: {runs} of {last} at {position}");
            }
        }
        assert!(last > 3, "{durability}: {last}");
    }
}

/// All missed runs are made up for after a power cut, each once.
#[test]
fn catch_up_after_a_power_cut_puts_each_run_once() {
    let (clock, disk) = (ManualClock::new(), Disk::new(Medium::default(), Duration::ZERO));
    let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("tube", TubeOptions::new().driver(FIFO)).unwrap();
    let schedule = Schedule::every("long", HOUR).missed(Missed::All);
    tube.schedule(schedule, "x").unwrap();
    clock.advance(HOUR * ROUNDS);
    let log = disk.log();
    let mut playback = Playback::new(Medium::default(), &log, SyncMode::Reliable);
    for position in (0..=log.len()).step_by(3) {
        playback.play_to(position);
        let disk = Disk::new(playback.synced().clone(), Duration::ZERO);
        let clock = ManualClock::new();
        clock.advance(HOUR * ROUNDS);
        let store = StoreOptions::default().clock(&clock).open_on(disk.storage()).unwrap();
        clock.advance(Duration::ZERO);
        let Ok(tube) = store.find_tube("tube") else { continue };
        let Some(schedule) = tube.schedules().list(None, 1).unwrap().items.pop() else { continue };
        let ready = tube.statistics().unwrap().tasks.ready;
        assert_eq!((schedule.runs, ready), (u64::from(ROUNDS) + 1, u64::from(ROUNDS) + 1));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
