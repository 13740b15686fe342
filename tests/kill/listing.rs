//! The tasks of a tube.

use tubewell::{TaskInfo, TaskState, Tube};

/// All tasks in a state, page by page.
pub fn tasks_in(tube: &Tube, state: TaskState) -> Vec<TaskInfo> {
    let (mut tasks, mut cursor) = (Vec::new(), None);
    loop {
        let page = tube.query().list(state, cursor, 1000).unwrap();
        tasks.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return tasks;
        }
    }
}
