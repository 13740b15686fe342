//! Two runs of a store, always the same calls, on a disk that may fail in any of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    AsyncClaim, ClaimToken, Durability, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Result, Store,
    StoreOptions, TaskInfo, TaskState, Ticket, TubeOptions, UTUBE, UTUBETTL,
};

use crate::disk::Disk;
use crate::expected::Expected;
use crate::support::{RETRY_TIME, assert_is_storage_error};
use crate::verbs::{AfterResume, AfterTake, WakeFlag};

/// What ends a run of the store while the disk may still fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The disk works again, and the open store resumes.
    InPlace,
    /// The store is closed while the disk fails.
    Closed,
}

/// The wall clock's time at the start of the scenario.
const START: Duration = Duration::from_secs(1_767_225_600);
/// The time that passes after each call.
pub(super) const STEP: Duration = Duration::from_millis(30);

/// Runs the scenario. Panics if an assertion fails. `with_copies`: checks what a kill and a power cut
/// would leave in the middle of it, which takes as long as the rest.
pub fn run(disk: &Arc<Disk>, end: End, with_copies: bool) {
    let mut scenario = Scenario {
        disk: disk.clone(),
        with_copies,
        clock: ManualClock::at(START),
        store: None,
        expected: Expected::default(),
        waiting: None,
        puts: 0,
        tokens: Vec::new(),
    };
    scenario.run(end, Scenario::first_run);
    scenario.run(end, Scenario::second_run);
    scenario.check_final();
}

pub(super) struct Scenario {
    pub(super) disk: Arc<Disk>,
    with_copies: bool,
    pub(super) clock: ManualClock,
    pub(super) store: Option<Store>,
    pub(super) expected: Expected,
    pub(super) waiting: Option<(Ticket<Option<AsyncClaim>>, Arc<WakeFlag>)>,
    pub(super) puts: u32,
    /// The body's label and the token of each claim that was parked.
    pub(super) tokens: Vec<(String, ClaimToken)>,
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

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Calls every verb on a tube of every driver.
    fn first_run(&mut self) {
        self.expected.add_temporary_tube("memory");
        let hour = Duration::from_secs(3600);
        let written = TubeOptions::new().durability(Durability::write());
        let unflushed = TubeOptions::new().durability(Durability::Write { flush_within: hour });
        for (name, driver, options) in [
            ("fifo", FIFO, TubeOptions::new()),
            ("fifottl", FIFOTTL, TubeOptions::new().ttr(hour)),
            ("utube", UTUBE, TubeOptions::new()),
            ("utubettl", UTUBETTL, TubeOptions::new().durability(Durability::relaxed())),
            ("limfifottl", LIMFIFOTTL, TubeOptions::new().capacity(4)),
            ("memory", FIFOTTL, TubeOptions::new().temporary(true)),
            ("idle", FIFO, TubeOptions::new()),
            ("written", FIFO, written),
            ("utubewritten", UTUBETTL, unflushed),
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
            self.put("written", round == 1);
            self.put("written", false);
            self.put_deferred("utubewritten");
            self.put("utubewritten", false);
            self.take_then("utubewritten", AfterTake::Bury);
            self.take_then("utubewritten", AfterTake::Ack);
            self.take_then("fifottl", AfterTake::ReleaseLater);
            self.take_then("limfifottl", AfterTake::ReleaseLater);
            self.take_then("utubettl", AfterTake::Touch);
            for name in ["fifo", "utubewritten", "utubettl", "memory"] {
                self.take_then(name, AfterTake::Park);
            }
            self.take_then("limfifottl", AfterTake::ParkBriefly);
            if round == 1 {
                self.resume_then("fifo", AfterResume::Release);
                self.resume_then("utubewritten", AfterResume::Ack);
                self.resume_then("utubettl", AfterResume::Drop);
                self.resume_then("memory", AfterResume::Bury);
                self.claim_then_checkpoint("fifo");
                self.claim_then_checkpoint("written");
                self.claim_then_checkpoint("utubettl");
            }
            self.kick("fifo");
            self.kick("utubettl");
            self.kick("utubewritten");
        }
        self.put("fifo", false);
        self.put("utubewritten", false);
        self.check_after_kill();
        self.flush();
    }

    /// Batches, truncated and dropped tubes, and calls on what the first run left.
    fn second_run(&mut self) {
        self.put_many("fifo");
        self.resume_then("fifo", AfterResume::Park);
        self.resume_then("fifo", AfterResume::Ack);
        self.resume_then("utubettl", AfterResume::Bury);
        self.resume_then("utubewritten", AfterResume::Drop);
        self.take_then("fifo", AfterTake::Park);
        self.claim_then_checkpoint("fifo");
        self.claim_then_checkpoint("utubewritten");
        self.take_then("fifottl", AfterTake::ReleaseLater);
        self.take_then("utube", AfterTake::Ack);
        self.delete("utubettl");
        self.delete("utubewritten");
        self.take_then("written", AfterTake::Ack);
        self.truncate("fifottl");
        self.put("fifottl", false);
        self.drop_tube("idle");
        self.drop_tube("utube");
        self.put_many("limfifottl");
        self.flush();
        self.take_then("fifo", AfterTake::Ack);
        self.put("utubewritten", false);
        self.put("written", true);
        self.check_after_power_cut();
    }

    /// What a kill would leave at this moment has every change that was acknowledged as written.
    fn check_after_kill(&self) {
        if self.with_copies {
            self.expected.check_after_kill(&self.open_copy(&self.disk.after_kill()));
        }
    }

    fn check_after_power_cut(&self) {
        if self.with_copies {
            self.expected.check_after_power_cut(&self.open_copy(&self.disk.after_power_cut()));
        }
    }

    fn open_copy(&self, disk: &Arc<Disk>) -> Store {
        // Every delay of the tasks has elapsed.
        let clock = ManualClock::at(START + self.clock.now() + Duration::from_secs(10));
        let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
        clock.advance(STEP);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store
    }

    /// Repairs the disk. The store must resume without a call.
    fn recover(&mut self) {
        self.disk.repair();
        self.clock.advance(RETRY_TIME);
        self.store().flush().unwrap();
        self.expected.mark_flushed();
        assert_eq!(self.store().admin().verify().unwrap(), [""; 0]);
        self.expected.check(self.store());
        self.check_ready_tasks_are_takeable();
    }

    /// Every ready task can be taken: all of them, or one of each sub-queue that no parked claim
    /// makes busy.
    fn check_ready_tasks_are_takeable(&self) {
        for info in self.store().tubes().unwrap() {
            let tube = self.store().find_tube(&info.name).unwrap();
            let ready = tube.query().list(TaskState::Ready, None, 1000).unwrap().items;
            let taken = tube.query().list(TaskState::Taken, None, 1000).unwrap().items;
            let subs = |tasks: &[TaskInfo]| -> BTreeSet<_> {
                tasks.iter().map(|task| task.sub_queue.clone()).collect()
            };
            let free = subs(&ready).difference(&subs(&taken)).count();
            let takeable = if info.name.starts_with("utube") { free } else { ready.len() };
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
                assert_eq!(store.admin().verify().unwrap(), [""; 0]);
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
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
            self.expected.check(&store);
        }
    }
}
