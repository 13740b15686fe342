//! Connections that end within a frame, and between an answer and its confirmation, as those of a process that is
//! killed there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{
    ConnectOptions, Ending, Error, FIFO, FIFOTTL, Keep, Outcome, ServeOptions, Store, Tube,
    TubeOptions,
};

use super::executor::{HANGS_AFTER, WakeFlag, wait_until, with_timeout};
use super::tunnel::Tunnel;

/// An owner, and a connection to it that can be cut.
struct Pair {
    owner: Store,
    tube: Tube,
    remote_tube: Tube,
    tunnel: Arc<Tunnel>,
    url: String,
    _folder: TempDir,
}

impl Pair {
    fn new(grace: Duration) -> Pair {
        let folder = TempDir::new().unwrap();
        let (tunnel, socket) = (folder.path().join("tunnel"), folder.path().join("socket"));
        let owner = Store::options().session_grace(grace).open_in_memory().unwrap();
        let tube =
            owner.create_tube("case", TubeOptions::new().max_attempts(9).driver(FIFO)).unwrap();
        owner.admin().serve(ServeOptions::unix(&socket).heartbeat(None)).unwrap();
        let url = format!("unix:{}", tunnel.display());
        let tunnel = Tunnel::start(&tunnel, &socket);
        let remote = ConnectOptions::new().timeout(HANGS_AFTER).connect(&url).unwrap();
        let remote_tube = remote.find_tube("case").unwrap();
        Pair { owner, tube, remote_tube, tunnel, url, _folder: folder }
    }

    fn assert_sound(&self) {
        assert_eq!(self.owner.admin().verify().unwrap(), [""; 0]);
    }
}

/// A call of which a part has arrived is not made, and nothing is left of it.
#[test]
fn call_is_made_only_if_all_of_its_frame_has_arrived() {
    with_timeout(|| {
        let pair = Pair::new(Duration::ZERO);
        // What was sent before may be counted only now: the least is that of a put alone.
        let mut tasks = 5;
        let frames = (0..tasks).map(|_| {
            let before = pair.tunnel.sent();
            pair.remote_tube.put("x").unwrap();
            pair.tunnel.sent() - before
        });
        let frame = frames.min().unwrap();
        assert!(frame > 14, "{frame}");
        for length in 1..=frame {
            // A connection that was made again waits longer and longer for the next one.
            let tube = tubewell::connect(&pair.url).unwrap().find_tube("case").unwrap();
            pair.tunnel.cut_after(length);
            let put = tube.put("x");
            // The answer to a whole one may be faster than the cut.
            let is_whole = length == frame;
            let is_unknown = matches!(put, Err(Error::OutcomeUnknown { .. }));
            assert!(is_unknown || (is_whole && put.is_ok()), "{length}: {put:?}");
            // It would cut the next connection.
            wait_until(|| !pair.tunnel.is_to_be_cut());
            let next = tubewell::connect(&pair.url).unwrap().find_tube("case").unwrap();
            let total = || next.statistics().unwrap().tasks.total;
            if is_whole {
                // A busy owner may accept the next connection before it has read all of this one.
                tasks += 1;
                wait_until(|| total() == tasks);
            }
            assert_eq!(total(), tasks, "{length} of {frame} bytes");
        }
        pair.assert_sound();
    });
}

/// The process gets the task, and the owner does not hear of that.
#[test]
fn task_whose_answer_was_not_confirmed_is_released_and_its_attempt_is_forgiven() {
    with_timeout(|| {
        let pair = Pair::new(HANGS_AFTER);
        let waiting = pair.remote_tube.clone();
        let taker = thread::spawn(move || waiting.take().unwrap());
        wait_until(|| pair.tube.info().unwrap().waiting == 1);
        pair.tunnel.hold_clients();
        let id = pair.tube.put("x").unwrap().id;
        let lost = taker.join().unwrap();
        assert_eq!(lost.id(), id);
        pair.tunnel.cut();
        let again = pair.tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        assert_eq!((again.id(), again.attempts_left()), (id, Some(8)));
        assert_eq!(lost.ack(), Err(Error::NotTaken { id }));
        again.ack().unwrap();
        pair.assert_sound();
    });
}

/// The session goes on with the next connection, and no handle has the claim any more.
#[test]
fn task_is_released_if_the_end_of_its_claim_did_not_reach_the_owner() {
    with_timeout(|| {
        let pair = Pair::new(HANGS_AFTER);
        let id = pair.tube.put("x").unwrap().id;
        let claim = pair.remote_tube.to_async().try_take().wait().unwrap().unwrap();
        assert_eq!(claim.is_current().wait(), Ok(true));
        pair.tunnel.hold_clients();
        let ticket = claim.ack();
        pair.tunnel.cut();
        assert!(matches!(ticket.wait(), Err(Error::OutcomeUnknown { .. })));
        let again = pair.tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        assert_eq!(again.id(), id);
        again.ack().unwrap();
        pair.assert_sound();
    });
}

/// The claims of the batch stand, and their ends are sent again.
#[test]
fn ends_of_a_batch_that_did_not_reach_the_owner_are_repeated() {
    with_timeout(|| {
        // More than the confirmation of an answer.
        const RESULT: usize = 10_000;
        let pair = Pair::new(HANGS_AFTER);
        let options = TubeOptions::new().keep_done(Keep::new().count(10)).driver(FIFO);
        let tube = pair.owner.create_tube("kept", options).unwrap();
        let puts = tube.put_many(["a", "b", "c"]).unwrap();
        let remote = ConnectOptions::new().timeout(HANGS_AFTER).connect(&pair.url).unwrap();
        let calls = Arc::<AtomicUsize>::default();
        let (called, tunnel) = (calls.clone(), pair.tunnel.clone());
        let handler = move |jobs: &[Job]| {
            called.fetch_add(1, Ordering::SeqCst);
            for job in jobs {
                // By this call, the owner knows that the one with the task has arrived.
                assert_eq!(job.is_current(), Ok(true));
                job.set_outcome(Outcome::result(job.body().repeat(RESULT)));
            }
            tunnel.hold_clients();
        };
        let kept = remote.find_tube("kept").unwrap();
        let worker = Worker::new(&remote).on_batch(&kept, 3, Duration::MAX, handler);
        let worker = worker.start().unwrap();
        wait_until(|| pair.tunnel.lost() > RESULT);
        assert_eq!(tube.statistics().unwrap().tasks.taken, 3);
        pair.tunnel.cut();
        wait_until(|| worker.tally().jobs() == 3);
        assert_eq!((worker.tally().done, calls.load(Ordering::SeqCst)), (3, 1));
        for (put, body) in puts.iter().zip([b"a", b"b", b"c"]) {
            let result = Some(body.repeat(RESULT));
            assert_eq!(tube.ending(put.id), Ok(Some(Ending::Done { result })));
        }
        assert_eq!(tube.statistics().unwrap().calls.ack, 3);
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        pair.assert_sound();
    });
}

/// By the next call, the owner knows that the answer has arrived.
#[test]
fn task_whose_answer_was_confirmed_stays_with_its_session() {
    with_timeout(|| {
        let pair = Pair::new(HANGS_AFTER);
        pair.tube.put("x").unwrap();
        let claim = pair.remote_tube.try_take().unwrap().unwrap();
        assert!(claim.is_current().unwrap());
        pair.tunnel.cut();
        assert!(claim.is_current().unwrap());
        assert!(pair.tube.try_take().unwrap().is_none());
        claim.ack().unwrap();
        pair.assert_sound();
    });
}

/// The owner never hears that the task is to be held for as long as the job may run.
#[test]
fn worker_that_is_a_future_waits_for_no_answer_on_the_thread_that_polls_it() {
    with_timeout(|| {
        let pair = Pair::new(Duration::ZERO);
        let remote = ConnectOptions::new().timeout(HANGS_AFTER).connect(&pair.url).unwrap();
        let of_owner = pair.owner.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let tube = remote.find_tube("timed").unwrap();
        let worker = Worker::new(&remote).on_async(&tube, |_: AsyncJob| async {});
        let mut worker = worker.max_runtime(HANGS_AFTER).run_async();
        let flag = WakeFlag::raised();
        let waker = Waker::from(flag.clone());
        let mut poll = || Pin::new(&mut worker).poll(&mut Context::from_waker(&waker)).is_pending();
        // The owner is asked about the tube, and then for a task.
        wait_until(|| {
            assert!(!flag.lower() || poll());
            of_owner.info().unwrap().waiting == 1
        });
        pair.tunnel.hold_clients();
        of_owner.put("x").unwrap();
        // The task arrives, and its job does not begin.
        flag.wait();
        assert!(poll());
        assert_eq!(of_owner.statistics().unwrap().tasks.taken, 1);
        drop(worker);
        pair.tunnel.cut();
        pair.assert_sound();
    });
}
