//! Waiting takers: futures that are polled by hand, once at the start and then only after their
//! waker was called. The simulator checks that every taker is woken when it should be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{AsyncClaim, Claim, Error, Result, Ticket, Tube};

use crate::model::{Micros, NEVER, STORE_SESSION, SessionNo, TubeNo};
use crate::rng::Rng;
use crate::simulator::{Outcome, Simulator, micros};

pub struct Waiter {
    future: Ticket<Option<AsyncClaim>>,
    woken: Arc<WokenFlag>,
    pub session: SessionNo,
    pub tubes: Vec<TubeNo>,
    pub until: Micros,
}

struct WokenFlag(AtomicBool);

impl Wake for WokenFlag {
    fn wake(self: Arc<WokenFlag>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Waiter {
    fn poll(&mut self) -> Poll<Result<Option<Claim>>> {
        let waker = Waker::from(self.woken.clone());
        let answer = Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker));
        answer.map_ok(|claim| claim.map(AsyncClaim::into_blocking))
    }
}

impl Simulator {
    /// Starts a waiting take in one tube or in two.
    pub fn start_waiting(&mut self, rng: &mut Rng) {
        let Some(tube) = self.random_tube(rng) else { return };
        if self.waiters.len() > 4 {
            return;
        }
        let mut tubes = vec![tube];
        let mut session = self.random_session(rng);
        if rng.one_in(4) {
            tubes.extend(self.random_tube(rng).filter(|other| *other != tube));
            session = STORE_SESSION;
        }
        let timeout = rng.one_in(2).then(|| Duration::from_micros(1 + rng.below(900_000)));
        let handles: Option<Vec<Tube>> = tubes.iter().map(|no| self.tube(*no, session)).collect();
        let Some(handles) = handles else { return };
        let most = timeout.unwrap_or(Duration::MAX);
        let future = match &handles[..] {
            [one] => one.to_async().take_timeout(most),
            several => self.store().to_async().take_any(&several.iter().collect::<Vec<_>>(), most),
        };
        let until = timeout.map_or(NEVER, |timeout| self.model.now + micros(timeout));
        let woken = Arc::new(WokenFlag(AtomicBool::new(false)));
        let mut waiter = Waiter { future, woken, session, tubes, until };
        let expected = waiter.tubes.iter().find_map(|tube| self.model.next_task(*tube));
        match waiter.poll() {
            Poll::Pending => {
                self.cover("wait: begins");
                assert!(
                    expected.is_none() || self.disk.tripped(),
                    "waits although task {expected:?} is takeable"
                );
                self.waiters.push(waiter);
            }
            Poll::Ready(answer) => {
                let answer = answer.map(|claim| {
                    claim.expect("a take that waits does not time out at its first poll")
                });
                if let Outcome::Done(claim) =
                    self.check_answer("wait", self.if_alive(waiter.session), answer)
                {
                    let seq = self.record_taken(claim, &waiter.tubes, waiter.session);
                    assert_eq!(Some(seq), expected, "not the next task");
                }
            }
        }
    }

    pub fn cancel_wait(&mut self, rng: &mut Rng) {
        if !self.waiters.is_empty() {
            let at = rng.index(self.waiters.len());
            drop(self.waiters.remove(at));
        }
    }

    /// Polls the takers that were woken, in the order of their arrival.
    #[track_caller]
    pub fn poll_woken(&mut self) {
        let mut not_woken: Vec<TubeNo> = Vec::new();
        for mut waiter in std::mem::take(&mut self.waiters) {
            if !waiter.woken.0.swap(false, Ordering::SeqCst) {
                not_woken.extend(&waiter.tubes);
                self.waiters.push(waiter);
                continue;
            }
            match waiter.poll() {
                Poll::Pending => panic!("a taker was woken without a result"),
                Poll::Ready(answer) => self.finish_wait(waiter, answer, &not_woken),
            }
        }
    }

    fn finish_wait(&mut self, waiter: Waiter, answer: Result<Option<Claim>>, not_woken: &[TubeNo]) {
        match answer {
            Ok(Some(claim)) => {
                self.cover("wait: task");
                let seq = self.record_taken(claim, &waiter.tubes, waiter.session);
                let tube = self.model.tasks[&seq].tube;
                assert!(!not_woken.contains(&tube), "an earlier taker of this tube was not woken");
            }
            Ok(None) => {
                self.cover("wait: timed out");
                self.note("wait: timed out".into());
                assert!(waiter.until <= self.model.now, "a wait timed out early");
            }
            Err(Error::SessionEnded) => {
                self.cover("wait: session ended");
                self.note("wait: session ended".into());
                assert!(!self.model.is_alive(waiter.session), "the session is alive");
            }
            Err(error) => {
                self.cover("wait: storage failed");
                self.note("wait: storage failed".into());
                let fits = matches!(error, Error::Unavailable { .. } | Error::Io { .. });
                assert!(fits && self.disk.tripped(), "{error}");
            }
        }
    }
}
