//! Waiting for space in a write buffer, without blocking a thread.

use std::task::{Poll, Waker};

use crate::Result;
use crate::core::{Buffer, Core, Decided};
use crate::runtime::CallInLine;
use crate::runtime::open_store::LocalHandle;

/// A future's place in the line of a write buffer. Dropping it leaves the line.
pub(crate) struct CapacityWait {
    handle: LocalHandle,
    buffer: Buffer,
    waiting: Option<CallInLine>,
}

impl CapacityWait {
    pub(crate) fn new(handle: &LocalHandle, buffer: Buffer) -> CapacityWait {
        CapacityWait { handle: handle.clone(), buffer, waiting: None }
    }

    /// Decides a call as soon as the write buffer has space, or at once if it needs none.
    pub(crate) fn poll_decide<T>(
        &mut self,
        waker: &Waker,
        needs_space: bool,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Poll<Result<Decided<T>>> {
        let inner = self.handle.inner()?;
        if needs_space {
            inner.poll_defer(&mut self.waiting, self.buffer, waker, decide)
        } else {
            Poll::Ready(inner.defer_now(decide))
        }
    }

    /// Waits until a take may remove more expired tasks.
    pub(crate) fn poll_expiry(&mut self, waker: &Waker) -> Poll<Result<()>> {
        self.handle.inner()?.poll_capacity(&mut self.waiting, self.buffer, waker)
    }
}

impl Drop for CapacityWait {
    fn drop(&mut self) {
        if let Some(call) = self.waiting.take()
            && let Ok(inner) = self.handle.inner()
        {
            inner.leave_line(self.buffer, call);
        }
    }
}
