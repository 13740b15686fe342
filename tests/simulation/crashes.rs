//! Disk faults, crashes and reopens; comparison of all tasks with the model; the final drain.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, Filter, Store, TaskState};

use crate::disk::{BlockedWriter, Crash, Disk, KINDS};
use crate::faults::{Fault, Kind, Plan};
use crate::model::{Body, Found, NEVER, STORE_SESSION, Seq, Stored, StoredState};
use crate::producers::random_durability;
use crate::rng::Rng;
use crate::simulator::{Simulator, error_label, micros, state_of};

/// Longer than the store waits before it retries a failed disk.
const RECOVERY_TIME: Duration = Duration::from_secs(30);

impl Simulator {
    // ---- disk

    pub fn arm_fault(&mut self, rng: &mut Rng) {
        let kind = rng.pick(&KINDS);
        let plan = Plan {
            kind,
            // Few calls read the disk: most data is in memory.
            nth: 1 + rng.below(if kind == Kind::Read { 3 } else { 12 }),
            fault: rng.pick(&Fault::ALL),
            lasting: rng.one_in(2),
        };
        self.cover(format!("fault: {:?}", plan.kind));
        self.cover(format!(
            "fault: {:?} {}",
            plan.fault,
            if plan.lasting { "lasting" } else { "once" }
        ));
        self.note(format!("{plan:?}"));
        self.disk.arm(plan);
    }

    pub fn fill_disk(&mut self) {
        self.cover("disk: full");
        self.disk.set_full(true);
    }

    pub fn repair_disk(&mut self) {
        self.disk.repair();
    }

    // ---- crash and reopen

    pub fn open(&mut self, rng: &mut Rng) {
        if self.model.tubes.is_empty() {
            // The first open has no fault.
        } else if rng.one_in(4) {
            self.arm_fault(rng);
        }
        self.model.durability = random_durability(rng).unwrap_or_default();
        for attempt in 1.. {
            let options = Store::options()
                .clock(&self.clock)
                .session_grace(Duration::from_micros(self.grace))
                .durability(self.model.durability)
                .cache_size(rng.pick(&[0, 1 << 14, 1 << 20]))
                .disk_reserve(1 << 16);
            match options.open_on(self.disk.storage()) {
                Ok(store) => {
                    self.store = Some(store);
                    break;
                }
                Err(error) => {
                    assert!(self.disk.tripped(), "open failed without a fault: {error}");
                    assert!(attempt < 3, "open failed again: {error}");
                    self.cover("open: storage failed");
                    self.note(format!("open: {}", error_label(&error)));
                    self.disk = self.disk.after_crash(Crash::PowerCut);
                }
            }
        }
        // A fault armed for the open ends here.
        self.disk.repair();
        let pause = if self.disk.tripped() { RECOVERY_TIME } else { Duration::ZERO };
        self.clock.advance(pause);
        self.model.now += micros(pause);
        self.store().flush().unwrap();
        self.disk.clear_tripped();
        let found = self.read_store();
        let lost = self.model.recover(&found);
        self.note(format!("opened, {} tasks, {} calls lost", found.tasks.len(), lost.calls));
        if lost.calls > 0 {
            self.cover("crash: changes lost");
        }
        if lost.written > 0 {
            self.cover("crash: written changes lost");
        }
        self.check_all();
    }

    pub fn crash(&mut self, rng: &mut Rng) {
        self.crash_with(rng, None);
    }

    /// Ends the process without a close; with `writer`, while a commit is in flight.
    pub fn crash_with(&mut self, rng: &mut Rng, writer: Option<BlockedWriter>) {
        let after = self.disk_after_crash(rng);
        drop(writer);
        self.disk.repair();
        self.drop_handles();
        self.store = None;
        self.disk = after;
        self.model.end_run();
        self.open(rng);
    }

    /// Draws how the process ends, and returns the disk that the next one finds.
    fn disk_after_crash(&mut self, rng: &mut Rng) -> Arc<Disk> {
        let partial = Crash::PartialPowerCut {
            kept: rng.index(self.disk.unflushed() + 1),
            torn: rng.one_in(2),
        };
        let crash = rng.pick(&[Crash::Kill, Crash::Kill, Crash::PowerCut, partial]);
        let outage = if self.disk.tripped() { " during an outage" } else { "" };
        self.cover(format!("crash: {}{outage}", crash.name()));
        self.note(format!("crash: {crash:?}"));
        if crash.is_power_cut() {
            self.model.cut_power();
        }
        self.disk.after_crash(crash)
    }

    /// Closes the store, which fails if its disk fails, and opens it again.
    pub fn reopen(&mut self, rng: &mut Rng) {
        let closed = self.store().close();
        self.drop_handles();
        self.store = None;
        self.note(format!("close: {}", closed.as_ref().err().map_or("done", error_label)));
        match closed {
            Ok(()) => {
                self.cover("close: done");
                self.model.end_run();
                self.model.mark_all_durable();
                self.disk.repair();
                self.disk.clear_tripped();
            }
            Err(error) => {
                self.cover("close: storage failed");
                assert!(self.disk.tripped(), "{error}");
                self.model.end_run();
                self.disk = self.disk_after_crash(rng);
            }
        }
        self.open(rng);
    }

    /// Drops all handles of the store.
    fn drop_handles(&mut self) {
        self.waiters.clear();
        self.claims.clear();
        self.tubes.clear();
        self.sessions.clear();
    }

    // ---- comparison with the model

    pub fn verify(&mut self) {
        if self.disk.tripped() {
            return;
        }
        let armed = self.disk.is_armed();
        match self.store().admin().verify() {
            Ok(findings) => {
                assert_eq!(findings, [""; 0]);
                self.model.mark_all_durable();
                if !armed {
                    self.check_all();
                }
            }
            Err(error) => assert!(self.disk.tripped(), "{error}"),
        }
    }

    /// Reads all tubes and tasks of a store that was just opened.
    fn read_store(&mut self) -> Found {
        let mut found = Found::default();
        for info in self.store().tubes().unwrap() {
            found.tubes.insert(info.name.clone());
            let tube = self.store().find_tube(&info.name).unwrap();
            for state in [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried]
            {
                for task in tube.query().list(state, None, 1000).unwrap().items {
                    let (seq, body) = Body::parse(&tube.query().task(task.id).unwrap().body);
                    assert!(self.model.tasks.contains_key(&seq), "no put has this body");
                    self.model.record_id(seq, task.id);
                    let stored = self.stored(&task, body);
                    let before = found.tasks.insert(seq, (info.name.clone(), stored));
                    assert_eq!(before, None, "a task is stored twice");
                }
            }
        }
        found
    }

    fn stored(&self, task: &tubewell::TaskInfo, body: Body) -> Stored {
        let now = self.model.now;
        let end = |left: Option<Duration>| {
            left.map_or(NEVER, |left| now + u64::try_from(left.as_micros()).unwrap())
        };
        let state = match task.state {
            TaskState::Delayed => StoredState::Delayed(end(task.due_in)),
            TaskState::Buried => StoredState::Buried,
            _ => StoredState::Ready,
        };
        let ttr = task.ttr.map_or(NEVER, |ttr| u64::try_from(ttr.as_micros()).unwrap());
        Stored { state, expires_at: end(task.ttl_left), ttr, body }
    }

    /// Compares every task with the model.
    #[track_caller]
    pub fn check_all(&mut self) {
        for no in self.model.names.values().copied().collect::<Vec<_>>() {
            let name = self.model.tubes[&no].name.clone();
            let tube = self.store().find_tube(&name).unwrap();
            let mut found = Vec::new();
            for state in [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried]
            {
                for task in tube.query().list(state, None, 1000).unwrap().items {
                    let Some((seq, body)) = self.read_body(&tube, task.id) else { return };
                    self.model.record_id(seq, task.id);
                    found.push((seq, task.state, self.stored(&task, body)));
                }
            }
            found.sort_by_key(|(seq, ..)| *seq);
            let expected: Vec<_> = self
                .model
                .live_tasks(no)
                .map(|(seq, task, stored)| (seq, state_of(task, stored), stored))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    /// The number of a task and its body; `None` if the storage fails.
    fn read_body(&self, tube: &tubewell::Tube, id: u64) -> Option<(Seq, Body)> {
        match tube.query().task(id) {
            Ok(task) => Some(Body::parse(&task.body)),
            Err(error) => {
                assert!(self.disk.tripped() && !matches!(error, Error::NotFound { .. }), "{error}");
                None
            }
        }
    }

    // ---- final drain

    /// Repairs the disk and finishes all tasks: every tube must become empty.
    pub fn drain_all(&mut self, rng: &mut Rng) {
        self.note("drain".into());
        self.disk.repair();
        self.advance(RECOVERY_TIME);
        assert!(!self.disk.tripped(), "the store has not resumed");
        self.waiters.clear();
        while let Some(held) = self.random_claim(rng) {
            self.ack_claim(held);
        }
        while !self.sessions.is_empty() {
            self.drop_session(rng);
        }
        self.advance(Duration::from_micros(self.grace + 1));
        for _ in 0..1000 {
            for no in self.model.names.values().copied().collect::<Vec<_>>() {
                self.drain_tube(no);
            }
            self.check_state();
            let left =
                self.model.names.values().any(|no| self.model.live_tasks(*no).next().is_some());
            if !left {
                break;
            }
            let next = self.model.next_due();
            assert_ne!(next, NEVER, "a task never becomes ready: {:?}", self.model.tasks);
            self.advance(Duration::from_micros(next - self.model.now));
        }
        let statistics = self.store().statistics().unwrap();
        assert!(statistics.values().all(|tube| tube.tasks.total == 0), "{statistics:?}");
        self.verify();
        self.reopen(&mut Rng::new(1));
        assert!(self.store().statistics().unwrap().values().all(|tube| tube.tasks.total == 0));
        self.verify();
        self.store().close().unwrap();
    }

    fn drain_tube(&mut self, no: u64) {
        let name = self.model.tubes[&no].name.clone();
        let tube = self.store().find_tube(&name).unwrap();
        tube.admin().kick(Filter::new().limit(1000)).unwrap();
        for task in self.model.tasks.values_mut().filter(|task| task.tube == no) {
            if let Some(stored) = &mut task.stored
                && stored.state == StoredState::Buried
            {
                stored.state = StoredState::Ready;
            }
        }
        // Detached claims of the store's own session may have no ttr and never expire.
        tube.admin().release(Filter::new()).unwrap();
        for task in self.model.tasks.values_mut().filter(|task| task.tube == no) {
            task.claim = None;
        }
        while self.take_from(no, STORE_SESSION).is_some() {
            let held = self.claims.pop().unwrap();
            self.ack_claim(held);
        }
    }
}
