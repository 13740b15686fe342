//! Calls of futures: they wait for space in a write buffer, and for their commit, without blocking
//! a thread.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::inner::{SWEEP_MAX_ACTIVE_ROWS, StoreInner, last_batch};
use crate::Result;
use crate::core::{Buffer, CapacitySlot, Core, Decided, Wait};

/// The place of a call in the line of a write buffer.
pub(crate) struct CallInLine {
    arrival: u64,
    slot: Arc<CapacitySlot>,
}

impl StoreInner {
    /// As `defer`, for a future: while the write buffer is full, the call waits in the line and
    /// the waker is kept. A call that finds the buffer full again keeps its place.
    pub(crate) fn poll_defer<T>(
        &self,
        waiting: &mut Option<CallInLine>,
        buffer: Buffer,
        waker: &Waker,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Poll<Result<Decided<T>>> {
        self.poll_with_capacity(waiting, buffer, usize::MAX, waker, decide)
    }

    /// As `wait_for_capacity`, for a future.
    pub(crate) fn poll_capacity(
        &self,
        waiting: &mut Option<CallInLine>,
        buffer: Buffer,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let decide = |_: &mut Core| Ok(Decided { answer: (), wait: None });
        let entered =
            self.poll_with_capacity(waiting, buffer, SWEEP_MAX_ACTIVE_ROWS, waker, decide);
        entered.map(|decided| decided.map(|_| ()))
    }

    fn poll_with_capacity<T>(
        &self,
        waiting: &mut Option<CallInLine>,
        buffer: Buffer,
        max_rows: usize,
        waker: &Waker,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Poll<Result<Decided<T>>> {
        loop {
            let arrival = match waiting {
                Some(call) if call.slot.poll(waker).is_pending() => return Poll::Pending,
                _ => waiting.take().map(|call| call.arrival),
            };
            let mut core = self.lock();
            if arrival.is_some() {
                core.answer_capacity_call(buffer);
            }
            if core.has_capacity(buffer, max_rows, arrival) {
                return Poll::Ready(self.decide_deferred(core, decide));
            }
            let (arrival, slot) = core.wait_for_capacity(buffer, max_rows, arrival);
            *waiting = Some(CallInLine { arrival, slot });
            self.unlock(core);
        }
    }

    /// A call in the line is dropped. If it was called, its turn passes on.
    pub(crate) fn leave_line(&self, buffer: Buffer, call: CallInLine) {
        self.run(|core| core.cancel_capacity_wait(buffer, call.arrival));
    }

    /// Decides a call whose commit the writer thread leads, full or not: it adds a few rows at
    /// most.
    pub(crate) fn defer_now<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<Decided<T>> {
        self.decide_deferred(self.lock(), decide)
    }

    /// As `defer_now`, unless the call must wait for space, or for its turn behind calls that wait for
    /// it: then returns the write buffer.
    pub(crate) fn defer_unless_full<T>(
        &self,
        buffer_of: impl FnOnce(&Core) -> Buffer,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<Result<Decided<T>>, Buffer> {
        let core = self.lock();
        let buffer = buffer_of(&core);
        if !core.has_capacity(buffer, usize::MAX, None) {
            self.unlock(core);
            return Err(buffer);
        }
        Ok(self.decide_deferred(core, decide))
    }

    /// As `flush`: the answer waits for the commit, which the writer thread leads.
    pub(crate) fn defer_flush(&self) -> Result<Decided<u64>> {
        self.defer_now(|core| {
            core.check_open()?;
            Ok(match last_batch(core, Buffer::File) {
                Some(batch) => Decided {
                    answer: core.buffers[Buffer::File].newest_commit(),
                    wait: Some(Wait::Flush(Buffer::File, batch)),
                },
                None => {
                    Decided { answer: core.buffers[Buffer::File].edits.last_commit(), wait: None }
                }
            })
        })
    }
}
