//! Calls of the disk fail, during the closure or during the commit: a transaction has all of its
//! effects or none, now, after a kill and after a power cut, and the store goes on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::expert::Storage;
use tubewell::{
    Claim, Durability, Ending, Error, FIFO, FIFOTTL, Failure, Filter, Keep, ManualClock, Outcome,
    Put, Result, Store, TaskState, Tube, TubeOptions, UTUBE,
};

use super::support::{serve, served};
use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::size::amount;

/// Longer than the store waits before it tries a failed disk again.
const RETRY_TIME: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

struct Run {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Store,
    /// Claims in the order of `effects`.
    claims: Vec<Claim>,
    /// The id of the task that the transaction has put.
    put: Option<u64>,
    /// Tasks that the transaction deletes: ready, delayed, buried, done, taken.
    deleted: Vec<u64>,
}

/// The states of the tasks that the transaction deletes, before it; the last one is taken, or ready again.
const BEFORE: [TaskState; 5] =
    [TaskState::Ready, TaskState::Delayed, TaskState::Buried, TaskState::Done, TaskState::Taken];

impl Run {
    fn begin() -> Run {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = Store::options().clock(&clock).cache_size(0).open_on(disk.storage()).unwrap();
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let mut claims = Vec::new();
        for (name, driver, options) in [
            ("plain", FIFO, TubeOptions::new()),
            ("kept", FIFO, TubeOptions::new().keep_done(Keep::new().count(1)).max_attempts(5)),
            ("late", FIFOTTL, relaxed.clone()),
            ("sub", UTUBE, TubeOptions::new()),
            ("broken", FIFOTTL, TubeOptions::new().keep_buried(Keep::new().count(1))),
        ] {
            let tube = store.create_tube(name, options.history(4).driver(driver)).unwrap();
            let put = |body: &str| {
                let put = Put::new(body.repeat(700)).tag("all").tag(name);
                if driver == UTUBE { put.sub_queue("one") } else { put }
            };
            tube.put_many(["a", "b", "c"].map(put)).unwrap();
            let first = tube.try_take().unwrap().unwrap();
            match name {
                "kept" => drop(first.end(Outcome::result("first")).unwrap()),
                "broken" => drop(first.bury(Failure::new("first", "")).unwrap()),
                _ => drop(first.release().unwrap()),
            }
            claims.push(tube.try_take().unwrap().unwrap());
        }
        store.create_tube("next", relaxed.history(4).driver(UTUBE)).unwrap();
        let deleted = put_to_delete(&store);
        store.transact(|tx| serve(tx, "bob")).unwrap();
        // The journal has edits that the database has not.
        store.find_tube("plain").unwrap().put("d").unwrap();
        Run { disk, clock, store, claims, put: None, deleted }
    }

    fn transact(&mut self) -> Result<()> {
        let [plain, kept, late, sub, broken] = &self.claims[..] else { unreachable!() };
        let tube = |name| self.store.find_tube(name).unwrap();
        let (next, deleted) = (tube("next"), tube("deleted"));
        let put = &mut self.put;
        self.store.transact(|tx| {
            serve(tx, "ann")?;
            tx.end(plain, Outcome::done())?;
            self.deleted.iter().try_for_each(|id| tx.delete(&deleted, *id))?;
            tx.end(kept, Outcome::result("second"))?;
            tx.end(late, Outcome::release_in(HOUR))?;
            tx.end(sub, Outcome::done())?;
            tx.end(broken, Outcome::bury(Failure::new("second", "no answer")))?;
            *put = Some(
                tx.put(&next, Put::new(vec![7; 3000]).sub_queue("one").tag("all").tag("new"))?,
            );
            Ok(())
        })
    }

    /// Whether a store has all effects; panics if it has some. `taken`: what a task is whose claim
    /// stands.
    fn has_effects(&self, store: &Store, what: &str) -> bool {
        assert_eq!(store.admin().verify().unwrap(), [""; 0], "{what}");
        let all = served(store, "ann") == 1;
        assert_eq!(served(store, "bob"), 1, "{what}");
        let tube = |name: &str| store.find_tube(name).unwrap();
        let state =
            |claim: &Claim| tube(claim.tube()).query().task(claim.id()).map(|it| it.info.state);
        let [plain, kept, late, sub, broken] = &self.claims[..] else { unreachable!() };
        for gone in [plain, sub] {
            let expected = Err(Error::NotFound { id: gone.id() });
            assert_eq!(state(gone) == expected, all, "{what}: {:?}", state(gone));
        }
        let body = tube("plain").query().task(plain.id()).map(|it| it.body == b"a".repeat(700));
        assert!(body.unwrap_or(all), "{what}: the body of a task");
        let result = Some(Ending::Done { result: Some(b"second".to_vec()) });
        assert_eq!(tube("kept").ending(kept.id()).unwrap() == result, all, "{what}");
        assert_eq!(state(late) == Ok(TaskState::Delayed), all, "{what}");
        for (claim, ended) in
            [(kept, TaskState::Done), (late, TaskState::Delayed), (broken, TaskState::Buried)]
        {
            let last = tube(claim.tube()).query().history(claim.id()).unwrap().pop().unwrap();
            assert_eq!(last.state == ended, all, "{what}: {last:?}");
        }
        assert_eq!(state(broken) == Ok(TaskState::Buried), all, "{what}");
        let groups = tube("broken").query().groups().unwrap();
        let name = if all { "second" } else { "first" };
        assert_eq!(groups.iter().map(|it| &*it.name).collect::<Vec<_>>(), [name], "{what}");
        for (id, before) in self.deleted.iter().zip(BEFORE) {
            match tube("deleted").query().task(*id).map(|it| (it.info.state, it.body.len())) {
                Err(Error::NotFound { .. }) => assert!(all, "{what}: task {id}"),
                Ok((TaskState::Ready, 2000)) if before == TaskState::Taken => {
                    assert!(!all, "{what}: task {id}");
                }
                found => assert_eq!((all, found), (false, Ok((before, 2000))), "{what}: task {id}"),
            }
        }
        if let Some(put) = self.put {
            let found = tube("next").query().task(put).map(|it| it.body.len());
            assert_eq!(found == Ok(3000), all, "{what}: {found:?}");
        }
        assert_eq!(tube("next").statistics().unwrap().tasks.total, u64::from(all), "{what}");
        all
    }
}

/// Puts the tasks that the transaction deletes.
fn put_to_delete(store: &Store) -> Vec<u64> {
    let options = TubeOptions::new().keep_done(Keep::new()).history(4).driver(FIFOTTL);
    let tube = store.create_tube("deleted", options).unwrap();
    let put = |delay| Put::new(vec![9; 2000]).tag("all").delay(delay);
    let delays = [Duration::ZERO, HOUR, Duration::ZERO, Duration::ZERO, Duration::ZERO];
    let puts = tube.put_many(delays.map(put)).unwrap();
    let ids: Vec<u64> = puts.iter().map(|receipt| receipt.id).collect();
    tube.claim(ids[2]).unwrap().bury(Failure::new("first", "")).unwrap();
    tube.claim(ids[3]).unwrap().end(Outcome::result("first")).unwrap();
    _ = tube.claim(ids[4]).unwrap().detach();
    ids
}

/// What a run has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    NoFailure,
    Done,
    Refused,
    /// The commit has failed, and the file has the transaction.
    UnknownAndDone,
    /// The commit has failed, and the transaction was taken back.
    UnknownAndTakenBack,
}

/// One run in which a call of the disk fails.
fn run(plan: Plan, with_later_call: bool) -> Shown {
    let mut run = Run::begin();
    run.disk.fail(plan);
    let result = run.transact();
    let failed = run.disk.has_failed();
    let what = format!("{plan:?}: {result:?}");
    match &result {
        Ok(()) | Err(Error::OutcomeUnknown { .. }) => {}
        Err(Error::Unavailable { .. } | Error::Io { .. } | Error::Corrupt { .. }) => {
            assert!(failed, "{what}");
        }
        Err(error) => panic!("{what}: {error:?}"),
    }
    if with_later_call {
        // Refused, or decided above the transaction.
        let _ = run.store.find_tube("plain").and_then(|plain| plain.put("later"));
    }
    for (copy, kind) in [(run.disk.after_kill(), "kill"), (run.disk.after_power_cut(), "cut")] {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_on(copy.storage()).unwrap();
        let has = run.has_effects(&store, &format!("{what}, after a {kind}"));
        match result {
            Ok(()) => assert!(has, "{what}, after a {kind}"),
            Err(Error::OutcomeUnknown { .. }) => {}
            Err(_) => assert!(!has, "{what}, after a {kind}"),
        }
    }
    run.disk.repair();
    run.clock.advance(RETRY_TIME);
    let has = run.has_effects(&run.store, &what);
    match result {
        Ok(()) => assert!(has, "{what}"),
        Err(Error::OutcomeUnknown { .. }) => {}
        Err(_) => assert!(!has, "{what}"),
    }
    // A transaction that the store has decided has ended the claims, whether or not it is committed.
    let has_decided = matches!(result, Ok(()) | Err(Error::OutcomeUnknown { .. }));
    for claim in &run.claims {
        assert_eq!(claim.is_current().unwrap(), !has_decided, "{what}");
    }
    goes_on(run, has, &what);
    match result {
        _ if !failed => Shown::NoFailure,
        Ok(()) => Shown::Done,
        Err(Error::OutcomeUnknown { .. }) if has => Shown::UnknownAndDone,
        Err(Error::OutcomeUnknown { .. }) => Shown::UnknownAndTakenBack,
        Err(_) => Shown::Refused,
    }
}

/// The tasks are taken again, or not, and the store works.
fn goes_on(mut run: Run, has: bool, what: &str) {
    let store = &run.store.clone();
    if !has && !run.claims[0].is_current().unwrap() {
        let again = store.find_tube("plain").unwrap().try_take().unwrap().unwrap();
        assert_eq!((again.id(), again.takes()), (run.claims[0].id(), 3), "{what}");
        store
            .transact(|tx| serve(tx, "carl").and_then(|()| tx.end(&again, Outcome::done())))
            .unwrap();
        assert_eq!(served(store, "carl"), 1, "{what}");
        let sub = store.find_tube("sub").unwrap().try_take().unwrap().unwrap();
        assert_eq!(sub.id(), run.claims[3].id(), "{what}: its sub-queue is free");
        sub.ack().unwrap();
    }
    run.claims.clear();
    let first = store.find_tube("deleted").unwrap().try_take().unwrap();
    let expected = (!has).then_some(run.deleted[0]);
    assert_eq!(first.map(|claim| claim.id()), expected, "{what}");
    for name in ["plain", "kept", "late", "sub", "broken", "next"] {
        let tube = store.find_tube(name).unwrap();
        let put = Put::new("more");
        tube.put(if matches!(name, "sub" | "next") { put.sub_queue("one") } else { put }).unwrap();
        while let Some(claim) = tube.try_take().unwrap() {
            claim.ack().unwrap();
        }
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!(tasks.ready, 0, "{what}: {name} {tasks:?}");
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0], "{what}");
}

/// One run for each call of this kind, or for a sample. Returns what they have shown.
fn fail_each_call(kind: Kind, step: usize) -> Vec<Shown> {
    let step = amount(step, step, 1);
    let mut shown = Vec::new();
    for fault in Fault::ALL {
        for lasting in [false, true] {
            let run = |nth: usize| {
                let plan = Plan { kind, nth: nth as u64, fault, lasting };
                run(plan, nth.is_multiple_of(2))
            };
            let first = 1 + shown.len() % step;
            let runs = (first..100_000).step_by(step).map(run);
            shown.extend(runs.take_while(|shown| *shown != Shown::NoFailure));
        }
    }
    println!("{kind:?}: {} runs", shown.len());
    shown
}

#[test]
fn transaction_without_failures_passes() {
    let plan = Plan { kind: Kind::Any, nth: u64::MAX, fault: Fault::Device, lasting: false };
    assert_eq!(run(plan, true), Shown::NoFailure);
}

#[test]
fn failed_write_leaves_all_or_nothing() {
    let shown = fail_each_call(Kind::Write, 2);
    for expected in [Shown::Refused, Shown::UnknownAndTakenBack, Shown::UnknownAndDone] {
        assert!(shown.contains(&expected), "{expected:?}");
    }
}

#[test]
fn failed_flush_leaves_all_or_nothing() {
    // What a failed flush may have left is not trusted, so the transaction is taken back.
    assert!(fail_each_call(Kind::Sync, 1).contains(&Shown::UnknownAndTakenBack));
}

#[test]
fn failed_read_or_growth_leaves_all_or_nothing() {
    assert!(fail_each_call(Kind::Read, 13).contains(&Shown::Refused));
    fail_each_call(Kind::SetLen, 1);
}

/// A close while the disk fails, or when it works again: the next run has all or nothing.
#[test]
fn close_after_a_failed_commit_leaves_all_or_nothing() {
    let close = |nth: u64, is_repaired: bool| {
        let mut run = Run::begin();
        let fault = Fault::Device;
        run.disk.fail(Plan { kind: Kind::Write, nth, fault, lasting: true });
        let result = run.transact();
        let failed = run.disk.has_failed();
        if is_repaired {
            run.disk.repair();
        }
        let closed = run.store.close();
        assert!(closed.is_ok() || !is_repaired, "write {nth}: {closed:?}");
        run.disk.repair();
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_on(run.disk.storage()).unwrap();
        let has = run.has_effects(&store, &format!("write {nth}: {result:?}"));
        assert!(has || result.is_err(), "write {nth}");
        failed
    };
    for is_repaired in [false, true] {
        let runs = (1..100_000).step_by(3).take_while(|nth| close(*nth, is_repaired)).count();
        assert!(runs > 3, "{runs} runs");
    }
}

/// A storage whose first write to the database after `arm` is blocked, and fails then.
#[derive(Debug)]
struct BlockingStorage {
    disk: Arc<Disk>,
    storage: Box<dyn Storage>,
    armed: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
    begun: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Storage for BlockingStorage {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset >= 1 << 20 && self.armed.swap(false, Ordering::SeqCst) {
            self.begun.lock().unwrap().send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
            if self.fails.load(Ordering::SeqCst) {
                let (kind, fault) = (Kind::Write, Fault::Device);
                self.disk.fail(Plan { kind, nth: 1, fault, lasting: true });
            }
        }
        self.storage.write(offset, data)
    }
}

/// A store whose first write to the database after `armed` is blocked, and fails then.
pub struct Blocked {
    pub disk: Arc<Disk>,
    pub clock: ManualClock,
    pub store: Store,
    pub armed: Arc<AtomicBool>,
    pub has_begun: Receiver<()>,
    pub go_on: Sender<()>,
    /// Whether the write fails: true at first.
    pub fails: Arc<AtomicBool>,
}

impl Blocked {
    pub fn begin() -> Blocked {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel();
        let [armed, fails] = [false, true].map(|it| Arc::new(AtomicBool::new(it)));
        let storage = BlockingStorage {
            disk: disk.clone(),
            storage: disk.storage(),
            armed: armed.clone(),
            fails: fails.clone(),
            begun: Mutex::new(begun),
            go_on: Mutex::new(may_go_on),
        };
        let store = Store::options().clock(&clock).open_on(Box::new(storage)).unwrap();
        Blocked { disk, clock, store, armed, has_begun, go_on, fails }
    }
}

/// Lets a store whose disk is repaired resume. The writer thread may report a failure of the journal
/// later than the transaction reports its own: then the store tries the disk once more.
pub fn resume(store: &Store, clock: &ManualClock) {
    for _ in 0..1000 {
        clock.advance(RETRY_TIME);
        if store.flush().is_ok() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the store does not resume");
}

/// Other calls are decided while the commit is written, above its effects. The commit fails, and
/// they stand.
#[test]
fn calls_decided_above_a_failed_transaction_stand() {
    let Blocked { disk, clock, store, armed, has_begun, go_on, .. } = Blocked::begin();
    let relaxed = || TubeOptions::new().durability(Durability::relaxed());
    let sub = store.create_tube("sub", relaxed().driver(UTUBE)).unwrap();
    let kept =
        store.create_tube("kept", relaxed().keep_done(Keep::new().count(1)).driver(FIFO)).unwrap();
    let gone = store.create_tube("gone", relaxed().driver(FIFO)).unwrap();
    let one = |body: &'static str| Put::new(body).sub_queue("one");
    sub.put_many([one("a"), one("b")]).unwrap();
    kept.put_many(["a", "b", "c"]).unwrap();
    gone.put("a").unwrap();
    let late = store.create_tube("late", relaxed().driver(FIFOTTL)).unwrap();
    late.put_many(["a", "b"]).unwrap();
    let take = |tube: &Tube| tube.try_take().unwrap().unwrap();
    take(&kept).end(Outcome::result("first")).unwrap();
    let claims = [take(&sub), take(&kept), take(&gone)];
    let released = [take(&late), take(&late)];
    store.flush().unwrap();
    let mut put = None;
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            store.transact(|tx| -> Result<()> {
                serve(tx, "ann")?;
                put = Some(tx.put(&sub, one("never"))?);
                // Only the commit writes: the engine keeps pages in memory until then.
                armed.store(true, Ordering::SeqCst);
                released.iter().try_for_each(|claim| tx.end(claim, Outcome::release_in(HOUR)))?;
                claims.iter().try_for_each(|claim| tx.end(claim, Outcome::result("second")))
            })
        });
        has_begun.recv().unwrap();
        // The first of its sub-queue, behind the one that is put.
        sub.put(one("later")).unwrap();
        sub.put(Put::new("later").sub_queue("two")).unwrap();
        let other = take(&kept);
        other.end(Outcome::result("third")).unwrap();
        gone.put("later").unwrap();
        late.delete(released[0].id()).unwrap();
        drop(gone.to_async().admin().truncate());
        go_on.send(()).unwrap();
        assert!(matches!(ended.join().unwrap(), Err(Error::OutcomeUnknown { .. })));
    });
    disk.repair();
    resume(&store, &clock);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(served(&store, "ann"), 0);
    assert_eq!(sub.query().task(put.unwrap()), Err(Error::NotFound { id: put.unwrap() }));
    let again = take(&sub);
    assert_eq!((again.id(), again.body(), again.takes()), (claims[0].id(), &b"a"[..], 2));
    let bodies = |tube: &Tube| {
        let tasks = tube.query().list(TaskState::Ready, None, 9).unwrap().items;
        tasks.iter().map(|task| tube.query().task(task.id).unwrap().body).collect::<Vec<_>>()
    };
    again.ack().unwrap();
    assert_eq!(bodies(&sub), [&b"b"[..], b"later", b"later"]);
    assert_eq!(bodies(&kept), [b"b"]);
    assert_eq!(bodies(&late), [b"b"]);
    drop((sub, kept, gone, late, claims, released));
    store.close().unwrap();
    let store = Store::options().open_on(disk.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// A task whose release fails has moved meanwhile, and another task has the key of one whose ack
/// fails. Both are as before the transaction, and no id and no key is there twice.
#[test]
fn tasks_and_keys_are_there_once_after_moves_above_a_failed_transaction() {
    let Blocked { disk, clock, store, armed, has_begun, go_on, .. } = Blocked::begin();
    let tube = |name: &str| {
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        store.create_tube(name, relaxed.driver(FIFO)).unwrap()
    };
    let (work, other) = (tube("work"), tube("other"));
    let moved = work.put(Put::new("moved").tag("all")).unwrap().id;
    let named = work.put(Put::new("named").key("k").tag("all")).unwrap().id;
    let claims = work.take_many(2, Duration::MAX).unwrap();
    store.flush().unwrap();
    let mut later = None;
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            store.transact(|tx| -> Result<()> {
                serve(tx, "ann")?;
                armed.store(true, Ordering::SeqCst);
                tx.end(&claims[0], Outcome::release())?;
                tx.end(&claims[1], Outcome::done())
            })
        });
        has_begun.recv().unwrap();
        drop(work.to_async().admin().move_to(&other, moved));
        later = Some(store.admin().next_id().unwrap());
        drop(other.to_async().put(Put::new("later").key("k").tag("all")));
        go_on.send(()).unwrap();
        assert!(matches!(ended.join().unwrap(), Err(Error::OutcomeUnknown { .. })));
    });
    disk.repair();
    resume(&store, &clock);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(served(&store, "ann"), 0);
    let with_key = store.by_key("k").unwrap().map(|task| (task.tube, task.id));
    assert_eq!(with_key, later.map(|id| ("other".to_owned(), id)));
    let tagged = store.list(Filter::new().tag("all"), None, 9).unwrap().items;
    let tagged: Vec<u64> = tagged.iter().map(|task| task.id).collect();
    assert_eq!(tagged, [Some(moved), Some(named), later].into_iter().flatten().collect::<Vec<_>>());
    let ids = |tube: &Tube| {
        let tasks = tube.query().list(TaskState::Ready, None, 9).unwrap().items;
        tasks.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!((ids(&work), ids(&other)), (vec![moved, named], later.into_iter().collect()));
    for (tube, tasks) in [(&work, 2), (&other, 1)] {
        assert_eq!(tube.statistics().unwrap().tasks.total, tasks);
        for claim in tube.take_many(9, Duration::MAX).unwrap() {
            claim.ack().unwrap();
        }
    }
    drop((work, other, claims));
    store.close().unwrap();
    let store = Store::options().open_on(disk.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}
