//! Waits until a tube has a task that can be taken. Such a caller takes nothing, and is not among
//! the takes that wait: it is not owed a task.
//!
//! Invariant: no caller waits for a tube that has a takeable task, no waiting take and no shut
//! gate. Every path that may make a task takeable calls `serve`, which looks here after the takes.

use std::sync::Arc;

use super::takes::MAX_OVERDUE_PER_TAKE;
use super::watches::Watching;
use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, WatchKey};
use crate::core::verbs::{MAX_EXPIRED_PER_TAKE, Next};
use crate::{Ending, Error, Result, SessionId};

impl Core {
    /// Waits until a take would get a task of this tube. `None` if expired tasks were removed, as
    /// many as one call may remove: the caller asks again.
    pub(crate) fn wait_ready(
        &mut self,
        number: TubeNo,
        session: SessionId,
        timeout: Option<u64>,
    ) -> Result<Option<Watching>> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        tube.driver(|| self.tubes.known_drivers())?;
        self.check_session(session)?;
        let mut found = self.look_for_task(number, MAX_EXPIRED_PER_TAKE)?;
        let no_wait = timeout == Some(0);
        if no_wait && found == Look::Empty && self.has_overdue(std::iter::once(number)) {
            self.sweep(MAX_OVERDUE_PER_TAKE)?;
            found = self.look_for_task(number, MAX_EXPIRED_PER_TAKE)?;
        }
        Ok(match found {
            Look::Task => Some(Watching::Over(Some(Arc::new(Ending::Gone)))),
            Look::BudgetSpent => None,
            Look::Empty => {
                let key = WatchKey::Ready(number, self.waits.next_arrival());
                let watching = self.watch(key, number, session, timeout);
                if !no_wait && let Some(tube) = self.tubes.get_mut(number) {
                    tube.ready_watches += 1;
                    self.set_alarms_of_takers(number);
                }
                Some(watching)
            }
        })
    }

    /// Answers the callers that wait for a task of one of the tubes that may have one now.
    pub(super) fn answer_ready(&mut self) -> Result<()> {
        // An expired task that is removed may lead here again.
        if !self.publishing.begin_looking() {
            return Ok(());
        }
        let answered = self.answer_all_ready();
        self.publishing.end_looking();
        answered
    }

    /// Ends the waits for a task of a tube, each with this outcome.
    pub(in crate::core) fn end_ready_watches(
        &mut self,
        number: TubeNo,
        outcome: impl Fn() -> Result<Option<Arc<Ending>>>,
    ) {
        let of_tube = WatchKey::Ready(number, 0)..=WatchKey::Ready(number, u64::MAX);
        self.end_watches_in(of_tube, outcome);
    }

    /// A watch of this kind has ended.
    pub(super) fn ready_watch_ended(&mut self, number: TubeNo) {
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.ready_watches = tube.ready_watches.saturating_sub(1);
            self.set_alarms_of_takers(number);
        }
    }

    fn answer_all_ready(&mut self) -> Result<()> {
        while let Some(number) = self.publishing.next_maybe_ready() {
            let tube = self.tubes.get(number);
            if tube.is_none_or(|tube| tube.ready_watches == 0) {
                continue;
            }
            if self.look_for_task(number, usize::MAX)? == Look::Task {
                self.end_ready_watches(number, || Ok(Some(Arc::new(Ending::Gone))));
            } else {
                self.set_alarms_of_takers(number);
            }
        }
        Ok(())
    }

    /// Whether a take would get a task of a tube, which then stays where it is. Expired tasks on
    /// the way are removed, up to `budget`.
    fn look_for_task(&mut self, number: TubeNo, mut budget: usize) -> Result<Look> {
        // The takes that wait have got what there was.
        if self.tubes.get(number).is_none_or(|tube| !tube.waiting_takes.is_empty()) {
            return Ok(Look::Empty);
        }
        match self.next_task(number, &mut budget)? {
            Next::Task(rank, entry) => {
                self.return_to_window(number, rank, entry);
                Ok(Look::Task)
            }
            Next::Empty => Ok(Look::Empty),
            Next::BudgetSpent => Ok(Look::BudgetSpent),
        }
    }
}

/// What a look for a task has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Task,
    Empty,
    BudgetSpent,
}
