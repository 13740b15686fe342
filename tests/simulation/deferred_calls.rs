//! Calls with tickets. The disk blocks the writer thread before the flush of the first call, so that
//! the other calls always run while a commit is in flight, which keeps the run deterministic.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tubewell::{Receipt, Result, Ticket};

use crate::disk::BlockedWriter;
use crate::model::{Edit, Level, STORE_SESSION, Seq, TubeNo};
use crate::rng::Rng;
use crate::simulator::{Expected, HeldClaim, Outcome, Simulator};

/// A deferred call without an answer yet.
struct DeferredCall {
    verb: &'static str,
    seq: Seq,
    edits: Vec<Edit>,
    number: u64,
    /// The claim, if the call does not end it.
    held: Option<HeldClaim>,
}

type PendingCall = (Ticket<Receipt>, DeferredCall);

impl Simulator {
    /// Makes several deferred calls while the first commit is blocked, then waits for the answers.
    pub fn deferred_calls(&mut self, rng: &mut Rng) {
        if self.disk.tripped() {
            return;
        }
        let writer = self.disk.block_writer();
        let mut tickets = Vec::new();
        for _ in 0..2 + rng.below(4) {
            let waker = tickets.is_empty().then(|| writer.watch_commit());
            let Some((ticket, call)) = self.deferred_call(rng) else { continue };
            if let Some(waker) = waker {
                self.wait_until_in_flight(&writer, &waker, ticket, call, &mut tickets);
            } else {
                tickets.push((ticket, call));
            }
            if self.disk.tripped() {
                break;
            }
            // A task with a change in flight is not taken and does not block others.
            if let Some(no) = self.random_tube(rng).filter(|_| rng.one_in(2))
                && !self.may_differ(no)
            {
                self.take_from(no, STORE_SESSION);
            }
        }
        // The timing of threads decides whether a written change is in the file by now.
        let written = tickets
            .iter()
            .any(|(_, call)| self.model.level(self.model.tasks[&call.seq].tube) == Level::Written);
        if rng.one_in(8) && !tickets.is_empty() && !written {
            self.cover("crash: during a commit");
            return self.crash_with(rng, Some(writer));
        }
        drop(writer);
        for (ticket, call) in tickets {
            let answer = ticket.wait();
            self.finish_call(call, answer);
        }
    }

    /// Whether a take may return another task than the model expects. While the removal of a
    /// sub-queue's first task is in flight, the next task of the sub-queue may not be takeable yet.
    /// A change in a written tube may be visible before its answer.
    fn may_differ(&self, no: TubeNo) -> bool {
        if self.model.level(no) == Level::Written {
            return self.model.tasks.values().any(|task| task.tube == no && task.in_flight);
        }
        let mut live = self.model.live_tasks(no);
        self.model.tubes[&no].sub_queued && live.any(|(_, task, _)| task.in_flight)
    }

    /// Whether a deferred call in this tube waits for a commit, and shows nothing before its answer:
    /// in a written tube a waiting take may get a task earlier.
    fn waits_for_commit(&self, no: TubeNo) -> bool {
        match self.model.level(no) {
            Level::Flushed => true,
            Level::Written => !self.waiters.iter().any(|waiter| waiter.tubes.contains(&no)),
            _ => false,
        }
    }

    fn deferred_call(&mut self, rng: &mut Rng) -> Option<PendingCall> {
        let choice = rng.below(5);
        if choice < 2 {
            let no = self.random_tube(rng)?;
            let tube = self.tube(no, STORE_SESSION)?;
            if !self.waits_for_commit(no) || self.model.tubes[&no].capacity > 0 {
                return None;
            }
            let (seq, put, edit) = self.random_put(no, rng);
            let answer = unless_refused(tube.to_async().put(put));
            return self.start_call("put deferred", seq, Ok(vec![edit]), answer);
        }
        if choice == 2 {
            let mut held = self.random_claim(rng)?;
            let no = self.model.tasks[&held.seq].tube;
            let in_flight = self.model.tasks[&held.seq].in_flight;
            if in_flight || held.claim.is_none() || !self.waits_for_commit(no) {
                self.claims.push(held);
                return None;
            }
            let expected = self.if_claimed(&held, None);
            let answer = held.claim.take()?.into_async().ack();
            let answer = unless_refused(answer);
            let started = self.start_call("ack deferred", held.seq, expected, answer);
            if started.is_none() {
                self.end_claim(&held);
            }
            return started;
        }
        if choice == 3 {
            let (held, expected, answer) =
                self.checkpoint_deferred(Simulator::waits_for_commit, rng)?;
            let started = self.start_call("checkpoint deferred", held.seq, expected, answer);
            let Some((ticket, call)) = started else {
                self.claims.push(held);
                return None;
            };
            return Some((ticket, DeferredCall { held: Some(held), ..call }));
        }
        let (seq, id, no, tube) = self.random_task(rng)?;
        if self.model.tasks[&seq].in_flight || !self.waits_for_commit(no) {
            return None;
        }
        let expected = self.if_stored(seq, None);
        let answer = unless_refused(tube.to_async().delete(id));
        self.start_call("delete deferred", seq, expected, answer)
    }

    fn start_call(
        &mut self,
        verb: &'static str,
        seq: Seq,
        expected: Expected,
        answer: Result<Ticket<Receipt>>,
    ) -> Option<PendingCall> {
        let edits = expected.clone().unwrap_or_default();
        match self.check_answer(verb, expected, answer) {
            Outcome::Done(ticket) => {
                let number = self.model.record_call(&edits);
                self.note(format!("task {seq}"));
                self.model.tasks.get_mut(&seq).unwrap().in_flight = true;
                Some((ticket, DeferredCall { verb, seq, edits, number, held: None }))
            }
            _ => None,
        }
    }

    fn wait_until_in_flight(
        &mut self,
        writer: &BlockedWriter,
        waker: &Waker,
        mut ticket: Ticket<Receipt>,
        call: DeferredCall,
        tickets: &mut Vec<PendingCall>,
    ) {
        let mut context = Context::from_waker(waker);
        let mut answer = Pin::new(&mut ticket).poll(&mut context);
        if answer.is_pending() {
            writer.wait_for_writer();
            answer = Pin::new(&mut ticket).poll(&mut context);
        }
        // The answer is ready only if the commit failed before its flush.
        match answer {
            Poll::Ready(answer) => self.finish_call(call, answer),
            Poll::Pending => tickets.push((ticket, call)),
        }
    }

    fn finish_call(&mut self, call: DeferredCall, answer: Result<tubewell::Receipt>) {
        let no = self.model.tasks[&call.seq].tube;
        let outcome = self.check_answer(call.verb, Ok(Vec::new()), answer);
        assert!(
            matches!(outcome, Outcome::Done(_) | Outcome::Unknown),
            "an accepted call was undone"
        );
        self.model.make_visible(&call.edits);
        if let Some(held) = call.held {
            self.extend_claim(&held);
            self.claims.push(held);
        } else if call.verb != "put deferred" {
            self.model.tasks.get_mut(&call.seq).unwrap().claim = None;
        }
        if let Outcome::Done(receipt) = outcome {
            self.model.record_id(call.seq, receipt.id);
            self.check_commit_number(no, receipt.commit);
            self.model.mark_answered(call.number, no);
        }
    }
}

/// The ticket of a call that was not refused at once.
pub fn unless_refused<R>(ticket: Ticket<R>) -> Result<Ticket<R>> {
    ticket.refusal().cloned().map_or(Ok(ticket), Err)
}
