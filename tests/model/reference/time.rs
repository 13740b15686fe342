//! Items that fall due, and the order in which they are processed.

use std::collections::BTreeSet;

use super::attempts::End;
use super::{Cause, Micros, Model, NEVER, Refusal, Stage, State, TaskNo, Verb};

/// Kinds of items that fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The delay of a task elapses, or its moment comes.
    Delay,
    /// The ttl of a task elapses, or the time for which it is kept after its end.
    Ttl,
    /// The ttr of a claim elapses.
    Ttr,
    /// The time of a parked claim elapses.
    ParkEnd,
    /// The grace of a session without handles elapses.
    SessionGrace,
    /// A waiting take or put times out.
    WaitTimeout,
    /// A run of a schedule is due.
    Run,
}

/// The order in which items are processed that fall due at the same time. Items of one kind are
/// processed in the order of their times, which differ if they were due before now, and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieBreak {
    pub kinds: [Due; 6],
    /// What falls due of tasks and schedules is one kind.
    pub tasks_by_number: bool,
    pub serve: Serve,
    /// Gates that open at the time are served before all else that is due.
    pub gates_first: bool,
    /// Children are told of ends so far before all else that is due.
    pub children_first: bool,
}

/// When waiters are served while due items are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    AfterEach,
    AfterEachKind,
    AtTheEnd,
}

impl Default for TieBreak {
    fn default() -> TieBreak {
        let kinds =
            [Due::Delay, Due::Ttl, Due::Ttr, Due::ParkEnd, Due::SessionGrace, Due::WaitTimeout];
        let serve = Serve::AfterEachKind;
        TieBreak { kinds, tasks_by_number: true, serve, gates_first: true, children_first: true }
    }
}

impl TieBreak {
    /// All orders.
    pub fn all() -> Vec<TieBreak> {
        let mut orders: Vec<Vec<Due>> = vec![Vec::new()];
        for kind in TieBreak::default().kinds {
            orders = orders.iter().flat_map(|order| insertions(order, kind)).collect();
        }
        let kinds = orders.into_iter().filter_map(|order| <[Due; 6]>::try_from(order).ok());
        let orders = [true, false].into_iter().flat_map(|tasks_by_number| {
            let order = TieBreak { tasks_by_number, ..TieBreak::default() };
            kinds.clone().map(move |kinds| TieBreak { kinds, ..order })
        });
        let serves = [Serve::AfterEachKind, Serve::AfterEach, Serve::AtTheEnd];
        let orders = orders.filter(TieBreak::is_distinct);
        let orders = orders.flat_map(|it| serves.map(|serve| TieBreak { serve, ..it }));
        let both = [true, false];
        let orders = orders.flat_map(|it| both.map(|gates_first| TieBreak { gates_first, ..it }));
        orders.flat_map(|it| both.map(|children_first| TieBreak { children_first, ..it })).collect()
    }

    /// False if the order of the kinds has a meaning that another one has already.
    fn is_distinct(&self) -> bool {
        let place = |kind| self.kinds.iter().position(|other| *other == kind);
        !self.tasks_by_number || place(Due::Ttl) == place(Due::Delay).map(|place| place + 1)
    }

    /// Runs are processed as tasks are whose delay elapses.
    fn rank(self, kind: Due) -> Option<usize> {
        let kind = match kind {
            Due::Run => Due::Delay,
            Due::Ttl if self.tasks_by_number => Due::Delay,
            kind => kind,
        };
        self.kinds.iter().position(|other| *other == kind)
    }
}

/// All lists that result from inserting `kind` at one position.
fn insertions(list: &[Due], kind: Due) -> Vec<Vec<Due>> {
    let insert = |at: usize| [&list[..at], &[kind], &list[at..]].concat();
    (0..=list.len()).map(insert).collect()
}

impl Model {
    /// All items that will fall due: their time, kind and number.
    fn dues(&self) -> Vec<(Micros, Due, u64)> {
        let mut dues = Vec::new();
        for (id, task) in &self.tasks {
            match task.stage() {
                Stage::Delayed => dues.push((self.delay_due(task), Due::Delay, *id)),
                Stage::Taken => dues.push((Model::ttr_due(task), Due::Ttr, *id)),
                Stage::Parked => dues.push((task.due(), Due::ParkEnd, *id)),
                Stage::Recurring => dues.push((task.due(), Due::Run, *id)),
                _ => {}
            }
            // The ttl includes the delay, so the delay elapses first.
            if task.state() != State::Delayed {
                dues.push((task.removed_at(), Due::Ttl, *id));
            }
        }
        for (no, until) in &self.sessions {
            dues.extend(until.map(|until| (until, Due::SessionGrace, *no)));
        }
        let waiting = self.waits.iter().filter(|(_, wait)| wait.answer.is_none());
        dues.extend(waiting.map(|(no, wait)| (wait.until, Due::WaitTimeout, *no)));
        let waiting = self.put_waits.iter().filter(|(_, wait)| wait.answer.is_none());
        dues.extend(waiting.map(|(no, wait)| (wait.until, Due::WaitTimeout, *no)));
        dues.retain(|(when, ..)| *when != NEVER);
        dues
    }

    /// The times at which an item falls due, in order.
    pub fn due_times(&self) -> BTreeSet<Micros> {
        let gates = self.gate_openings();
        self.dues().iter().map(|(when, ..)| *when).chain(gates).collect()
    }

    /// Moves the clock, and processes every item that falls due on the way, each at its due time.
    pub fn advance(&mut self, by: Micros, tie_break: TieBreak) {
        let target = self.now.saturating_add(by);
        while let Some(due) = self.due_times().first().filter(|due| **due <= target) {
            self.move_time(self.now.max(*due));
            self.process_due_and_tell(tie_break);
        }
        self.move_time(target);
        if self.has_children_to_tell() {
            self.process_due_and_tell(tie_break);
        }
    }

    /// Processes every item that is due now, and tells children of the ends of their parents.
    fn process_due_and_tell(&mut self, tie_break: TieBreak) {
        if tie_break.children_first {
            while self.tell_some_children() {}
        }
        self.process_due(tie_break);
        while self.tell_some_children() {
            self.process_due(tie_break);
        }
    }

    /// Processes every item that is due now.
    fn process_due(&mut self, tie_break: TieBreak) {
        let mut before = None;
        if tie_break.gates_first {
            self.serve();
        }
        loop {
            let due = self.dues().into_iter().filter(|(when, ..)| *when <= self.now);
            let by_time = |(when, kind, no): &(_, Due, _)| (tie_break.rank(*kind), *when, *no);
            let Some((_, kind, no)) = due.min_by_key(by_time) else {
                break;
            };
            if tie_break.serve == Serve::AfterEachKind
                && before.is_some_and(|before| tie_break.rank(before) != tie_break.rank(kind))
            {
                before = None;
                self.serve();
                continue;
            }
            before = Some(kind);
            match kind {
                Due::Delay => self.delay_elapses(no),
                Due::Run => self.run_schedule(no),
                Due::Ttr => self.ttr_elapses(no),
                Due::ParkEnd => _ = self.end_claim(no, Cause::Verb(Verb::Ttr), End::Expired),
                Due::Ttl if self.tasks[&no].expires_before_forgotten() => self.expire(no),
                Due::Ttl => self.remove(no, Cause::Aged),
                Due::SessionGrace => self.forget_session(no),
                Due::WaitTimeout if self.waits.contains_key(&no) => self.end_wait(no, Ok(None)),
                Due::WaitTimeout => self.end_put_wait(no, Err(Refusal::Full)),
            }
            if tie_break.serve == Serve::AfterEach {
                self.serve();
            }
        }
        self.serve();
    }

    /// Removes a task whose ttl has elapsed. This also counts as a delete and, if the task is
    /// taken, as the end of its ttr.
    fn expire(&mut self, id: TaskNo) {
        let stage = self.tasks[&id].stage();
        if stage.state() == State::Taken {
            self.count_call(id, Verb::Ttr, Some(stage), State::Ready);
        }
        self.count_call(id, Verb::Delete, Some(stage), State::Done);
        self.remove(id, Cause::Verb(Verb::Ttl));
    }
}
