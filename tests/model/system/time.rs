//! Moves of the clock, and close and reopen of the store.

use std::collections::{BTreeMap, BTreeSet};

use tubewell::{Error, Filter, Store};

use super::convert::{duration, library_wall};
use super::reference::{Micros, State, TaskNo, TieBreak};
use super::steps::{ClockMove, WallMove};
use super::{Client, System, WaitingTake, stores};

impl System {
    /// By how much the clock moves.
    pub(super) fn resolve_clock_move(&self, clock_move: &ClockMove) -> Micros {
        match clock_move {
            ClockMove::By(by) => *by,
            ClockMove::ToDue { nth, offset } => {
                let due = self.model.due_times().into_iter().nth(*nth);
                let target = due.and_then(|due| due.checked_add_signed(*offset));
                target.map_or(0, |target| target.saturating_sub(self.model.now()))
            }
        }
    }

    /// Moves both clocks. While takes or puts wait, or tasks wait for others, the clocks stop at
    /// every due time. What becomes of the children of a task follows its end, and the time does
    /// not move between the two. A take that is assigned a task and loses it before it is polled
    /// has no specified answer, see [`System::poll_takes`]. And the task of a served put must be in
    /// the store before the time moves on.
    pub(super) fn advance(&mut self, by: Micros) {
        let target = self.model.now().saturating_add(by);
        while !(self.waits.is_empty() && self.puts.is_empty() && !self.model.has_parents())
            && let Some(due) = self.next_due_time().filter(|due| *due < target)
        {
            self.advance_in_one_step(due - self.model.now());
        }
        self.advance_in_one_step(target - self.model.now());
    }

    fn next_due_time(&self) -> Option<Micros> {
        let now = self.model.now();
        self.model.due_times().into_iter().find(|due| *due > now)
    }

    /// If the outcome depends on the order of items that fall due at the same time, the model
    /// follows the library. It is a failure if no order leads to the state of the library.
    fn advance_in_one_step(&mut self, by: Micros) {
        let target = self.model.now().saturating_add(by);
        let falls_due = self.model.due_times().first().is_some_and(|due| *due <= target);
        let tells_children = self.model.has_children_to_tell();
        if !falls_due && !tells_children {
            self.clock.advance(duration(by));
            return self.model.advance(by, TieBreak::default());
        }
        if tells_children {
            // The library may have told some of them already.
            self.poll_takes();
        } else {
            self.poll_waits();
            self.check_watches();
        }
        let may_lose = self.waiting_take_may_lose_its_task();
        let next_id = self.store.admin().next_id().unwrap();
        self.model.take_new_tasks();
        self.clock.advance(duration(by));
        self.settle_waits();
        self.sync_put_threads_at_this_time();
        self.poll_watches();
        if !may_lose {
            self.waits.values_mut().for_each(WaitingTake::poll_if_woken);
        }
        let before = self.model.clone();
        let is_possible = |order: &TieBreak| order.children_first || tells_children;
        // Most steps need the default order only.
        let others = std::iter::once_with(TieBreak::all).flatten().filter(is_possible);
        for tie_break in std::iter::once(TieBreak::default()).chain(others) {
            self.model = before.clone();
            self.model.advance(by, tie_break);
            let mut learned = self.learn_put_ids();
            learned.extend(self.learn_ids_of_runs(next_id));
            if self.differences().is_continue() {
                self.collect_put_answers();
                return self.collect_take_answers();
            }
            self.forget_ids(&learned);
        }
        self.model = before;
        self.model.advance(by, TieBreak::default());
        self.learn_put_ids();
        self.learn_ids_of_runs(next_id);
        let differences = self.differences();
        panic!(
            "no order of due items leads to this state; with the default order: {differences:#?}"
        );
    }

    // ---- the wall clock

    /// Sets the wall clock of both. The library notices it with the next advance.
    pub(super) fn set_wall(&mut self, to: WallMove) {
        let wall = self.model.wall();
        let to = match to {
            WallMove::Ahead(by) => wall + by,
            WallMove::Back(by) => wall - by,
            WallMove::ToMoment { nth, offset } => {
                let moments: BTreeSet<Micros> = self.model.awaited_moments().collect();
                let moment = moments.into_iter().nth(nth);
                moment.and_then(|it| it.checked_add_signed(offset)).unwrap_or(wall)
            }
            WallMove::Right => self.model.now(),
        };
        stores::settle(&self.store);
        self.clock.set_wall(library_wall(to));
        self.model.set_wall(to);
        self.advance(0);
    }

    /// Has the children told of the ends of their parents.
    pub(super) fn tell_children(&mut self) {
        self.advance_in_one_step(0);
    }

    /// Whether a waiting take may lose its task at the moment at which it is assigned it, since the
    /// claim has no time. It is not polled then before the model has moved: see
    /// [`System::poll_takes`].
    fn waiting_take_may_lose_its_task(&self) -> bool {
        self.model.tubes().keys().any(|tube| {
            let mut tasks = self.model.live_tasks(*tube);
            self.model.waiting(*tube) > 0 && tasks.any(|(_, task)| task.ttr == 0)
        })
    }

    /// Closes the store, or kills it, and opens it again. A kill leaves in the file all that was
    /// decided, so that only claims and sessions are lost with the process.
    pub(super) fn reopen(&mut self, closed_for: &ClockMove, is_killed: bool) {
        if is_killed && self.model.wall() < self.model.now() {
            // It is left open then how far the time has come that the file has.
            self.set_wall(WallMove::Right);
        }
        self.poll_waits();
        let closed_for = self.resolve_clock_move(closed_for);
        if is_killed {
            self.store.flush().unwrap();
            self.open_store.kill();
        }
        self.store.close().unwrap();
        self.model.close();
        self.poll_waits();
        self.check_watches();
        self.sync_put_threads();
        self.collect_put_answers();
        for (at, held) in std::mem::take(&mut self.claims).into_values().enumerate() {
            if at % 2 == 0 {
                assert_eq!(held.claim.ack(), Err(Error::Closed));
            }
        }
        if let Some(tube) = self.dropped.pop() {
            assert_eq!(tube.put("too late"), Err(Error::Closed));
        }
        self.dropped.clear();
        for client in &mut self.clients {
            client.session = None;
        }
        // Dropping the last handle frees the file, so that the new store can open it immediately.
        let placeholder = Store::in_memory().unwrap();
        self.events = placeholder.events(Filter::new(), 1).unwrap();
        self.store = placeholder;
        self.clock.advance(duration(closed_for));
        self.store = self.open_store.open(self.options.clone());
        if is_killed {
            let takes = self.takes_of_taken_tasks();
            self.model.reopen_after_kill(closed_for, |no| takes[&no]);
        } else {
            self.model.reopen(closed_for);
        }
        let now = self.store.admin().clock_report().unwrap().timeline;
        assert_eq!(now, library_wall(self.model.now()));
        self.clients[0] = Client {
            no: self.model.begin_session(None),
            id: self.store.session("").unwrap().id(),
            session: None,
        };
        self.uncounted.clear();
        self.advance(0);
        self.model.events();
        self.events = self.store.events(Filter::new(), 1 << 16).unwrap();
        for tube in self.tubes.clone().into_iter().flatten() {
            self.check_bodies(tube);
        }
    }

    /// The takes that the library knows of the tasks that were taken when the process was killed.
    fn takes_of_taken_tasks(&self) -> BTreeMap<TaskNo, u32> {
        let mut takes = BTreeMap::new();
        for (tube, known) in self.model.tubes() {
            let handle = self.store.find_tube(&known.name).unwrap();
            let taken = self.model.tasks(*tube).filter(|(_, task)| task.state() == State::Taken);
            for (no, _) in taken {
                let task = handle.query().task(self.ids[&no]);
                takes.extend(task.ok().map(|task| (no, task.info.takes)));
            }
        }
        takes
    }
}
