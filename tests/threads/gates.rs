//! Gates under many takers: never more taken tasks than the limit, and no taker waits at an open gate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::{FIFO, Put, Rate, Store, Tube, TubeOptions, UTUBE};

use super::executor::with_timeout;
use super::support::{HANGS_AFTER, ms};
use crate::options::only;
use crate::stores;

const TASKS: u64 = 600;
const TAKERS: usize = 6;

/// Takers take all tasks while `change` changes the gates. Returns the largest number of tasks that
/// were taken at a time.
fn take_all(tube: &Tube, change: impl Fn(&Tube, u64) + Sync) -> u64 {
    let (done, taken, most) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..TAKERS {
            scope.spawn(|| {
                while done.load(Ordering::SeqCst) < TASKS {
                    // The last takers find no task.
                    let Some(claim) = tube.take_timeout(ms(100)).unwrap() else { continue };
                    let now = taken.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::yield_now();
                    taken.fetch_sub(1, Ordering::SeqCst);
                    if claim.id() % 5 == 0 && claim.takes() == 1 {
                        claim.release().unwrap();
                    } else {
                        claim.ack().unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                }
                is_over.store(true, Ordering::SeqCst);
            });
        }
        scope.spawn(|| {
            for n in 0.. {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                change(tube, n);
            }
        });
    });
    most.into_inner()
}

fn tube(store: &Store, driver: &str, options: TubeOptions) -> Tube {
    let tube = store.create_tube("work", options.driver(driver)).unwrap();
    let put = |n: u64| {
        let put = Put::new(n.to_string());
        if driver == UTUBE { put.sub_queue((n % 20).to_string()) } else { put }
    };
    tube.put_many((0..TASKS).map(put)).unwrap();
    tube
}

#[test]
fn takers_never_have_more_tasks_than_max_taken() {
    with_timeout(|| {
        let dir = tempfile::tempdir().unwrap();
        for driver in [FIFO, UTUBE] {
            let store = stores::open(dir.path().join(driver));
            let tube = tube(&store, driver, TubeOptions::new().max_taken(3));
            let most = take_all(&tube, |_, _| thread::yield_now());
            assert!(most <= 3, "{most} at a time");
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    });
}

/// A wake-up that is missed would let a taker wait for its timeout, or without a limit.
#[test]
fn takers_get_all_tasks_while_gates_open_and_shut() {
    with_timeout(|| {
        let store = stores::in_memory();
        let tube = tube(&store, FIFO, TubeOptions::new());
        let change = |tube: &Tube, n: u64| match n % 5 {
            0 => tube.admin().pause().unwrap(),
            1 => tube.admin().unpause().unwrap(),
            2 => tube.admin().alter(only(TubeOptions::new().max_taken(1 + n % 4))).unwrap(),
            3 => tube.admin().pause_for(Duration::from_micros(200)).unwrap(),
            _ => tube.admin().alter(only(TubeOptions::new().rate(Rate::per(50, ms(1))))).unwrap(),
        };
        take_all(&tube, change);
        tube.admin().unpause().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.total, 0);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// The sweeper wakes for the gate although nothing else is due.
#[test]
fn blocked_takers_are_served_when_a_pause_or_a_rate_ends() {
    with_timeout(|| {
        let store = stores::in_memory();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many(["a", "b", "c"]).unwrap();
        tube.admin().pause_for(ms(30)).unwrap();
        assert_eq!(tube.take_timeout(HANGS_AFTER).unwrap().unwrap().detach().info.id, 0);
        tube.admin().alter(only(TubeOptions::new().rate(Rate::per(1, ms(30))))).unwrap();
        assert_eq!(tube.take_timeout(HANGS_AFTER).unwrap().unwrap().detach().info.id, 1);
        assert_eq!(tube.take_timeout(HANGS_AFTER).unwrap().unwrap().detach().info.id, 2);
    });
}
