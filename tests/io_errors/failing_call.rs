//! One call on a disk that fails: it is made wholly or not at all, in memory and in the file.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{ManualClock, Result, Store};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::size::amount;
use crate::support::{FAULTS, Outcome, RETRY_TIME, open};

/// A call, and the contents of the store before and after it.
pub struct FailingCall<'a, C> {
    /// That of a closed store.
    disk: &'a Arc<Disk>,
    call: &'a dyn Fn(&Store) -> Result<()>,
    /// Verifies the store, too.
    contents: &'a dyn Fn(&Store) -> C,
    /// A power cut does not take back what the call has answered.
    is_flushed: bool,
    before: C,
    after: Vec<C>,
}

/// A store in which the call was made while calls of the disk failed. The disk is repaired.
pub struct Resumed<'a, C> {
    of: &'a FailingCall<'a, C>,
    pub store: Store,
    pub clock: ManualClock,
    disk: Arc<Disk>,
    pub found: C,
    pub has_failed: bool,
    is_refused: bool,
    /// For messages.
    what: String,
}

impl<'a, C: Clone + Debug + PartialEq> FailingCall<'a, C> {
    /// Learns the contents from a call that succeeds.
    pub fn new(
        disk: &'a Arc<Disk>,
        call: &'a dyn Fn(&Store) -> Result<()>,
        contents: &'a dyn Fn(&Store) -> C,
        is_flushed: bool,
    ) -> FailingCall<'a, C> {
        let store = open(&disk.after_power_cut(), &ManualClock::new());
        let before = contents(&store);
        call(&store).unwrap();
        let after = vec![contents(&store)];
        assert_ne!(before, after[0]);
        FailingCall { disk, call, contents, is_flushed, before, after }
    }

    /// The call may also end with these contents.
    pub fn or_after(mut self, after: C) -> FailingCall<'a, C> {
        self.after.push(after);
        self
    }

    /// The contents after a call that succeeds.
    pub fn after(&self) -> &C {
        &self.after[0]
    }

    /// The contents after a call that succeeds, and its chores.
    pub fn after_chores(&self) -> C {
        let clock = ManualClock::new();
        let store = open(&self.disk.after_power_cut(), &clock);
        (self.call)(&store).unwrap();
        clock.advance(Duration::ZERO);
        (self.contents)(&store)
    }

    /// Makes the call while calls of the disk fail, makes it again if it was refused, and closes the
    /// store. Returns whether a call of the disk has failed.
    pub fn fails(&self, plan: Plan) -> bool {
        let mut resumed = self.resume(plan);
        resumed.repeat_if_refused();
        resumed.close()
    }

    /// Makes the call while calls of the disk fail, and repairs the disk.
    pub fn resume(&self, plan: Plan) -> Resumed<'_, C> {
        let (disk, clock) = (self.disk.after_power_cut(), ManualClock::new());
        let store = open(&disk, &clock);
        disk.fail(plan);
        let called = (self.call)(&store);
        let is_refused = Outcome::of(&called) == Outcome::Refused;
        let what = format!("{plan:?}: {called:?}");
        let is_flushed = called.is_ok() && self.is_flushed;
        for (copy, may_be_before) in
            [(disk.after_kill(), called.is_err()), (disk.after_power_cut(), !is_flushed)]
        {
            self.check(&open(&copy, &ManualClock::new()), may_be_before, !is_refused, &what);
        }
        let has_failed = disk.has_failed();
        assert!(has_failed || called.is_ok(), "{what}");
        disk.repair();
        clock.advance(RETRY_TIME);
        store.flush().unwrap();
        let found = self.check(&store, is_refused, !is_refused, &what);
        Resumed { of: self, store, clock, disk, found, has_failed, is_refused, what }
    }

    fn check(&self, store: &Store, may_be_before: bool, may_be_after: bool, what: &str) -> C {
        let found = (self.contents)(store);
        let is_allowed =
            may_be_before && found == self.before || may_be_after && self.after.contains(&found);
        assert!(is_allowed, "{what}, {found:?}");
        found
    }
}

impl<C: Clone + Debug + PartialEq> Resumed<'_, C> {
    /// Makes the call again if it was refused.
    pub fn repeat_if_refused(&mut self) {
        if self.is_refused {
            (self.of.call)(&self.store).unwrap();
            self.found = self.of.check(&self.store, false, true, &self.what);
        }
    }

    /// Carries out the chores of the call, with which the store has these contents.
    pub fn do_chores(&mut self, contents: &C) {
        self.clock.advance(Duration::ZERO);
        self.found = (self.of.contents)(&self.store);
        assert_eq!(&self.found, contents, "{}", self.what);
    }

    /// Closes the store: it has the same contents after an open, and after a power cut. Returns
    /// whether a call of the disk has failed.
    pub fn close(self) -> bool {
        self.store.close().unwrap();
        for disk in [self.disk.clone(), self.disk.after_power_cut()] {
            let store = open(&disk, &ManualClock::new());
            assert_eq!((self.of.contents)(&store), self.found, "{}", self.what);
        }
        self.has_failed
    }
}

/// Fails each call of the disk, with all faults; in a quick run with one of them, another one for each kind
/// and each name. Reads, writes, flushes and changes of the length are sampled with this step.
pub fn fail_with_all_faults(name: &str, step: usize, fails: impl Fn(Plan) -> bool) -> usize {
    let nth = name.bytes().map(usize::from).sum::<usize>();
    let mut runs = 0;
    for (at, kind) in [Kind::Read, Kind::Write, Kind::Sync, Kind::SetLen].into_iter().enumerate() {
        for (fault, lasting) in faults(nth + at, amount(FAULTS.len(), 1, 1)) {
            let plan = |nth| Plan { kind, nth, fault, lasting };
            let count = (1..100_000).step_by(step).take_while(|nth| fails(plan(*nth))).count();
            println!("{name}, {kind:?} {fault:?} {lasting}: {count} runs");
            runs += count;
        }
    }
    runs
}

/// One of so many faults, from the `nth` on.
fn faults(nth: usize, step: usize) -> impl Iterator<Item = (Fault, bool)> {
    FAULTS.into_iter().skip(nth % step).step_by(step)
}

/// Fails each call of the disk, with a sample of the faults. Reads are sampled with this step.
/// `runs`: those of all calls so far, which moves the samples.
pub fn fail_with_sampled_faults(
    name: &str,
    read_step: usize,
    runs: &mut usize,
    fails: impl Fn(Plan) -> bool,
) {
    for kind in [Kind::Read, Kind::Write, Kind::Sync] {
        let step = if kind == Kind::Read { read_step } else { 1 };
        for (fault, lasting) in faults(*runs, amount(FAULTS.len(), 2, 1)) {
            let plan = |nth| Plan { kind, nth, fault, lasting };
            let from = 1 + (*runs % step) as u64;
            let nths = (from..100_000).step_by(step);
            let count = nths.take_while(|nth| fails(plan(*nth))).count();
            println!("{name}, {kind:?} {fault:?} {lasting}: {count} runs");
            *runs += count;
        }
    }
}
