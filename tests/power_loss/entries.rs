//! Histories in the expected contents: the last entry of a program, and what the last change of a
//! task has left.

use tubewell::expert::HistoryEntry;
use tubewell::{EventKind, Result, Store, TaskState};

use crate::rng::Rng;
use crate::state::{Contents, Found, Kind, Task};

/// How many entries the histories of a tube have. Half of the tubes have none.
pub fn random_limit(rng: &mut Rng) -> u32 {
    rng.pick(&[0, 0, 3, 8])
}

impl Kind {
    pub fn keeps_histories(&self) -> bool {
        self.history > 0
    }
}

/// Reads the history of a task.
pub fn read(store: &Store, tube: &str, id: u64) -> Result<Vec<HistoryEntry>> {
    store.find_tube(tube)?.query().history(id)
}

impl Contents {
    /// Describes a history that is not that of its task, if there is one.
    pub fn difference_of_histories(&self, found: &Found) -> Option<String> {
        let differs = |(id, entries): (&u64, &Vec<HistoryEntry>)| {
            let task = self.tasks.get(id)?;
            let wrong = task.history_differs(self.tubes.get(task.tube)?, entries);
            wrong.then(|| format!("task {id} {task:?} has the history {entries:?}"))
        };
        found.histories.iter().find_map(differs)
    }
}

impl Task {
    fn history_differs(&self, kind: &Kind, entries: &[HistoryEntry]) -> bool {
        let Some(last) = entries.last() else { return false };
        let is_full = entries.len() > kind.history as usize;
        // What has changed under a claim that the process took with it has left the task taken. A
        // history of few entries may end with the first one.
        let state = match (last.state, self.state) {
            (TaskState::Taken, TaskState::Ready) => TaskState::Ready,
            (state, _) => state,
        };
        let logged = entries.iter().rfind(|entry| entry.what == EventKind::Log);
        let logged = logged.and_then(|entry| entry.text.as_deref()?.parse::<u64>().ok());
        let is_other = logged.zip(self.logged).is_some_and(|(found, logged)| found != logged);
        is_full || state != self.state || is_other
    }
}
