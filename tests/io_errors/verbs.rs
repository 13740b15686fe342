//! The calls of the scenario, and what their results mean for the expected contents.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{Claim, ClaimToken, Error, Filter, Put, Result, TaskState, Tube, TubeOptions};

use crate::expected::{Contents, Level, Stored};
use crate::scenario::{STEP, Scenario};
use crate::support::assert_is_storage_error;

impl Scenario {
    pub(super) fn create(&mut self, name: &str, driver: &str, options: TubeOptions) {
        let created = self.store().create_tube(name, options.driver(driver)).map(drop);
        self.record(created, Level::Flushed, |expected| expected.insert(name, "", Stored::Ready));
    }

    pub(super) fn put(&mut self, name: &str, large: bool) {
        let Some(tube) = self.tube(name) else { return };
        let body = self.body(large);
        let put = tube.put(self.new_put(name, &body)).map(drop);
        self.record(put, level(name), |expected| {
            expected.insert(name, label(&body), Stored::Ready);
        });
    }

    pub(super) fn put_many(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let bodies = [self.body(false), self.body(true), self.body(false)];
        let put = tube.put_many(bodies.iter().map(|body| self.new_put(name, body))).map(drop);
        self.record(put, level(name), |expected| {
            for body in &bodies {
                expected.insert(name, label(body), Stored::Ready);
            }
        });
    }

    pub(super) fn put_deferred(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let body = self.body(false);
        let ticket = tube.to_async().put(self.new_put(name, &body));
        let put = ticket.wait().map(drop);
        self.record(put, level(name), |expected| {
            expected.insert(name, label(&body), Stored::Ready);
        });
    }

    pub(super) fn take_then(&mut self, name: &str, then: AfterTake) {
        let Some(tube) = self.tube(name) else { return };
        let claim = match tube.try_take() {
            Ok(Some(claim)) => claim,
            Ok(None) => return,
            Err(error) => return self.record(Err(error), Level::Decided, |_| {}),
        };
        let body = String::from_utf8(claim.body().to_vec()).unwrap();
        let body = label(&body);
        assert_eq!(self.expected.current().state(name, body), Some(Stored::Ready), "{body}");
        let (done, state) = match then {
            AfterTake::Park => return self.park(name, body, claim),
            AfterTake::ParkBriefly => (claim.park(STEP * 2).map(drop), Some(Stored::Ready)),
            AfterTake::Ack => (claim.ack().map(drop), None),
            AfterTake::Bury => (claim.bury(None).map(drop), Some(Stored::Buried)),
            AfterTake::ReleaseLater => (claim.release_in(STEP * 2).map(drop), Some(Stored::Ready)),
            AfterTake::Touch => {
                (claim.touch(Duration::from_secs(1)).map(drop), Some(Stored::Ready))
            }
            AfterTake::Drop => return drop(claim),
        };
        self.record(done, level(name), |expected| match state {
            Some(state) => expected.insert(name, body, state),
            None => expected.remove(name, body),
        });
    }

    fn park(&mut self, name: &str, body: &str, claim: Claim) {
        let parked = claim.park(Duration::from_secs(3600));
        let is_known = !matches!(parked, Err(Error::OutcomeUnknown { .. }));
        if let Ok(token) = &parked {
            self.tokens.push((body.to_owned(), token.clone()));
        }
        self.record(parked.map(drop), level(name), |expected| {
            expected.insert(name, body, Stored::Parked);
        });
        if !is_known {
            // The claim was dropped.
            self.expected.change(|expected| expected.insert(name, body, Stored::Ready));
        }
    }

    /// Resumes the first parked claim of a tube whose token is known, and ends it.
    pub(super) fn resume_then(&mut self, name: &str, then: AfterResume) {
        let is_parked = |(body, token): &&(String, ClaimToken)| {
            let state = self.expected.current().state(name, body);
            token.tube() == name && state == Some(Stored::Parked)
        };
        let Some((body, token)) = self.tokens.iter().find(is_parked).cloned() else { return };
        let claim = match self.store().resume_claim(&token) {
            Ok(claim) => claim,
            Err(error) => return self.record(Err(error), Level::Decided, |_| {}),
        };
        assert_eq!(label(str::from_utf8(claim.body()).unwrap()), body);
        let ended = match then {
            AfterResume::Ack => claim.ack().map(drop),
            AfterResume::Bury => claim.bury(None).map(drop),
            AfterResume::Release => claim.release().map(drop),
            AfterResume::Park => return self.park(name, &body, claim),
            AfterResume::Drop => {
                drop(claim);
                return self.record(Ok(()), Level::Decided, |expected| {
                    expected.insert(name, &body, Stored::Ready);
                });
            }
        };
        // A refused call drops the claim.
        let is_refused = !matches!(ended, Ok(()) | Err(Error::OutcomeUnknown { .. }));
        self.record(ended, level(name), |expected| match then {
            AfterResume::Ack => expected.remove(name, &body),
            AfterResume::Bury => expected.insert(name, &body, Stored::Buried),
            _ => expected.insert(name, &body, Stored::Ready),
        });
        if is_refused {
            self.expected.change(|expected| expected.insert(name, &body, Stored::Ready));
        }
    }

    /// Takes a task by its id, replaces its body, and releases it. Each new body is on the other
    /// side of 1 KiB, so that it moves between the record and a row of its own.
    pub(super) fn claim_then_checkpoint(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let Ok(page) = tube.query().list(TaskState::Ready, None, 1) else { return };
        let Some(task) = page.items.first() else { return };
        let mut claim = match tube.claim(task.id) {
            Ok(claim) => claim,
            // A parked claim makes its sub-queue busy.
            Err(Error::NotReady { .. }) => return,
            Err(error) => return self.record(Err(error), Level::Decided, |_| {}),
        };
        for _ in 0..2 {
            let old = String::from_utf8(claim.body().to_vec()).unwrap();
            let new = next_body(&old);
            let stored = claim.checkpoint(new.clone()).map(drop);
            // After an unknown outcome the handle may have either body.
            let is_known = !matches!(stored, Err(Error::OutcomeUnknown { .. }));
            let expected = if stored.is_ok() { &new } else { &old };
            assert!(!is_known || claim.body() == expected.as_bytes(), "{stored:?}");
            self.record(stored, level(name), |contents| {
                contents.remove(name, label(&old));
                contents.insert(name, label(&new), Stored::Ready);
            });
            if !is_known {
                return;
            }
        }
    }

    pub(super) fn kick(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let kicked = tube.admin().kick(Filter::new().limit(100)).map(drop);
        self.record(kicked, level(name), |expected| expected.kick(name));
    }

    pub(super) fn delete(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let Ok(page) = tube.query().list(TaskState::Ready, None, 1) else { return };
        let Some(task) = page.items.first() else { return };
        let Ok(found) = tube.query().task(task.id) else { return };
        let body = String::from_utf8(found.body.to_vec()).unwrap();
        let deleted = tube.delete(task.id).map(drop);
        self.record(deleted, level(name), |expected| {
            expected.remove(name, label(&body));
        });
    }

    pub(super) fn truncate(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let truncated = tube.admin().truncate();
        self.record(truncated, Level::Flushed, |expected| expected.remove_tasks(name));
    }

    pub(super) fn drop_tube(&mut self, name: &str) {
        if self.tube(name).is_none() {
            return;
        }
        self.waiting = None;
        let dropped = self.store().drop_tube(name);
        self.record(dropped, Level::Flushed, |expected| {
            expected.remove_tasks(name);
            expected.remove(name, "");
        });
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.store().flush().map(drop);
        self.record(flushed, Level::Flushed, |_| {});
    }

    /// Starts a take that waits on a tube which gets no task.
    pub(super) fn start_waiting_take(&mut self) {
        if self.waiting.is_some() {
            return;
        }
        let Ok(tube) = self.store().find_tube("idle") else { return };
        let woken = Arc::new(WakeFlag(AtomicBool::new(false)));
        let mut waiting = tube.to_async().take_timeout(Duration::MAX);
        let waker = Waker::from(woken.clone());
        match pin!(&mut waiting).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.waiting = Some((waiting, woken)),
            Poll::Ready(Err(error)) => assert_is_storage_error(&error),
            Poll::Ready(Ok(claim)) => panic!("{claim:?}"),
        }
    }

    /// Records the changes of a call according to its result, then lets one step of time pass.
    #[track_caller]
    pub(super) fn record(
        &mut self,
        result: Result<()>,
        level: Level,
        change: impl FnOnce(&mut Contents),
    ) {
        match &result {
            Ok(()) => {
                let before = self.expected.current().clone();
                self.expected.change(change);
                self.expected.acknowledge(level, before != *self.expected.current());
            }
            Err(Error::OutcomeUnknown { .. }) => self.expected.change(change),
            Err(error) => assert_is_storage_error(error),
        }
        if result.is_err() {
            self.check_waiting_take();
        }
        self.clock.advance(STEP);
    }

    /// If the store has failed, the waiting take must be woken and return `Unavailable`.
    #[track_caller]
    pub(super) fn check_waiting_take(&mut self) {
        if self.store().flush().is_ok() {
            return;
        }
        let Some((mut waiting, woken)) = self.waiting.take() else { return };
        assert!(woken.0.load(Ordering::SeqCst), "the store has failed; the take was not woken");
        let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(Error::Unavailable { .. }))), "{polled:?}");
    }

    pub(super) fn tube(&self, name: &str) -> Option<Tube> {
        match self.store().find_tube(name) {
            Ok(tube) => Some(tube),
            Err(Error::TubeNotFound { .. }) => None,
            Err(error) => {
                assert_is_storage_error(&error);
                None
            }
        }
    }

    pub(super) fn body(&mut self, large: bool) -> String {
        self.puts += 1;
        // The largest does not fit in the journal: its commit empties the journal into the tables.
        let length = match large {
            true if self.puts.is_multiple_of(4) => 270_000,
            true => 5000,
            false => 20,
        };
        body_of(&format!("b{}", self.puts), length)
    }

    pub(super) fn new_put<'a>(&self, name: &str, body: &'a str) -> Put<&'a str> {
        let put = Put::new(body);
        if name.starts_with("utube") { put.sub_queue(format!("s{}", self.puts % 3)) } else { put }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum AfterTake {
    Ack,
    Bury,
    ReleaseLater,
    Touch,
    Drop,
    Park,
    /// The claim ends before the next check.
    ParkBriefly,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum AfterResume {
    Ack,
    Bury,
    Release,
    Drop,
    Park,
}

pub(super) struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<WakeFlag>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn level(name: &str) -> Level {
    match name {
        "written" | "utubewritten" => Level::Written,
        "utubettl" | "memory" => Level::Decided,
        _ => Level::Flushed,
    }
}

fn body_of(name: &str, length: usize) -> String {
    format!("{name}-{length}.{}", "x".repeat(length))
}

/// A body to replace this one with. One of the two is longer than 1 KiB.
fn next_body(body: &str) -> String {
    let (name, _) = body.split_once('-').unwrap();
    body_of(&format!("{name}c"), if body.len() > 1024 { 20 } else { 5000 })
}

/// The label of a body, which determines the rest of it.
pub(super) fn label(body: &str) -> &str {
    let (label, rest) = body.split_once('.').unwrap();
    let length: usize = label.split_once('-').unwrap().1.parse().unwrap();
    assert!(rest.len() == length && rest.bytes().all(|byte| byte == b'x'), "the body of {label}");
    label
}
