//! Uses all of a store that may be damaged: any answer will do but a body that nobody put, and
//! any call must come to an end.

use std::time::Duration;

use tubewell::{Claim, Error, FIFO, ManualClock, State, Store, TubeOptions};

use crate::Oracle;
use crate::disk::Disk;
use crate::history::{HISTORY, options};

/// Far more than there are tasks; who gets so many goes round in circles.
const ENDLESS: usize = 4000;

/// Opens a store on this disk, uses it, and opens what is left of it once more.
pub fn use_all(disk: &Disk, oracle: Oracle) {
    let clock = ManualClock::new();
    for _ in 0..2 {
        let Ok(store) = options(&clock).open_on(Box::new(disk.share())) else { return };
        let _ = store.verify();
        for info in store.tubes() {
            use_tube(&store, &info.name, &clock, oracle);
        }
        let _ = store.create_tube("new", FIFO, TubeOptions::new().if_not_exists(true));
        let _ = store.tube("new").and_then(|tube| tube.put("new"));
        clock.advance(Duration::from_secs(4000));
        let _ = store.verify();
        let _ = store.close();
    }
}

fn use_tube(store: &Store, name: &str, clock: &ManualClock, oracle: Oracle) {
    let Ok(tube) = store.tube(name) else { return };
    let _ = tube.statistics();
    for state in [State::Ready, State::Taken, State::Delayed, State::Buried] {
        let mut after = None;
        for page in 0.. {
            assert!(page < ENDLESS, "the list of {name:?} has no end");
            let Ok(listed) = tube.list(state, after, 7) else { break };
            for info in &listed.tasks {
                if let Ok(task) = tube.peek(info.id) {
                    assert_put(task.info.id, &task.data, oracle);
                }
            }
            after = listed.next;
            if after.is_none() {
                break;
            }
        }
    }
    let _ = tube.kick(2);
    take_all(&tube, oracle);
    clock.advance(Duration::from_millis(10));
    take_all(&tube, oracle);
    let _ = tube.put("new");
    let _ = tube.release_all();
    if name.len() % 2 == 0 {
        let _ = tube.truncate();
    } else {
        let _ = store.drop_tube(name);
    }
}

fn take_all(tube: &tubewell::Tube, oracle: Oracle) {
    let mut failures = 0;
    for taken in 0.. {
        assert!(taken < ENDLESS, "{:?} has tasks without end", tube.name());
        match tube.take(Duration::ZERO) {
            Ok(None) => return,
            Ok(Some(claim)) => {
                assert_put(claim.id(), claim.data(), oracle);
                finish(claim, taken);
            }
            // One task that cannot be read must not keep the others; a store that has stopped may.
            Err(Error::Corrupt { .. }) if failures < 100 => failures += 1,
            Err(_) => return,
        }
    }
}

fn finish(claim: Claim, nth: usize) {
    let _ = match nth % 5 {
        0 => claim.bury(),
        1 => claim.touch(Duration::from_millis(1)).and_then(|_| claim.ack()),
        _ => claim.ack(),
    };
}

/// Puts of this module are all the same.
fn assert_put(id: u64, body: &[u8], oracle: Oracle) {
    let known = HISTORY.bodies.get(&id).is_some_and(|put| put == body);
    let forgotten = oracle.lies() && body.len() == 6000;
    assert!(known && !forgotten || body == b"new", "nobody put {body:?} as task {id}");
}
