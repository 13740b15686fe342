//! What runs have found, told by hand.

use std::time::Duration;

use tubewell::{FIFO, ManualClock, Store, TubeOptions};

use crate::disk::{Disk, Fault, Kind, Plan};

/// The claim could not be ended, because its task could not be read, and nobody ended it later.
#[test]
fn a_claim_that_is_dropped_as_the_storage_begins_to_fail_lets_its_task_go() {
    let (clock, disk) = (ManualClock::new(), Disk::new());
    let options = Store::options().clock(&clock).cache_size(1 << 14);
    let store = options.open_on(disk.plug()).unwrap();
    let tube = store.create_tube("jobs", FIFO, TubeOptions::new()).unwrap();
    // Larger than what is kept in memory of the file.
    let bodies: Vec<_> = (0..100).map(|n| format!("{n} {}", "x".repeat(900))).collect();
    tube.put_many(bodies).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    disk.arm(Plan { kind: Kind::Read, nth: 1, fault: Fault::Device, lasting: false });
    drop(claim);
    assert!(disk.tripped(), "nothing was read");
    clock.advance(Duration::from_secs(30));
    let again = tube.try_take().unwrap().unwrap();
    assert!(again.data().starts_with(b"0 "), "nobody has it, and nobody gets it");
}
