//! The queue of tasks that were woken.

use std::collections::VecDeque;

use crate::sync::{Condvar, Mutex};

/// A queue that one thread empties.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    woken: VecDeque<T>,
    /// The thread waits for `filled`.
    parked: bool,
    stopped: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        let state = State { woken: VecDeque::new(), parked: false, stopped: false };
        Queue { state: Mutex::new(state), filled: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// Adds a task that was woken, unless the queue is stopped.
    pub(crate) fn push(&self, task: T) {
        let mut state = self.state.lock();
        if state.stopped {
            // Nothing would take it from the queue to which it refers. It is dropped without the lock.
            drop(state);
            return;
        }
        state.woken.push_back(task);
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        if parked {
            self.filled.notify_one();
        }
    }

    /// Ends the thread, whatever is in the queue.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.filled.notify_all();
    }

    /// Waits for tasks and moves them to `woken`, which is empty. False: stopped.
    pub(crate) fn next(&self, woken: &mut VecDeque<T>) -> bool {
        let mut state = self.state.lock();
        while state.woken.is_empty() && !state.stopped {
            state.parked = true;
            self.filled.wait(&mut state);
        }
        state.parked = false;
        std::mem::swap(woken, &mut state.woken);
        !state.stopped
    }

    /// Forgets the tasks that are left.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut self.state.lock().woken);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn task_that_is_woken_after_the_stop_is_dropped() {
        let queue = Queue::default();
        queue.stop();
        assert!(!queue.next(&mut VecDeque::new()));
        queue.clear();
        let task = Arc::new(());
        queue.push(task.clone());
        assert_eq!(Arc::strong_count(&task), 1);
    }
}
