//! Moments: times of the wall clock before which tasks are not ready.
//!
//! The wall clock goes with the time, and can be set. A moment stays one of that clock. The ttl of a
//! task counts from its moment: until then `ttl_from` is the time at which the moment was expected.

use super::{Cause, Micros, Model, NEVER, Stage, Status, Task, TaskNo, Verb};

/// Clocks that are less than a second apart count as the same.
pub const SAME_CLOCK: Micros = 1_000_000;

impl Model {
    /// What the wall clock shows.
    pub fn wall(&self) -> Micros {
        self.wall
    }

    /// Sets the wall clock. What is due by it then is processed with the next advance.
    pub fn set_wall(&mut self, wall: Micros) {
        self.wall = wall;
    }

    /// The moment as which a time that has passed is shown.
    pub fn shown(&self, time: Micros) -> Micros {
        time.saturating_add_signed(self.shown_ahead())
    }

    /// The time that is shown as this moment, if it has passed, and else now.
    pub fn time_shown(&self, moment: Micros) -> Micros {
        moment.saturating_add_signed(-self.shown_ahead()).min(self.now)
    }

    /// Whether the clock was set since a moment was shown, so that the next one is another one.
    pub fn is_set_anew(&self) -> bool {
        !is_same(self.ahead() - self.shown_ahead.get())
    }

    /// How far ahead of the time the moments are that are shown.
    fn shown_ahead(&self) -> i64 {
        if self.is_set_anew() {
            let ahead = self.ahead();
            self.shown_ahead.set(if is_same(ahead) { 0 } else { ahead });
        }
        self.shown_ahead.get()
    }

    fn ahead(&self) -> i64 {
        self.wall.cast_signed() - self.now.cast_signed()
    }

    /// The moments for which tasks wait.
    pub fn awaited_moments(&self) -> impl Iterator<Item = Micros> {
        let delayed = self.tasks.values().filter(|task| task.stage() == Stage::Delayed);
        delayed.filter_map(|task| task.not_before).filter(|moment| *moment != NEVER)
    }

    /// Moves the time, and the wall clock with it.
    pub(super) fn move_time(&mut self, now: Micros) {
        self.wall = self.wall.saturating_add(now.saturating_sub(self.now));
        self.now = now;
    }

    /// Time passes while the store is closed. When it is opened, the time follows the wall clock. If
    /// this is behind, the time stays as far ahead of it as it was at the close.
    pub(super) fn pass_while_closed(&mut self, closed_for: Micros) {
        let ahead = self.now.saturating_sub(self.wall);
        self.wall = self.wall.saturating_add(closed_for);
        self.now = match self.now.max(self.wall) {
            now if now > self.wall && ahead >= SAME_CLOCK => now.max(self.wall + ahead),
            now => now,
        };
    }

    /// When a delayed task is ready, if the wall clock is not set until then.
    pub fn ready_at(&self, task: &Task) -> Micros {
        let moment = task.not_before.map_or(0, |moment| self.time_of(moment));
        task.due().max(moment)
    }

    /// When a delayed task is looked at: at the end of its delay, and then at its moment.
    pub fn delay_due(&self, task: &Task) -> Micros {
        match (&task.status, task.not_before) {
            (Status::Delayed { until: 0 }, Some(moment)) => self.time_of(moment),
            _ => task.due(),
        }
    }

    /// When the wall clock shows a moment, if it is not set until then. A time in the past if it
    /// shows a later one now.
    pub(super) fn time_of(&self, moment: Micros) -> Micros {
        match moment.checked_sub(self.wall) {
            _ if moment == NEVER => NEVER,
            Some(left) => self.now.saturating_add(left),
            None => self.now.saturating_sub(self.wall - moment),
        }
    }

    /// Adds the time until its moment to the ttl of a task, if that is later than the end of its
    /// delay, from which the ttl counts.
    pub(super) fn add_moment_to_ttl(&self, task: &mut Task, delayed_until: Micros) {
        let Some(moment) = task.not_before.filter(|_| task.expires_at != NEVER) else { return };
        let (expected, from) = (self.time_of(moment), delayed_until.max(self.now));
        if expected > from {
            task.expires_at = task.expires_at.saturating_add(expected - from);
            task.ttl_from = Some(expected);
        }
    }

    /// A task is buried, and loses its delay. If its moment is ahead, its ttl still counts from the end of the delay,
    /// unless it counts from the moment.
    pub(super) fn keep_ttl_of_delay(&mut self, id: TaskNo) {
        let (now, task) = (self.now, &self.tasks[&id]);
        let (Status::Delayed { until } | Status::Blocked { until }) = task.status else { return };
        let is_ahead = task.not_before.is_some_and(|moment| self.time_of(moment) > now);
        if is_ahead && until > now && task.expires_at != NEVER {
            self.task(id).ttl_from.get_or_insert(until);
        }
    }

    /// The status of a task that waits for no other task and has no delay left: delayed if its
    /// moment is ahead, else ready.
    pub(super) fn ready_or_waiting(&self, task: &mut Task) -> Status {
        let Some(moment) = task.not_before else { return Status::Ready };
        let (now, was_delayed) = (self.now, task.stage() == Stage::Delayed);
        let expected = self.time_of(moment).max(now);
        let waits = expected > now;
        let status = if waits { Status::Delayed { until: 0 } } else { Status::Ready };
        let goes_on_waiting = waits && was_delayed && task.ttl_from.is_some();
        if goes_on_waiting || task.expires_at == NEVER {
            task.ttl_from = task.ttl_from.filter(|_| goes_on_waiting);
            return status;
        }
        if waits || task.ttl_from.is_some() {
            let counts_from = match task.ttl_from {
                None => now,
                // The ttl has not counted yet. While the store was closed it has, from the moment on.
                Some(from) if was_delayed => {
                    let late = self.wall.saturating_sub(moment);
                    from.saturating_add(late.min(now.saturating_sub(from)))
                }
                // That of a blocked or buried task has.
                Some(from) => from.max(now),
            };
            let ttl = task.expires_at.saturating_sub(counts_from);
            task.expires_at = expected.saturating_add(ttl);
        }
        task.ttl_from = Some(expected).filter(|_| waits && task.expires_at != NEVER);
        status
    }

    /// Makes a task ready, or delayed if its moment is ahead.
    pub(super) fn make_ready(&mut self, id: TaskNo, cause: Cause) {
        let mut task = self.tasks[&id].clone();
        let status = self.ready_or_waiting(&mut task);
        self.set_ttl(id, &task);
        self.change(id, cause, status);
    }

    /// The delay of a task has elapsed, or its moment has come. It may still wait for its moment.
    pub(super) fn delay_elapses(&mut self, id: TaskNo) {
        let mut task = self.tasks[&id].clone();
        match self.ready_or_waiting(&mut task) {
            Status::Ready => self.change(id, Cause::Verb(Verb::Delay), Status::Ready),
            waiting => self.task(id).status = waiting,
        }
        self.set_ttl(id, &task);
    }

    pub(super) fn set_ttl(&mut self, id: TaskNo, of: &Task) {
        let task = self.task(id);
        (task.expires_at, task.ttl_from) = (of.expires_at, of.ttl_from);
    }
}

fn is_same(ahead: i64) -> bool {
    ahead.unsigned_abs() < SAME_CLOCK
}
