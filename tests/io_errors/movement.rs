//! Calls with which tasks go on in another tube, on a disk that fails. Such a call edits the rows of
//! two tubes or more, all of them or none.

use std::sync::Arc;

use tubewell::{Durability, Failure, Filter, Keep, ManualClock, Outcome, Put, TubeOptions, UTUBE};

use crate::disk::Disk;
use crate::size::amount;
use crate::support::open;
use crate::two_tubes::{Call, TUBES, fail_each};

const CALLS: [(&str, Call); 6] = [
    ("move of a ready task", |work, next| work.admin().move_to(next, 0).map(drop)),
    ("move of a buried task", |work, next| work.admin().move_to(next, 3).map(drop)),
    ("move of a taken task", |work, next| {
        let claim = work.claim(1)?;
        work.admin().move_to(next, claim.id()).map(drop)
    }),
    ("move of all tasks", |work, next| {
        work.admin().move_to(next, Filter::new()).map(|moved| assert_eq!(moved, 8))
    }),
    ("advance", |work, next| {
        let put = Put::new(vec![b'n'; 2000]).sub_queue("sub 1");
        work.claim(0)?.end(Outcome::advance(next, put)).map(drop)
    }),
    ("finish", |work, next| {
        let put = |size: usize| Put::new(vec![b'p'; size]).sub_queue("sub 0");
        let finish = Outcome::result(vec![b'r'; 3000]);
        let finish = finish.and_put(next, put(9)).and_put(work, put(2000)).and_put(next, put(3000));
        work.claim(0)?.end(finish).map(drop)
    }),
];

/// The disk of a closed store with eight tasks in one tube and four in the other. A quarter of them is
/// buried. Half of the bodies are large.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    for (name, count) in TUBES.into_iter().zip([8, 4]) {
        let options = TubeOptions::new().durability(durability).keep_done(Keep::new().count(9));
        let tube = store.create_tube(name, options.driver(UTUBE)).unwrap();
        for n in 0..count {
            let body = vec![b'x'; if n % 2 == 0 { 2000 } else { 20 }];
            let id = tube.put(Put::new(body).sub_queue(format!("sub {}", n % 3))).unwrap().id;
            if n % 4 == 3 {
                let failure = Failure::new("crash", "m".repeat(200));
                tube.claim(id).unwrap().bury(failure).unwrap();
            }
        }
    }
    store.close().unwrap();
    disk
}

/// I07
#[test]
fn failed_movement_edits_all_tubes_or_none() {
    let runs = fail_each(&CALLS, disk);
    assert!(runs > amount(15, 60, 60), "{runs} runs");
}
