//! Takes that wait for a task.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tubewell::{AsyncClaim, Claim, Result, Ticket, Tube};

use super::convert::{agree, duration};
use super::put_wait::MAX_YIELDS;
use super::reference::{Micros, SessionNo, WaitNo};
use super::steps::Choice;
use super::{System, stores};

/// A waiting take. Its future is polled only after its waker was called.
pub(super) struct WaitingTake {
    pub(super) future: Option<Pin<Box<Ticket<Option<AsyncClaim>>>>>,
    pub(super) wake_flag: Arc<WakeFlag>,
    pub(super) answer: Option<Result<Option<Claim>>>,
    pub(super) session: SessionNo,
    pub(super) keep: bool,
}

pub(super) struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl WaitingTake {
    pub(super) fn woken(&self) -> bool {
        self.wake_flag.0.load(Ordering::SeqCst)
    }

    /// Polls the future if its waker was called since the last poll. The task that it then has
    /// may have to be counted first, which calls the waker again.
    pub(super) fn poll_if_woken(&mut self) {
        if self.poll_once_if_woken() {
            self.poll_until_answered();
        }
    }

    /// Polls the future whenever its waker is called, until it has an answer.
    fn poll_until_answered(&mut self) {
        let mut yields = 0;
        while self.answer.is_none() {
            if !self.poll_once_if_woken() {
                yields += 1;
                assert!(yields < MAX_YIELDS, "a take that was assigned a task does not end");
                thread::yield_now();
            }
        }
    }

    fn poll_once_if_woken(&mut self) -> bool {
        let is_woken = self.wake_flag.0.swap(false, Ordering::SeqCst);
        if is_woken && let Some(future) = &mut self.future {
            let waker = Waker::from(Arc::clone(&self.wake_flag));
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.future = None;
                self.answer = Some(answer.map(|claim| claim.map(AsyncClaim::into_blocking)));
            }
        }
        is_woken
    }
}

impl System {
    pub(super) fn wait(&mut self, client: usize, tubes: &[usize], until: Micros, keep: bool) {
        let (handles, tubes, session) = self.distinct_tubes(client, tubes);
        if tubes.iter().any(|tube| self.model.waiting_puts(*tube) > 0) {
            // The specification leaves open whether the take gets the task of a waiting put or a
            // task that is released in the same call.
            return;
        }
        let future = match &handles[..] {
            [] => return,
            [one] => one.to_async().take_timeout(duration(until)),
            several => {
                let several: Vec<&Tube> = several.iter().collect();
                match &self.clients[client].session {
                    Some(session) => session.to_async().take_any(&several, duration(until)),
                    None => self.store.to_async().take_any(&several, duration(until)),
                }
            }
        };
        let no = self.model.wait(session, &tubes, until).unwrap();
        let mut waiting = WaitingTake {
            future: Some(Box::pin(future)),
            wake_flag: Arc::new(WakeFlag(AtomicBool::new(true))),
            answer: None,
            session,
            keep,
        };
        waiting.poll_once_if_woken();
        stores::settle_waits(&self.store);
        if self.model.answer(no).is_some() {
            waiting.poll_until_answered();
        }
        assert_eq!(waiting.answer.is_some(), self.model.answer(no).is_some());
        self.waits.insert(no, waiting);
        self.collect_take_answers();
    }

    /// Drops a waiting take, answered or not. A task that was assigned to it is released.
    pub(super) fn cancel(&mut self, wait: Choice) {
        if self.waits.is_empty() {
            return;
        }
        let mut waits: Vec<WaitNo> = self.waits.keys().copied().collect();
        // Prefer a take that was woken but not polled.
        waits.sort_by_key(|no| !self.waits[no].woken());
        let woken = waits.iter().filter(|no| self.waits[*no].woken()).count();
        waits.truncate(if woken > 0 { woken } else { waits.len() });
        self.drop_wait(*wait.get(&waits));
    }

    pub(super) fn drop_wait(&mut self, wait: WaitNo) {
        self.waits.remove(&wait);
        self.model.cancel(wait);
    }

    /// Polls all woken takes.
    pub(super) fn poll_waits(&mut self) {
        self.poll_takes();
        self.check_waits();
        self.collect_take_answers();
    }

    /// Drops takes whose task was assigned and lost again before the poll: the specification leaves
    /// open whether such a take returns a stale claim or continues to wait.
    pub(super) fn poll_takes(&mut self) {
        self.drop_lost_takes();
        for waiting in self.waits.values_mut() {
            waiting.poll_if_woken();
        }
    }

    pub(super) fn drop_lost_takes(&mut self) {
        let lost = |no: &WaitNo| match self.model.answer(*no) {
            Some(Ok(Some(taken))) => !self.model.is_current(taken),
            _ => false,
        };
        for no in self.waits.keys().copied().filter(lost).collect::<Vec<_>>() {
            self.drop_wait(no);
        }
    }

    /// Ends the takes that have an answer, and compares each answer with the model.
    pub(super) fn collect_take_answers(&mut self) {
        let answered = self.waits.iter().filter(|(_, waiting)| waiting.answer.is_some());
        for no in answered.map(|(no, _)| *no).collect::<Vec<_>>() {
            let Some(waiting) = self.waits.remove(&no) else { continue };
            let (got, want) = (waiting.answer.unwrap(), self.model.fetch(no).unwrap());
            if let Some((got, want)) = agree(got, want) {
                self.taken(waiting.session, got, want, waiting.keep);
            }
        }
    }
}
