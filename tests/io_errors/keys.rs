//! Puts with keys on a disk that fails. Such a put edits rows of the key and of the task that has it,
//! which may be in another tube: all of them or none.

use std::sync::Arc;

use tubewell::{Durability, Failure, Keep, ManualClock, OnKey, Outcome, Put, TubeOptions, UTUBE};

use crate::disk::Disk;
use crate::size::amount;
use crate::support::open;
use crate::two_tubes::{Call, TUBES, fail_each};

const CALLS: [(&str, Call); 8] = [
    ("new key", |work, _| work.put(keyed("new", 2000)).map(drop)),
    ("replace in the tube", |work, _| work.put(replacing("work 0", 20)).map(drop)),
    ("replace of a taken task", |work, _| {
        let _claim = work.claim(1)?;
        work.put(replacing("work 1", 2000)).map(drop)
    }),
    ("replace of a task that is done", |work, _| work.put(replacing("work 2", 20)).map(drop)),
    ("replace from another tube", |_, next| next.put(replacing("work 0", 20)).map(drop)),
    ("replace of a buried task from another tube", |_, next| {
        next.put(replacing("work 3", 2000)).map(drop)
    }),
    ("requeue", |work, _| work.requeue("work 3", Put::new(vec![b'q'; 9])).map(drop)),
    ("many", |work, _| {
        let kept = keyed("next 1", 9).on_key(OnKey::Keep);
        let without = Put::new(vec![b'w'; 3000]).sub_queue("sub 0");
        let puts = [keyed("new", 9), replacing("work 0", 2000), kept, without];
        let puts = puts.into_iter().chain([replacing("next 0", 20), keyed("newer", 2000)]);
        work.put_many(puts).map(drop)
    }),
];

fn keyed(key: &str, size: usize) -> Put<Vec<u8>> {
    Put::new(vec![b'k'; size]).sub_queue("sub 1").key(key).tag("keyed").tag(key)
}

fn replacing(key: &str, size: usize) -> Put<Vec<u8>> {
    keyed(key, size).on_key(OnKey::Replace)
}

/// The disk of a closed store with eight tasks in one tube and four in the other. A quarter of them is
/// buried, and another quarter done. Half of the bodies are large.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    for (name, count) in TUBES.into_iter().zip([8, 4]) {
        let options = TubeOptions::new().durability(durability).keep_done(Keep::new().count(9));
        let tube = store.create_tube(name, options.driver(UTUBE)).unwrap();
        for n in 0..count {
            let body = vec![b'x'; if n % 2 == 0 { 2000 } else { 20 }];
            let put = Put::new(body).sub_queue(format!("sub {}", n % 3));
            let put = put.key(format!("{name} {n}")).tag("old").tag("keyed");
            let id = tube.put(put).unwrap().id;
            match n % 4 {
                2 => {
                    tube.claim(id).unwrap().end(Outcome::result(vec![b'r'; 300])).unwrap();
                }
                3 => {
                    let failure = Failure::new("crash", "m".repeat(200));
                    tube.claim(id).unwrap().bury(failure).unwrap();
                }
                _ => {}
            }
        }
    }
    store.close().unwrap();
    disk
}

/// I07
#[test]
fn failed_put_with_a_key_edits_all_rows_or_none() {
    let runs = fail_each(&CALLS, disk);
    assert!(runs > amount(15, 60, 60), "{runs} runs");
}
