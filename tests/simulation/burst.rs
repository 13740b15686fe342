//! Calls whose answers are fetched later. The disk holds up the writer on its way to flush the first,
//! so that what is decided meanwhile meets a commit under way, each time alike.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tubewell::{Receipt, Result, Ticket, WhenFull};

use crate::disk::Held;
use crate::model::{Fact, OWN, Seq, TubeNo};
use crate::rng::Rng;
use crate::world::{Came, Expected, World};

/// A call that was decided and has not been answered.
struct Call {
    verb: &'static str,
    seq: Seq,
    facts: Vec<Fact>,
    number: u64,
}

type Pending = (Ticket<Receipt>, Call);

impl World {
    /// Several calls whose answers are fetched later; the first commit is held up meanwhile.
    pub fn burst(&mut self, dice: &mut Rng) {
        if self.disk.tripped() {
            return;
        }
        let held = self.disk.hold_writer();
        let mut tickets = Vec::new();
        for _ in 0..2 + dice.below(4) {
            let waker = tickets.is_empty().then(|| held.expect_writer());
            let Some((ticket, call)) = self.deferred(dice) else { continue };
            if let Some(waker) = waker {
                self.wait_for_flight(&held, &waker, ticket, call, &mut tickets);
            } else {
                tickets.push((ticket, call));
            }
            if self.disk.tripped() {
                break;
            }
            // What is on its way is neither to be taken nor in the way.
            if let Some(no) = self.some_tube(dice).filter(|_| dice.one_in(2))
                && !self.hides_some(no)
            {
                self.take_from(no, OWN);
            }
        }
        if dice.one_in(8) && !tickets.is_empty() {
            self.meet("crash: within a commit");
            return self.crash_with(dice, Some(held));
        }
        drop(held);
        for (ticket, call) in tickets {
            let answer = ticket.wait();
            self.answered(call, answer);
        }
    }

    /// While the first of a sub-queue is on its way out, the next one may have to wait for that.
    fn hides_some(&self, no: TubeNo) -> bool {
        let mut living = self.model.living(no);
        self.model.tubes[&no].sub_queued && living.any(|(_, task, _)| task.busy)
    }

    fn deferred(&mut self, dice: &mut Rng) -> Option<Pending> {
        let choice = dice.below(4);
        if choice < 2 {
            let no = self.some_tube(dice)?;
            let tube = self.tube(no, OWN)?;
            if !self.model.tubes[&no].is_durable() || self.model.tubes[&no].capacity > 0 {
                return None;
            }
            let (seq, put, fact) = self.draft(no, dice);
            let answer = tube.deferred(WhenFull::Block).put(put);
            return self.begun("put later", seq, Ok(vec![fact]), answer);
        }
        if choice == 2 {
            let mut hold = self.some_hold(dice)?;
            let no = self.model.tasks[&hold.seq].tube;
            let busy = self.model.tasks[&hold.seq].busy;
            if busy || hold.claim.is_none() || !self.model.tubes[&no].is_durable() {
                self.holds.push(hold);
                return None;
            }
            let expected = self.if_held(&hold, None);
            let answer = hold.claim.take()?.ack_deferred(WhenFull::Block);
            let begun = self.begun("ack later", hold.seq, expected, answer);
            if begun.is_none() {
                self.end_hold(&hold);
            }
            return begun;
        }
        let (seq, id, no, tube) = self.some_task(dice)?;
        if self.model.tasks[&seq].busy || !self.model.tubes[&no].is_durable() {
            return None;
        }
        let expected = self.if_there(seq, None);
        let answer = tube.deferred(WhenFull::Block).delete(id);
        self.begun("delete later", seq, expected, answer)
    }

    fn begun(
        &mut self,
        verb: &'static str,
        seq: Seq,
        expected: Expected,
        answer: Result<Ticket<Receipt>>,
    ) -> Option<Pending> {
        let facts = expected.clone().unwrap_or_default();
        match self.judge(verb, expected, answer) {
            Came::Done(ticket) => {
                let number = self.model.decide(&facts);
                self.note(format!("of {seq}"));
                self.model.tasks.get_mut(&seq).unwrap().busy = true;
                Some((ticket, Call { verb, seq, facts, number }))
            }
            _ => None,
        }
    }

    fn wait_for_flight(
        &mut self,
        held: &Held,
        waker: &Waker,
        mut ticket: Ticket<Receipt>,
        call: Call,
        tickets: &mut Vec<Pending>,
    ) {
        let mut context = Context::from_waker(waker);
        let mut answer = Pin::new(&mut ticket).poll(&mut context);
        if answer.is_pending() {
            held.wait_for_writer();
            answer = Pin::new(&mut ticket).poll(&mut context);
        }
        // It is there only if the commit failed before its flush.
        match answer {
            Poll::Ready(answer) => self.answered(call, answer),
            Poll::Pending => tickets.push((ticket, call)),
        }
    }

    fn answered(&mut self, call: Call, answer: Result<tubewell::Receipt>) {
        let no = self.model.tasks[&call.seq].tube;
        let came = self.judge(call.verb, Ok(Vec::new()), answer);
        assert!(matches!(came, Came::Done(_) | Came::Unknown), "a call that was decided is undone");
        self.model.show(&call.facts);
        if call.verb != "put later" {
            self.model.tasks.get_mut(&call.seq).unwrap().claim = None;
        }
        if let Came::Done(receipt) = came {
            self.model.learn(call.seq, receipt.id);
            self.receipt(no, receipt.commit);
            self.model.certain(call.number);
        }
    }
}
