//! A job of a worker that sleeps and joins, and whose process is killed, or whose machine loses
//! power, at every operation of the disk. The next run goes on at the step that had not ended. In a
//! written tube a power cut keeps the first steps of those that were answered.

#[allow(dead_code, reason = "other test targets use the rest")]
#[path = "../common/worked_jobs.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Entry, Workshop};
use tubewell::{Durability, ManualClock, Store};

use crate::disk::{Disk, Medium};
use crate::every_operation::crash_at_every_operation;
use crate::rng::Rng;
use crate::size::amount;

/// Opens the store on this disk.
fn open(start: Medium, durability: Durability, time: Duration) -> (Arc<Disk>, Workshop) {
    let (disk, clock) = (Disk::new(start, Duration::ZERO), ManualClock::new());
    clock.advance(time);
    let store = Store::options().clock(&clock).cache_size(1 << 20).open_on(disk.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let position = disk.clone();
    let position = Arc::new(move || position.position());
    (disk, Workshop::new(store, clock, durability, position))
}

/// Kills and power cuts at every operation of the job. Returns the number of images.
fn crash_everywhere(seed: u64, durability: Durability) -> usize {
    let (disk, shop) = open(Medium::default(), durability, Duration::ZERO);
    shop.put_job();
    let first = disk.position();
    assert!(shop.work());
    let (log, ledger) = (disk.log(), shop.entries());
    drop(shop);
    crash_at_every_operation(&log, first, true, &mut Rng::new(seed), |image, at, what| {
        let before: Vec<Entry> = ledger.iter().filter(|entry| entry.at <= at).cloned().collect();
        let time = before.last().map_or(Duration::ZERO, Entry::time);
        let (_, shop) = open(image, durability, time);
        let keeps_answers = durability == Durability::Flush || what.ends_with("killed");
        let what = format!("seed {seed}, {durability}, {what}");
        shop.go_on(&before, &ledger, keeps_answers, &what);
    })
}

#[test]
fn job_that_spawns_sleeps_and_joins_goes_on_at_the_step_that_had_not_ended_whatever_dies() {
    let never = Duration::from_secs(3600);
    let mut images = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: never }] {
        images +=
            (0..amount(1, 3, 500)).map(|seed| crash_everywhere(seed, durability)).sum::<usize>();
    }
    println!("{images} images");
    assert!(images > amount(10, 100, 100), "{images} images");
}
