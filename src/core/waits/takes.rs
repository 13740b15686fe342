//! Those who wait: takes for a task, puts for room. In order of arrival, each in its own slot.

use std::sync::Arc;

use crate::core::state::{Core, Grant, TakeSlot, Timer, TubeState, WaitingTake};
use crate::core::verbs::{Next, TAKE_EXPIRES};
use crate::{Result, SessionId};

/// Dues that are over and that a take deals with before it says that there is nothing.
const OVERDUE: usize = 512;

impl Core {
    /// Takes from the first of these tubes that has a task, or waits in all of them. The tubes
    /// must be there.
    pub(crate) fn take_or_wait(
        &mut self,
        tubes: impl Iterator<Item = u32> + Clone,
        session: SessionId,
        timeout: Option<u64>,
    ) -> Result<TakeNow> {
        let mut found = self.take_first(tubes.clone(), session)?;
        let is_last_word = timeout == Some(0);
        // There may be something, but for a delay that is over and that the sweeper has not come to.
        // Of thousands, as after a long pause, only the first: this call is not to wait.
        if is_last_word && matches!(found, TakeNow::Nothing) && self.has_overdue(tubes.clone()) {
            self.sweep(OVERDUE)?;
            found = self.take_first(tubes.clone(), session)?;
        }
        if is_last_word || !matches!(found, TakeNow::Nothing) {
            return Ok(found);
        }
        let slot = Arc::new(TakeSlot::new());
        let arrival = self.next_arrival();
        let deadline = timeout.map(|timeout| self.now.running.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, Timer::Wait(arrival)));
        }
        let tubes: Vec<u32> = tubes.collect();
        for number in &tubes {
            if let Some(tube) = self.tubes.get_mut(number) {
                tube.waiting_takes.insert(arrival);
            }
        }
        let waiting_take = WaitingTake { slot: slot.clone(), session, tubes, deadline };
        self.waiting_takes.insert(arrival, waiting_take);
        Ok(TakeNow::Waiting(arrival, slot))
    }

    /// The first task of the first of these tubes that has one.
    fn take_first(
        &mut self,
        tubes: impl Iterator<Item = u32>,
        session: SessionId,
    ) -> Result<TakeNow> {
        let mut budget = TAKE_EXPIRES;
        for number in tubes {
            match self.take_within(number, session, &mut budget)? {
                Next::Task(grant) => return Ok(TakeNow::Task(grant)),
                Next::Later => return Ok(TakeNow::Later(self.buffer_of(number))),
                Next::Nothing => {}
            }
        }
        Ok(TakeNow::Nothing)
    }

    /// Whether one of these tubes has delayed tasks, dues beside them are over, and there is room for
    /// what comes of them.
    fn has_overdue(&self, mut tubes: impl Iterator<Item = u32>) -> bool {
        self.check_open().is_ok()
            && tubes.any(|number| {
                self.tubes.get(&number).is_some_and(|tube| {
                    tube.counts.delayed > 0
                        && self.buffers[tube.buffer].earliest_due <= self.now.timeline
                        && !self.buffer_is_full(tube.buffer)
                })
            })
    }

    /// Hands tasks to those who wait in these tubes, as long as there are both: to each in the
    /// order of arrival, from the first of its tubes that has one.
    pub(in crate::core) fn serve(&mut self, tubes: &[u32]) -> Result<()> {
        let waited_in = |number: &u32| {
            self.tubes.get(number).is_some_and(|tube| !tube.waiting_takes.is_empty())
        };
        let tubes: Vec<u32> = tubes.iter().copied().filter(waited_in).collect();
        if tubes.is_empty() {
            return Ok(());
        }
        // A take may publish on its way, when it meets a task whose life is over; whoever waits is
        // being served already.
        if std::mem::replace(&mut self.serving, true) {
            return Ok(());
        }
        let served = self.serve_all(tubes);
        self.serving = false;
        served
    }

    fn serve_all(&mut self, mut tubes: Vec<u32>) -> Result<()> {
        let first_of = |core: &Core, number| {
            let tube: Option<&TubeState> = core.tubes.get(&number);
            tube.and_then(|tube| tube.waiting_takes.first().copied())
        };
        while let Some(first) = tubes.iter().filter_map(|number| first_of(self, *number)).min() {
            let Some(waiting_take) = self.waiting_takes.get(&first) else { return Ok(()) };
            let (session, has_waiters) = (waiting_take.session, waiting_take.tubes.clone());
            for number in has_waiters {
                if !tubes.contains(&number) {
                    continue;
                }
                if let Some(grant) = self.take(number, session)? {
                    self.end_wait(first, Ok(Some(grant)));
                    break;
                }
                // Nobody else finds anything there either.
                tubes.retain(|other| *other != number);
            }
        }
        Ok(())
    }

    /// A wait is over: the waiter finds the outcome in its slot.
    pub(in crate::core) fn end_wait(&mut self, arrival: u64, outcome: Result<Option<Grant>>) {
        if let Some(waiting_take) = self.leave(arrival) {
            waiting_take.slot.fill(outcome);
            self.effects.after_unlock.takers.push(waiting_take.slot);
        }
    }

    /// A waiter gives up. A task that it was handed in this moment goes back.
    pub(crate) fn give_up(&mut self, arrival: u64, slot: &TakeSlot) -> Result<()> {
        self.leave(arrival);
        match slot.take() {
            Some(Ok(Some(grant))) => self.release_if_current(grant.id, grant.epoch),
            _ => Ok(()),
        }
    }

    fn leave(&mut self, arrival: u64) -> Option<WaitingTake> {
        let waiting_take = self.waiting_takes.remove(&arrival)?;
        for number in &waiting_take.tubes {
            if let Some(tube) = self.tubes.get_mut(number) {
                tube.waiting_takes.remove(&arrival);
            }
        }
        if let Some(deadline) = waiting_take.deadline {
            self.timers.remove(&(deadline, Timer::Wait(arrival)));
        }
        Some(waiting_take)
    }
}

/// What a take finds at once.
pub(crate) enum TakeNow {
    Task(Grant),
    Nothing,
    Waiting(u64, Arc<TakeSlot>),
    /// Ask again, once there is room in this lane.
    Later(usize),
}
