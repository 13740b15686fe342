//! Workers whose connection breaks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::{Job, Report, Worker};
use tubewell::{ConnectOptions, Error, ServeOptions, Store};

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
        assert!(pair.owner.tube("case").unwrap().peek(id).is_err());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(worker.stop(None).unwrap(), []);
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
        pair.served = pair.owner.serve(options.secret("a secret of the test")).unwrap();
        // The lane that waits for a task ends the worker, and the end of the job is not repeated.
        wait_until(|| matches!(pair.remote.find(id), Err(Error::Refused { .. })));
        drop(open);
        let ended = worker.wait();
        assert!(matches!(ended, Err(Error::Refused { .. })), "{ended:?}");
        assert_eq!(worker.tally().not_stored, 1);
        assert!(matches!(pair.remote.tube("case"), Err(Error::Refused { .. })));
        pair.assert_sound();
    });
}
