//! Puts that wait for capacity, first come, first served.

use std::sync::Arc;

use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, Decided, PutRequest, PutSlot, SessionWait, Timer, WaitingPut};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Begin, Begun, Cancel, Later, Limits, TubeRef, verb};
use crate::{Error, Receipt, Result, SessionId};

/// The answer to a put that may wait for capacity.
pub(crate) enum Admission {
    Admitted(Receipt),
    /// The put waits, under this number.
    Waiting(u64, Arc<PutSlot>),
}

verb! {
    /// As `PutTask`, but waits while the tube is full. The timeout is in microseconds.
    2 InTube Edit: PutOrWait { session: SessionId, request: PutRequest, timeout: Option<u64> } -> Receipt {
        const WAITS: bool = true;

        fn may_repeat(&self) -> bool {
            self.request.may_repeat()
        }

        fn refusal_waits(&self) -> bool {
            self.request.has_key()
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check(limits.max_body)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Send("put"))
        }

        #[cfg(feature = "tracing")]
        fn puts(&mut self) -> &mut [PutRequest] {
            std::slice::from_mut(&mut self.request)
        }

        #[cfg(feature = "tracing")]
        fn id_in(receipt: &Receipt) -> Option<u64> {
            Some(receipt.id)
        }
    }
}

impl Begin for PutOrWait {
    type First = Begun<Receipt>;

    fn begin(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Begun<Receipt>>> {
        let admitted = core.put_or_wait(number, self.session, &self.request, self.timeout)?;
        Ok(admitted.map(|admission| match admission {
            Admission::Admitted(receipt) => Begun::Done(receipt),
            Admission::Waiting(arrival, slot) => {
                Begun::Later(Later { slot, cancel: Cancel::Put { tube: number, arrival } })
            }
        }))
    }

    fn begun(first: Begun<Receipt>) -> Begun<Receipt> {
        first
    }
}

impl Core {
    /// Puts a task, or enqueues the put if the tube is full.
    pub(in crate::core) fn put_or_wait(
        &mut self,
        number: TubeNo,
        session: SessionId,
        request: &PutRequest,
        timeout: Option<u64>,
    ) -> Result<Decided<Admission>> {
        match self.put(number, request) {
            Err(Error::Full { .. }) if timeout != Some(0) => {}
            put => return Ok(put?.map(Admission::Admitted)),
        }
        self.check_session(session)?;
        let (arrival, slot) = self.enqueue_put(number, session, request.clone(), timeout);
        Ok(Decided { answer: Admission::Waiting(arrival, slot), wait: None })
    }

    /// Enqueues a put that waits for capacity.
    fn enqueue_put(
        &mut self,
        number: TubeNo,
        session: SessionId,
        request: PutRequest,
        timeout: Option<u64>,
    ) -> (u64, Arc<PutSlot>) {
        let arrival = self.waits.next_arrival();
        let slot = Arc::new(PutSlot::new());
        let deadline = timeout.map(|timeout| self.now.running.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, Timer::WaitingPut(number, arrival)));
        }
        let waiting_put = WaitingPut { slot: slot.clone(), session, request, deadline };
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.waiting_puts.insert(arrival, waiting_put);
            self.sessions.begin_wait(session, SessionWait::Put(arrival, number));
        }
        (arrival, slot)
    }

    /// A waiting put gives up: it leaves the queue. A put that was admitted stays.
    pub(in crate::core) fn cancel_put(&mut self, number: TubeNo, arrival: u64) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let Some(waiting_put) = tube.waiting_puts.remove(&arrival) else { return };
        self.sessions.end_wait(waiting_put.session, SessionWait::Put(arrival, number));
        if let Some(deadline) = waiting_put.deadline {
            self.timers.remove(&(deadline, Timer::WaitingPut(number, arrival)));
        }
    }

    /// Carries out waiting puts, in order of arrival, while the tube has capacity.
    pub(in crate::core) fn admit_waiting_puts(&mut self, number: TubeNo) -> Result<()> {
        self.health.begin_change();
        let admitted = self.admit_all(number);
        self.health.end_change();
        admitted
    }

    fn admit_all(&mut self, number: TubeNo) -> Result<()> {
        loop {
            let Some(tube) = self.tubes.get_mut(number) else { return Ok(()) };
            let Some(driver) = &tube.driver else { return Ok(()) };
            if tube.waiting_puts.is_empty() || !driver.admit(&tube.load(0)) {
                return Ok(());
            }
            // Dequeue it before the put: publishing the put may admit the next waiting put.
            let Some((arrival, waiting_put)) = tube.waiting_puts.pop_first() else { return Ok(()) };
            let decided = self.put_now(number, &waiting_put.request);
            if let Err(Error::Corrupt { .. } | Error::Io { .. }) = &decided {
                if let Some(tube) = self.tubes.get_mut(number) {
                    tube.waiting_puts.insert(arrival, waiting_put);
                }
                return decided.map(|_| ());
            }
            self.complete_waiting_put(number, arrival, waiting_put, decided);
        }
    }

    /// Ends the wait of a put.
    pub(in crate::core) fn end_waiting_put(
        &mut self,
        number: TubeNo,
        arrival: u64,
        outcome: Result<Decided<Receipt>>,
    ) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        if let Some(waiting_put) = tube.waiting_puts.remove(&arrival) {
            self.complete_waiting_put(number, arrival, waiting_put, outcome);
        }
    }

    /// Passes the outcome to a put that has been dequeued.
    fn complete_waiting_put(
        &mut self,
        number: TubeNo,
        arrival: u64,
        waiting_put: WaitingPut,
        outcome: Result<Decided<Receipt>>,
    ) {
        self.sessions.end_wait(waiting_put.session, SessionWait::Put(arrival, number));
        if let Some(deadline) = waiting_put.deadline {
            self.timers.remove(&(deadline, Timer::WaitingPut(number, arrival)));
        }
        // The caller leads the flush when it asks for the answer. It may never ask, so wake the
        // writer thread too.
        if let Ok(Decided { wait: Some(wait), .. }) = &outcome {
            self.ask_writer(wait);
        }
        waiting_put.slot.fill(outcome);
        self.effects.after_unlock.deeds().put_slots.push(waiting_put.slot);
    }
}
