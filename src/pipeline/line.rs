//! Changes that stand in line while their write buffer is full. They are made in the order of their calls,
//! whether their callers wait for the answers or have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use super::inner::{StoreInner, leave_to_writer};
use crate::core::verb::{Begin, Begun, Named, Target};
use crate::core::{CarriedOut, Core, Decided, Filled, LineCall, WaitSlot};
use crate::sync::MutexGuard;
use crate::{Error, Result, WhenFull};

/// How many calls in line are carried out under one hold of the lock, so that other calls get it in between.
const LINE_STEP: usize = 64;

/// A change that was given to the store.
pub(crate) enum Given<V: Begin> {
    Decided(Decided<Result<V::First>>),
    InLine(Arc<LineSlot<V>>),
}

/// Where the answer of a call comes that stands in line.
pub(crate) struct LineSlot<V: Begin> {
    decided: WaitSlot<Result<Decided<Result<V::First>>>>,
    /// The caller has gone. It changes under the lock of the core.
    is_left: AtomicBool,
}

impl<V: Begin> LineSlot<V> {
    fn new() -> LineSlot<V> {
        LineSlot { decided: WaitSlot::new(), is_left: AtomicBool::new(false) }
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<Decided<Result<V::First>>>> {
        self.decided.poll(waker)
    }

    /// Whether the call is decided, and waits for nothing.
    pub(crate) fn is_done(&self) -> bool {
        self.decided.is_filled_with(|decided| match decided {
            Ok(Decided { wait: Some(wait), .. }) => wait.batch().outcome().is_some(),
            _ => true,
        })
    }

    /// The caller goes: what the call has begun, or will begin, waits for nobody.
    pub(crate) fn leave(&self, core: &mut Core) {
        self.is_left.store(true, Ordering::Relaxed);
        self.end_wait(core);
    }

    fn fill(&self, core: &mut Core, decided: Result<Decided<Result<V::First>>>) {
        self.decided.fill(decided);
        if self.is_left.load(Ordering::Relaxed) {
            self.end_wait(core);
        }
    }

    fn end_wait(&self, core: &mut Core) {
        if let Some(Ok(Decided { answer: Ok(first), .. })) = self.decided.take()
            && let Begun::Later(later) = V::begun(first)
        {
            core.cancel_begun(&later.cancel);
        }
    }
}

impl<V: Begin> Filled for LineSlot<V> {
    fn wake(&self) {
        self.decided.wake();
    }
}

impl StoreInner {
    /// Makes a change whose caller asks for the answer later, or never. While its write buffer is full, it
    /// is refused or stands in line.
    pub(crate) fn give<V: Begin>(
        &self,
        buffer: usize,
        when_full: WhenFull,
        on: Named<'_, V>,
        verb: V,
    ) -> Result<Given<V>> {
        self.check_outside_transaction()?;
        let refusal_waits = verb.refusal_waits();
        let mut core = self.lock();
        if !V::KIND.needs_space() || core.has_capacity(buffer, usize::MAX, None) {
            let decided = self.decide_deferred(core, |core| core.make(on, &verb, refusal_waits));
            return decided.map(Given::Decided);
        }
        if when_full == WhenFull::Refuse {
            core.buffers[buffer].has_waiters = true;
            core.effects.call_writer = true;
            self.unlock(core);
            return Err(Error::Overloaded);
        }
        let (on, slot) = (V::On::to_owned(on), Arc::new(LineSlot::new()));
        let filled = slot.clone();
        core.wait_in_line(
            buffer,
            Box::new(move |core| {
                let decided = core.make(V::On::as_ref(&on), &verb, refusal_waits);
                let wait = decided.as_ref().ok().and_then(|decided| decided.wait.clone());
                filled.fill(core, decided);
                CarriedOut { wait, slot: filled }
            }),
        );
        self.unlock(core);
        Ok(Given::InLine(slot))
    }

    /// Carries out a step of the calls in line that have space now, and calls the futures. The writer thread
    /// goes on with the rest.
    pub(super) fn serve_line<'a>(&'a self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        let mut core = self.carry_out(core, Core::serve_capacity);
        core.effects.call_writer |= core.line_has_space();
        core
    }

    /// Carries out the calls that stand in line now, before a close.
    pub(super) fn empty_line<'a>(&'a self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        let mut core = core;
        let mut left = core.calls_in_line();
        while left > 0 && !core.closed {
            left = left.saturating_sub(LINE_STEP);
            self.unlock(self.carry_out(core, Core::next_in_line));
            core = self.lock();
        }
        core
    }

    fn carry_out<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        next: fn(&mut Core) -> Option<LineCall<Core>>,
    ) -> MutexGuard<'a, Core> {
        let mut core = core;
        for _ in 0..LINE_STEP {
            let Some(call) = next(&mut core) else { break };
            let (mut locked, CarriedOut { wait, slot }) = self.run_guarded(core, call);
            leave_to_writer(&mut locked, wait.as_ref());
            locked.effects.after_unlock.deeds().line_slots.push(slot);
            core = locked;
        }
        core
    }
}
