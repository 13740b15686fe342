//! How many further jobs a worker with a limit may begin.

use std::sync::Arc;

use crate::base::signal::Signal;
use crate::base::sync::Mutex;

/// Invariant: each job that begins has used one permit, and no permit is used twice.
pub(super) struct Permits {
    /// `None` without a limit.
    counts: Option<Mutex<Counts>>,
    /// No permit is left, and no lane that has one waits for a task.
    pub(super) used_up: Arc<Signal>,
}

struct Counts {
    left: u64,
    /// Those of lanes that wait for a task.
    reserved: u64,
}

impl Permits {
    pub(super) fn new(limit: Option<u64>) -> Permits {
        let counts = limit.map(|left| Mutex::new(Counts { left, reserved: 0 }));
        Permits { counts, used_up: Arc::default() }
    }

    /// For a lane that waits for a task. `None`: none is left, and the lane ends.
    pub(super) fn reserve(&self) -> Option<Reserved<'_>> {
        if let Some(counts) = &self.counts {
            let mut counts = counts.lock();
            counts.left = counts.left.checked_sub(1)?;
            counts.reserved += 1;
        }
        Some(Reserved(self))
    }

    /// For tasks that join the first one of a lane, at most so many.
    pub(super) fn take(&self, most: usize) -> usize {
        let mut taken = most as u64;
        self.change(|counts| {
            taken = taken.min(counts.left);
            counts.left -= taken;
        });
        usize::try_from(taken).unwrap_or(most)
    }

    /// Of tasks that did not join.
    pub(super) fn give_back(&self, count: usize) {
        self.change(|counts| counts.left = counts.left.saturating_add(count as u64));
    }

    /// How many are left, besides those of the lanes that wait.
    pub(super) fn left(&self) -> usize {
        let left = self.counts.as_ref().map_or(u64::MAX, |counts| counts.lock().left);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let Some(counts) = &self.counts else { return };
        let mut counts = counts.lock();
        change(&mut counts);
        let is_used_up = counts.left == 0 && counts.reserved == 0;
        drop(counts);
        if is_used_up {
            self.used_up.raise();
        }
    }
}

/// The permit of a lane that waits for a task. Dropped once the task has its place, or if the lane waits no more.
pub(super) struct Reserved<'a>(&'a Permits);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.change(|counts| counts.reserved = counts.reserved.saturating_sub(1));
    }
}
