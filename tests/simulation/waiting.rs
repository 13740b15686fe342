//! Those who wait: futures that are polled by hand, once when they begin and then only if their
//! waker was called. Who is not woken sleeps, and the world looks whether they should.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{Claim, Error, Result, TakeFuture, Tube};

use crate::model::{Micros, NEVER, OWN, SessionNo, TubeNo};
use crate::rng::Rng;
use crate::world::{Came, World, micros};

pub struct Waiting {
    future: TakeFuture,
    bell: Arc<Bell>,
    pub session: SessionNo,
    pub tubes: Vec<TubeNo>,
    pub until: Micros,
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Waiting {
    fn poll(&mut self) -> Poll<Result<Option<Claim>>> {
        let waker = Waker::from(self.bell.clone());
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker))
    }
}

impl World {
    /// Somebody begins to wait in a tube, or in two.
    pub fn wait(&mut self, dice: &mut Rng) {
        let Some(tube) = self.some_tube(dice) else { return };
        if self.waits.len() > 4 {
            return;
        }
        let mut tubes = vec![tube];
        let mut session = self.some_session(dice);
        if dice.one_in(4) {
            tubes.extend(self.some_tube(dice).filter(|other| *other != tube));
            session = OWN;
        }
        let timeout = dice.one_in(2).then(|| Duration::from_micros(1 + dice.below(900_000)));
        let handles: Option<Vec<Tube>> = tubes.iter().map(|no| self.tube(*no, session)).collect();
        let Some(handles) = handles else { return };
        let future = match &handles[..] {
            [one] => one.take_async(timeout),
            several => self.store().take_any_async(&several.iter().collect::<Vec<_>>(), timeout),
        };
        let until = timeout.map_or(NEVER, |timeout| self.model.now + micros(timeout));
        let bell = Arc::new(Bell(AtomicBool::new(false)));
        let mut wait = Waiting { future, bell, session, tubes, until };
        let expected = wait.tubes.iter().find_map(|tube| self.model.next_of(*tube));
        match wait.poll() {
            Poll::Pending => {
                self.meet("wait: begins");
                assert!(expected.is_none() || self.disk.tripped(), "waits beside {expected:?}");
                self.waits.push(wait);
            }
            Poll::Ready(answer) => {
                let answer = answer.map(|claim| claim.expect("nobody gives up at once"));
                if let Came::Done(claim) = self.judge("wait", self.if_alive(wait.session), answer) {
                    let seq = self.grant(claim, &wait.tubes, wait.session);
                    assert_eq!(Some(seq), expected, "not the next task");
                }
            }
        }
    }

    pub fn stop_waiting(&mut self, dice: &mut Rng) {
        if !self.waits.is_empty() {
            let at = dice.index(self.waits.len());
            drop(self.waits.remove(at));
        }
    }

    /// Polls those who were woken, in the order in which they came.
    #[track_caller]
    pub fn poll_woken(&mut self) {
        let mut asleep: Vec<TubeNo> = Vec::new();
        for mut wait in std::mem::take(&mut self.waits) {
            if !wait.bell.0.swap(false, Ordering::SeqCst) {
                asleep.extend(&wait.tubes);
                self.waits.push(wait);
                continue;
            }
            match wait.poll() {
                Poll::Pending => panic!("woken for nothing"),
                Poll::Ready(answer) => self.end_of_wait(wait, answer, &asleep),
            }
        }
    }

    fn end_of_wait(&mut self, wait: Waiting, answer: Result<Option<Claim>>, asleep: &[TubeNo]) {
        match answer {
            Ok(Some(claim)) => {
                self.meet("wait: a task");
                let seq = self.grant(claim, &wait.tubes, wait.session);
                let tube = self.model.tasks[&seq].tube;
                assert!(!asleep.contains(&tube), "somebody who came earlier sleeps on");
            }
            Ok(None) => {
                self.meet("wait: over");
                self.note("wait: over".into());
                assert!(wait.until <= self.model.now, "a wait is over early");
            }
            Err(Error::SessionEnded) => {
                self.meet("wait: session ended");
                self.note("wait: session ended".into());
                assert!(!self.model.is_alive(wait.session), "the session is alive");
            }
            Err(error) => {
                self.meet("wait: storage failed");
                self.note("wait: storage failed".into());
                let fits = matches!(error, Error::Unavailable { .. } | Error::Io { .. });
                assert!(fits && self.disk.tripped(), "{error}");
            }
        }
    }
}
