//! The end of a worker: its lanes end, and a stop leaves the jobs that it does not wait for.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ending::{Ending, LaneEnding};
use super::job::JobCore;
use super::pool::{Lane, Pool};
use super::report::Left;
use crate::Result;
use crate::base::park::TimeLimit;

/// How long a stop may take after its time has elapsed. The takes of the lanes end meanwhile, and the
/// owner of the store hears which tasks are given back.
const GRACE: Duration = Duration::from_millis(50);

/// While a lane takes a task, until its job has begun.
pub(super) struct Taking<'a> {
    pool: &'a Pool,
    lane: &'a Lane,
}

impl Pool {
    /// A lane has ended.
    pub(super) fn lane_has_ended(&self, index: usize) {
        if let Some(idle) = &self.idle {
            idle.lane_ended();
        }
        self.change_lane(index, |lane| lane.has_ended = true);
    }

    fn change_lane(&self, index: usize, change: impl FnOnce(&mut LaneEnding)) {
        if let Some(lane) = self.ended.lock().lanes.get_mut(index) {
            change(lane);
        }
        self.lane_ended.notify_all();
    }

    /// Waits until all lanes have ended, except for that of this thread. Returns whether they have.
    pub(super) fn wait_ended(&self, time: &TimeLimit) -> bool {
        let own = self.lanes.iter().position(Lane::is_this_thread);
        let change_own = |change: fn(&mut LaneEnding)| {
            if let Some(own) = own {
                self.change_lane(own, change);
            }
        };
        change_own(|lane| lane.waits += 1);
        let is_over = self.wait_for_lanes(time, |ended| ended.is_over(own));
        change_own(|lane| lane.waits -= 1);
        is_over
    }

    /// Waits for a change of the lanes. Returns false if the time has elapsed before.
    fn wait_for_lanes(&self, time: &TimeLimit, is_over: impl Fn(&Ending) -> bool) -> bool {
        let mut ended = self.ended.lock();
        while !is_over(&ended) {
            match time.left() {
                None => self.lane_ended.wait(&mut ended),
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    self.lane_ended.wait_for(&mut ended, left);
                }
            }
        }
        true
    }

    /// A lane takes a task. Together with the look at the stop that follows: either the lane sees
    /// the stop, or the stop waits for the lane.
    pub(super) fn begin_take<'a>(&'a self, lane: &'a Lane) -> Taking<'a> {
        lane.is_taking.store(true, Ordering::SeqCst);
        Taking { pool: self, lane }
    }

    /// Gives back the tasks of jobs that have not begun, once no lane takes any more. The caller still does.
    pub(super) fn give_back(&self, jobs: impl IntoIterator<Item = Arc<JobCore>>) {
        self.given_back.lock().extend(jobs);
    }

    fn give_all_back(&self) {
        let jobs = take(&mut *self.given_back.lock());
        // Without the lock, as it calls the store.
        drop(jobs);
    }

    fn is_any_taking(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_taking.load(Ordering::SeqCst))
    }

    /// Snoozes the tasks of the jobs that run, except for that of this thread. No caller waits for
    /// their lanes from now on.
    ///
    /// First it waits until no lane takes a task: otherwise a task that is snoozed could be assigned
    /// to a take that still waits. Such a take ends with the stop. One that waits for the storage may
    /// not, so the wait is short; a task that it gets later is given back.
    pub(super) fn leave_jobs(&self) -> Result<Vec<Left>> {
        let time = TimeLimit::new(GRACE);
        self.wait_for_lanes(&time, |_| !self.is_any_taking());
        self.give_all_back();
        let (mut all, mut outcome) = (Vec::new(), Ok(()));
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.is_this_thread() {
                continue;
            }
            let before = all.len();
            if let Err(error) = lane.leave_jobs(&time, &mut all) {
                outcome = Err(error);
            }
            if all.len() > before {
                self.change_lane(index, |lane| lane.is_left = true);
            }
        }
        outcome.map(|()| all)
    }

    /// Whether a caller can wait for the thread of this lane: its loop has ended.
    pub(super) fn can_join(&self, index: usize) -> bool {
        let has_ended = self.ended.lock().lanes.get(index).is_some_and(|lane| lane.has_ended);
        has_ended && self.lanes.get(index).is_some_and(|lane| !lane.is_this_thread())
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.lane.is_taking.store(false, Ordering::SeqCst);
        if self.pool.stop.is_raised() {
            if !self.pool.is_any_taking() {
                self.pool.give_all_back();
            }
            drop(self.pool.ended.lock());
            self.pool.lane_ended.notify_all();
        }
    }
}
