//! The import of tasks with parents, and of those whose steps have put tasks.

use tubewell::Tube;

use super::batches::{Import, Task};
use super::exported::{self, Exported, ExportedTask};
use super::ids::Place;
use super::stop::Stop;
use super::waiting::Line;
use crate::failure::{Exit, Failure};

/// How many parents the tasks of one batch have, so that it is within the limit of a call.
const BATCH_PARENTS: usize = 50_000;

/// The parents of a task for which it cannot wait.
enum Missing {
    /// These are not in the export, or could not be read there.
    Unknown(Vec<u64>),
    /// The ttl of this one has elapsed.
    Expired(u64),
}

impl Import<'_> {
    /// Notes a task with parents.
    pub(super) fn wait_for_parents(
        &mut self,
        (number, text): (u64, &[u8]),
        task: &ExportedTask,
    ) -> Result<(), Stop> {
        let Some(old_id) = task.id else {
            let why = "a task that waits for others needs its id";
            self.store_batch()?;
            return Err(Stop::at(number, Failure::new(Exit::Partly, why)));
        };
        if !self.keeps_ids && self.next_id.is_none() {
            // From here on the tasks get ids in the order of their lines, as in the other store.
            self.store_batch()?;
            self.finish_batch()?;
            let next_id = self.store.admin().next_id();
            self.next_id = Some(next_id.map_err(|error| Stop::at(number, error.into()))?);
        }
        let new_id = self.new_id(task.id).unwrap_or(old_id);
        let noted = self.waiting.add((number, text), (old_id, new_id), &task.parents);
        noted.map_err(|error| {
            let path = self.waiting.path.display();
            let why = format!("cannot write the temporary file {path}: {error}");
            Stop::at(number, Failure::new(Exit::Failed, why))
        })
    }

    /// Stores the tasks with parents whose lines are before this one.
    pub(super) fn store_waiting(&mut self, end: u64) -> Result<(), Stop> {
        let order = self.waiting.order(end, &mut self.ids);
        let before = self.stored;
        let mut lines = order.iter();
        let added = lines.try_for_each(|index| self.add_waiting(*index));
        let added = added.and_then(|()| self.store_batch());
        // A batch that failed comes before a line that could not be added.
        self.finish_batch().and(added).map_err(|stop| {
            let stored = self.stored - before;
            Stop { left: (order.len() as u64).saturating_sub(stored), ..stop }
        })
    }

    fn add_waiting(&mut self, index: usize) -> Result<(), Stop> {
        let text = self.waiting.text(index);
        let Line { number, new_id, old_id, .. } = self.waiting.tasks[index];
        let unreadable = |why: String| {
            let why = format!("cannot read the temporary file: {why}");
            Stop::at(number, Failure::new(Exit::Failed, why))
        };
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        let (name, mut task) = match exported::exported(&text) {
            Ok(Some(Exported::Task { tube, task })) => (tube, task),
            other => return Err(unreadable(other.err().unwrap_or_default())),
        };
        if task.parents.iter().any(|parent| self.unresolved.contains(parent)) {
            self.store_batch()?;
            self.finish_batch()?;
        }
        let full = self.parents.saturating_add(task.parents.len()) > BATCH_PARENTS;
        if full || self.target.as_ref().is_none_or(|target| target.name != name) {
            self.store_batch()?;
        }
        self.direct_to(&name).map_err(|refusal| refusal.stop_at(number))?;
        let Some(target) = self.target.clone() else { return Ok(()) };
        self.parents += task.parents.len();
        let (known, missing) = self.parents_of(&task);
        match missing {
            None => {}
            Some(Missing::Unknown(ids)) => {
                self.unknown += 1;
                task.bury("parents-unknown", not_imported(&ids));
            }
            Some(Missing::Expired(id)) => {
                task.bury("parent-gone", format!("its parent, task {id}, was removed"));
            }
        }
        task.wait_for(by_tube(known, &self.tubes_by_number));
        task.rename_spawned(|old| match self.ids.get(old) {
            Some(Place::Stored { id, .. }) => Some(id),
            Some(Place::Done | Place::Expired) => None,
            None => self.waiting.new_id(old),
        });
        let id = task.is_kept_by_key(self.on_key()).then_some(old_id);
        match id {
            Some(id) => drop(self.unresolved.insert(id)),
            None => self.ids.add(old_id, Place::Stored { tube: target.number, id: new_id }),
        }
        let restore = task.restore(&target.driver, Some(new_id), self.on_key());
        self.push(Task { line: number, id, restore }, text.len())
    }

    /// Where the parents of a task are, and those that it misses.
    fn parents_of(&self, task: &ExportedTask) -> (Vec<(u32, u64)>, Option<Missing>) {
        let (mut known, mut unknown, mut expired) = (Vec::new(), Vec::new(), None);
        for parent in &task.parents {
            match self.ids.get(*parent) {
                Some(Place::Stored { tube, id }) => known.push((tube, id)),
                Some(Place::Done) => {}
                Some(Place::Expired) if task.ignores_removed_parents() => {}
                Some(Place::Expired) => expired = Some(Missing::Expired(*parent)),
                None => unknown.push(*parent),
            }
        }
        if unknown.is_empty() && !task.has_lost_parents() {
            return (known, expired);
        }
        (known, Some(Missing::Unknown(unknown)))
    }
}

/// Why a task with unknown parents is buried.
fn not_imported(ids: &[u64]) -> String {
    match ids {
        [] => "some of its parents are unknown".to_owned(),
        [id] => format!("its parent, task {id} of the export, was not imported"),
        [id, others @ ..] => {
            let others = others.len();
            format!("its parents, task {id} of the export and {others} more, were not imported")
        }
    }
}

/// The tubes of the parents of a task, each with its parents.
fn by_tube(mut parents: Vec<(u32, u64)>, tubes: &[Tube]) -> Vec<(&Tube, Vec<u64>)> {
    parents.sort_unstable();
    let ids = |group: &[(u32, u64)]| group.iter().map(|(_, id)| *id).collect();
    let groups = parents.chunk_by(|one, other| one.0 == other.0);
    let named = groups.filter_map(|group| {
        let (tube, _) = group.first()?;
        Some((tubes.get(usize::try_from(*tube).ok()?)?, ids(group)))
    });
    named.collect()
}
