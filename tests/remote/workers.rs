//! Workers whose connection breaks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::{Job, Report, Worker};
use tubewell::{ConnectOptions, Error, FIFO, ServeOptions, Store, TubeOptions};

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
