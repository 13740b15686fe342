//! Moments in the expected contents: tasks that are not ready before a time of the wall clock, which
//! is that of the store here.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{TaskInfo, TaskState};

use crate::image_run::micros;
use crate::state::{Contents, Task};

/// The moment at which the wall clock shows this time.
pub fn moment(time: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(time)
}

impl Task {
    /// Waits for a moment that is this far ahead.
    pub fn wait_until(&mut self, moment: u64, ahead: Duration) {
        self.delay(moment, ahead);
        self.not_before = Some(moment);
    }

    /// Makes a buried task ready, or delayed if its moment is ahead.
    pub fn kick(&mut self, now: u64) {
        (self.state, self.attempts, self.group) = (TaskState::Ready, 0, None);
        if let Some(moment) = self.not_before.filter(|moment| *moment > now) {
            (self.state, self.ready_at) = (TaskState::Delayed, moment);
        }
    }

    pub fn moment_differs(&self, info: &TaskInfo) -> bool {
        let since_1970 = |moment: SystemTime| micros(moment.duration_since(UNIX_EPOCH).unwrap());
        self.not_before != info.not_before.map(since_1970)
    }
}

impl Contents {
    pub fn remove_moments(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.not_before.is_some()) {
            Arc::make_mut(task).not_before = None;
        }
    }
}
