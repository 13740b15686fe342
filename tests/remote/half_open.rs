//! Peers that vanish without a word: a tunnel between them and the owner carries nothing any more, and neither
//! side sees an end of the connection.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::worker::{AsyncJob, Worker};
use tubewell::{ConnectOptions, FIFO, ServeOptions, Store, TaskState, Tube, TubeOptions};

use super::executor::{HANGS_AFTER, WakeFlag, poll, poll_pending, wait_until, with_timeout};
use super::tunnel::Tunnel;

/// An owner, and the connection of a client that goes through a tunnel.
struct Pair {
    owner: Store,
    tube: Tube,
    remote: Store,
    tunnel: Arc<Tunnel>,
    url: String,
    _folder: TempDir,
}

impl Pair {
    fn new(heartbeat: Option<Duration>, grace: Duration) -> Pair {
        let folder = TempDir::new().unwrap();
        let (tunnel, socket) = (folder.path().join("tunnel"), folder.path().join("socket"));
        let owner = Store::options().session_grace(grace).open_in_memory().unwrap();
        let tube = owner.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let served = owner.admin().serve(ServeOptions::unix(&socket).heartbeat(heartbeat)).unwrap();
        let url = format!("unix:{}", tunnel.display());
        let tunnel = Tunnel::start(&tunnel, &socket);
        let remote = ConnectOptions::new().timeout(HANGS_AFTER).connect(&url).unwrap();
        Pair { owner, tube, remote, tunnel, url: served.url().to_owned(), _folder: folder }
    }

    fn remote_tube(&self) -> Tube {
        self.remote.find_tube("case").unwrap()
    }

    fn waiting(&self) -> u64 {
        self.tube.info().unwrap().waiting
    }
}

const OFTEN: Option<Duration> = Some(Duration::from_millis(200));

#[test]
fn task_of_a_process_that_vanishes_is_released_after_three_heartbeats() {
    with_timeout(|| {
        let pair = Pair::new(OFTEN, Duration::ZERO);
        // A process that says that it is there keeps its claim.
        let other = tubewell::connect(&pair.url).unwrap();
        pair.tube.put("kept").unwrap();
        let kept = other.find_tube("case").unwrap().try_take().unwrap().unwrap();
        pair.tube.put("lost").unwrap();
        let lost = pair.remote_tube().try_take().unwrap().unwrap();
        pair.tunnel.vanish();
        let again = pair.tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        assert_eq!((again.id(), again.takes()), (lost.id(), 2));
        assert_eq!(pair.tube.query().task(kept.id()).unwrap().info.state, TaskState::Taken);
        kept.ack().unwrap();
        again.ack().unwrap();
        assert_eq!(pair.owner.admin().verify().unwrap(), [""; 0]);
        std::mem::forget(lost);
    });
}

/// The owner hands the task to a connection that is silent for long, and hears nothing of it.
#[test]
fn task_that_is_handed_to_a_process_that_has_vanished_is_released() {
    with_timeout(|| {
        let pair = Pair::new(OFTEN, Duration::ZERO);
        let waiting = pair.remote_tube();
        thread::spawn(move || waiting.take_timeout(Duration::MAX));
        wait_until(|| pair.waiting() == 1);
        pair.tunnel.vanish();
        let id = pair.tube.put("x").unwrap().id;
        let claim = pair.tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        assert_eq!((claim.id(), claim.takes()), (id, 2));
    });
}

#[test]
fn connection_that_is_made_again_ends_the_one_before_of_the_same_client() {
    with_timeout(|| {
        let pair = Pair::new(None, HANGS_AFTER * 10);
        let held = {
            pair.tube.put("held").unwrap();
            pair.remote_tube().try_take().unwrap().unwrap()
        };
        let waiting = pair.remote_tube();
        let taker = thread::spawn(move || waiting.take().unwrap().ack());
        wait_until(|| pair.waiting() == 1);
        pair.tunnel.cut_clients();
        // A call on the next connection.
        assert!(held.is_current().unwrap());
        wait_until(|| pair.waiting() == 1);
        held.ack().unwrap();
        // With two waits, the one of the connection before would get it.
        let id = pair.tube.put("x").unwrap().id;
        taker.join().unwrap().unwrap();
        assert!(pair.tube.query().task(id).is_err());
        assert_eq!(pair.owner.admin().verify().unwrap(), [""; 0]);
    });
}

/// Not at its start either: the owner answers nothing any more when the worker begins.
#[test]
fn worker_that_is_a_future_begins_without_an_answer_of_its_owner_and_can_be_stopped() {
    with_timeout(|| {
        let pair = Pair::new(None, Duration::ZERO);
        let tube = pair.remote_tube();
        pair.tunnel.vanish();
        let worker = Worker::new(&pair.remote).on_async(&tube, |_: AsyncJob| async {});
        let stopper = worker.stopper();
        let mut worker = worker.run_async();
        let flag = WakeFlag::raised();
        let waker = Waker::from(flag.clone());
        poll_pending(&mut worker, &waker);
        flag.lower();
        stopper.stop();
        flag.wait();
        let Poll::Ready(ended) = poll(&mut worker, &waker) else { panic!("it goes on") };
        assert_eq!(ended.unwrap().jobs(), 0);
    });
}
