//! Waiting for room. Such a put has no future, so each has a thread.

use std::thread::{self, JoinHandle};

use tubewell::{Receipt, Result};

use super::System;
use super::reference::{Answer, Micros, State, TaskNo, WaitNo};
use super::steps::Sketch;
use super::words::{agree, refusal_of, state_of, timeout};

/// A put that waits for room.
pub(super) struct Putting {
    thread: Option<JoinHandle<Result<Receipt>>>,
    answer: Option<Result<Receipt>>,
    tube: usize,
}

/// So long nobody is on the way without something being wrong.
const PATIENCE: u32 = 50_000_000;

impl System {
    pub(super) fn put_wait(&mut self, seat: usize, tube: usize, sketch: &Sketch, until: Micros) {
        let Some((handle, no, session)) = self.tube(seat, tube) else { return };
        if self.model.waiting(no) > 0 {
            // See `System::wait`.
            return;
        }
        let (put, draft) = self.draft(sketch, no, 0);
        let thread = thread::spawn(move || handle.put_wait(put, timeout(until)));
        let wait = self.model.put_wait(session, no, &draft, until);
        self.puts.insert(wait, Putting { thread: Some(thread), answer: None, tube });
    }

    /// Returns when each of them stands in line or has his answer.
    pub(super) fn settle(&mut self) {
        if self.puts.is_empty() {
            return;
        }
        let mut looks = 0;
        while self.on_their_feet() != self.in_line() {
            looks += 1;
            assert!(looks < PATIENCE, "somebody waits for room and is not in line");
            thread::yield_now();
        }
        for putting in self.puts.values_mut() {
            if putting.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                putting.answer = putting.thread.take().map(|thread| thread.join().unwrap());
            }
        }
    }

    /// The same after the clock was moved: what is let in may be over in this very moment, and
    /// makes room for the next.
    pub(super) fn settle_at_this_moment(&mut self) {
        loop {
            let before = self.on_their_feet();
            self.settle();
            if self.on_their_feet() == before {
                return;
            }
            self.clock.advance(std::time::Duration::ZERO);
        }
    }

    fn on_their_feet(&self) -> u64 {
        let runs = |putting: &&Putting| {
            putting.thread.as_ref().is_some_and(|thread| !thread.is_finished())
        };
        self.puts.values().filter(runs).count() as u64
    }

    fn in_line(&self) -> u64 {
        self.store.tubes().iter().map(|tube| tube.waiting_puts).sum()
    }

    pub(super) fn puts_seen(&self) -> Vec<(WaitNo, Option<Answer<State>>)> {
        let translate = |answer: &Result<Receipt>| match answer {
            Ok(receipt) => Ok(state_of(receipt.state)),
            Err(error) => Err(refusal_of(error)),
        };
        self.puts.iter().map(|(no, it)| (*no, it.answer.as_ref().map(translate))).collect()
    }

    pub(super) fn puts_should_be(&self) -> Vec<(WaitNo, Option<Answer<State>>)> {
        let answer = |no| Some(self.model.put_answer(no)?.map(|(_, state)| state));
        self.puts.keys().map(|no| (*no, answer(*no))).collect()
    }

    /// The ids of the tasks that were let in, by the numbers that the model gave them.
    pub(super) fn learn_who_came_in(&mut self) -> Vec<TaskNo> {
        let mut learned = Vec::new();
        for (wait, putting) in &self.puts {
            if let (Some(Ok(receipt)), Some(Ok((no, _)))) =
                (&putting.answer, self.model.put_answer(*wait))
            {
                self.ids.insert(no, receipt.id);
                self.numbers.insert(receipt.id, no);
                self.homes.insert(no, putting.tube);
                learned.push(no);
            }
        }
        learned
    }

    pub(super) fn unlearn(&mut self, learned: &[TaskNo]) {
        for no in learned {
            if let Some(id) = self.ids.remove(no) {
                self.numbers.remove(&id);
            }
            self.homes.remove(no);
        }
    }

    /// Those who have their answer do not wait any more; it is the model's.
    #[track_caller]
    pub(super) fn come_in(&mut self) {
        self.learn_who_came_in();
        assert_eq!(self.puts_seen(), self.puts_should_be());
        let answered = self.puts.iter().filter(|(_, putting)| putting.answer.is_some());
        for wait in answered.map(|(no, _)| *no).collect::<Vec<_>>() {
            let Some(putting) = self.puts.remove(&wait) else { continue };
            let (got, want) = (putting.answer.unwrap(), self.model.fetch_put(wait).unwrap());
            agree(got, want);
        }
    }
}
