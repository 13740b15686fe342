//! The thread that polls the futures of calls and writes their answers.

use std::collections::VecDeque;

use super::queue::Queue;
use super::task::Task;
use crate::sync::Arc;

/// Polls what was woken until the queue is stopped.
pub(crate) fn run(queue: &Queue<Arc<Task>>) {
    let mut woken = VecDeque::new();
    let mut written = Vec::new();
    while queue.next(&mut woken) {
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
    queue.clear();
}
