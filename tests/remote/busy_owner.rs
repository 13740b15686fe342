//! What a peer sees while its owner is busy: flushes that take long, a full write buffer, long calls.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::{
    ConnectOptions, Error, FIFO, FIFOTTL, ManualClock, Put, ServeOptions, Served, Store,
    StoreOptions, TaskState, Ticket, Tube, TubeOptions,
};

use super::blocking_disk::Disk;
use super::executor::{eventually_ready, wait_until, with_timeout};

/// How long a connection waits for its owner to accept it.
const CONNECT: Duration = Duration::from_millis(500);

/// An owner whose disk can be blocked, and a connection to it.
struct Pair {
    owner: Store,
    remote: Store,
    tube: Tube,
    disk: Arc<Disk>,
    served: Served,
    _folder: TempDir,
}

impl Pair {
    /// With three ready tasks.
    fn new(options: StoreOptions) -> Pair {
        let (folder, disk) = (TempDir::new().unwrap(), Arc::new(Disk::default()));
        let owner = disk.open(options);
        owner.create_tube("empty", TubeOptions::new().driver(FIFO)).unwrap();
        owner
            .create_tube("case", TubeOptions::new().driver(FIFOTTL))
            .unwrap()
            .put_many(["x"; 3])
            .unwrap();
        let served = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
        let remote = ConnectOptions::new().timeout(CONNECT).connect(served.url()).unwrap();
        let tube = remote.find_tube("case").unwrap();
        Pair { owner, remote, tube, disk, served, _folder: folder }
    }

    /// Puts a task whose flush is blocked.
    fn block(&self) -> Ticket<tubewell::Receipt> {
        let deferred = self.tube.to_async();
        self.disk.block_flush_of(|| deferred.put("blocked"))
    }

    /// Makes calls that wait for no flush and for no space in the write buffer.
    fn assert_takes_and_lists_are_answered(&self) {
        let before = self.tube.statistics().unwrap().tasks;
        let claim = self.tube.try_take().unwrap().unwrap();
        claim.renew(Duration::from_secs(60)).unwrap();
        assert_eq!(self.tube.query().list(TaskState::Taken, None, 100).unwrap().items.len(), 1);
        drop(claim);
        assert_eq!(self.tube.statistics().unwrap().tasks, before);
    }

    fn assert_sound(&self) {
        assert_eq!(self.owner.admin().verify().unwrap(), [""; 0]);
    }
}

impl Drop for Pair {
    /// A test that has failed ends.
    fn drop(&mut self) {
        self.disk.unblock_flushes();
    }
}

/// The timeout of a connection is for connecting: no call in flight ends with it.
#[test]
fn takes_and_reads_are_answered_during_a_long_flush_and_changes_after_it() {
    with_timeout(|| {
        let pair = Pair::new(Store::options());
        let blocked = pair.block();
        let remote = pair.remote.clone();
        let flush = thread::spawn(move || remote.flush());
        let put = pair.tube.to_async().refuse_when_full().put("behind it");
        pair.assert_takes_and_lists_are_answered();
        assert_eq!(pair.tube.query().task(0).unwrap().body, b"x");
        let other = ConnectOptions::new().timeout(CONNECT).connect(pair.served.url()).unwrap();
        // Longer than the timeout.
        assert!(other.find_tube("empty").unwrap().take_timeout(CONNECT * 2).unwrap().is_none());
        assert!(!blocked.is_done() && !put.is_done() && !flush.is_finished());
        pair.assert_takes_and_lists_are_answered();
        pair.disk.unblock_flushes();
        assert_eq!((blocked.wait().unwrap().id, put.wait().unwrap().id), (3, 4));
        assert!(flush.join().unwrap().is_ok());
        pair.assert_sound();
    });
}

#[test]
fn takes_and_reads_are_answered_while_the_write_buffer_is_full_and_changes_wait() {
    with_timeout(|| {
        let pair = Pair::new(Store::options().max_pending(20, 1 << 20));
        let blocked = pair.block();
        let blocks = pair.tube.to_async();
        // A put with a priority edits a row more, so that puts that are called find too little space.
        let put = |_| blocks.put(Put::new("x").priority(9));
        let tickets: Vec<_> = (0..100).map(put).collect();
        let refused = pair.tube.to_async().refuse_when_full().put("x");
        assert_eq!(refused.wait(), Err(Error::Overloaded));
        pair.assert_takes_and_lists_are_answered();
        assert_eq!(pair.tube.query().task(0).unwrap().body, b"x");
        let tube = pair.tube.clone();
        let delete = thread::spawn(move || tube.delete(0));
        assert!(
            !blocked.is_done()
                && !delete.is_finished()
                && tickets.iter().all(|ticket| !ticket.is_done())
        );
        pair.disk.unblock_flushes();
        delete.join().unwrap().unwrap();
        let ids: Vec<u64> = tickets.into_iter().map(|put| put.wait().unwrap().id).collect();
        assert_eq!(ids, (4..104).collect::<Vec<_>>());
        pair.assert_sound();
    });
}

/// The session ends with its last handle, and its claim goes with the call that waits for space.
#[test]
fn session_lasts_until_the_end_of_its_claim_has_space_at_the_owner() {
    with_timeout(|| {
        let pair = Pair::new(Store::options().max_pending(20, 1 << 20));
        let claim = pair
            .remote
            .session("")
            .unwrap()
            .tube(&pair.remote.find_tube("case").unwrap())
            .unwrap()
            .to_async()
            .try_take()
            .wait();
        let claim = claim.unwrap().unwrap();
        let blocked = pair.block();
        let fills = pair.tube.to_async().refuse_when_full();
        let mut tickets = Vec::new();
        loop {
            let ticket = fills.put("x");
            // The answer to a read comes behind that of the put.
            pair.tube.statistics().unwrap();
            if ticket.is_done() {
                assert_eq!(ticket.wait(), Err(Error::Overloaded));
                break;
            }
            tickets.push(ticket);
        }
        drop(claim.ack());
        pair.tube.statistics().unwrap();
        assert_eq!(pair.owner.statistics().unwrap()["case"].tasks.taken, 1);
        pair.disk.unblock_flushes();
        blocked.wait().unwrap();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        wait_until(|| pair.owner.statistics().unwrap()["case"].tasks.done == 1);
        pair.assert_sound();
    });
}

/// More calls than the owner has in flight, and far more than its write buffer holds. The future that
/// waits for capacity is answered behind them.
#[test]
fn deferred_calls_have_no_back_pressure_but_that_of_the_capacity_future() {
    const CALLS: usize = 6000;
    const PENDING: usize = 200;
    with_timeout(|| {
        let pair = Pair::new(Store::options().max_pending(PENDING, 1 << 20));
        let blocked = pair.block();
        let deferred = pair.tube.to_async();
        let tickets: Vec<_> = (0..CALLS).map(|_| deferred.put("x")).collect();
        let mut capacity = pair.remote.to_async().admin().capacity();
        let polled = Pin::new(&mut capacity).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending() && tickets.iter().all(|ticket| !ticket.is_done()));
        pair.disk.unblock_flushes();
        eventually_ready(&mut capacity).unwrap();
        let open = tickets.iter().filter(|ticket| !ticket.is_done()).count();
        assert!(open <= CALLS / 2, "{open} of {CALLS} calls are not answered");
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        blocked.wait().unwrap();
        pair.assert_sound();
    });
}

/// Its sessions cannot be begun. The connection can be made later, with the same options.
#[test]
fn connection_is_made_while_the_storage_of_the_owner_fails_and_its_calls_say_so() {
    with_timeout(|| {
        let clock = ManualClock::new();
        let pair = Pair::new(Store::options().clock(&clock));
        pair.disk.fail_flushes(true);
        assert!(pair.tube.put("x").is_err());
        let late = ConnectOptions::new().connect(pair.served.url()).unwrap();
        let refused = late.flush();
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        pair.disk.fail_flushes(false);
        wait_until(|| {
            clock.advance(Duration::from_secs(60));
            late.flush().is_ok()
        });
        late.find_tube(pair.tube.name()).unwrap().put("y").unwrap();
        pair.assert_sound();
    });
}

/// The owner verifies and copies on threads of their own, two at a time. A catch-up has others.
#[test]
fn verify_of_a_peer_delays_no_other_call_and_the_third_one_is_refused() {
    with_timeout(|| {
        let pair = Pair::new(Store::options());
        let blocked = pair.block();
        let (sender, verified) = channel();
        for _ in 0..3 {
            let (remote, sender) = (pair.remote.clone(), sender.clone());
            thread::spawn(move || sender.send(remote.admin().verify()).unwrap());
        }
        let refused = verified.recv().unwrap().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the owner of the store has 2 verifications or backups for other processes already, \
             and takes no more at a time; try again later"
        );
        assert!(refused.is_transient());
        pair.assert_takes_and_lists_are_answered();
        pair.disk.unblock_flushes();
        for _ in 0..2 {
            assert_eq!(verified.recv().unwrap(), Ok(Vec::new()));
        }
        blocked.wait().unwrap();
        pair.assert_sound();
    });
}
