//! Calls all operations of a store that may be damaged. Any result is accepted except a body that
//! was not put, and each call must return.

use std::time::Duration;

use tubewell::{Claim, Durability, Error, FIFO, ManualClock, State, Store, Tube, TubeOptions};

use crate::disk::Disk;
use crate::history::{HISTORY, options};
use crate::oracle::Oracle;

/// Far more than the number of tasks. A longer iteration does not end.
const ITERATIONS_MAX: usize = 4000;

/// Opens a store on this disk and takes its tasks, then opens it again and uses the other
/// operations.
pub fn exercise_store(disk: &Disk, oracle: Oracle) {
    let clock = ManualClock::new();
    // Relaxed calls share commits in the first run. In the second, each call has its own commit.
    for (run, durability) in [Durability::relaxed(), Durability::Flush].into_iter().enumerate() {
        let options = options(&clock).durability(durability);
        let Ok(store) = options.open_on(Box::new(disk.share())) else { return };
        let _ = store.verify();
        resume_claims(&store, run, oracle);
        for info in store.tubes() {
            let Ok(tube) = store.tube(&info.name) else { continue };
            if run == 0 {
                read_all(&tube, oracle);
                take_all(&tube, oracle);
                let _ = tube.kick(1);
            } else {
                take_all(&tube, oracle);
                change_tubes(&store, &tube);
            }
        }
        clock.advance(Duration::from_secs(4000));
        let _ = store.verify();
        let _ = store.close();
    }
}

/// Each run resumes other claims.
fn resume_claims(store: &Store, run: usize, oracle: Oracle) {
    for (nth, token) in HISTORY.tokens.iter().enumerate().skip(run).step_by(2) {
        if let Ok(claim) = store.resume_claim(token) {
            assert_put(claim.id(), claim.data(), oracle);
            finish(claim, nth);
        }
    }
}

fn read_all(tube: &Tube, oracle: Oracle) {
    let _ = tube.statistics();
    for state in [State::Ready, State::Taken, State::Delayed, State::Buried] {
        let mut after = None;
        for page in 0.. {
            assert!(page < ITERATIONS_MAX, "the list of {:?} does not end", tube.name());
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

fn change_tubes(store: &Store, tube: &Tube) {
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
        assert!(taken < ITERATIONS_MAX, "the takes from {:?} do not end", tube.name());
        match tube.take(Duration::ZERO) {
            Ok(Some(claim)) => {
                assert_put(claim.id(), claim.data(), oracle);
                finish(claim, taken);
            }
            // A task that cannot be read must not prevent other takes. A stopped store fails each
            // call.
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

/// The puts of this module have the body "new".
fn assert_put(id: u64, body: &[u8], oracle: Oracle) {
    let known = HISTORY.bodies.get(&id).is_some_and(|put| put == body);
    let excluded = oracle.is_faulty() && body.len() == 6000;
    assert!(known && !excluded || body == b"new", "the body {body:?} of task {id} was never put");
}
