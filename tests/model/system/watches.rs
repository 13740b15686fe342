//! Waits for the end of a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{Result, Ticket};

use super::convert::{agree, refusal_of};
use super::reference::{Answer, Ending, WaitNo};
use super::steps::Pick;
use super::{System, stores};

/// A caller that waits for the end of a task.
pub(super) struct WaitingForEnd {
    future: Pin<Box<Ticket<Option<tubewell::Ending>>>>,
    is_woken: Arc<WakeFlag>,
    answer: Option<Answer<Ending>>,
}

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<WakeFlag>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl WaitingForEnd {
    fn poll(&mut self) {
        if self.answer.is_none() && self.is_woken.0.swap(false, Ordering::SeqCst) {
            let waker = Waker::from(Arc::clone(&self.is_woken));
            if let Poll::Ready(ended) = self.future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                self.answer = Some(answer_of(ended));
            }
        }
    }
}

impl System {
    pub(super) fn wait_done(&mut self, pick: &Pick, waits: bool) {
        let Some((tube, tube_no, session)) = self.tube(0, pick.tube) else { return };
        let (no, id) = self.pick(pick, tube_no, session);
        let want = self.model.ending(tube_no, no);
        let is_over = want != Ok(None);
        if let Some((got, want)) = agree(tube.ending(id), want.clone()) {
            assert_eq!(got.map(ending_of), want);
        }
        if let Some((got, want)) = agree(tube.wait_done(id, Duration::ZERO), want) {
            assert_eq!(got.map(ending_of), want);
        }
        if is_over {
            return;
        }
        let mut waiting = WaitingForEnd {
            future: Box::pin(tube.to_async().wait_done(id, Duration::MAX)),
            is_woken: Arc::new(WakeFlag(AtomicBool::new(true))),
            answer: None,
        };
        waiting.poll();
        stores::settle_waits(&self.store);
        assert_eq!(waiting.answer, None);
        if !waits {
            // The wait is given up.
            return;
        }
        self.watches.insert(self.model.watch(no), waiting);
    }

    /// Polls the woken callers that wait for an end.
    pub(super) fn poll_watches(&mut self) {
        self.watches.values_mut().for_each(WaitingForEnd::poll);
    }

    pub(super) fn actual_endings(&self) -> Vec<(WaitNo, Option<Answer<Ending>>)> {
        self.watches.iter().map(|(no, waiting)| (*no, waiting.answer.clone())).collect()
    }

    /// What the model answers. If the time of a claim and the ttl of its task elapse at the same
    /// moment, it is left open whether the task is buried before it is removed. A task that expires
    /// as it is moved may be removed by a waiting take.
    pub(super) fn expected_endings(&self) -> Vec<(WaitNo, Option<Answer<Ending>>)> {
        let expected = |(no, waiting): (&WaitNo, &WaitingForEnd)| {
            let want = self.model.watch_answer(*no);
            let is_open = waiting.answer == Some(Ok(Ending::Expired))
                && match want {
                    None => self.model.is_expired(*no),
                    Some(Ok(Ending::Buried(_))) => self.model.is_removed(*no),
                    Some(_) => false,
                };
            (*no, if is_open { waiting.answer.clone() } else { want })
        };
        self.watches.iter().map(expected).collect()
    }

    /// In a written tube an answer comes with the write of the end, of which another thread tells.
    fn wait_for_writes(&mut self) {
        for (no, want) in self.expected_endings() {
            for _ in 0..10_000_000 {
                let Some(waiting) = self.watches.get_mut(&no) else { break };
                if want.is_none() || waiting.answer.is_some() {
                    break;
                }
                std::thread::yield_now();
                waiting.poll();
            }
        }
    }

    /// Compares the answers, and ends the waits that have one.
    #[track_caller]
    pub(super) fn check_watches(&mut self) {
        self.poll_watches();
        self.wait_for_writes();
        assert_eq!(self.actual_endings(), self.expected_endings());
        let answered = self.watches.iter().filter(|(_, waiting)| waiting.answer.is_some());
        for no in answered.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.watches.remove(&no);
            self.model.cancel_watch(no);
        }
    }
}

fn answer_of(ended: Result<Option<tubewell::Ending>>) -> Answer<Ending> {
    match ended {
        Ok(ending) => Ok(ending_of(ending.unwrap())),
        Err(error) => Err(refusal_of(&error)),
    }
}

pub(super) fn ending_of(ending: tubewell::Ending) -> Ending {
    match ending {
        tubewell::Ending::Done { result } => Ending::Done(result),
        tubewell::Ending::Buried { failure } => Ending::Buried(failure.map(|it| it.group)),
        tubewell::Ending::Deleted => Ending::Deleted,
        tubewell::Ending::Expired => Ending::Expired,
        tubewell::Ending::Gone => Ending::Gone,
        other => panic!("the model has no ending {other:?}"),
    }
}
