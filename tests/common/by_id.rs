//! Calls of an administrator on one task, with the state of the task afterwards, or the refusal of a call by
//! id.

#![allow(dead_code, reason = "each test target uses a part of it")]

use tubewell::{Error, Result, TaskState, Tube};

/// Ends the claim on a task.
pub fn revoke(tube: &Tube, id: u64) -> Result<TaskState> {
    match tube.admin().revoke(id)? {
        0 => Err(tube.query().task(id).map_or_else(|error| error, |_| Error::NotTaken { id })),
        count => Ok(state(count, tube, id)),
    }
}

/// Moves a task to another tube.
pub fn move_to(tube: &Tube, to: &Tube, id: u64) -> Result<TaskState> {
    match tube.admin().move_to(to, id)? {
        0 => {
            let state = tube.query().task(id)?.info.state;
            Err(Error::NotReady { id, state, why: "it stays".to_owned() })
        }
        count => Ok(state(count, to, id)),
    }
}

fn state(count: u64, tube: &Tube, id: u64) -> TaskState {
    assert_eq!(count, 1);
    tube.query().task(id).map_or(TaskState::Done, |task| task.info.state)
}
