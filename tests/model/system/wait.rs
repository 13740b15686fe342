//! Waiting.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tubewell::{Claim, Result, TakeFuture, Tube};

use super::System;
use super::reference::{Micros, SessionNo, WaitNo};
use super::steps::Choice;
use super::words::{agree, timeout};

/// A take that waits, polled by hand when its waker was called.
pub(super) struct Waiting {
    pub(super) future: Option<Pin<Box<TakeFuture>>>,
    pub(super) bell: Arc<Bell>,
    pub(super) answer: Option<Result<Option<Claim>>>,
    pub(super) session: SessionNo,
    pub(super) keep: bool,
}

pub(super) struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Waiting {
    pub(super) fn rung(&self) -> bool {
        self.bell.0.load(Ordering::SeqCst)
    }

    /// Polls if the bell was rung; an answer that nobody is told of is no answer.
    pub(super) fn look(&mut self) {
        if self.bell.0.swap(false, Ordering::SeqCst)
            && let Some(future) = &mut self.future
        {
            let waker = Waker::from(Arc::clone(&self.bell));
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.future = None;
                self.answer = Some(answer);
            }
        }
    }
}

impl System {
    pub(super) fn wait(&mut self, seat: usize, tubes: &[usize], until: Micros, keep: bool) {
        let (handles, tubes, session) = self.several(seat, tubes);
        if tubes.iter().any(|tube| self.model.waiting_puts(*tube) > 0) {
            // Whether he gets what is let in before what comes back with it is not said.
            return;
        }
        let future = match &handles[..] {
            [] => return,
            [one] => one.take_async(timeout(until)),
            several => {
                let several: Vec<&Tube> = several.iter().collect();
                match &self.seats[seat].session {
                    Some(session) => session.take_any_async(&several, timeout(until)),
                    None => self.store.take_any_async(&several, timeout(until)),
                }
            }
        };
        let no = self.model.wait(session, &tubes, until).unwrap();
        let mut waiting = Waiting {
            future: Some(Box::pin(future)),
            bell: Arc::new(Bell(AtomicBool::new(true))),
            answer: None,
            session,
            keep,
        };
        waiting.look();
        assert_eq!(waiting.answer.is_some(), self.model.answer(no).is_some());
        self.waits.insert(no, waiting);
        self.fetch();
    }

    /// Gives up a wait, answered or not: what it was given goes back.
    pub(super) fn cancel(&mut self, wait: Choice) {
        if self.waits.is_empty() {
            return;
        }
        let mut waits: Vec<WaitNo> = self.waits.keys().copied().collect();
        // Rather one who was woken and has not looked.
        waits.sort_by_key(|no| !self.waits[no].rung());
        let rung = waits.iter().filter(|no| self.waits[*no].rung()).count();
        waits.truncate(if rung > 0 { rung } else { waits.len() });
        self.give_up(*wait.get(&waits));
    }

    pub(super) fn give_up(&mut self, wait: WaitNo) {
        self.waits.remove(&wait);
        self.model.cancel(wait);
    }

    /// All who were woken look why.
    pub(super) fn look(&mut self) {
        self.poll();
        self.check_waits();
        self.fetch();
    }

    /// Who was given a task and has lost it before he looked may get a stale claim or go on
    /// waiting, the specification does not say. He gives up.
    fn poll(&mut self) {
        let lost = |no: &WaitNo| match self.model.answer(*no) {
            Some(Ok(Some(taken))) => !self.model.stands(taken),
            _ => false,
        };
        for no in self.waits.keys().copied().filter(lost).collect::<Vec<_>>() {
            self.give_up(no);
        }
        for waiting in self.waits.values_mut() {
            waiting.look();
        }
    }

    /// Those who have their answer do not wait any more.
    pub(super) fn fetch(&mut self) {
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
