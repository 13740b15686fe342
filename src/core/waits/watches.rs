//! Watches: callers that wait for the end of a task, or for a drained tube. (`ready` has those that
//! wait for a task that can be taken.)
//!
//! A watch is answered when the change that it waits for becomes visible, from that change. So the
//! answer does not depend on whether the task is kept. In a written tube, where a change is visible
//! before its write, the answer waits for the write.

use std::mem::discriminant;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tubewell_drivers::{Found, Shelf};

use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility};
use crate::core::state::{
    Buffer, Core, Decided, PutRequest, SessionWait, Timer, Wait, WaitSlot, Watch, WatchKey,
    WatchSlot,
};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Begin, Begun, Cancel, Later, Limits, Slot, TubeRef, verb};
use crate::core::verbs::KeyLookUp;
use crate::{Ending, Error, EventKind, Receipt, Result, SessionId, TaskState};

/// The answer to a call that waits for an end.
pub(crate) enum Watching {
    /// There is nothing to wait for. `None` if the timeout is zero.
    Over(Option<Arc<Ending>>),
    /// The call waits, under this key.
    Waiting(WatchKey, Arc<WatchSlot>),
}

impl Watching {
    pub(crate) fn begun(self) -> Begun<Option<Ending>> {
        match self {
            Watching::Over(ending) => Begun::Done(ending.map(Arc::unwrap_or_clone)),
            Watching::Waiting(key, slot) => {
                Begun::Later(Later { slot, cancel: Cancel::Watch(key) })
            }
        }
    }
}

impl Slot<Option<Ending>> for WatchSlot {
    fn wait(&self) -> Result<Decided<Option<Ending>>> {
        WaitSlot::wait(self).map(ended)
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<Option<Ending>>>> {
        WaitSlot::poll(self, waker).map_ok(ended)
    }
}

fn ended(decided: Decided<Option<Arc<Ending>>>) -> Decided<Option<Ending>> {
    decided.map(|ending| ending.map(Arc::unwrap_or_clone))
}

verb! {
    /// How a task has ended, or waits for its end. The timeout is in microseconds.
    7 InTube Look: WaitDone { session: SessionId, id: u64, timeout: Option<u64> } -> Option<Ending> {
        const WAITS: bool = true;
    }
}

impl Begin for WaitDone {
    type First = Watching;

    fn begin(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Watching>> {
        core.wait_done(number, self.session, self.id, self.timeout).map(Decided::now)
    }

    fn begun(first: Watching) -> Begun<Option<Ending>> {
        first.begun()
    }
}

verb! {
    /// Waits until a tube is drained. The timeout is in microseconds.
    8 InTube Look: WaitDrained { session: SessionId, timeout: Option<u64> } -> Option<Ending> {
        const WAITS: bool = true;
    }
}

impl Begin for WaitDrained {
    type First = Watching;

    fn begin(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Watching>> {
        core.wait_drained(number, self.session, self.timeout).map(Decided::now)
    }

    fn begun(first: Watching) -> Begun<Option<Ending>> {
        first.begun()
    }
}

verb! {
    /// Puts a task, and waits for its end. The timeout is in microseconds.
    6 InTube Edit: PutAndWait { session: SessionId, request: PutRequest, timeout: Option<u64> } -> (Receipt, Option<Ending>) {
        const WAITS: bool = true;

        fn may_repeat(&self) -> bool {
            self.request.may_repeat()
        }

        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check(limits.max_body)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Send("put_and_wait"))
        }

        #[cfg(feature = "tracing")]
        fn puts(&mut self) -> &mut [PutRequest] {
            std::slice::from_mut(&mut self.request)
        }

        #[cfg(feature = "tracing")]
        fn id_in((receipt, _): &(Receipt, Option<Ending>)) -> Option<u64> {
            Some(receipt.id)
        }
    }
}

impl Begin for PutAndWait {
    type First = (Receipt, Watching);

    fn begin(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<(Receipt, Watching)>> {
        core.put_and_wait(number, self.session, &self.request, self.timeout)
    }

    fn begun(first: (Receipt, Watching)) -> Begun<(Receipt, Option<Ending>)> {
        let (receipt, watching) = first;
        match watching.begun() {
            Begun::Done(ending) => Begun::Done((receipt, ending)),
            Begun::Later(Later { slot, cancel }) => {
                Begun::Later(Later { slot: Arc::new(AfterPut { receipt, slot }), cancel })
            }
        }
    }
}

/// The wait for the end of a task that was put.
struct AfterPut {
    receipt: Receipt,
    slot: Arc<dyn Slot<Option<Ending>>>,
}

impl Slot<(Receipt, Option<Ending>)> for AfterPut {
    fn wait(&self) -> Result<Decided<(Receipt, Option<Ending>)>> {
        self.slot.wait().map(|decided| decided.map(|ending| (self.receipt, ending)))
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<(Receipt, Option<Ending>)>>> {
        self.slot.poll(waker).map_ok(|decided| decided.map(|ending| (self.receipt, ending)))
    }
}

impl Core {
    /// How a task has ended, or waits for its end. A task with a change that is not yet visible may
    /// have ended with it: the answer comes with that change.
    fn wait_done(
        &mut self,
        number: TubeNo,
        session: SessionId,
        id: u64,
        timeout: Option<u64>,
    ) -> Result<Watching> {
        self.check_session(session)?;
        let is_invisible = self.publishing.is_invisible(id);
        let ending = if is_invisible { None } else { self.ending_of(number, id)? };
        let key = WatchKey::Task(id, self.waits.next_arrival());
        Ok(match ending {
            Some(ending) => self.over(number, key, ending),
            None => self.watch(key, number, session, timeout),
        })
    }

    /// Puts a task, and waits for its end. The watch begins with the put, so that no end is missed.
    fn put_and_wait(
        &mut self,
        number: TubeNo,
        session: SessionId,
        request: &PutRequest,
        timeout: Option<u64>,
    ) -> Result<Decided<(Receipt, Watching)>> {
        self.check_session(session)?;
        let is_seen = self.seen(number, request)?.is_some();
        let put = self.put(number, request)?;
        let id = put.answer.id;
        let number = if is_seen { number } else { self.tube_of_put(number, request) };
        let key = WatchKey::Task(id, self.waits.next_arrival());
        let is_invisible = self.publishing.is_invisible(id);
        let ending = if is_invisible { None } else { self.ending_of(number, id).unwrap_or(None) };
        let watching = match ending {
            None => self.watch(key, number, session, timeout),
            // A waiting taker was offered the task and has removed it, since its ttl is zero.
            Some(Ending::Gone) if !is_seen => Watching::Over(Some(Arc::new(Ending::Expired))),
            // A task that had the key before, or that was put before.
            Some(ending) => self.over(number, key, ending),
        };
        Ok(put.map(|receipt| (receipt, watching)))
    }

    /// The tube with the task that a put has added, or kept since it has the key.
    fn tube_of_put(&mut self, number: TubeNo, request: &PutRequest) -> TubeNo {
        match request.key.as_deref().map(|key| self.look_up_key(key)) {
            Some(Ok(KeyLookUp::Task(keyed))) => keyed.number,
            _ => number,
        }
    }

    /// Waits until a tube is drained.
    fn wait_drained(
        &mut self,
        number: TubeNo,
        session: SessionId,
        timeout: Option<u64>,
    ) -> Result<Watching> {
        self.check_session(session)?;
        if self.is_drained(number) {
            return Ok(Watching::Over(Some(Arc::new(Ending::Gone))));
        }
        let arrival = self.waits.next_arrival();
        Ok(self.watch(WatchKey::Tube(number, arrival), number, session, timeout))
    }

    /// How a task has ended, as decided; `None` if it has not. An id that was never assigned is an
    /// error.
    pub(in crate::core) fn ending_of(&mut self, number: TubeNo, id: u64) -> Result<Option<Ending>> {
        match self.find(number, id) {
            Ok(found) => self.stored_ending(number, id, &found),
            Err(Error::NotFound { .. }) if id < self.ids.next() => Ok(Some(Ending::Gone)),
            Err(error) => Err(error),
        }
    }

    /// How a stored task has ended: one that is buried, or done and kept.
    fn stored_ending(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<Option<Ending>> {
        let header = &found.record.header;
        match found.shelf {
            Shelf::Ready | Shelf::Delayed | Shelf::Blocked | Shelf::Recurring => Ok(None),
            Shelf::Buried => {
                let failure = self.last_failure(number, id, header)?;
                Ok(Some(Ending::Buried { failure }))
            }
            Shelf::Done => {
                let result = self.read_result(number, id, found)?;
                Ok(Some(Ending::Done { result }))
            }
        }
    }

    /// Notes how a task ends, if the change that ends it does not say it all: with a result or with
    /// a failure. Called before that change is made visible, which answers the watches with it.
    pub(in crate::core) fn note_ending(
        &mut self,
        number: TubeNo,
        id: u64,
        ending: impl FnOnce() -> Ending,
    ) {
        self.note_ending_as(self.visibility(number), id, ending);
    }

    /// As `note_ending`, for a change that becomes visible as this says.
    pub(in crate::core) fn note_ending_as(
        &mut self,
        visibility: Visibility,
        id: u64,
        ending: impl FnOnce() -> Ending,
    ) {
        // Otherwise the change is visible at once, and nobody waits.
        let is_later = || {
            self.undo.is_in_transaction()
                || visibility == Visibility::Flushed
                || self.publishing.is_invisible(id)
        };
        if !self.waits.watches.is_empty() || is_later() {
            self.waits.watches.note_ending(id, ending());
        }
    }

    /// Whether a tube has no ready, taken, delayed or blocked task, as far as changes are visible.
    pub(in crate::core) fn is_drained(&self, number: TubeNo) -> bool {
        self.tubes.get(number).is_none_or(|tube| {
            let tasks = &tube.visible.tasks;
            tasks.ready + tasks.taken + tasks.delayed + tasks.blocked == 0
        })
    }

    /// Answers the watches of a task with a change that becomes visible, if that ends the task.
    pub(in crate::core) fn answer_watches(&mut self, change: &Change) {
        let id = change.id;
        let ended = ending_by(change).map(|plain| match change.kind {
            EventKind::Put | EventKind::Move => self.stored_ending_of(change, plain),
            _ => self.waits.watches.take_ending(id, plain),
        });
        let tube = self.tubes.get(change.tube);
        let is_current = tube.is_some_and(|tube| tube.definition.space == change.space);
        let watches: Vec<_> = self.waits.watches.of_task(id).collect();
        if watches.is_empty() {
            return;
        }
        let arrives = is_arrival(change) && is_current;
        let is_written = self.waits.watches.end_is_written();
        let write = is_written.then(|| self.write_of(self.buffer_of(change.tube)));
        for (key, tube) in watches {
            let ending = match &ended {
                Some(ending) if tube == change.tube || arrives => ending.clone(),
                None if arrives => {
                    // It waits for the task, wherever that is.
                    self.waits.watches.follow(key, change.tube);
                    continue;
                }
                None if tube == change.tube && is_current => continue,
                _ if change.is_intermediate => continue,
                // The tube was truncated or dropped, or the task is of another tube.
                _ => Arc::new(Ending::Gone),
            };
            if let Some(write) = &write {
                self.ask_writer(write);
            }
            self.end_watch_after(key, Ok(Decided { answer: Some(ending), wait: write.clone() }));
        }
    }

    /// The answer to a wait for the end of a task that is over: in a written tube, it comes with
    /// the write of that end.
    fn over(&mut self, number: TubeNo, key: WatchKey, ending: Ending) -> Watching {
        let ending = Some(Arc::new(ending));
        let Some(write) = self.write_of_change(number) else { return Watching::Over(ending) };
        self.ask_writer(&write);
        let slot = Arc::new(WatchSlot::new());
        slot.fill(Ok(Decided { answer: ending, wait: Some(write) }));
        Watching::Waiting(key, slot)
    }

    /// What an answer about a task that is over waits for: in a written tube, the caller that has
    /// ended it may still write that.
    pub(in crate::core) fn write_of_change(&self, number: TubeNo) -> Option<Wait> {
        let is_written = matches!(self.visibility(number), Visibility::Written(_));
        is_written.then(|| self.write_of(self.buffer_of(number)))
    }

    /// Answers the watches of a tube that may be drained.
    pub(in crate::core) fn answer_drained(&mut self, number: TubeNo) {
        if !self.is_drained(number) {
            return;
        }
        let of_tube = WatchKey::Tube(number, 0)..=WatchKey::Tube(number, u64::MAX);
        self.end_watches_in(of_tube, || Ok(Some(Arc::new(Ending::Gone))));
    }

    /// Ends the watches of a tube that is truncated or dropped. They are answered after the flush of
    /// that. A task with a change that is not yet visible may have ended by itself before: its
    /// watches are answered with that change.
    pub(in crate::core) fn end_watches_of(&mut self, number: TubeNo) {
        let is_told_later = |key: &WatchKey| {
            self.visit();
            matches!(key, WatchKey::Task(id, _) if self.publishing.is_invisible(*id))
        };
        let keys = self.waits.watches.of_tube(number).filter(|key| !is_told_later(key));
        let keys: Vec<WatchKey> = keys.collect();
        for key in keys {
            let answer = Some(Arc::new(Ending::Gone));
            let wait = Some(self.flush_of(Buffer::File));
            self.end_watch_after(key, Ok(Decided { answer, wait }));
        }
    }

    /// Ends the watches with these keys, each with this outcome.
    pub(in crate::core) fn end_watches_in(
        &mut self,
        keys: impl RangeBounds<WatchKey>,
        outcome: impl Fn() -> Result<Option<Arc<Ending>>>,
    ) {
        for key in self.waits.watches.keys_in(keys) {
            self.visit();
            self.end_watch(key, outcome());
        }
    }

    /// Ends a watch: puts the outcome into its slot.
    pub(in crate::core) fn end_watch(
        &mut self,
        key: WatchKey,
        outcome: Result<Option<Arc<Ending>>>,
    ) {
        self.end_watch_after(key, outcome.map(|answer| Decided { answer, wait: None }));
    }

    /// A watch gives up.
    pub(crate) fn cancel_watch(&mut self, key: WatchKey) {
        self.remove_watch(key);
    }

    fn end_watch_after(&mut self, key: WatchKey, outcome: Result<Decided<Option<Arc<Ending>>>>) {
        if let Some(watch) = self.remove_watch(key) {
            watch.slot.fill(outcome);
            self.effects.after_unlock.deeds().watch_slots.push(watch.slot);
        }
    }

    fn remove_watch(&mut self, key: WatchKey) -> Option<Watch> {
        let watch = self.waits.watches.end(key)?;
        self.sessions.end_wait(watch.session, SessionWait::Watch(key));
        if let Some(deadline) = watch.deadline {
            self.timers.remove(&(deadline, Timer::Watch(key)));
        }
        if let WatchKey::Ready(number, _) = key {
            self.ready_watch_ended(number);
        }
        Some(watch)
    }

    pub(super) fn watch(
        &mut self,
        key: WatchKey,
        tube: TubeNo,
        session: SessionId,
        timeout: Option<u64>,
    ) -> Watching {
        if timeout == Some(0) {
            return Watching::Over(None);
        }
        let slot = Arc::new(WatchSlot::new());
        let deadline = timeout.map(|timeout| self.now.running.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, Timer::Watch(key)));
        }
        self.sessions.begin_wait(session, SessionWait::Watch(key));
        self.waits.watches.begin(key, Watch { slot: slot.clone(), tube, session, deadline });
        Watching::Waiting(key, slot)
    }

    /// How a task had ended that is restored or moved with this ending: its rows say it all. They are
    /// read if there is a watch.
    fn stored_ending_of(&mut self, change: &Change, plain: Ending) -> Arc<Ending> {
        let id = change.id;
        if self.waits.watches.of_task(id).next().is_none() {
            return Arc::new(plain);
        }
        match self.ending_of(change.tube, id) {
            Ok(Some(read)) if discriminant(&read) == discriminant(&plain) => Arc::new(read),
            _ => Arc::new(plain),
        }
    }
}

/// Whether a task comes from another tube with this change.
fn is_arrival(change: &Change) -> bool {
    matches!(change.kind, EventKind::Advance | EventKind::Move) && change.from.is_none()
}

/// How a change ends its task, as far as the change says it; `None` if it does not end the task.
fn ending_by(change: &Change) -> Option<Ending> {
    match (change.kind, change.to) {
        (EventKind::Ack | EventKind::Resolve, _) | (EventKind::Put, TaskState::Done) => {
            Some(Ending::Done { result: None })
        }
        // An expiry is two changes, and the second one tells the reason.
        (EventKind::Delete, _) if change.is_intermediate => None,
        (EventKind::Delete, _) => Some(Ending::Deleted),
        (EventKind::Ttl, _) => Some(Ending::Expired),
        (EventKind::Forget, _) => Some(Ending::Gone),
        // It was buried before.
        (EventKind::Update | EventKind::Log | EventKind::Step, _) => None,
        (_, TaskState::Buried) => Some(Ending::Buried { failure: None }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use crate::core::state::ClaimKey;
    use crate::core::verbs::Kick;
    use crate::{FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions};

    /// A store with a task that its own session has taken, and its key.
    fn with_taken_task(check: impl FnOnce(&Store, &Tube, ClaimKey)) {
        let store = Store::options().clock(ManualClock::new()).open_in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let id = tube.put(Put::new("x").ttl(Duration::from_secs(1))).unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        let key = claim.held.key();
        let _ = claim.detach();
        assert_eq!(key.id, id);
        check(&store, &tube, key);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.inner().run(|core| {
            assert!(core.waits.watches.is_empty());
            assert!(!core.timers.iter().any(|(_, timer)| matches!(timer, Timer::Watch(_))));
        });
    }

    fn done(result: &[u8]) -> Ending {
        Ending::Done { result: Some(result.to_vec()) }
    }

    /// Decides an ack with a result. Nothing has flushed it when this returns.
    fn ack_with(core: &mut Core, key: ClaimKey, result: &[u8]) {
        core.note_ending(key.tube, key.id, || done(result));
        core.ack(key, None).unwrap();
    }

    /// Begins a wait for a task whose end is not visible.
    fn begin_wait(core: &mut Core, tube: &Tube, key: ClaimKey) -> Arc<WatchSlot> {
        match core.wait_done(key.tube, tube.session(), key.id, None).unwrap() {
            Watching::Waiting(_, slot) => slot,
            Watching::Over(ending) => panic!("the task is over: {ending:?}"),
        }
    }

    fn ending(slot: &WatchSlot) -> Ending {
        Ending::clone(&slot.take().unwrap().unwrap().answer.unwrap())
    }

    #[test]
    fn waits_before_and_after_the_decision_return_the_noted_ending() {
        with_taken_task(|store, tube, key| {
            let mut before = pin!(tube.to_async().wait_done(key.id, Duration::from_secs(1)));
            let mut context = Context::from_waker(Waker::noop());
            assert!(before.as_mut().poll(&mut context).is_pending());
            let after = store.inner().run(|core| {
                ack_with(core, key, b"result");
                begin_wait(core, tube, key)
            });
            store.flush().unwrap();
            assert_eq!(ending(&after), done(b"result"));
            assert_eq!(before.as_mut().poll(&mut context), Poll::Ready(Ok(Some(done(b"result")))));
            assert_eq!(tube.wait_done(key.id, Duration::MAX), Ok(Some(Ending::Gone)));
        });
    }

    #[test]
    fn noted_ending_is_removed_when_no_caller_waits() {
        with_taken_task(|store, _, key| {
            store.inner().run(|core| ack_with(core, key, b"result"));
            store.flush().unwrap();
        });
    }

    /// The change that a note is for is found by the kind of its ending.
    #[test]
    fn noted_ending_is_not_that_of_an_earlier_end() {
        with_taken_task(|store, tube, key| {
            let [buried, acked] = store.inner().run(|core| {
                let buried = begin_wait(core, tube, key);
                core.bury(key.tube, key.id, None).unwrap();
                core.begin_verb(tube.as_target(), &Kick { id: key.id }).unwrap();
                let mut bury = core.change(
                    key.tube,
                    key.id,
                    EventKind::Bury,
                    Some(TaskState::Taken),
                    TaskState::Buried,
                    None,
                );
                bury.is_intermediate = true;
                core.note_ending(key.tube, key.id, || done(b"result"));
                core.answer_watches(&bury);
                let acked = begin_wait(core, tube, key);
                let ack = Change { kind: EventKind::Ack, to: TaskState::Done, ..bury };
                core.answer_watches(&ack);
                [buried, acked]
            });
            assert_eq!(ending(&buried), Ending::Buried { failure: None });
            assert_eq!(ending(&acked), done(b"result"));
            store.flush().unwrap();
        });
    }

    /// The expiry is two changes, which wait for the flush of the touch before them.
    #[test]
    fn expiry_behind_a_change_that_is_not_yet_visible_is_told_as_expired() {
        with_taken_task(|store, tube, key| {
            let wait = store.inner().run(|core| {
                core.touch(key, 1).unwrap();
                core.expire(key.tube, key.id).unwrap();
                begin_wait(core, tube, key)
            });
            store.flush().unwrap();
            assert_eq!(ending(&wait), Ending::Expired);
        });
    }

    #[test]
    fn dropped_futures_leave_nothing() {
        with_taken_task(|store, tube, key| {
            let mut context = Context::from_waker(Waker::noop());
            let timeout = Duration::from_secs(1);
            let mut done = tube.to_async().wait_done(key.id, timeout);
            let mut drained = tube.to_async().wait_drained(timeout);
            let mut put = tube.to_async().put_and_wait("y", timeout);
            assert!(pin!(&mut done).poll(&mut context).is_pending());
            assert!(pin!(&mut drained).poll(&mut context).is_pending());
            assert!(pin!(&mut put).poll(&mut context).is_pending());
            assert_eq!(store.inner().run(|core| core.waits.watches.iter().count()), 3);
            drop((done, drained, put));
        });
    }

    /// Every claim of a timed tube has a timer.
    #[test]
    fn watches_do_not_make_timers_larger() {
        assert_eq!(size_of::<Timer>(), 24);
    }
}
