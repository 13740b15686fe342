//! Waiting for space in a write buffer, without blocking a thread.

use std::task::{Poll, Waker};

use crate::Result;
use crate::core::{Call, Core, Decided, FromAnswer};
use crate::open_store::LocalHandle;
use crate::pipeline::QueuedCall;

/// A future's place in the queue of a write buffer. Dropping it leaves the queue.
pub(crate) struct CapacityWait {
    handle: LocalHandle,
    buffer: usize,
    queued: Option<QueuedCall>,
}

impl CapacityWait {
    pub(crate) fn new(handle: &LocalHandle, buffer: usize) -> CapacityWait {
        CapacityWait { handle: handle.clone(), buffer, queued: None }
    }

    /// Decides a call as soon as the write buffer has space.
    pub(crate) fn poll_call<T: FromAnswer>(
        &mut self,
        waker: &Waker,
        call: Call<'_>,
    ) -> Poll<Result<Decided<T>>> {
        let decide = |core: &mut Core| core.carry_out(call);
        self.handle.inner().poll_defer(&mut self.queued, self.buffer, waker, decide)
    }

    /// As `poll_call`. A refusal waits for the change that may have caused it.
    pub(crate) fn poll_call_once_visible<T: FromAnswer>(
        &mut self,
        waker: &Waker,
        call: Call<'_>,
    ) -> Poll<Result<Decided<Result<T>>>> {
        let decide = |core: &mut Core| core.carry_out_once_visible(call);
        self.handle.inner().poll_defer(&mut self.queued, self.buffer, waker, decide)
    }

    /// Waits until a take may remove more expired tasks.
    pub(crate) fn poll_expiry(&mut self, waker: &Waker) -> Poll<Result<()>> {
        self.handle.inner().poll_capacity(&mut self.queued, self.buffer, waker)
    }
}

impl Drop for CapacityWait {
    fn drop(&mut self) {
        if let Some(call) = self.queued.take() {
            self.handle.inner().leave_queue(self.buffer, call);
        }
    }
}
