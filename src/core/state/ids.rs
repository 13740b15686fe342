//! The ids of tasks: which is next, up to where the file has reserved them, and which can be restored.
//!
//! Invariant: no id is assigned twice, also not by a run that follows a kill.

use std::collections::HashSet;

use crate::{Error, Result};

/// How many ids the file reserves at a time.
const ID_BLOCK: u64 = 1 << 20;

/// How long after a restored id another one may follow, in microseconds: a minute.
const RESTORE_TIME: u64 = 60_000_000;

/// The ids in use and the ids reserved in the file.
#[derive(Debug)]
pub(crate) struct Ids {
    next: u64,
    /// This run of the store has assigned no id below.
    first_of_run: u64,
    /// Puts may have assigned the ids below, so that none of them can be restored.
    restorable_from: u64,
    /// The restored ids from `restorable_from` on: each can be restored once.
    restored: HashSet<u64>,
    /// Until when, on running time, further ids may be restored: no schedule assigns one before.
    restores_until: u64,
    /// The file records that ids below this are used up, so no later run assigns them again.
    reserved: u64,
    /// The value of `reserved` once the next commit is flushed.
    reserved_by_next: u64,
    /// The value of `reserved` once the last commit is flushed, and the flush in progress.
    reserved_by_last: u64,
    reserved_in_flight: u64,
}

impl Ids {
    /// Those of a run that assigns `next` first.
    pub(in crate::core) fn new(next: u64) -> Ids {
        Ids {
            next,
            first_of_run: next,
            restorable_from: next,
            restored: HashSet::new(),
            restores_until: 0,
            reserved: next,
            reserved_by_next: next,
            reserved_by_last: next,
            reserved_in_flight: next,
        }
    }

    /// The id of the next task.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether this run may have assigned an id.
    pub(in crate::core) fn is_of_this_run(&self, id: u64) -> bool {
        id >= self.first_of_run
    }

    /// Begins the ids of one call; nothing changes here.
    pub(in crate::core) fn check(&self) -> IdCheck {
        let Ids { next, restorable_from, .. } = *self;
        IdCheck { next, restorable_from, named: HashSet::new() }
    }

    /// Notes that a put has assigned this id.
    #[inline]
    pub(in crate::core) fn note(&mut self, id: u64) {
        self.next = self.next.max(id.saturating_add(1));
        self.restorable_from = self.next;
        if !self.restored.is_empty() {
            // All of them are below `restorable_from` now.
            self.restored = HashSet::new();
        }
    }

    /// Notes that a task was restored with this id, at this moment of running time.
    pub(in crate::core) fn note_restored(&mut self, id: u64, now: u64) {
        self.next = self.next.max(id.saturating_add(1));
        self.restored.insert(id);
        self.restores_until = now.saturating_add(RESTORE_TIME);
    }

    /// How long ids may still be restored that a run of a schedule would take.
    pub(in crate::core) fn restore_time_left(&self, now: u64) -> Option<u64> {
        let left = self.restores_until.checked_sub(now)?;
        Some(left).filter(|left| *left > 0 && !self.restored.is_empty())
    }

    /// Whether a run that follows a kill would assign an id below `next` again.
    #[inline]
    pub(in crate::core) fn are_at_risk_below(&self, next: u64) -> bool {
        next > self.reserved
    }

    /// Whether the last commit does not reserve all ids in use.
    pub(in crate::core) fn must_be_reserved(&self) -> bool {
        self.next > self.reserved_by_last
    }

    /// The bound up to which the next commit reserves ids: at least half a block ahead of those in
    /// use.
    pub(in crate::core) fn reserve(&mut self) -> u64 {
        if self.reserved.saturating_sub(self.next) < ID_BLOCK / 2 {
            self.reserved_by_next = self.next.saturating_add(ID_BLOCK);
        }
        self.reserved_by_next
    }

    /// What was the next commit is logged now.
    pub(in crate::core) fn commit_is_logged(&mut self) {
        self.reserved_by_last = self.reserved_by_next;
    }

    /// The flush of the last commit begins.
    pub(in crate::core) fn flush_begins(&mut self) {
        self.reserved_in_flight = self.reserved_by_last;
    }

    /// The flush has ended.
    pub(in crate::core) fn flush_has_ended(&mut self) {
        self.reserved = self.reserved.max(self.reserved_in_flight);
    }

    /// The storage was reopened with all commits.
    pub(in crate::core) fn storage_is_reopened(&mut self) {
        self.reserved = self.reserved_by_last;
    }
}

/// The ids that the tasks of one call get.
pub(in crate::core) struct IdCheck {
    next: u64,
    restorable_from: u64,
    named: HashSet<u64>,
}

impl IdCheck {
    /// The id of the next task; `own` is the one of a restored task. Refuses an id that this store
    /// may have assigned.
    pub(in crate::core) fn assign(&mut self, ids: &Ids, own: Option<u64>) -> Result<u64> {
        let Some(id) = own else {
            let id = self.next;
            self.next = self.next.saturating_add(1);
            self.restorable_from = self.next;
            return Ok(id);
        };
        if id < self.restorable_from || ids.restored.contains(&id) || !self.named.insert(id) {
            return Err(Error::IdUsed { id });
        }
        self.next = self.next.max(id.saturating_add(1));
        Ok(id)
    }

    /// The id that follows them.
    pub(in crate::core) fn next(&self) -> u64 {
        self.next
    }
}
