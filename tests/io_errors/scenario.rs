//! Two runs of a store, always the same calls, on a disk that may fail in any of them.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Result, State, Store,
    StoreOptions, TakeFuture, Tube, TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

use crate::disk::Disk;
use crate::expected::{Expected, Stored};

/// What ends a run of the store while the disk may still fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The disk works again, and the open store resumes.
    InPlace,
    /// The store is closed while the disk fails.
    Closed,
}

/// The time that passes after each call.
const STEP: Duration = Duration::from_millis(30);
/// Longer than the store waits before it tries a failed disk again.
const RETRY_TIME: Duration = Duration::from_secs(30);

/// Runs the scenario. Panics if an assertion fails.
pub fn run(disk: &Arc<Disk>, end: End) {
    let mut scenario = Scenario {
        disk: disk.clone(),
        clock: ManualClock::new(),
        store: None,
        expected: Expected::default(),
        waiting: None,
        puts: 0,
    };
    scenario.run(end, Scenario::first_run);
    scenario.run(end, Scenario::second_run);
    scenario.check_final();
}

struct Scenario {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Option<Store>,
    expected: Expected,
    waiting: Option<(TakeFuture, Arc<WakeFlag>)>,
    puts: u32,
}

impl Scenario {
    /// One run of the store: opens it, makes these calls, closes it.
    fn run(&mut self, end: End, calls: fn(&mut Scenario)) {
        match self.open() {
            Ok(store) => self.store = Some(store),
            Err(error) => {
                assert_is_storage_error(&error);
                // A failed open changes nothing: the next one finds every flushed change.
                self.disk.repair();
                self.store = Some(self.open().unwrap());
                self.clock.advance(STEP * 2);
                let mut expected = self.expected.clone();
                expected.check_and_adopt(self.store());
                self.expected = expected;
            }
        }
        calls(self);
        if end == End::InPlace {
            self.recover();
        }
        self.close();
    }

    fn open(&self) -> Result<Store> {
        let options: StoreOptions = Store::options().clock(&self.clock).cache_size(1 << 16);
        options.open_on(self.disk.storage())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Calls every verb on a tube of every driver.
    fn first_run(&mut self) {
        self.expected.add_temporary_tube("memory");
        for (name, driver, options) in [
            ("fifo", FIFO, TubeOptions::new()),
            ("fifottl", FIFOTTL, TubeOptions::new().ttr(Duration::from_secs(3600))),
            ("utube", UTUBE, TubeOptions::new()),
            ("utubettl", UTUBETTL, TubeOptions::new().durability(Durability::relaxed())),
            ("limfifottl", LIMFIFOTTL, TubeOptions::new().capacity(4)),
            ("memory", FIFOTTL, TubeOptions::new().temporary(true)),
            ("idle", FIFO, TubeOptions::new()),
        ] {
            self.create(name, driver, options);
        }
        for round in 0..3 {
            for name in ["fifo", "fifottl", "utube", "utubettl", "limfifottl", "memory"] {
                self.put(name, false);
                self.put(name, round == 1);
                self.put_deferred(name);
                self.start_waiting_take();
                self.take_then(name, AfterTake::Ack);
                self.take_then(name, AfterTake::Bury);
                self.take_then(name, AfterTake::Drop);
            }
            self.put_many("utube");
            self.take_then("fifottl", AfterTake::ReleaseLater);
            self.take_then("limfifottl", AfterTake::ReleaseLater);
            self.take_then("utubettl", AfterTake::Touch);
            self.kick("fifo");
            self.kick("utubettl");
        }
        self.flush();
    }

    /// Batches, truncated and dropped tubes, and calls on what the first run left.
    fn second_run(&mut self) {
        self.put_many("fifo");
        self.take_then("fifottl", AfterTake::ReleaseLater);
        self.take_then("utube", AfterTake::Ack);
        self.delete("utubettl");
        self.truncate("fifottl");
        self.put("fifottl", false);
        self.drop_tube("idle");
        self.drop_tube("utube");
        self.put_many("limfifottl");
        self.flush();
        self.take_then("fifo", AfterTake::Ack);
    }

    /// Repairs the disk. The store must resume without a call.
    fn recover(&mut self) {
        self.disk.repair();
        self.clock.advance(RETRY_TIME);
        self.store().flush().unwrap();
        self.expected.mark_flushed();
        assert_eq!(self.store().verify().unwrap(), [""; 0]);
        self.expected.check(self.store());
        self.check_ready_tasks_are_takeable();
    }

    /// Every ready task can be taken: all of them, or one of each sub-queue.
    fn check_ready_tasks_are_takeable(&self) {
        for info in self.store().tubes() {
            let tube = self.store().tube(&info.name).unwrap();
            let ready = tube.list(State::Ready, None, 1000).unwrap().tasks;
            let subs: BTreeSet<_> = ready.iter().map(|task| task.sub_queue.clone()).collect();
            let takeable = if info.name.starts_with("utube") { subs.len() } else { ready.len() };
            let claims = tube.take_many(1000, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), takeable, "{}", info.name);
        }
    }

    fn close(&mut self) {
        self.waiting = None;
        let closed = self.store.take().unwrap().close();
        match closed {
            Ok(()) => self.expected.mark_reopened(),
            Err(error) => {
                assert_is_storage_error(&error);
                self.disk.repair();
                let store = self.open().unwrap();
                self.clock.advance(STEP * 2);
                assert_eq!(store.verify().unwrap(), [""; 0]);
                self.expected.check_and_adopt(&store);
                store.close().unwrap();
                self.expected.mark_reopened();
            }
        }
    }

    /// After a clean close, a power cut loses nothing.
    fn check_final(&mut self) {
        self.disk.repair();
        for disk in [self.disk.clone(), self.disk.after_power_cut()] {
            let store = Store::options().clock(&self.clock).open_on(disk.storage()).unwrap();
            self.clock.advance(STEP * 2);
            assert_eq!(store.verify().unwrap(), [""; 0]);
            self.expected.check(&store);
        }
    }

    // ---- verbs

    fn create(&mut self, name: &str, driver: &str, options: TubeOptions) {
        let created = self.store().create_tube(name, driver, options).map(drop);
        self.record(created, true, |expected| expected.change(name, "", Stored::Ready));
    }

    fn put(&mut self, name: &str, large: bool) {
        let Some(tube) = self.tube(name) else { return };
        let body = self.body(large);
        let put = tube.put(self.new_put(name, &body)).map(drop);
        self.record(put, is_durable(name), |expected| {
            expected.change(name, label(&body), Stored::Ready);
        });
    }

    fn put_many(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let bodies = [self.body(false), self.body(true), self.body(false)];
        let put = tube.put_many(bodies.iter().map(|body| self.new_put(name, body))).map(drop);
        self.record(put, is_durable(name), |expected| {
            for body in &bodies {
                expected.change(name, label(body), Stored::Ready);
            }
        });
    }

    fn put_deferred(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let body = self.body(false);
        let ticket = tube.deferred(WhenFull::Block).put(self.new_put(name, &body));
        let put = ticket.and_then(tubewell::Ticket::wait).map(drop);
        self.record(put, is_durable(name), |expected| {
            expected.change(name, label(&body), Stored::Ready);
        });
    }

    fn take_then(&mut self, name: &str, then: AfterTake) {
        let Some(tube) = self.tube(name) else { return };
        let claim = match tube.try_take() {
            Ok(Some(claim)) => claim,
            Ok(None) => return,
            Err(error) => return self.record(Err(error), false, |_| {}),
        };
        let body = String::from_utf8(claim.data().to_vec()).unwrap();
        let body = label(&body);
        assert!(
            self.expected.bodies(name, Stored::Ready).iter().any(|known| known == body),
            "{body}"
        );
        let (done, state) = match then {
            AfterTake::Ack => (claim.ack().map(drop), Stored::Absent),
            AfterTake::Bury => (claim.bury().map(drop), Stored::Buried),
            AfterTake::ReleaseLater => (claim.release(STEP * 2).map(drop), Stored::Delayed),
            AfterTake::Touch => (claim.touch(Duration::from_secs(1)).map(drop), Stored::Ready),
            AfterTake::Drop => return drop(claim),
        };
        self.record(done, is_durable(name), |expected| {
            expected.change(name, body, state);
            if state == Stored::Delayed {
                // The delay has elapsed before the next check.
                expected.change(name, body, Stored::Ready);
            }
        });
    }

    fn kick(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let kicked = tube.kick(100).map(drop);
        self.record(kicked, is_durable(name), |expected| {
            expected.change_all(name, Some(Stored::Buried), Stored::Ready);
        });
    }

    fn delete(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let Ok(page) = tube.list(State::Ready, None, 1) else { return };
        let Some(task) = page.tasks.first() else { return };
        let Ok(found) = tube.peek(task.id) else { return };
        let body = String::from_utf8(found.data).unwrap();
        let deleted = tube.delete(task.id).map(drop);
        self.record(deleted, is_durable(name), |expected| {
            expected.change(name, label(&body), Stored::Absent);
        });
    }

    fn truncate(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let truncated = tube.truncate();
        self.record(truncated, true, |expected| expected.change_all(name, None, Stored::Absent));
    }

    fn drop_tube(&mut self, name: &str) {
        if self.tube(name).is_none() {
            return;
        }
        self.waiting = None;
        let dropped = self.store().drop_tube(name);
        self.record(dropped, true, |expected| {
            expected.change_all(name, None, Stored::Absent);
            expected.change(name, "", Stored::Absent);
        });
    }

    fn flush(&mut self) {
        let flushed = self.store().flush().map(drop);
        self.record(flushed, true, |_| {});
    }

    /// Starts a take that waits on a tube which gets no task.
    fn start_waiting_take(&mut self) {
        if self.waiting.is_some() {
            return;
        }
        let Ok(tube) = self.store().tube("idle") else { return };
        let woken = Arc::new(WakeFlag(AtomicBool::new(false)));
        let mut waiting = tube.take_async(None);
        let waker = Waker::from(woken.clone());
        match pin!(&mut waiting).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.waiting = Some((waiting, woken)),
            Poll::Ready(Err(error)) => assert_is_storage_error(&error),
            Poll::Ready(Ok(claim)) => panic!("{claim:?}"),
        }
    }

    // ---- outcomes

    /// Records the changes of a call according to its result, then lets one step of time pass.
    #[track_caller]
    fn record(&mut self, result: Result<()>, durable: bool, change: impl Fn(&mut Expected)) {
        match &result {
            Ok(()) => {
                change(&mut self.expected);
                if durable {
                    self.expected.mark_flushed();
                }
            }
            Err(Error::OutcomeUnknown { .. }) => change(&mut self.expected),
            Err(error) => assert_is_storage_error(error),
        }
        if result.is_err() {
            self.check_waiting_take();
        }
        self.clock.advance(STEP);
    }

    /// If the store has failed, the waiting take must be woken and return `Unavailable`.
    #[track_caller]
    fn check_waiting_take(&mut self) {
        if self.store().flush().is_ok() {
            return;
        }
        let Some((mut waiting, woken)) = self.waiting.take() else { return };
        assert!(woken.0.load(Ordering::SeqCst), "the store has failed; the take was not woken");
        let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(Error::Unavailable { .. }))), "{polled:?}");
    }

    fn tube(&self, name: &str) -> Option<Tube> {
        match self.store().tube(name) {
            Ok(tube) => Some(tube),
            Err(Error::TubeNotFound { .. }) => None,
            Err(error) => {
                assert_is_storage_error(&error);
                None
            }
        }
    }

    fn body(&mut self, large: bool) -> String {
        self.puts += 1;
        // The largest does not fit in the journal: its commit empties the journal into the tables.
        let length = match large {
            true if self.puts.is_multiple_of(4) => 270_000,
            true => 5000,
            false => 20,
        };
        format!("b{}.{}", self.puts, "x".repeat(length))
    }

    fn new_put(&self, name: &str, body: &str) -> Put {
        let put = Put::new(body);
        if name.starts_with("utube") { put.sub_queue(format!("s{}", self.puts % 3)) } else { put }
    }
}

#[derive(Clone, Copy, Debug)]
enum AfterTake {
    Ack,
    Bury,
    ReleaseLater,
    Touch,
    Drop,
}

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<WakeFlag>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Asserts that the error is one that a failing disk may cause.
#[track_caller]
fn assert_is_storage_error(error: &Error) {
    let allowed = matches!(
        error,
        Error::OutcomeUnknown { .. }
            | Error::Unavailable { .. }
            | Error::Io { .. }
            | Error::Full { .. }
            | Error::Corrupt { .. }
    );
    assert!(allowed, "{error:?}");
}

fn is_durable(name: &str) -> bool {
    !matches!(name, "utubettl" | "memory")
}

fn label(body: &str) -> &str {
    body.split('.').next().unwrap()
}
