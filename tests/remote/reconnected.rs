//! Connections that break and are made again: sessions, claims, and calls in flight.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::{
    Claim, Error, FIFO, ManualClock, Put, ServeOptions, Served, State, Store, StoreOptions, Tube,
    TubeOptions, WhenFull, connect,
};

use super::blocking_disk::Disk;
use super::executor::{wait_until, with_timeout};

const GRACE: Duration = Duration::from_secs(60);

/// An owner whose connections can be broken, and a connection to it.
struct Pair {
    owner: Store,
    remote: Store,
    tube: Tube,
    clock: ManualClock,
    disk: Arc<Disk>,
    served: Served,
    folder: TempDir,
}

impl Pair {
    fn new(options: StoreOptions) -> Pair {
        let (folder, disk) = (TempDir::new().unwrap(), Arc::new(Disk::default()));
        let clock = ManualClock::new();
        let owner = disk.open(options.clock(&clock));
        owner.create_tube("case", FIFO, TubeOptions::new()).unwrap();
        let served = owner.serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
        let remote = connect(served.url()).unwrap();
        let tube = remote.tube("case").unwrap();
        Pair { owner, remote, tube, clock, disk, served, folder }
    }

    /// Breaks all connections, calls `meanwhile`, and serves again at the same address.
    fn break_connections(&mut self, meanwhile: impl FnOnce(&Pair)) {
        self.served.stop();
        meanwhile(self);
        let socket = self.folder.path().join("socket");
        self.served = self.owner.serve(ServeOptions::unix(socket)).unwrap();
    }

    fn state(&self) -> State {
        self.owner.tube("case").unwrap().peek(0).unwrap().info.state
    }

    fn take(&self) -> Claim {
        self.tube.put("x").unwrap();
        self.tube.try_take().unwrap().unwrap()
    }

    fn assert_sound(&self) {
        assert_eq!(self.owner.verify().unwrap(), [""; 0]);
    }
}

#[test]
fn claims_end_with_their_connection_without_a_grace() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let claim = pair.take();
        pair.break_connections(|pair| wait_until(|| pair.state() == State::Ready));
        assert_eq!(claim.ack(), Err(Error::NotTaken { id: 0 }));
        assert_eq!(pair.tube.try_take().unwrap().unwrap().takes(), 2);
        pair.assert_sound();
    });
}

#[test]
fn claims_stand_when_a_connection_is_made_again_within_the_grace() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options().session_grace(GRACE));
        let session = pair.remote.session_named("worker").unwrap();
        pair.tube.put("own").unwrap();
        let own = pair.tube.try_take().unwrap().unwrap();
        pair.tube.put("of a session").unwrap();
        let of_session = session.tube("case").unwrap().try_take().unwrap().unwrap();
        // By this answer, the owner knows that the one with the task has arrived.
        assert!(own.is_current());
        pair.break_connections(|pair| pair.clock.advance(GRACE / 2));
        // Both sessions are there again.
        own.ack().unwrap();
        pair.clock.advance(GRACE * 2);
        assert!(of_session.is_current());
        of_session.ack().unwrap();
        pair.assert_sound();
    });
}

#[test]
fn claims_end_when_the_grace_of_a_broken_connection_is_over() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options().session_grace(GRACE));
        let claim = pair.take();
        pair.break_connections(|pair| {
            wait_until(|| {
                pair.clock.advance(GRACE);
                pair.state() == State::Ready
            });
        });
        let refused = claim.ack();
        assert!(
            matches!(refused, Err(Error::NotTaken { id: 0 } | Error::SessionEnded)),
            "{refused:?}"
        );
        pair.assert_sound();
    });
}

#[test]
fn call_in_flight_when_its_connection_breaks_has_an_unknown_outcome() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let disk = pair.disk.clone();
        let deferred = pair.tube.deferred(WhenFull::Block);
        let ticket = disk.block_flush_of(|| deferred.put("x").unwrap());
        pair.break_connections(|_| disk.unblock_flushes());
        let unknown = ticket.wait();
        assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
        // It was made: the owner had it.
        wait_until(|| pair.owner.tube("case").unwrap().statistics().unwrap().tasks.ready == 1);
        pair.assert_sound();
    });
}

/// The client makes it again by itself, or its caller does.
#[test]
fn put_with_a_token_is_made_once_although_its_connection_breaks() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let disk = pair.disk.clone();
        let deferred = pair.tube.deferred(WhenFull::Block);
        let put = || Put::new("x").token("once");
        let ticket = disk.block_flush_of(|| deferred.put(put()).unwrap());
        pair.break_connections(|_| disk.unblock_flushes());
        let first = ticket.wait();
        let is_known = matches!(first, Ok(_) | Err(Error::OutcomeUnknown { .. }));
        assert!(is_known, "{first:?}");
        assert_eq!(pair.tube.put(put()).unwrap().id, 0);
        assert_eq!(pair.owner.tube("case").unwrap().statistics().unwrap().tasks.total, 1);
        pair.assert_sound();
    });
}

#[test]
fn wait_continues_with_the_next_connection() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let tube = pair.tube.clone();
        let taker = thread::spawn(move || tube.take(None).unwrap().unwrap().ack().unwrap().id);
        let waiting = |pair: &Pair| pair.owner.tube("case").unwrap().info().unwrap().waiting;
        wait_until(|| waiting(&pair) == 1);
        pair.break_connections(|pair| wait_until(|| waiting(pair) == 0));
        wait_until(|| waiting(&pair) == 1);
        let id = pair.owner.tube("case").unwrap().put("x").unwrap().id;
        assert_eq!(taker.join().unwrap(), id);
        pair.assert_sound();
    });
}
