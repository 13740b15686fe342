//! Those who wait: takes for a task, puts for room. In order of arrival, each in its own slot.

use std::sync::Arc;

use super::{Core, Decided, Grant, Next, PutRequest, Slot, TAKE_EXPIRES, Timer};
use crate::{Error, Receipt, Result, SessionId};

/// Where a waiting take finds its claim; `None` when its time is over.
pub(crate) type TakeSlot = Slot<Result<Option<Grant>>>;
/// Where a waiting put finds what was decided.
pub(crate) type PutSlot = Slot<Result<Decided<Receipt>>>;

/// A take that waits.
pub(super) struct Waiter {
    slot: Arc<TakeSlot>,
    session: SessionId,
    tubes: Vec<u32>,
    deadline: Option<u64>,
}

/// Dues that are over and that a take deals with before it says that there is nothing.
const OVERDUE: usize = 512;

/// A put that waits.
pub(crate) struct Putter {
    pub(crate) slot: Arc<PutSlot>,
    pub(crate) session: SessionId,
    pub(crate) request: PutRequest,
    pub(crate) deadline: Option<u64>,
}

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
        if is_last_word && matches!(found, TakeNow::Nothing) && self.lags(tubes.clone()) {
            self.sweep(OVERDUE)?;
            found = self.take_first(tubes.clone(), session)?;
        }
        if is_last_word || !matches!(found, TakeNow::Nothing) {
            return Ok(found);
        }
        let slot = Arc::new(TakeSlot::new());
        let arrival = self.arrive();
        let deadline = timeout.map(|timeout| self.now.running.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, Timer::Wait(arrival)));
        }
        let tubes: Vec<u32> = tubes.collect();
        for number in &tubes {
            if let Some(tube) = self.tubes.get_mut(number) {
                tube.waiters.insert(arrival);
            }
        }
        let waiter = Waiter { slot: slot.clone(), session, tubes, deadline };
        self.waiters.insert(arrival, waiter);
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
                Next::Later => return Ok(TakeNow::Later(self.lane_of(number))),
                Next::Nothing => {}
            }
        }
        Ok(TakeNow::Nothing)
    }

    /// Whether one of these tubes has delayed tasks, dues beside them are over, and there is room for
    /// what comes of them.
    fn lags(&self, mut tubes: impl Iterator<Item = u32>) -> bool {
        self.check_open().is_ok()
            && tubes.any(|number| {
                self.tubes.get(&number).is_some_and(|tube| {
                    tube.counts.delayed > 0
                        && self.lanes[tube.lane].earliest_due <= self.now.line
                        && !self.lane_is_full(tube.lane)
                })
            })
    }

    /// Hands tasks to those who wait in these tubes, as long as there are both: to each in the
    /// order of arrival, from the first of its tubes that has one.
    pub(super) fn serve(&mut self, tubes: &[u32]) -> Result<()> {
        let waited_in =
            |number: &u32| self.tubes.get(number).is_some_and(|tube| !tube.waiters.is_empty());
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
            let tube: Option<&super::TubeState> = core.tubes.get(&number);
            tube.and_then(|tube| tube.waiters.first().copied())
        };
        while let Some(first) = tubes.iter().filter_map(|number| first_of(self, *number)).min() {
            let Some(waiter) = self.waiters.get(&first) else { return Ok(()) };
            let (session, wanted) = (waiter.session, waiter.tubes.clone());
            for number in wanted {
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
    pub(super) fn end_wait(&mut self, arrival: u64, outcome: Result<Option<Grant>>) {
        if let Some(waiter) = self.leave(arrival) {
            waiter.slot.fill(outcome);
            self.outbox.errands.takers.push(waiter.slot);
        }
    }

    /// A waiter gives up. A task that it was handed in this moment goes back.
    pub(crate) fn give_up(&mut self, arrival: u64, slot: &TakeSlot) -> Result<()> {
        self.leave(arrival);
        match slot.take() {
            Some(Ok(Some(grant))) => self.let_go(grant.id, grant.epoch),
            _ => Ok(()),
        }
    }

    fn leave(&mut self, arrival: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&arrival)?;
        for number in &waiter.tubes {
            if let Some(tube) = self.tubes.get_mut(number) {
                tube.waiters.remove(&arrival);
            }
        }
        if let Some(deadline) = waiter.deadline {
            self.timers.remove(&(deadline, Timer::Wait(arrival)));
        }
        Some(waiter)
    }

    /// Puts a request in line for room.
    pub(crate) fn wait_for_room(
        &mut self,
        number: u32,
        session: SessionId,
        request: PutRequest,
        timeout: Option<u64>,
    ) -> Arc<PutSlot> {
        let arrival = self.arrive();
        let slot = Arc::new(PutSlot::new());
        let deadline = timeout.map(|timeout| self.now.running.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, Timer::Putter(number, arrival)));
        }
        let putter = Putter { slot: slot.clone(), session, request, deadline };
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.putters.insert(arrival, putter);
        }
        slot
    }

    /// Lets waiting puts in, as long as there is room.
    pub(super) fn admit_putters(&mut self, number: u32) -> Result<()> {
        self.halfway += 1;
        let admitted = self.admit_all(number);
        self.halfway -= 1;
        admitted
    }

    fn admit_all(&mut self, number: u32) -> Result<()> {
        loop {
            let Some(tube) = self.tubes.get_mut(&number) else { return Ok(()) };
            let Some(driver) = &tube.driver else { return Ok(()) };
            if tube.putters.is_empty() || !driver.admit(&tube.load(0)) {
                return Ok(());
            }
            // Out of the line before it is put: what becomes visible by that may let in the next.
            let Some((arrival, putter)) = tube.putters.pop_first() else { return Ok(()) };
            let decided = self.put_now(number, &putter.request);
            if let Err(Error::Corrupt { .. } | Error::Io { .. }) = &decided {
                if let Some(tube) = self.tubes.get_mut(&number) {
                    tube.putters.insert(arrival, putter);
                }
                return decided.map(|_| ());
            }
            self.dismiss(number, arrival, putter, decided);
        }
    }

    /// A put's wait is over.
    pub(super) fn end_putter(
        &mut self,
        number: u32,
        arrival: u64,
        outcome: Result<Decided<Receipt>>,
    ) {
        let Some(tube) = self.tubes.get_mut(&number) else { return };
        if let Some(putter) = tube.putters.remove(&arrival) {
            self.dismiss(number, arrival, putter, outcome);
        }
    }

    /// Tells a put that is out of the line.
    fn dismiss(
        &mut self,
        number: u32,
        arrival: u64,
        putter: Putter,
        outcome: Result<Decided<Receipt>>,
    ) {
        if let Some(deadline) = putter.deadline {
            self.timers.remove(&(deadline, Timer::Putter(number, arrival)));
        }
        // Whoever comes for the answer also sees to the flush; but it may never come.
        if let Ok(Decided { wait: Some((lane, _)), .. }) = &outcome {
            self.lanes[*lane].wanted = true;
            self.outbox.call_writer = true;
        }
        putter.slot.fill(outcome);
        self.outbox.errands.putters.push(putter.slot);
    }

    /// The wait of a take or a put has lasted as long as it was to.
    pub(super) fn time_out(&mut self, timer: Timer) {
        match timer {
            Timer::Wait(arrival) => self.end_wait(arrival, Ok(None)),
            Timer::Putter(number, arrival) => {
                let full = self.tubes.get(&number).map(|tube| Error::Full {
                    tube: tube.definition.name.to_string(),
                    capacity: tube.definition.capacity,
                });
                self.end_putter(number, arrival, Err(full.unwrap_or(Error::Closed)));
            }
            _ => {}
        }
    }

    /// Ends every wait with the same error, in order of arrival.
    pub(crate) fn wake_all(&mut self, error: &Error) {
        let mut waiting: Vec<u64> = self.waiters.keys().copied().collect();
        waiting.sort_unstable();
        for arrival in waiting {
            self.end_wait(arrival, Err(error.clone()));
        }
        let mut putting: Vec<(u64, u32)> = self
            .tubes
            .iter()
            .flat_map(|(number, tube)| tube.putters.keys().map(|arrival| (*arrival, *number)))
            .collect();
        putting.sort_unstable();
        for (arrival, number) in putting {
            self.end_putter(number, arrival, Err(error.clone()));
        }
    }

    /// Ends the waits of a session, in order of arrival.
    pub(super) fn wake_session(&mut self, session: SessionId) {
        let mut takes: Vec<u64> = self
            .waiters
            .iter()
            .filter(|(_, waiter)| waiter.session == session)
            .map(|(at, _)| *at)
            .collect();
        takes.sort_unstable();
        for arrival in takes {
            self.end_wait(arrival, Err(Error::SessionEnded));
        }
        let mut puts: Vec<(u64, u32)> = self
            .tubes
            .iter()
            .flat_map(|(number, tube)| {
                tube.putters.iter().map(move |(at, putter)| (*number, *at, putter.session))
            })
            .filter(|(_, _, of)| *of == session)
            .map(|(number, at, _)| (at, number))
            .collect();
        puts.sort_unstable();
        for (arrival, number) in puts {
            self.end_putter(number, arrival, Err(Error::SessionEnded));
        }
    }

    fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
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
