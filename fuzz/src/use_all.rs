//! Uses all of a store that may be damaged: any answer will do but a body that nobody put, and
//! any call must come to an end.

use std::time::Duration;

use tubewell::{Claim, Durability, Error, FIFO, ManualClock, State, Store, Tube, TubeOptions};

use crate::Oracle;
use crate::disk::Disk;
use crate::history::{HISTORY, options};

/// Far more than there are tasks; who gets so many goes round in circles.
const ENDLESS: usize = 4000;

/// Opens a store on this disk, takes what it has, and does the rest in a second life.
pub fn use_all(disk: &Disk, oracle: Oracle) {
    let clock = ManualClock::new();
    // Many calls that share a commit, then a few that each have their own.
    for (life, durability) in [Durability::relaxed(), Durability::Flush].into_iter().enumerate() {
        let options = options(&clock).durability(durability);
        let Ok(store) = options.open_on(Box::new(disk.share())) else { return };
        let _ = store.verify();
        for info in store.tubes() {
            let Ok(tube) = store.tube(&info.name) else { continue };
            if life == 0 {
                see_all(&tube, oracle);
                take_all(&tube, oracle);
                let _ = tube.kick(1);
            } else {
                take_all(&tube, oracle);
                end(&store, &tube);
            }
        }
        clock.advance(Duration::from_secs(4000));
        let _ = store.verify();
        let _ = store.close();
    }
}

fn see_all(tube: &Tube, oracle: Oracle) {
    let _ = tube.statistics();
    for state in [State::Ready, State::Taken, State::Delayed, State::Buried] {
        let mut after = None;
        for page in 0.. {
            assert!(page < ENDLESS, "the list of {:?} has no end", tube.name());
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
}

fn end(store: &Store, tube: &Tube) {
    let _ = tube.put("new");
    let _ = tube.release_all();
    match tube.name().len() % 3 {
        0 => drop(tube.truncate()),
        1 => drop(store.drop_tube(tube.name())),
        _ => {}
    }
    let _ = store.create_tube("new", FIFO, TubeOptions::new().if_not_exists(true));
}

fn take_all(tube: &Tube, oracle: Oracle) {
    let mut failures = 0;
    for taken in 0.. {
        assert!(taken < ENDLESS, "{:?} has tasks without end", tube.name());
        match tube.take(Duration::ZERO) {
            Ok(Some(claim)) => {
                assert_put(claim.id(), claim.data(), oracle);
                finish(claim, taken);
            }
            // One task that cannot be read must not keep the others; a store that has stopped may.
            Err(Error::Corrupt { .. }) if failures < 100 => failures += 1,
            Ok(None) | Err(_) => return,
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
