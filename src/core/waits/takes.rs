//! Takes that wait for a task, first come, first served.
//!
//! Invariant: no take waits in a tube that has a takeable task and no shut gate.

use std::sync::Arc;

use crate::base::tube_no::TubeNo;
use crate::core::catalog::TubeHead;
use crate::core::state::{
    Buffer, Core, Grant, SessionWait, TakeSlot, Timer, TubeState, Wait, WaitingTake,
};
use crate::core::verbs::{MAX_EXPIRED_PER_TAKE, TakeStep};
use crate::{Result, SessionId};

/// The maximum number of overdue tasks that a take processes before it returns without a task.
pub(super) const MAX_OVERDUE_PER_TAKE: usize = 512;

impl Core {
    /// Takes from the first of these tubes that has a task, or waits in all of them until this
    /// moment of running time. It is no verb: its answer is a claim, or comes later through a slot.
    pub(crate) fn carry_out_take(
        &mut self,
        tubes: &[TubeHead],
        session: SessionId,
        until: Option<u64>,
        found: &mut TakeAttempt,
    ) -> Result<()> {
        for head in tubes {
            let tube = self.tube(head.number, &head.name)?;
            tube.driver(|| self.tubes.known_drivers())?;
        }
        self.check_session(session)?;
        let timeout = until.map(|until| until.saturating_sub(self.now.running));
        let numbers = tubes.iter().map(|head| head.number);
        self.take_or_wait(numbers, session, timeout, found)
    }

    /// Takes from the first of these tubes that has a task, or registers a waiting take in all of
    /// them. The tubes must exist. The answer is written to `found`: returned, it would be moved
    /// once for each caller.
    pub(in crate::core) fn take_or_wait(
        &mut self,
        tubes: impl Iterator<Item = TubeNo> + Clone,
        session: SessionId,
        timeout: Option<u64>,
        found: &mut TakeAttempt,
    ) -> Result<()> {
        self.take_first(tubes.clone(), session, found)?;
        let no_wait = timeout == Some(0);
        // A delay may have elapsed that the sweeper has not processed yet. Process a bounded number
        // of dues, since this call must not wait.
        if no_wait && matches!(found, TakeAttempt::Empty) && self.has_overdue(tubes.clone()) {
            self.sweep(MAX_OVERDUE_PER_TAKE)?;
            self.take_first(tubes.clone(), session, found)?;
        }
        if no_wait || !matches!(found, TakeAttempt::Empty) {
            return Ok(());
        }
        let slot = Arc::new(TakeSlot::new());
        let arrival = self.waits.next_arrival();
        let deadline = timeout.map(|timeout| self.now.running.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, Timer::WaitingTake(arrival)));
        }
        let tubes: Vec<TubeNo> = tubes.collect();
        for number in &tubes {
            if let Some(tube) = self.tubes.get_mut(*number) {
                tube.waiting_takes.insert(arrival);
            }
            self.set_alarms_of_takers(*number);
        }
        let waiting_take = WaitingTake { slot: slot.clone(), session, tubes, deadline };
        self.waits.add_take(arrival, waiting_take);
        self.sessions.begin_wait(session, SessionWait::Take(arrival));
        *found = TakeAttempt::Waiting(arrival, slot);
        Ok(())
    }

    /// Takes from the first of these tubes that has a task.
    fn take_first(
        &mut self,
        tubes: impl Iterator<Item = TubeNo>,
        session: SessionId,
        found: &mut TakeAttempt,
    ) -> Result<()> {
        *found = TakeAttempt::Empty;
        let mut budget = MAX_EXPIRED_PER_TAKE;
        for number in tubes {
            match self.take_within(number, session, &mut budget)? {
                TakeStep::Task(grant) => *found = TakeAttempt::Task(grant),
                TakeStep::BudgetSpent => *found = TakeAttempt::Retry(self.buffer_of(number)),
                TakeStep::Empty => continue,
            }
            break;
        }
        Ok(())
    }

    /// Sets the alarms of the gates and the sub-queues of a tube for which callers wait, or removes
    /// them.
    pub(super) fn set_alarms_of_takers(&mut self, number: TubeNo) {
        self.set_alarm(number);
        self.await_sub_queues(number);
    }

    /// Whether one of these tubes has delayed tasks, its write buffer has overdue tasks, and there
    /// is capacity for the edits that they cause.
    pub(super) fn has_overdue(&self, mut tubes: impl Iterator<Item = TubeNo>) -> bool {
        self.check_open().is_ok()
            && tubes.any(|number| {
                self.tubes.get(number).is_some_and(|tube| {
                    tube.counts.delayed > 0
                        && self.has_due(tube.buffer)
                        && !self.buffer_is_full(tube.buffer)
                })
            })
    }

    /// Assigns the takeable tasks of these tubes to the takes that wait in them, in order of
    /// arrival. Each take gets a task of the first of its tubes that has one. Then answers the
    /// callers that wait until there is one.
    pub(in crate::core) fn serve(&mut self, tubes: &[TubeNo]) -> Result<()> {
        let is_watched =
            |number: &TubeNo| self.tubes.get(*number).is_some_and(|tube| tube.ready_watches > 0);
        self.publishing.note_maybe_ready(tubes.iter().copied().filter(is_watched));
        self.serve_takes(tubes)?;
        if self.publishing.is_serving() { Ok(()) } else { self.answer_ready() }
    }

    fn serve_takes(&mut self, tubes: &[TubeNo]) -> Result<()> {
        let has_waiters = |number: &TubeNo| {
            self.tubes.get(*number).is_some_and(|tube| !tube.waiting_takes.is_empty())
        };
        let tubes: Vec<TubeNo> = tubes.iter().copied().filter(has_waiters).collect();
        if tubes.is_empty() {
            return Ok(());
        }
        // A take may publish a change when it removes an expired task. The waiting takes are being
        // served already then.
        if !self.publishing.begin_serving() {
            return Ok(());
        }
        let served = self.serve_all(tubes);
        self.publishing.end_serving();
        served
    }

    fn serve_all(&mut self, mut tubes: Vec<TubeNo>) -> Result<()> {
        let first_of = |core: &Core, number| {
            let tube: Option<&TubeState> = core.tubes.get(number);
            tube.and_then(|tube| tube.waiting_takes.first().copied())
        };
        while let Some(first) = tubes.iter().filter_map(|number| first_of(self, *number)).min() {
            let Some(waiting_take) = self.waits.take(first) else { return Ok(()) };
            let (session, wanted) = (waiting_take.session, waiting_take.tubes.clone());
            for number in wanted {
                if !tubes.contains(&number) {
                    continue;
                }
                if let Some(grant) = self.take(number, session)? {
                    self.end_waiting_take(first, Ok(Some(grant)));
                    break;
                }
                // No other take finds a task there either.
                tubes.retain(|other| *other != number);
                self.set_alarm(number);
            }
        }
        Ok(())
    }

    /// Ends the wait of a take: puts the outcome into its slot.
    pub(in crate::core) fn end_waiting_take(
        &mut self,
        arrival: u64,
        outcome: Result<Option<Grant>>,
    ) {
        if let Some(waiting_take) = self.remove_waiting_take(arrival) {
            waiting_take.slot.fill(outcome);
            self.effects.after_unlock.deeds().take_slots.push(waiting_take.slot);
        }
    }

    /// Cancels the wait of a take. Releases a task that was already assigned to it.
    pub(crate) fn cancel_wait(&mut self, arrival: u64, slot: &TakeSlot) -> Result<()> {
        self.remove_waiting_take(arrival);
        match slot.take() {
            Some(Ok(Some(grant))) => self.release_if_current(grant.key(), true),
            _ => Ok(()),
        }
    }

    fn remove_waiting_take(&mut self, arrival: u64) -> Option<WaitingTake> {
        let waiting_take = self.waits.remove_take(arrival)?;
        self.sessions.end_wait(waiting_take.session, SessionWait::Take(arrival));
        for number in &waiting_take.tubes {
            if let Some(tube) = self.tubes.get_mut(*number) {
                tube.waiting_takes.remove(&arrival);
            }
            self.set_alarms_of_takers(*number);
        }
        if let Some(deadline) = waiting_take.deadline {
            self.timers.remove(&(deadline, Timer::WaitingTake(arrival)));
        }
        Some(waiting_take)
    }
}

/// The immediate result of a take.
pub(crate) enum TakeAttempt {
    Task(Grant),
    Empty,
    /// The arrival and the slot of the waiting take.
    Waiting(u64, Arc<TakeSlot>),
    /// Repeat the take once this write buffer has capacity.
    Retry(Buffer),
}

impl TakeAttempt {
    /// Whether a task was taken that is handed out once its take is written.
    pub(crate) fn needs_write(&self) -> bool {
        match self {
            TakeAttempt::Task(grant) => matches!(grant.counted.as_deref(), Some(Wait::Write(_))),
            _ => false,
        }
    }
}
