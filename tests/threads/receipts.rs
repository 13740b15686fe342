//! The commit that the receipt of a change in memory only names: the last one that is flushed.

use std::sync::Arc;

use tubewell::{Durability, FIFO, Receipt, Store, TaskState, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::with_timeout;
use super::support::all_durabilities;
use crate::stores;

/// Makes the changes in memory only: the release of a claim, and the bury of a buried task.
fn change_memory_only(tube: &Tube, buried: u64) -> [Receipt; 3] {
    let [claim, by_id] = [(); 2].map(|()| tube.try_take().unwrap().unwrap());
    let released = claim.release().unwrap();
    let id = by_id.detach().info.id;
    let by_id = tube.claimed(id).and_then(tubewell::Claim::release).unwrap();
    [released, by_id, tube.admin().bury(buried, None).unwrap()]
}

#[test]
fn receipts_in_memory_name_the_last_flushed_commit() {
    for durability in all_durabilities() {
        with_timeout(move || name_the_last_flushed_commit(durability));
    }
}

fn name_the_last_flushed_commit(durability: Durability) {
    let disk = Arc::new(Disk::default());
    // No flush is due during the test.
    let clock = stores::ManualClock::new();
    let options = Store::options().clock(&clock).durability(durability);
    let store = stores::serve(disk.open(options));
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let flushed = TubeOptions::new().durability(Durability::Flush);
    let flushed = store.create_tube("flushed", flushed.driver(FIFO)).unwrap();
    tube.put_many(["one", "two"]).unwrap();
    let buried = tube.put("buried").unwrap().id;
    assert_eq!(tube.admin().bury(buried, None).unwrap().state, TaskState::Buried);
    let last = store.flush().unwrap();
    let check = |last: u64| {
        for receipt in change_memory_only(&tube, buried) {
            assert_eq!(receipt.commit, last, "{durability}: {receipt:?}");
        }
    };
    check(last);
    // The next commit is decided, and perhaps written, and its flush is in progress.
    let ticket = disk.block_flush_of(|| flushed.to_async().put("x"));
    check(last);
    disk.unblock_flushes();
    let last = ticket.wait().unwrap().commit;
    check(last);
    // A written commit is not flushed, nor is one that is only decided.
    let decided = tube.put("three").unwrap().commit;
    assert!(decided > last);
    check(if durability == Durability::Flush { decided } else { last });
    let last = store.flush().unwrap();
    assert!(last >= decided);
    check(last);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}
