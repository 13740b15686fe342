//! Tickets of calls that share a flush, and calls that do not wait for one.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;
use std::{io, thread};

use tubewell::expert::Storage;
use tubewell::{Claim, Error, FIFO, Store, TaskState, TubeOptions};

use super::support::{ALL_DRIVERS, FileStore, HANGS_AFTER, block_on, drain, eventually, task};
use crate::stores;

#[test]
fn hundreds_of_deferred_calls_share_commits() {
    const CALLS: usize = 500;
    for driver in ALL_DRIVERS {
        let file = FileStore::new();
        let tube = file.tube(driver);
        let deferred = tube.to_async();
        let puts: Vec<_> = (0..CALLS).map(|n| deferred.put(task(&tube, "", n))).collect();
        let mut commits = HashMap::<u64, usize>::new();
        let mut ids = Vec::new();
        for (n, ticket) in puts.into_iter().enumerate() {
            let receipt = if n % 2 == 0 { ticket.wait() } else { block_on(ticket) }.unwrap();
            assert_eq!(receipt.state, TaskState::Ready);
            ids.push(receipt.id);
            *commits.entry(receipt.commit).or_default() += 1;
        }
        assert!(ids.is_sorted_by(|one, next| one < next));
        assert!(commits.len() < CALLS / 2, "{} commits for {CALLS} calls", commits.len());

        let claims = tube.take_many(CALLS, Duration::ZERO).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), ids);
        let acks: Vec<_> = claims.into_iter().map(|claim| claim.into_async().ack()).collect();
        // Every third ticket is dropped. Its call still takes effect.
        let kept: Vec<_> =
            acks.into_iter().enumerate().filter(|(n, _)| n % 3 > 0).map(|(_, ack)| ack).collect();
        let commit = file.store.flush().unwrap();
        for ticket in kept {
            // The leader of an earlier commit may still have to mark its tickets.
            eventually("the ticket is done", || ticket.is_done());
            let receipt = ticket.wait().unwrap();
            assert!(receipt.state == TaskState::Done && receipt.commit <= commit);
        }
        let numbers = tube.statistics().unwrap();
        assert_eq!((numbers.tasks.total, numbers.calls.ack), (0, CALLS as u64));
        file.assert_verified();
    }
}

/// Puts made during a flush share the next one. Takes, releases and statistics do not wait for a
/// flush.
#[test]
fn deferred_puts_share_next_flush_and_takes_do_not_wait_for_it() {
    let gate = Arc::new(SyncGate::default());
    let store = gate.open_store(10_000);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let ready = tube.put("ready").unwrap().id;
    let deferred = tube.to_async();
    gate.shut();
    let first = deferred.put("first");
    eventually("its flush is blocked", || gate.blocked.load(Ordering::SeqCst) == 1);
    let others: Vec<_> = (0..100).map(|n| deferred.put(format!("{n}"))).collect();

    let (sender, answers) = mpsc::channel();
    let taker = thread::spawn({
        let tube = tube.clone();
        move || {
            let claim = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
            sender.send(claim.id()).unwrap();
            claim.release().unwrap();
            let claim = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
            sender.send(claim.detach().info.id).unwrap();
            sender.send(tube.statistics().unwrap().tasks.total).unwrap();
        }
    });
    let answers = [(); 3].map(|()| answers.recv_timeout(HANGS_AFTER));
    let early = first.is_done() || others.iter().any(tubewell::Ticket::is_done);
    gate.open();
    taker.join().unwrap();
    assert_eq!(answers, [Ok(ready), Ok(ready), Ok(1)], "a call waited for a flush");
    assert!(!early, "a call was answered before its flush");
    let first = first.wait().unwrap().commit;
    let others: BTreeSet<u64> = others.into_iter().map(|one| one.wait().unwrap().commit).collect();
    assert_eq!(others, BTreeSet::from([first + 1]));
    drop((tube, deferred, store));
}

#[test]
fn changes_stand_in_line_or_are_refused_when_write_buffer_is_full() {
    let gate = Arc::new(SyncGate::default());
    let store = gate.open_store(20);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let (refuses, blocks) = (tube.to_async().refuse_when_full(), tube.to_async());
    let fill = || {
        gate.shut();
        let mut tickets = vec![blocks.put("blocked in its flush")];
        eventually("its flush is blocked", || gate.blocked.load(Ordering::SeqCst) == 1);
        loop {
            let ticket = refuses.put("queued");
            if let Some(refusal) = ticket.refusal() {
                assert_eq!(*refusal, Error::Overloaded);
                break tickets;
            }
            tickets.push(ticket);
            assert!(tickets.len() <= 100, "more than 20 pending rows are accepted");
        }
    };

    // A call in line is made when the write buffer has space.
    let tickets = fill();
    let put = thread::scope(|scope| {
        let late = scope.spawn(|| blocks.put("late").wait().unwrap().id);
        gate.open();
        let ids: Vec<u64> = tickets.into_iter().map(|one| one.wait().unwrap().id).collect();
        let late = late.join().unwrap();
        assert!(ids.is_sorted() && ids.last() < Some(&late));
        ids.len() + 1
    });
    assert_eq!(tube.statistics().unwrap().tasks.ready, put as u64);

    // Close carries out the calls in line, writes all accepted calls, and refuses those that come later.
    let mut tickets = fill();
    tickets.push(blocks.put("in line"));
    thread::scope(|scope| {
        let closer = scope.spawn(|| store.close());
        eventually("the store closes", || tube.try_take().err() == Some(Error::Closed));
        assert_eq!(blocks.put("too late").refusal(), Some(&Error::Closed));
        gate.open();
        assert_eq!(closer.join().unwrap(), Ok(()));
    });
    let accepted = tickets.len();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    let store = gate.open_store(20);
    let tube = store.find_tube("work").unwrap();
    assert_eq!(drain(&tube).len(), put + accepted);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Storage in memory whose syncs can be blocked.
#[derive(Debug, Default)]
struct SyncGate {
    bytes: Mutex<Vec<u8>>,
    shut: Mutex<bool>,
    opened: Condvar,
    /// How many syncs are blocked.
    blocked: AtomicUsize,
}

#[derive(Debug)]
struct GatedStorage(Arc<SyncGate>);

impl SyncGate {
    fn open_store(self: &Arc<SyncGate>, rows: usize) -> Store {
        let storage = Box::new(GatedStorage(Arc::clone(self)));
        stores::serve(Store::options().max_pending(rows, 1 << 20).open_on(storage).unwrap())
    }

    fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

fn range(offset: u64, len: usize) -> std::ops::Range<usize> {
    let offset = usize::try_from(offset).unwrap();
    offset..offset + len
}

impl Storage for GatedStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        let found = bytes.get(range(offset, out.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.blocked.fetch_add(1, Ordering::SeqCst);
        let shut = self.0.shut.lock().unwrap();
        drop(self.0.opened.wait_while(shut, |shut| *shut).unwrap());
        self.0.blocked.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.bytes.lock().unwrap()[range(offset, data.len())].copy_from_slice(data);
        Ok(())
    }
}
