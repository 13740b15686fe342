//! The store on which the requests are made: tubes of all drivers, with all kinds of options.

use std::sync::LazyLock;
use std::time::Duration;

use tubewell::{
    Backoff, Counting, Durability, FIFO, FIFOTTL, Keep, LIMFIFOTTL, ManualClock, Put, Rate,
    Schedule, Store, StoreOptions, TubeOptions, UTUBE, UTUBETTL,
};

use crate::disk::{Bytes, Disk};

const MS: Duration = Duration::from_millis(1);

/// The numbers and the names of the tubes. Their numbers are assigned in order.
pub const TUBES: [&str; 9] =
    ["plain", "timed", "queues", "timed queues", "bounded", "relaxed", "written", "memory", "kept"];

/// The store with its tubes, closed.
static EMPTY: LazyLock<Bytes> = LazyLock::new(|| {
    let disk = Disk::default();
    let store = open(&disk, &ManualClock::new());
    let new = TubeOptions::new;
    let kept = || new().keep_done(Keep::new().count(3)).history(4).metrics(2);
    for (name, (driver, options)) in TUBES.into_iter().zip([
        (FIFO, new().history(3)),
        (FIFOTTL, new().max_attempts(2).backoff(Backoff::constant(MS)).reclaim_delay(MS)),
        (UTUBE, new().sub_queue_limit(2).max_attempts(2).count_takes(Counting::Flushed)),
        (UTUBETTL, kept().max_attempts(3).shared_limits(true)),
        (LIMFIFOTTL, new().capacity(5).ttl(3600 * 1000 * MS)),
        (FIFOTTL, new().durability(Durability::relaxed()).rate(Rate::per(3, 20 * MS))),
        (FIFO, new().durability(Durability::write()).count_takes(Counting::Written).max_taken(3)),
        (FIFOTTL, kept().temporary(true)),
        (FIFOTTL, kept().keep_buried(Keep::new().count(2))),
    ]) {
        let tube = store.create_tube(name, options.driver(driver)).unwrap();
        for n in 0..3 {
            tube.put(format!("task {n} of {name}")).unwrap();
        }
        match name {
            "kept" => {
                tube.schedule(Schedule::every("hourly", 3_600_000 * MS), "").unwrap();
            }
            "queues" => drop(tube.put(Put::new("a task").key("k").tag("red")).unwrap()),
            _ => {}
        }
    }
    store.close().unwrap();
    disk.bytes()
});

/// A disk with the store, before any request.
pub fn disk() -> Disk {
    Disk::new(EMPTY.clone())
}

pub fn open(disk: &Disk, clock: &ManualClock) -> Store {
    options(clock).open_on(Box::new(disk.share())).unwrap()
}

fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).cache_size(1 << 20).session_grace(5 * MS)
}
