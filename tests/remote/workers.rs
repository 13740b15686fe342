//! Workers whose connection breaks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    ConnectOptions, Ending, Error, FIFO, Keep, Outcome, ServeOptions, Store, TubeOptions,
};

use super::executor::{wait_until, with_timeout};
use super::reconnected::{GRACE, Pair};

#[test]
fn end_of_a_job_is_repeated_after_the_reconnection() {
    with_timeout(|| {
        let connect = ConnectOptions::new().timeout(Duration::from_millis(200));
        let mut pair = Pair::of(Store::options().session_grace(GRACE), connect);
        let id = pair.tube.put("x").unwrap().id;
        let (calls, (open, is_open)) = (Arc::<AtomicUsize>::default(), channel::<()>());
        let (count, is_open) = (calls.clone(), Mutex::new(is_open));
        let wait = move |_: &Job| {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = is_open.lock().unwrap().recv();
        };
        let reports: Arc<Mutex<Vec<Report>>> = Arc::default();
        let collected = reports.clone();
        let worker = Worker::new(&pair.remote).on(&pair.tube, wait);
        let worker = worker.watch(move |report| collected.lock().unwrap().push(report.clone()));
        let worker = worker.start().unwrap();
        wait_until(|| calls.load(Ordering::SeqCst) == 1);
        pair.break_connections(|_| {
            drop(open);
            wait_until(|| !reports.lock().unwrap().is_empty());
        });
        let first = reports.lock().unwrap()[0].clone();
        assert!(matches!(first, Report::Error(Error::NotConnected { .. })), "{first:?}");
        wait_until(|| worker.tally().jobs() == 1);
        assert_eq!(worker.tally().done, 1, "{reports:?}");
        assert!(pair.owner.find_tube("case").unwrap().query().task(id).is_err());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        pair.assert_sound();
    });
}

/// The owner carries the ends out before the next connection, or while that waits for the answer of their repetition. The
/// claims have ended then, and the worker cannot know by which call.
#[test]
fn ends_of_a_batch_that_were_sent_before_the_connection_broke_are_not_lost() {
    with_timeout(|| {
        for (grace, is_flushed_before) in
            [(GRACE, true), (GRACE, false), (Duration::ZERO, true), (Duration::ZERO, false)]
        {
            let mut pair = Pair::of(Store::options().session_grace(grace), ConnectOptions::new());
            let options = TubeOptions::new().keep_done(Keep::new().count(10)).driver(FIFO);
            let tube = pair.owner.create_tube("kept", options).unwrap();
            let put =
                |bodies: [&str; 3]| tube.put_many(bodies).unwrap().into_iter().map(|put| put.id);
            let ids: Vec<u64> = put(["a", "b", "c"]).collect();
            let batches: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
            let (noted, (open, is_open)) = (batches.clone(), channel::<()>());
            let is_open = Mutex::new(is_open);
            let handler = move |jobs: &[Job]| {
                noted.lock().unwrap().push(jobs.iter().map(|job| job.id()).collect());
                let _ = is_open.lock().unwrap().recv();
                for job in jobs {
                    job.set_outcome(Outcome::result(job.body().repeat(2)));
                }
            };
            let reports: Arc<Mutex<Vec<Report>>> = Arc::default();
            let collected = reports.clone();
            let remote = pair.remote.find_tube("kept").unwrap();
            let worker = Worker::new(&pair.remote).on_batch(&remote, 3, Duration::MAX, handler);
            let worker = worker.watch(move |report| collected.lock().unwrap().push(report.clone()));
            let worker = worker.start().unwrap();
            wait_until(|| batches.lock().unwrap().len() == 1);
            // The claims have ended, and the answer waits for the flush.
            pair.disk.block_flush_of(|| drop(open));
            wait_until(|| ids.iter().all(|id| matches!(tube.query().owner(*id), Ok(None))));
            pair.break_connections(|pair| {
                if is_flushed_before {
                    pair.disk.unblock_flushes();
                    wait_until(|| tube.statistics().unwrap().tasks.done == 3);
                }
            });
            wait_until(|| pair.remote.find_tube("case").is_ok());
            pair.disk.unblock_flushes();
            wait_until(|| worker.tally().jobs() == 3);
            assert_eq!(worker.tally().not_stored, 3, "{reports:?}");
            // The worker goes on, and gets none of the tasks again.
            let next: Vec<u64> = put(["d", "e", "f"]).collect();
            wait_until(|| worker.tally().jobs() == 6);
            assert_eq!(worker.tally().done, 3, "{reports:?}");
            assert_eq!(*batches.lock().unwrap(), [ids.clone(), next.clone()]);
            for (id, body) in ids.iter().chain(&next).zip(["aa", "bb", "cc", "dd", "ee", "ff"]) {
                let result = Some(body.as_bytes().to_vec());
                assert_eq!(tube.ending(*id), Ok(Some(Ending::Done { result })));
            }
            assert_eq!(tube.statistics().unwrap().calls.ack, 6);
            let reports = reports.lock().unwrap();
            let unknown = reports.iter().filter_map(|report| match report {
                Report::NotStored {
                    id,
                    end: Ended::Done,
                    error: Error::OutcomeUnknown { .. },
                    ..
                } => Some(*id),
                _ => None,
            });
            assert_eq!(unknown.collect::<Vec<_>>(), ids, "{reports:?}");
            assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
            pair.assert_sound();
        }
    });
}

/// The ends cannot be made again, and may have been made before.
#[test]
fn ends_that_were_sent_are_not_lost_if_their_session_or_connection_ends_then() {
    with_timeout(|| {
        for (is_batch, is_closed) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut pair = Pair::of(Store::options().session_grace(GRACE), ConnectOptions::new());
            let here = pair.owner.find_tube("case").unwrap();
            let id = here.put("x").unwrap().id;
            let session = pair.remote.session("worker").unwrap();
            let ((begun, has_begun), (open, is_open)) = (channel(), channel::<()>());
            let shared = Mutex::new((begun, is_open));
            let handler = move || {
                let (begun, is_open) = &*shared.lock().unwrap();
                begun.send(()).unwrap();
                let _ = is_open.recv();
            };
            let reports: Arc<Mutex<Vec<Report>>> = Arc::default();
            let collected = reports.clone();
            let worker = Worker::new(&pair.remote).session(&session);
            let worker = worker.watch(move |report| collected.lock().unwrap().push(report.clone()));
            let worker = if is_batch {
                worker.on_batch(&pair.tube, 1, Duration::MAX, move |_: &[Job]| handler())
            } else {
                worker.on(&pair.tube, move |_: &Job| handler())
            };
            let worker = worker.start().unwrap();
            has_begun.recv().unwrap();
            pair.disk.block_flush_of(|| drop(open));
            wait_until(|| !matches!(here.query().owner(id), Ok(Some(_))));
            pair.break_connections(|pair| {
                pair.disk.unblock_flushes();
                if is_closed {
                    pair.remote.close().unwrap();
                } else {
                    pair.owner.resume_session(session.id()).unwrap().end().unwrap();
                }
            });
            let ended = worker.wait().map(drop);
            assert_eq!(ended, if is_closed { Ok(()) } else { Err(Error::SessionEnded) });
            let reports = reports.lock().unwrap();
            let error = reports.iter().find_map(|report| match report {
                Report::NotStored { error, .. } => Some(error),
                _ => None,
            });
            assert!(matches!(error, Some(Error::OutcomeUnknown { .. })), "{reports:?}");
            let tally = worker.tally();
            assert_eq!((tally.not_stored, tally.jobs()), (1, 1), "{reports:?}");
            assert!(here.query().task(id).is_err());
            pair.assert_sound();
        }
    });
}

/// The next owner at the address asks for a secret, which the connection does not have.
#[test]
fn worker_ends_when_its_connection_is_refused() {
    with_timeout(|| {
        let mut pair = Pair::of(Store::options(), ConnectOptions::new());
        let id = pair.tube.put("x").unwrap().id;
        let (begun, (open, is_open)) = (Arc::<AtomicUsize>::default(), channel::<()>());
        let (count, is_open) = (begun.clone(), Mutex::new(is_open));
        let wait = move |_: &Job| {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = is_open.lock().unwrap().recv();
        };
        let worker = Worker::new(&pair.remote).on(&pair.tube, wait).concurrency(2);
        let worker = worker.start().unwrap();
        wait_until(|| begun.load(Ordering::SeqCst) == 1);
        pair.served.stop();
        let options = ServeOptions::unix(pair.folder.path().join("socket"));
        pair.served = pair.owner.admin().serve(options.secret("a secret of the test")).unwrap();
        // The lane that waits for a task ends the worker, and the end of the job is not repeated.
        wait_until(|| matches!(pair.remote.find(id), Err(Error::Refused { .. })));
        drop(open);
        let ended = worker.wait();
        assert!(matches!(ended, Err(Error::Refused { .. })), "{ended:?}");
        assert_eq!(worker.tally().not_stored, 1);
        assert!(matches!(pair.remote.find_tube("case"), Err(Error::Refused { .. })));
        pair.assert_sound();
    });
}

/// The job has one attempt: a failure would bury its task.
#[test]
fn job_goes_on_while_its_owner_cannot_be_reached() {
    with_timeout(|| {
        let connect = ConnectOptions::new().timeout(Duration::from_millis(200));
        let mut pair = Pair::of(Store::options().session_grace(GRACE), connect);
        let once = TubeOptions::new().max_attempts(1);
        pair.owner.create_tube("once", once.driver(FIFO)).unwrap().put("x").unwrap();
        let ((begun, has_begun), (broken, is_broken)) = (channel(), channel::<()>());
        let (send, seen) = channel();
        let shared = Mutex::new((begun, is_broken, send));
        let handler = move |job: &Job| -> tubewell::Result<()> {
            let (begun, is_broken, send) = &*shared.lock().unwrap();
            begun.send(()).unwrap();
            let _ = is_broken.recv();
            // Longer than a call waits for a connection.
            let is_cancelled = job.wait_cancelled(Duration::from_millis(300));
            send.send((is_cancelled, job.is_current(), job.check())).unwrap();
            job.check()
        };
        let tube = pair.remote.find_tube("once").unwrap();
        let worker = Worker::new(&pair.remote).on(&tube, handler).start().unwrap();
        has_begun.recv().unwrap();
        pair.break_connections(|_| {
            drop(broken);
            let (is_cancelled, is_current, check) = seen.recv().unwrap();
            assert!(!is_cancelled);
            assert!(matches!(is_current, Err(Error::NotConnected { .. })), "{is_current:?}");
            assert_eq!(check, Ok(()));
        });
        wait_until(|| worker.tally().jobs() == 1);
        assert_eq!(worker.tally().done, 1, "{:?}", worker.tally());
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        pair.assert_sound();
    });
}

/// The wait does not end with the connection, and ends with the claim that was made known later.
#[test]
fn wait_for_the_end_of_a_claim_goes_on_with_the_next_connection() {
    with_timeout(|| {
        let connect = ConnectOptions::new().timeout(Duration::from_millis(200));
        let mut pair = Pair::of(Store::options().session_grace(GRACE), connect);
        let id = pair.tube.put("x").unwrap().id;
        let ((begun, has_begun), (send, ended)) = (channel(), channel());
        let shared = Mutex::new((begun, send));
        let handler = move |job: &Job| -> tubewell::Result<()> {
            let (begun, send) = &*shared.lock().unwrap();
            // The owner is asked before the connection breaks.
            assert!(!job.wait_cancelled(Duration::ZERO));
            begun.send(()).unwrap();
            let is_cancelled = job.wait_cancelled(Duration::MAX);
            send.send((is_cancelled, job.is_current())).unwrap();
            job.check()
        };
        let worker = Worker::new(&pair.remote).on(&pair.tube, handler).start().unwrap();
        has_begun.recv().unwrap();
        pair.break_connections(|pair| {
            let asked = pair.remote.find_tube("case").map(drop);
            assert!(matches!(asked, Err(Error::NotConnected { .. })), "{asked:?}");
        });
        assert!(ended.try_recv().is_err());
        wait_until(|| pair.remote.find_tube("case").is_ok());
        pair.owner.find_tube("case").unwrap().delete(id).unwrap();
        assert_eq!(ended.recv().unwrap(), (true, Ok(false)));
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        assert_eq!(worker.tally().lost, 1);
        pair.assert_sound();
    });
}

#[test]
fn claim_is_neither_current_nor_ended_while_its_owner_cannot_be_reached() {
    with_timeout(|| {
        let connect = ConnectOptions::new().timeout(Duration::from_millis(200));
        let mut pair = Pair::of(Store::options().session_grace(GRACE), connect);
        pair.tube.put("x").unwrap();
        let claim = pair.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.is_current(), Ok(true));
        pair.break_connections(|_| {
            assert!(matches!(claim.is_current(), Err(Error::NotConnected { .. })));
            assert!(matches!(claim.owner(), Err(Error::NotConnected { .. })));
            assert!(matches!(claim.expires_in(), Err(Error::NotConnected { .. })));
        });
        wait_until(|| claim.is_current() == Ok(true));
        claim.ack().unwrap();
        pair.assert_sound();
    });
}
