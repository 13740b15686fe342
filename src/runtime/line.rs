//! Changes that stand in line while their write buffer is full. They are made in the order of their calls,
//! whether their callers wait for the answers or have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use super::after_call::{LINE_STEP, carry_out};
use super::inner::StoreInner;
use super::leadership::reclaim_lead;
use crate::base::sync::MutexGuard;
use crate::base::user_code::panic_to_error;
use crate::core::list::DropClaim;
use crate::core::verb::{Begin, Begun, Named, Target};
use crate::core::{Buffer, CarriedOut, ClaimKey, Core, Decided, Filled, WaitSlot};
use crate::runtime::when_full::WhenFull;
use crate::{Error, Result};

/// A change that was given to the store.
pub(crate) enum Given<V: Begin> {
    Decided(Decided<Result<V::First>>),
    /// The number is the place of the change, by which it can be withdrawn.
    InLine(Arc<LineSlot<V>>, u64),
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
        !V::WAITS
            && self.decided.is_filled_with(|decided| match decided {
                Ok(Decided { wait: Some(wait), .. }) => wait.batch().outcome().is_some(),
                _ => true,
            })
    }

    fn is_filled(&self) -> bool {
        self.decided.is_filled_with(|_| true)
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
    /// is refused or stands in line; `kept` is dropped once it is made.
    pub(crate) fn give<V: Begin, K: Send + 'static>(
        &self,
        buffer: Buffer,
        when_full: WhenFull,
        keeps_claim: bool,
        on: Named<'_, V>,
        verb: V,
        kept: impl FnOnce() -> K,
    ) -> Result<Given<V>> {
        let refusal_waits = verb.refusal_waits();
        if V::AT_ONCE {
            return self.run(|core| core.make(on, &verb, refusal_waits)).map(Given::Decided);
        }
        self.check_outside_transaction()?;
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
        let (on, kept, slot) = (V::On::to_owned(on), kept(), Arc::new(LineSlot::new()));
        let filled = slot.clone();
        let place = core.wait_in_line(
            buffer,
            Box::new(move |core| {
                // A panic of a driver must not unwind into the thread that carries out the call.
                let decided =
                    panic_to_error(|| core.make(V::On::as_ref(&on), &verb, refusal_waits));
                let decided = decided.unwrap_or_else(|why| Err(core.fail_after_panic(why)));
                let is_refused = !matches!(&decided, Ok(Decided { answer: Ok(_), .. }));
                if V::ENDS_CLAIM && is_refused && !keeps_claim {
                    // Its handle has gone.
                    let claims = V::On::as_ref(&on);
                    let released =
                        panic_to_error(|| release(core, V::On::claims(&claims), verb.forgives()));
                    if let Err(why) = released {
                        core.fail_after_panic(why);
                    }
                }
                let wait = decided.as_ref().ok().and_then(|decided| decided.wait.clone());
                filled.fill(core, decided);
                CarriedOut { wait, slot: filled, owned: Box::new((on, verb, kept)) }
            }),
        );
        self.unlock(core);
        Ok(Given::InLine(slot, place))
    }

    /// Withdraws a change that stands in line, unless it is made already.
    pub(crate) fn withdraw(&self, buffer: Buffer, place: u64) {
        let withdrawn = self.run(|core| core.withdraw_call(buffer, place));
        drop(withdrawn);
    }

    /// Leads commits until a call that stands in line is made, unless others do: this thread may be one that
    /// they wait for, such as the writer thread in a waker.
    pub(crate) fn lead_for_line<V: Begin>(&self, buffer: Buffer, slot: &LineSlot<V>) -> Result<()> {
        if !slot.is_filled() && self.check_outside_transaction().is_err() {
            let why = "the call was waited for inside a transaction, which it may wait for";
            return Err(Error::OutcomeUnknown { why: why.to_owned() });
        }
        while !slot.is_filled() && self.lead_if_nobody_does(buffer) {}
        Ok(())
    }

    fn lead_if_nobody_does(&self, buffer: Buffer) -> bool {
        let mut core = self.lock();
        let leads = core.check_open().is_ok() && core.buffers[buffer].is_dirty() && {
            reclaim_lead(&mut core, buffer);
            !std::mem::replace(&mut core.buffers[buffer].has_leader, true)
        };
        self.unlock(core);
        if leads {
            self.lead(buffer);
        }
        leads
    }

    /// Carries out the calls that stand in line now, before a close.
    pub(super) fn empty_line<'a>(&'a self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        let mut core = core;
        let mut left = core.calls_in_line();
        while left > 0 && !core.health.is_closed() {
            left = left.saturating_sub(LINE_STEP);
            carry_out(&mut core, Core::next_in_line);
            self.unlock(core);
            core = self.lock();
        }
        core
    }
}

/// Releases the tasks of claims. One whose record cannot be read stays claimed until its session ends.
fn release(core: &mut Core, claims: &[ClaimKey], forgive: bool) {
    for key in claims {
        let _ = core.begin_verb((), &DropClaim { key: *key, forgive });
    }
}
