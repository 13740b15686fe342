//! The calls of a transaction are counted by day exactly if the transaction is in the file.

use std::time::Duration;

use tubewell::{FIFO, Failure, ManualClock, Outcome, Put, Store, TubeOptions};

use super::support::serve;
use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};

/// Longer than the store waits before it tries a failed disk again.
const RETRY_TIME: Duration = Duration::from_secs(30);

/// Acks, buries and puts in a transaction while a call of the disk fails. Returns whether one has
/// failed, and whether the transaction has taken place.
fn run(plan: Option<Plan>) -> (bool, bool) {
    let (disk, clock) = (Disk::new(None), ManualClock::new());
    let store = Store::options().clock(&clock).cache_size(0).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().metrics(3).driver(FIFO)).unwrap();
    tube.put_many(["a", "b"].map(|body| Put::new(body.repeat(700)))).unwrap();
    let [acked, buried] = tube.take_many(2, Duration::ZERO).unwrap().try_into().unwrap();
    store.transact(|tx| serve(tx, "bob")).unwrap();
    let numbers = || {
        let day = tube.query().day(store.today().unwrap()).unwrap();
        [day.puts, day.takes, day.acks, day.run.count, day.failures, day.failed]
    };
    assert_eq!(numbers(), [2, 2, 0, 0, 0, 0]);
    if let Some(plan) = plan {
        disk.fail(plan);
    }
    let answer = store.transact(|tx| {
        serve(tx, "ann")?;
        tx.end(&acked, Outcome::done())?;
        tx.end(&buried, Outcome::bury(Failure::new("bad", "why")))?;
        tx.put(&tube, "c").map(drop)
    });
    let has_failed = disk.has_failed();
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    let is_done = tube.query().task(acked.id()).is_err();
    assert!(is_done || answer.is_err(), "{plan:?}: {answer:?}");
    let expected = if is_done { [3, 2, 1, 1, 1, 1] } else { [2, 2, 0, 0, 0, 0] };
    assert_eq!(numbers(), expected, "{plan:?}: {answer:?}");
    assert_eq!(store.admin().verify().unwrap(), [""; 0], "{plan:?}");
    (has_failed, is_done)
}

#[test]
fn transaction_is_counted_if_it_takes_place() {
    assert_eq!(run(None), (false, true));
    let (mut done, mut not_done) = (0, 0);
    for kind in [Kind::Write, Kind::Sync] {
        for lasting in [false, true] {
            for nth in 1..100_000 {
                let plan = Plan { kind, nth, fault: Fault::Device, lasting };
                let (has_failed, is_done) = run(Some(plan));
                if !has_failed {
                    break;
                }
                *(if is_done { &mut done } else { &mut not_done }) += 1;
            }
        }
    }
    assert!(not_done > 2, "{done} done, {not_done} not");
}
