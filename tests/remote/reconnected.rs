//! Connections that break and are made again: sessions, claims, and calls in flight.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::{
    Claim, ConnectOptions, Error, FIFO, Filter, ManualClock, Put, ServeOptions, Served, SessionId,
    Store, StoreOptions, TaskState, Tube, TubeOptions,
};

use super::blocking_disk::Disk;
use super::executor::{wait_until, with_timeout};

pub const GRACE: Duration = Duration::from_secs(60);

/// An owner whose connections can be broken, and a connection to it.
pub struct Pair {
    pub owner: Store,
    pub remote: Store,
    pub tube: Tube,
    pub clock: ManualClock,
    pub disk: Arc<Disk>,
    pub served: Served,
    pub folder: TempDir,
}

impl Pair {
    pub fn new(options: StoreOptions) -> Pair {
        Pair::of(options, ConnectOptions::new())
    }

    /// A pair whose connection gives up soon when there is no owner.
    fn brief() -> Pair {
        Pair::of(Store::options(), ConnectOptions::new().timeout(Duration::from_millis(200)))
    }

    pub fn of(options: StoreOptions, connect: ConnectOptions) -> Pair {
        let (folder, disk) = (TempDir::new().unwrap(), Arc::new(Disk::default()));
        let clock = ManualClock::new();
        let owner = disk.open(options.clock(&clock));
        owner.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let served = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
        let remote = connect.connect(served.url()).unwrap();
        let tube = remote.find_tube("case").unwrap();
        Pair { owner, remote, tube, clock, disk, served, folder }
    }

    /// Breaks all connections, calls `meanwhile`, and serves again at the same address.
    pub fn break_connections(&mut self, meanwhile: impl FnOnce(&Pair)) {
        // What the client has sent has arrived then: without its confirmation a task is taken back.
        let _ = self.remote.find_tube("case");
        self.served.stop();
        meanwhile(self);
        let socket = self.folder.path().join("socket");
        self.served = self.owner.admin().serve(ServeOptions::unix(socket)).unwrap();
    }

    /// The calls that wait for a task, at the owner.
    fn waiting(&self) -> u64 {
        self.owner.find_tube("case").unwrap().info().unwrap().waiting
    }

    pub fn state(&self) -> TaskState {
        self.owner.find_tube("case").unwrap().query().task(0).unwrap().info.state
    }

    fn take(&self) -> Claim {
        self.tube.put("x").unwrap();
        self.tube.try_take().unwrap().unwrap()
    }

    pub fn assert_sound(&self) {
        assert_eq!(self.owner.admin().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn claims_end_with_their_connection_without_a_grace() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let claim = pair.take();
        pair.break_connections(|pair| wait_until(|| pair.state() == TaskState::Ready));
        assert_eq!(claim.ack(), Err(Error::NotTaken { id: 0 }));
        assert_eq!(pair.tube.try_take().unwrap().unwrap().takes(), 2);
        pair.assert_sound();
    });
}

#[test]
fn claims_stand_when_a_connection_is_made_again_within_the_grace() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options().session_grace(GRACE));
        let session = pair.remote.session("worker").unwrap();
        pair.tube.put("own").unwrap();
        let own = pair.tube.try_take().unwrap().unwrap();
        pair.tube.put("of a session").unwrap();
        let of_session = session.tube(&pair.tube).unwrap().try_take().unwrap().unwrap();
        // By this answer, the owner knows that the one with the task has arrived.
        assert!(own.is_current().unwrap());
        pair.break_connections(|pair| pair.clock.advance(GRACE / 2));
        // Both sessions are there again.
        own.ack().unwrap();
        pair.clock.advance(GRACE * 2);
        assert!(of_session.is_current().unwrap());
        of_session.ack().unwrap();
        pair.assert_sound();
    });
}

/// The tubes of an ended session answer `SessionEnded`, as those of its owner do.
fn assert_ended(pair: &Pair, session: SessionId, tube: &Tube, claim: &Claim) {
    assert_eq!(tube.try_take().err(), Some(Error::SessionEnded));
    assert_eq!(tube.take_timeout(Duration::MAX).err(), Some(Error::SessionEnded));
    assert_eq!(tube.claimed(claim.id()).and_then(tubewell::Claim::ack), Err(Error::SessionEnded));
    assert!(!claim.is_current().unwrap());
    assert_eq!(claim.renew(GRACE), Err(Error::SessionEnded));
    tube.put("needs no session").unwrap();
    let unknown = || Some(Error::SessionUnknown { id: session });
    assert_eq!(pair.owner.resume_session(session).err(), unknown());
    assert_eq!(pair.state(), TaskState::Ready);
}

#[test]
fn ended_session_is_not_begun_again_by_the_next_connection() {
    with_timeout(|| {
        for grace in [Duration::ZERO, GRACE] {
            let mut pair = Pair::new(Store::options().session_grace(grace));
            let session = pair.remote.session("worker").unwrap();
            let (id, tube) = (session.id(), session.tube(&pair.tube).unwrap());
            tube.put("x").unwrap();
            let claim = tube.try_take().unwrap().unwrap();
            session.end().unwrap();
            for _ in 0..3 {
                assert_ended(&pair, id, &tube, &claim);
                let unknown = pair.remote.resume_session(id).err();
                assert_eq!(unknown, Some(Error::SessionUnknown { id }));
                pair.break_connections(|_| ());
            }
            assert_eq!(claim.ack(), Err(Error::SessionEnded));
            drop(tube);
            assert_eq!(pair.take().id(), 0);
            pair.assert_sound();
        }
    });
}

#[test]
fn session_that_the_owner_ended_is_not_begun_again_by_the_next_connection() {
    with_timeout(|| {
        for while_connected in [true, false] {
            let mut pair = Pair::new(Store::options().session_grace(GRACE));
            let session = pair.remote.session("").unwrap();
            let (id, tube) = (session.id(), session.tube(&pair.tube).unwrap());
            tube.put("x").unwrap();
            let claim = tube.try_take().unwrap().unwrap();
            // By this answer, the owner knows that the one with the task has arrived.
            assert!(claim.is_current().unwrap());
            let end = |pair: &Pair| pair.owner.resume_session(id).unwrap().end().unwrap();
            if while_connected {
                end(&pair);
            }
            pair.break_connections(|pair| {
                if !while_connected {
                    end(pair);
                }
            });
            assert_ended(&pair, id, &tube, &claim);
            pair.break_connections(|_| ());
            assert_ended(&pair, id, &tube, &claim);
            pair.assert_sound();
        }
    });
}

#[test]
fn session_whose_end_was_not_sent_ends_with_its_connection() {
    with_timeout(|| {
        let mut pair = Pair::brief();
        let session = pair.remote.session("").unwrap();
        let (id, tube) = (session.id(), session.tube(&pair.tube).unwrap());
        tube.put("x").unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        let mut session = Some(session);
        pair.break_connections(|_| {
            let refused = session.take().unwrap().end();
            assert!(matches!(refused, Err(Error::NotConnected { .. })), "{refused:?}");
        });
        // After several attempts the next one may be later than the brief time of a call.
        wait_until(|| pair.remote.find_tube("case").is_ok());
        assert_ended(&pair, id, &tube, &claim);
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
                pair.state() == TaskState::Ready
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
        let deferred = pair.tube.to_async();
        let ticket = disk.block_flush_of(|| deferred.put("x"));
        pair.break_connections(|_| disk.unblock_flushes());
        let unknown = ticket.wait();
        assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
        // It was made: the owner had it.
        wait_until(|| pair.owner.find_tube("case").unwrap().statistics().unwrap().tasks.ready == 1);
        pair.assert_sound();
    });
}

/// The client makes it again by itself, or its caller does.
#[test]
fn put_with_a_token_is_made_once_although_its_connection_breaks() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let disk = pair.disk.clone();
        let deferred = pair.tube.to_async();
        let put = || Put::new("x").idempotency_key("once");
        let ticket = disk.block_flush_of(|| deferred.put(put()));
        pair.break_connections(|_| disk.unblock_flushes());
        let first = ticket.wait();
        let is_known = matches!(first, Ok(_) | Err(Error::OutcomeUnknown { .. }));
        assert!(is_known, "{first:?}");
        assert_eq!(pair.tube.put(put()).unwrap().id, 0);
        assert_eq!(pair.owner.find_tube("case").unwrap().statistics().unwrap().tasks.total, 1);
        pair.assert_sound();
    });
}

/// A put with a token is sent again with the next connection. Without one, the first owner may have
/// made it.
#[test]
fn put_with_a_token_that_was_sent_has_an_unknown_outcome_without_a_further_connection() {
    with_timeout(|| {
        let pair = Pair::brief();
        let deferred = pair.tube.to_async();
        let put = || Put::new("x").idempotency_key("once");
        let ticket = pair.disk.block_flush_of(|| deferred.put(put()));
        pair.served.stop();
        let unknown = ticket.wait();
        assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
        pair.disk.unblock_flushes();
        wait_until(|| pair.owner.find_tube("case").unwrap().statistics().unwrap().tasks.ready == 1);
        pair.assert_sound();
    });
}

/// The refusal speaks of the second attempt: the first one has put the task.
#[test]
fn put_with_a_token_that_is_refused_when_it_is_made_again_has_an_unknown_outcome() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let here = pair.owner.find_tube("case").unwrap();
        let put = || Put::new("x").idempotency_key("once");
        let deferred = pair.tube.to_async();
        let ticket = pair.disk.block_flush_of(|| deferred.put(put()));
        pair.break_connections(|pair| {
            pair.disk.unblock_flushes();
            wait_until(|| here.statistics().unwrap().tasks.ready == 1);
            pair.owner.drop_tube("case").unwrap();
        });
        let outcome = ticket.wait();
        let Err(Error::OutcomeUnknown { why }) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("refused: tube \"case\" was dropped"), "{why}");
        // One attempt is refused as the owner says.
        let refused = pair.tube.put(put());
        assert_eq!(refused, Err(Error::TubeDropped { name: "case".into() }));
        pair.assert_sound();
    });
}

#[test]
fn change_in_flight_has_an_unknown_outcome_when_its_connection_is_closed() {
    with_timeout(|| {
        for put in [Put::new("x"), Put::new("x").idempotency_key("once")] {
            let pair = Pair::new(Store::options());
            let deferred = pair.tube.to_async();
            let ticket = pair.disk.block_flush_of(|| deferred.put(put));
            pair.remote.close().unwrap();
            let unknown = ticket.wait();
            assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
            pair.disk.unblock_flushes();
            wait_until(|| {
                pair.owner.find_tube("case").unwrap().statistics().unwrap().tasks.ready == 1
            });
            pair.assert_sound();
        }
    });
}

#[test]
fn wait_in_flight_has_a_known_outcome_without_a_further_connection() {
    with_timeout(|| {
        let end: [fn(&Pair); 2] = [|pair| pair.served.stop(), |pair| pair.remote.close().unwrap()];
        for (end, expected) in end.into_iter().zip(["not connected", "closed"]) {
            let pair = Pair::brief();
            let tube = pair.tube.clone();
            let taker = thread::spawn(move || tube.take_timeout(Duration::MAX));
            wait_until(|| pair.waiting() == 1);
            end(&pair);
            let known = match taker.join().unwrap() {
                Err(Error::NotConnected { .. }) => "not connected",
                Err(Error::Closed) => "closed",
                other => panic!("{other:?}"),
            };
            assert_eq!(known, expected);
        }
    });
}

/// Names and numbers of tubes and tasks are the same in both stores.
#[test]
fn connection_does_not_go_on_with_another_store_at_its_address() {
    with_timeout(|| {
        let pair = Pair::new(Store::options());
        let claim = pair.take();
        pair.served.stop();
        let other = Store::open(pair.folder.path().join("other")).unwrap();
        let tube = other.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put("of the other store").unwrap();
        let socket = pair.folder.path().join("socket");
        let served = other.admin().serve(ServeOptions::unix(socket)).unwrap();
        let refusal = claim.ack().unwrap_err().to_string();
        assert!(refusal.contains("another store is served at this address"), "{refusal}");
        pair.tube.put("of the first store").unwrap_err();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
        // A connection that is new does.
        let again = tubewell::connect(served.url()).unwrap().find_tube("case").unwrap();
        assert_eq!(again.try_take().unwrap().unwrap().body(), b"of the other store");
    });
}

#[test]
fn change_that_was_not_sent_changes_nothing() {
    with_timeout(|| {
        let pair = Pair::brief();
        let events = pair.remote.events(Filter::new(), 1).unwrap();
        pair.served.stop();
        // The connection is known to have ended.
        assert!(events.recv().is_none());
        for put in [Put::new("x"), Put::new("x").idempotency_key("once")] {
            let refused = pair.tube.put(put);
            assert!(matches!(refused, Err(Error::NotConnected { .. })), "{refused:?}");
        }
        let deferred = pair.tube.to_async();
        let ticket = deferred.put("x");
        pair.remote.close().unwrap();
        assert_eq!(ticket.wait(), Err(Error::Closed));
        assert_eq!(pair.tube.put("x"), Err(Error::Closed));
        assert_eq!(pair.owner.find_tube("case").unwrap().statistics().unwrap().tasks.total, 0);
    });
}

#[test]
fn timeout_of_a_wait_begins_anew_with_the_next_connection() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let tube = pair.tube.clone();
        let taker = thread::spawn(move || tube.take_timeout(GRACE * 2).unwrap().is_none());
        wait_until(|| pair.waiting() == 1);
        pair.clock.advance(GRACE);
        pair.break_connections(|pair| wait_until(|| pair.waiting() == 0));
        wait_until(|| pair.waiting() == 1);
        pair.clock.advance(GRACE);
        assert_eq!(pair.waiting(), 1);
        pair.clock.advance(GRACE);
        assert!(taker.join().unwrap(), "a task was taken");
    });
}

#[test]
fn wait_continues_with_the_next_connection() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options());
        let tube = pair.tube.clone();
        let taker = thread::spawn(move || tube.take().unwrap().ack().unwrap().id);
        wait_until(|| pair.waiting() == 1);
        pair.break_connections(|pair| wait_until(|| pair.waiting() == 0));
        wait_until(|| pair.waiting() == 1);
        let id = pair.owner.find_tube("case").unwrap().put("x").unwrap().id;
        assert_eq!(taker.join().unwrap(), id);
        pair.assert_sound();
    });
}

/// Each would otherwise be taken for a store without tubes, sessions, limits, counts or time.
#[test]
fn reads_of_a_store_return_an_error_if_the_owner_is_gone() {
    fn is_refused<T>(answer: tubewell::Result<T>) -> bool {
        matches!(answer, Err(Error::NotConnected { .. }))
    }
    with_timeout(|| {
        let pair = Pair::brief();
        let store = &pair.remote;
        pair.tube.put("x").unwrap();
        store.admin().set_limit("host", 1).unwrap();
        assert_eq!((store.tubes().unwrap().len(), store.admin().limits().unwrap().len()), (1, 1));
        pair.served.stop();
        let reads = [
            ("tubes", is_refused(store.tubes())),
            ("owners", is_refused(store.owners())),
            ("next_id", is_refused(store.admin().next_id())),
            ("statistics", is_refused(store.statistics())),
            ("limits", is_refused(store.admin().limits())),
            ("counters", is_refused(store.admin().counters())),
            ("today", is_refused(store.today())),
            ("clock_report", is_refused(store.admin().clock_report())),
        ];
        let answered: Vec<&str> =
            reads.iter().filter(|(_, refused)| !refused).map(|(name, _)| *name).collect();
        assert_eq!(answered, [""; 0]);
    });
}
