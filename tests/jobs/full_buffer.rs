//! Calls that need no space in the write buffer, while it is full and its flush is blocked.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tubewell::{
    Claim, ClaimToken, Error, FIFOTTL, Failure, Filter, Keep, ManualClock, Outcome, Put, Receipt,
    Schedule, Store, TaskState, Ticket, Tube, TubeOptions,
};

use super::blocking_disk::Disk;
use super::executor::{block_on, with_timeout};
use super::support::*;
use crate::stores;

/// A store with tasks in each state, all of whose changes are flushed.
struct Filled {
    disk: Arc<Disk>,
    store: Store,
    tube: Tube,
    ready: u64,
    child: u64,
    done: u64,
    /// A task that many handles of the test may take.
    taken: Vec<Claim>,
    parked: ClaimToken,
}

fn put_and_take(tube: &Tube) -> Claim {
    let id = tube.put(Put::new("x").ttr(secs(60))).unwrap().id;
    tube.claim(id).unwrap()
}

impl Filled {
    fn new() -> Filled {
        let disk = Arc::new(Disk::default());
        let options = Store::options().clock(ManualClock::new()).max_pending(200, 1 << 20);
        let store = stores::serve(disk.open(options));
        let options = TubeOptions::new().history(10).keep_done(Keep::new()).metrics(30);
        let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
        let parked = put_and_take(&tube).park(secs(60)).unwrap();
        let mut taken: Vec<Claim> = (0..8).map(|_| put_and_take(&tube)).collect();
        for name in ["measured", "weighed"] {
            let _: u32 = taken[0].step(name, || Ok::<_, Error>(7)).unwrap();
        }
        // A claim reads the steps of earlier ones.
        let id = taken.remove(0).release_in(secs(0)).unwrap().id;
        taken.insert(0, tube.claim(id).unwrap());
        put_and_take(&tube).bury(Failure::new("smtp", "421")).unwrap();
        let done = put_and_take(&tube).ack().unwrap().id;
        tube.schedule(Schedule::every("hourly", secs(3600)), "x").unwrap();
        let ready = tube.put(Put::new("body").key("the key").tag("red")).unwrap().id;
        let child = tube.put(Put::new("child").after(&tube, [ready])).unwrap().id;
        Filled { disk, store, tube, ready, child, done, taken, parked }
    }

    /// Puts deferred tasks until the write buffer is full and a flush is blocked.
    fn fill(&self) -> Vec<Ticket<Receipt>> {
        let tube = stores::owner(&self.store).find_tube("case").unwrap();
        let deferred = tube.to_async().refuse_when_full();
        let put = || deferred.put(Put::new("fills the buffer").priority(u32::MAX));
        let mut tickets = vec![self.disk.block_flush_of(put)];
        loop {
            let ticket = put();
            if let Some(refusal) = ticket.refusal() {
                assert_eq!(*refusal, Error::Overloaded);
                return tickets;
            }
            tickets.push(ticket);
        }
    }

    /// Runs calls on a thread of its own while the write buffer is full. They must return before any
    /// flush ends.
    fn while_full(self, calls: impl FnOnce(&mut Filled) + Send + 'static) {
        with_timeout(move || {
            let mut filled = self;
            let tickets = filled.fill();
            let ran = thread::spawn(move || {
                calls(&mut filled);
                filled
            });
            let mut filled = ran.join().unwrap();
            assert!(tickets.iter().all(|ticket| !ticket.is_done()), "a flush has ended");
            filled.disk.unblock_flushes();
            for ticket in tickets {
                ticket.wait().unwrap();
            }
            filled.taken.clear();
            assert_sound(&filled.store);
        });
    }
}

impl Drop for Filled {
    /// A test that has failed ends.
    fn drop(&mut self) {
        self.disk.unblock_flushes();
    }
}

#[test]
fn reads_return_while_the_write_buffer_is_full() {
    Filled::new().while_full(|filled| {
        let Filled { store, tube, ready, child, done, taken, .. } = filled;
        let (ready, child, done, first) = (*ready, *child, *done, &taken[0]);
        // Of a task.
        assert_eq!(tube.query().task(ready).unwrap().body, b"body");
        assert_eq!(block_on(tube.to_async().query().task(ready)).unwrap().body, b"body");
        assert_eq!(tube.query().task_info(ready).unwrap().id, ready);
        assert_eq!(tube.query().history(ready).unwrap().len(), 1);
        assert_eq!(block_on(tube.to_async().query().history(ready)).unwrap().len(), 1);
        assert_eq!(tube.query().steps(first.id()).unwrap().len(), 2);
        assert_eq!(tube.query().first_steps(first.id(), 0).unwrap().1, 2);
        assert_eq!(block_on(tube.to_async().query().steps(first.id())).unwrap().len(), 2);
        assert!(tube.ending(done).unwrap().is_some());
        assert!(block_on(tube.to_async().ending(done)).unwrap().is_some());
        assert!(tube.wait_done(done, secs(60)).unwrap().is_some());
        assert_eq!(tube.query().parents(child).unwrap(), [ready]);
        assert_eq!(tube.query().parent_counts(child).unwrap().open, 1);
        let counts = block_on(tube.to_async().query().parent_counts(child));
        assert_eq!(counts.unwrap().total, 1);
        assert_eq!(tube.query().children(ready).unwrap(), [child]);
        assert!(tube.query().owner(first.id()).unwrap().is_some());
        // Of all tubes.
        assert_eq!(store.by_key("the key").unwrap().unwrap().id, ready);
        assert_eq!(block_on(store.to_async().by_key("the key")).unwrap().unwrap().id, ready);
        assert_eq!(store.find(ready).unwrap().unwrap().tube, "case");
        assert_eq!(block_on(store.to_async().find(ready)).unwrap().unwrap().tube, "case");
        assert_eq!(store.list(Filter::new().tag("red"), None, 9).unwrap().items.len(), 1);
        assert!(store.tags(None, 9).unwrap().is_empty(), "no tag has two tasks");
        assert_eq!(store.tubes().unwrap().len(), 1);
        assert!(store.admin().limits().unwrap().is_empty());
        assert_eq!(store.statistics().unwrap().len(), 1);
        assert!(store.backlog().unwrap().contains_key("case"));
        assert!(store.prometheus().unwrap().contains("tubewell_tasks{tube=\"case\""));
        assert!(store.admin().next_id().unwrap() > ready);
        assert!(!store.owners().unwrap().is_empty());
        let _ = (
            store.admin().counters().unwrap(),
            store.admin().durability().unwrap(),
            store.admin().clock_report().unwrap(),
            store.session("").unwrap(),
        );
        // Of a tube.
        let tube = &store.find_tube("case").unwrap();
        let page = tube.query().list(TaskState::Ready, None, 1).unwrap();
        assert_eq!(page.items[0].id, ready);
        let first_of = |page: tubewell::Page<tubewell::TaskInfo>| page.items[0].id;
        assert_eq!(first_of(tube.query().list(Filter::new().tag("red"), None, 1).unwrap()), ready);
        assert_eq!(tube.query().tasks(Filter::new(), None, 1).unwrap().items.len(), 1);
        assert_eq!(
            tube.query()
                .list(Filter::new().group("smtp").newest_first(), None, 1)
                .unwrap()
                .items
                .len(),
            1
        );
        assert_eq!(tube.query().next(1).unwrap()[0].id, ready);
        assert_eq!(tube.query().groups().unwrap().len(), 1);
        assert_eq!(tube.schedules().list(None, 9).unwrap().items.len(), 1);
        assert!(tube.schedules().get("hourly").unwrap().is_some());
        assert!(tube.query().paused_sub_queues().unwrap().is_empty());
        let today = store.today().unwrap();
        assert!(tube.query().day(today).unwrap().puts > 0);
        assert_eq!(tube.query().days(today..=today).unwrap().len(), 1);
        assert!(tube.statistics().unwrap().tasks.buried == 1);
        assert!(!tube.info().unwrap().paused);
        assert!(tube.wait_ready(secs(60)).unwrap());
        assert!(!tube.wait_drained(secs(0)).unwrap());
        // Of a claim.
        assert!(
            first.is_current().unwrap()
                && first.owner().unwrap().is_some()
                && first.expires_in().unwrap().is_some()
        );
        assert_eq!(first.step("measured", || Err::<u32, _>(Error::Closed)), Ok(7_u32));
        assert_eq!(first.steps().unwrap().len(), 2);
        let first = taken.remove(0).into_async();
        let weighed = first.step("weighed", || async { Err(Error::Closed) });
        assert_eq!(block_on(weighed), Ok(7_u32));
        assert_eq!(block_on(first.steps()).unwrap().len(), 2);
        taken.push(first.into_blocking());
        let session = store.session("").unwrap();
        let own = session.tube(tube).unwrap();
        let held = own.try_take().unwrap().unwrap().detach().info.id;
        assert_eq!(own.claimed(held).unwrap().id(), held);
        own.claimed(held).unwrap().release_in(secs(0)).unwrap();
        // A claim of a chosen task looks it up.
        assert_eq!(tube.claim(ready).unwrap().id(), ready);
        #[cfg(all(debug_assertions, feature = "_peer"))]
        assert_all_reads_met();
    });
}

/// Checks that this thread has made every call that reads, by the list of all calls. The owner of a
/// connection makes its calls on other threads.
#[cfg(all(debug_assertions, feature = "_peer"))]
fn assert_all_reads_met() {
    const EXCEPTIONS: &[&str] = &[
        // Asked by workers, which makes a call of the owner's process.
        "IsTimed",
        // Through connections only: of a detached claim.
        "DescribeHeld",
    ];
    let met = tubewell::calls::met();
    if met.is_empty() {
        return;
    }
    let kinds = include_str!("../../src/core/kinds.txt");
    let reads = kinds
        .lines()
        .filter_map(|line| line.strip_prefix("Read ").or_else(|| line.strip_prefix("Look ")));
    let missed = reads.filter(|name| !met.contains(name) && !EXCEPTIONS.contains(name));
    assert_eq!(missed.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn changes_of_memory_return_while_the_write_buffer_is_full() {
    Filled::new().while_full(|filled| {
        let Filled { store, tube, ready, taken, parked, .. } = filled;
        drop(tube.claim(*ready).unwrap());
        drop(block_on(tube.to_async().claim(*ready)).unwrap());
        tube.try_take().unwrap().unwrap().end(Outcome::snooze(secs(0))).unwrap();
        tube.take_many(1, secs(0)).unwrap().pop().unwrap().release_in(secs(0)).unwrap();
        let claim = taken.pop().unwrap();
        claim.renew(secs(90)).unwrap();
        claim.progress(1, 2).unwrap();
        claim.progress_text("a step").unwrap();
        assert_eq!(tube.admin().revoke(claim.id()), Ok(1));
        assert!(!claim.is_current().unwrap());
        let claim = taken.pop().unwrap();
        let id = claim.detach().info.id;
        tube.claimed(id).and_then(|claim| claim.renew(secs(90))).unwrap();
        tube.claimed(id).and_then(|claim| claim.release_in(secs(0))).unwrap();
        let id = taken.pop().unwrap().detach().info.id;
        tube.claimed(id).and_then(|claim| claim.end(Outcome::snooze(secs(0)))).unwrap();
        let session = store.session("worker").unwrap();
        session.describe("kind", "metadata").unwrap();
        let resumed = session.resume_claim(parked).unwrap();
        drop(store.resume_session(session.id()).unwrap());
        drop(resumed);
        session.end().unwrap();
        // Waits that end, or are given up.
        assert_eq!(tube.wait_done(*ready, secs(0)).unwrap(), None);
        drop(tube.to_async().take_timeout(Duration::MAX));
        assert!(tube.admin().revoke(Filter::new()).unwrap() > 0);
        taken.clear();
    });
}

/// A call that is refused while the write buffer is full is one that needs space.
#[test]
fn deferred_changes_of_memory_are_not_refused_while_the_write_buffer_is_full() {
    Filled::new().while_full(|filled| {
        let Filled { store, taken, .. } = filled;
        // The tickets of a connection may be answered in any order: one after the other.
        let deferred = store.find_tube("case").unwrap().to_async().refuse_when_full();
        assert_eq!(deferred.admin().revoke(taken.pop().unwrap().id()).wait(), Ok(1));
        let id = taken.pop().unwrap().detach().info.id;
        deferred.claimed(id).wait().unwrap().release_in(secs(0)).wait().unwrap();
        let id = taken.pop().unwrap().detach().info.id;
        deferred.claimed(id).wait().unwrap().end(Outcome::snooze(secs(0))).wait().unwrap();
        let refused = deferred.put("x").wait();
        assert_eq!(refused.map(drop), Err(Error::Overloaded));
    });
}
