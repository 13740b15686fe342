//! Puts that wait for space. Each runs in a thread.

use std::thread::{self, JoinHandle};

use tubewell::{Receipt, Result};

use super::System;
use super::convert::{agree, duration, refusal_of, state_of};
use super::reference::{Answer, Micros, State, TaskNo, WaitNo};
use super::steps::TaskTemplate;

/// A put that waits for space.
pub(super) struct WaitingPut {
    thread: Option<JoinHandle<Result<Receipt>>>,
    answer: Option<Result<Receipt>>,
}

/// The task of a put, and its state.
type PutAnswer = Answer<(TaskNo, State)>;

/// More yields than any thread needs to wait in its tube or to return.
pub(super) const MAX_YIELDS: u32 = 50_000_000;

impl System {
    pub(super) fn put_timeout(
        &mut self,
        client: usize,
        tube: usize,
        template: &TaskTemplate,
        until: Micros,
    ) {
        let Some((handle, no, session)) = self.tube(client, tube) else { return };
        if self.model.waiting(no) > 0 {
            // Not specified; see `System::wait`.
            return;
        }
        let (put, draft) = self.draft(template, no, 0);
        let thread = thread::spawn(move || handle.put_timeout(put, duration(until)));
        let wait = self.model.put_timeout(session, no, &draft, until);
        self.puts.insert(wait, WaitingPut { thread: Some(thread), answer: None });
    }

    /// Returns when each put either waits in its tube or has its answer.
    pub(super) fn sync_put_threads(&mut self) {
        if self.puts.is_empty() {
            return;
        }
        let mut yields = 0;
        while self.running_put_threads() != self.waiting_puts() {
            yields += 1;
            assert!(yields < MAX_YIELDS, "a put neither waits in its tube nor returns");
            thread::yield_now();
        }
        for put in self.puts.values_mut() {
            if put.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                put.answer = put.thread.take().map(|thread| thread.join().unwrap());
            }
        }
    }

    /// As [`System::sync_put_threads`], after the clock has moved. The ttl of a task that was put
    /// may elapse immediately, which makes space for the next put.
    pub(super) fn sync_put_threads_at_this_time(&mut self) {
        loop {
            let before = self.running_put_threads();
            self.sync_put_threads();
            if self.running_put_threads() == before {
                return;
            }
            self.clock.advance(std::time::Duration::ZERO);
        }
    }

    fn running_put_threads(&self) -> u64 {
        let runs =
            |put: &&WaitingPut| put.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        self.puts.values().filter(runs).count() as u64
    }

    fn waiting_puts(&self) -> u64 {
        self.store.tubes().unwrap().iter().map(|tube| tube.waiting_puts).sum()
    }

    pub(super) fn actual_put_answers(&self) -> Vec<(WaitNo, Option<PutAnswer>)> {
        let translate = |answer: &Result<Receipt>| match answer {
            Ok(receipt) => Ok((self.number(receipt.id), state_of(receipt.state))),
            Err(error) => Err(refusal_of(error)),
        };
        self.puts.iter().map(|(no, it)| (*no, it.answer.as_ref().map(translate))).collect()
    }

    pub(super) fn expected_put_answers(&self) -> Vec<(WaitNo, Option<PutAnswer>)> {
        self.puts.keys().map(|no| (*no, self.model.put_answer(*no))).collect()
    }

    /// Records the ids of the tasks of answered puts. Returns their numbers in the model.
    pub(super) fn learn_put_ids(&mut self) -> Vec<TaskNo> {
        let mut learned = Vec::new();
        for (wait, put) in &self.puts {
            if let (Some(Ok(receipt)), Some(Ok((no, _)))) =
                (&put.answer, self.model.put_answer(*wait))
            {
                if self.ids.contains_key(&no) {
                    // Another task had its key, or it is learned already.
                    continue;
                }
                self.ids.insert(no, receipt.id);
                self.numbers.insert(receipt.id, no);
                learned.push(no);
            }
        }
        learned
    }

    pub(super) fn forget_ids(&mut self, learned: &[TaskNo]) {
        for no in learned {
            if let Some(id) = self.ids.remove(no) {
                self.numbers.remove(&id);
            }
        }
    }

    /// Compares the answers of all waiting puts with the model, and ends those that have one.
    #[track_caller]
    pub(super) fn collect_put_answers(&mut self) {
        self.learn_put_ids();
        assert_eq!(self.actual_put_answers(), self.expected_put_answers());
        let answered = self.puts.iter().filter(|(_, put)| put.answer.is_some());
        for wait in answered.map(|(no, _)| *no).collect::<Vec<_>>() {
            let Some(put) = self.puts.remove(&wait) else { continue };
            let (got, want) = (put.answer.unwrap(), self.model.fetch_put(wait).unwrap());
            agree(got, want);
        }
    }
}
