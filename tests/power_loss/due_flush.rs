//! The flush that follows a written or relaxed change within its time.

use std::time::Duration;

use tubewell::{Durability, FIFO, ManualClock, Store, StoreOptions, TubeOptions};

use crate::disk::{Disk, Medium};
use crate::images::{Playback, SyncMode};

const TICK: Duration = Duration::from_micros(1);

/// The number of tasks after a power cut that loses everything unsynced.
fn tasks_after_power_cut(disk: &Disk) -> u64 {
    let log = disk.log();
    let mut playback = Playback::new(Medium::default(), &log, SyncMode::Reliable);
    playback.play_to(log.len());
    let disk = Disk::new(playback.synced().clone(), Duration::ZERO);
    let options = StoreOptions::default().clock(ManualClock::new());
    let store = options.open_on(disk.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let statistics = store.find_tube("tube").unwrap().statistics().unwrap();
    statistics.tasks.total
}

#[test]
fn due_flush_keeps_written_and_relaxed_changes() {
    let (short, long) = (Duration::from_millis(50), Duration::from_secs(20));
    for time in [short, long] {
        let written = Durability::Write { flush_within: time };
        for durability in [written, Durability::Relaxed { max_delay: time }] {
            let clock = ManualClock::new();
            let disk = Disk::new(Medium::default(), Duration::ZERO);
            let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
            let options = TubeOptions::new().durability(durability);
            let tube = store.create_tube("tube", options.driver(FIFO)).unwrap();
            for round in 0..3 {
                tube.put_many(["one", "two"]).unwrap();
                clock.advance(time.checked_sub(TICK).unwrap());
                tube.put("three").unwrap();
                clock.advance(TICK);
                let kept = tasks_after_power_cut(&disk);
                assert!(kept >= 2, "{durability}, round {round}: {kept}");
                tube.try_take().unwrap().unwrap().ack().unwrap();
                clock.advance(time);
                let kept = tasks_after_power_cut(&disk);
                assert_eq!(kept, 2, "{durability}, round {round}");
                for claim in tube.take_many(2, Duration::ZERO).unwrap() {
                    claim.ack().unwrap();
                }
                store.flush().unwrap();
                assert_eq!(tasks_after_power_cut(&disk), 0, "{durability}, round {round}");
            }
        }
    }
}
