//! Callers that wait for the end of a task on a disk that fails. An answer that a caller has got is
//! what the file has after a kill, in a flushed tube also after a power cut.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{Durability, Ending, FIFO, Failure, Keep, ManualClock, Result, Tube, TubeOptions};

use crate::disk::Disk;
use crate::executor::block_on;
use crate::faults::{Fault, Kind, Plan};
use crate::support::{NEVER, Outcome, RETRY_TIME, assert_is_storage_error, open};
use crate::{sampled, with_timeout};

/// Faults, and whether each lasts.
const FAULTS: [(Fault, bool); 3] =
    [(Fault::Device, false), (Fault::Device, true), (Fault::Short, false)];

const LEVELS: [Durability; 2] = [Durability::Flush, Durability::Write { flush_within: NEVER }];

type End = fn(&Tube, u64) -> Result<()>;

const ENDS: [(&str, End); 4] = [
    ("ack", |tube, id| tube.claim(id)?.end(tubewell::Outcome::result(vec![b'r'; 3000])).map(drop)),
    ("bury", |tube, id| tube.claim(id)?.bury(Failure::new("crash", "signal 9")).map(drop)),
    ("resolve", |tube, id| {
        tube.admin().resolve(id, tubewell::Outcome::result(b"by hand")).map(drop)
    }),
    ("delete", |tube, id| tube.delete(id).map(drop)),
];

/// The disk of a closed store with a task.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let options = TubeOptions::new().durability(durability).keep_done(Keep::new());
    let tube = store.create_tube("work", options.driver(FIFO)).unwrap();
    tube.put(vec![b'x'; 2000]).unwrap();
    store.close().unwrap();
    disk
}

/// What the file has: `None` if the task has not ended.
fn stored(disk: &Arc<Disk>, id: u64) -> Option<Ending> {
    let store = open(disk, &ManualClock::new());
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.find_tube("work").unwrap().ending(id).unwrap().map(comparable)
}

/// Nothing is kept of a task that was deleted. The time of a failure goes on.
fn comparable(ending: Ending) -> Ending {
    match ending {
        Ending::Deleted => Ending::Gone,
        Ending::Buried { failure: Some(failure) } => {
            Ending::Done { result: Some(failure.group.into_bytes()) }
        }
        other => other,
    }
}

/// The disks that a crash would leave.
struct Crashes {
    after_kill: Arc<Disk>,
    /// Only if the tube is flushed.
    after_power_cut: Option<Arc<Disk>>,
}

impl Crashes {
    fn of(disk: &Disk, durability: Durability) -> Crashes {
        let is_flushed = durability == Durability::Flush;
        let after_power_cut = is_flushed.then(|| disk.after_power_cut());
        Crashes { after_kill: disk.after_kill(), after_power_cut }
    }

    /// Checks that they have the ending that a caller was told.
    fn check(&self, id: u64, told: &Ending, context: &str) {
        for disk in [&self.after_kill].into_iter().chain(&self.after_power_cut) {
            assert_eq!(stored(disk, id).as_ref(), Some(told), "{context}");
        }
    }
}

type Wait = Pin<Box<dyn Future<Output = Result<Option<Ending>>> + Send>>;

fn is_pending(wait: &mut Wait) -> bool {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// Ends a task while calls of the disk fail and a caller waits for its end. Returns whether a call
/// has failed.
fn wait_done_fails(disk: &Arc<Disk>, durability: Durability, plan: Plan, end: End) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    let tube = store.find_tube("work").unwrap();
    let mut wait: Wait = Box::pin(tube.to_async().wait_done(0, Duration::MAX));
    assert!(is_pending(&mut wait));
    disk.fail(plan);
    let ended = end(&tube, 0);
    let context = format!("{durability}, {plan:?}: {ended:?}");
    let is_refused = Outcome::of(&ended) == Outcome::Refused;
    // If the call was refused, the wait may go on.
    let waited = (!is_refused).then(|| block_on(&mut wait));
    let crashes = Crashes::of(&disk, durability);
    let failed = disk.has_failed();
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    if is_refused {
        end(&tube, 0).unwrap();
    }
    let answer = waited.unwrap_or_else(|| block_on(&mut wait));
    store.close().unwrap();
    let last = stored(&disk, 0);
    assert!(last.is_some(), "{context}");
    match answer {
        Ok(Some(told)) => {
            let told = comparable(told);
            if !is_refused {
                crashes.check(0, &told, &context);
            }
            assert_eq!(Some(told), last, "{context}");
        }
        Ok(None) => panic!("no timeout: {context}"),
        Err(error) => {
            assert!(failed, "{error}: {context}");
            assert_is_storage_error(&error);
        }
    }
    failed
}

#[test]
fn answer_to_wait_done_is_what_the_file_has_after_a_failure() {
    let (step, mut runs) = (sampled(3), 0);
    for durability in LEVELS {
        let disk = disk(durability);
        for (name, end) in ENDS {
            for kind in [Kind::Read, Kind::Write, Kind::Sync] {
                for (fault, lasting) in FAULTS {
                    let plan = |nth| Plan { kind, nth, fault, lasting };
                    let fails = |nth: &u64| {
                        let (plan, disk) = (plan(*nth), disk.clone());
                        let what = format!("wait_done, {name}, {durability}, {plan:?}");
                        with_timeout(what, move || wait_done_fails(&disk, durability, plan, end))
                    };
                    let count = (1..100_000).step_by(step).take_while(fails).count();
                    println!("{durability}, {name}, {kind:?} {fault:?} {lasting}: {count} runs");
                    runs += count;
                }
            }
        }
    }
    assert!(runs > 40, "{runs} runs");
}

/// Puts a task and waits for its end while calls of the disk fail, and ends it on another thread.
/// Returns whether a call has failed.
fn put_and_wait_fails(disk: &Arc<Disk>, durability: Durability, plan: Plan) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    let tube = store.find_tube("work").unwrap();
    tube.delete(0).unwrap();
    store.flush().unwrap();
    disk.fail(plan);
    let (answer, crashes) = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let answer = tube.put_and_wait("request", Duration::MAX);
            (answer, Crashes::of(&disk, durability))
        });
        while !caller.is_finished() {
            let claim = tube.try_take();
            let is_refused = match claim {
                Ok(Some(claim)) => claim.end(tubewell::Outcome::result("answer")).is_err(),
                Ok(None) => false,
                Err(_) => true,
            };
            if is_refused {
                disk.repair();
                clock.advance(RETRY_TIME);
            }
            thread::yield_now();
        }
        caller.join().unwrap()
    });
    let failed = disk.has_failed();
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    let context = format!("{durability}, {plan:?}: {answer:?}");
    match answer {
        Ok((receipt, Some(told))) => {
            assert_eq!(told, Ending::Done { result: Some(b"answer".to_vec()) }, "{context}");
            crashes.check(receipt.id, &told, &context);
            store.close().unwrap();
            assert_eq!(stored(&disk, receipt.id), Some(told), "{context}");
        }
        Ok((_, None)) => panic!("no timeout: {context}"),
        Err(error) => {
            assert!(failed, "{context}");
            assert_is_storage_error(&error);
            store.close().unwrap();
            stored(&disk, 0);
        }
    }
    failed
}

#[test]
fn answer_to_put_and_wait_is_what_the_file_has_after_a_failure() {
    let mut runs = 0;
    for durability in LEVELS {
        let disk = disk(durability);
        for kind in [Kind::Read, Kind::Write, Kind::Sync] {
            for (fault, lasting) in FAULTS {
                let fails = |nth: &u64| {
                    let (plan, disk) = (Plan { kind, nth: *nth, fault, lasting }, disk.clone());
                    let what = format!("put_and_wait, {durability}, {plan:?}");
                    with_timeout(what, move || put_and_wait_fails(&disk, durability, plan))
                };
                let count = (1..100_000).take_while(fails).count();
                println!("{durability}, {kind:?} {fault:?} {lasting}: {count} runs");
                runs += count;
            }
        }
    }
    assert!(runs > 20, "{runs} runs");
}
