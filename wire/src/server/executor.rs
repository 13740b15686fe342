//! The thread that polls the futures of calls and writes their answers.

use std::collections::VecDeque;

use super::task::Task;
use crate::sync::{Arc, Condvar, Mutex};

/// The queue of tasks that were woken.
#[derive(Default)]
pub(crate) struct Executor {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    woken: VecDeque<Arc<Task>>,
    /// The thread waits for `filled`.
    parked: bool,
    stopped: bool,
}

impl Executor {
    /// Adds a task that was woken.
    pub(crate) fn push(&self, task: Arc<Task>) {
        let mut queue = self.queue.lock();
        queue.woken.push_back(task);
        let parked = std::mem::take(&mut queue.parked);
        drop(queue);
        if parked {
            self.filled.notify_one();
        }
    }

    /// Ends the thread, whatever is in the queue.
    pub(crate) fn stop(&self) {
        self.queue.lock().stopped = true;
        self.filled.notify_all();
    }

    /// Polls what was woken until [`stop`](Executor::stop).
    pub(crate) fn run(&self) {
        let mut woken = VecDeque::new();
        let mut written = Vec::new();
        while self.next(&mut woken) {
            for task in woken.drain(..) {
                task.run();
                written.push(task);
            }
            // Tasks of one connection have a common write; the others find nothing to write.
            for task in written.drain(..) {
                task.connection.flush();
            }
        }
        // Tasks and queue refer to each other.
        self.queue.lock().woken.clear();
    }

    /// Waits for tasks and moves them to `woken`, which is empty. False: stopped.
    fn next(&self, woken: &mut VecDeque<Arc<Task>>) -> bool {
        let mut queue = self.queue.lock();
        while queue.woken.is_empty() && !queue.stopped {
            queue.parked = true;
            self.filled.wait(&mut queue);
        }
        queue.parked = false;
        std::mem::swap(woken, &mut queue.woken);
        !queue.stopped
    }
}
