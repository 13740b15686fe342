//! Changes of many tasks by pages, so that a call goes on where the one before has ended.

use std::collections::BTreeMap;

use tubewell::{Cursor, Error, Filter, Store, TaskCounts, TaskInfo, TaskState, Tube};

use crate::problem::{Answer, Problem};

/// The maximum number of tasks of a page.
const PAGE: usize = 1000;

/// A change of tasks with a tag, up to a limit. The tasks keep their tag: without its place, each call would look again at
/// those that the calls before have changed.
pub(super) struct Pages {
    /// The conditions, without the limit.
    filter: Filter,
    /// The state in which the tasks are.
    state: Option<TaskState>,
    after: Option<Cursor>,
    limit: u64,
}

impl Pages {
    /// `None` for a change that does not go by pages.
    pub(super) fn of(
        filter: Filter,
        state: Option<TaskState>,
        limit: Option<u64>,
        after: Option<Cursor>,
    ) -> Answer<Option<Pages>> {
        match limit {
            Some(limit) => Ok(Some(Pages { filter, state, after, limit })),
            None if after.is_some() => Err(Problem::invalid(
                "after: only a change with a tag and a limit goes on, and no delete; leave it out",
            )),
            None => Ok(None),
        }
    }

    /// Changes tasks of a tube, or of all tubes. Returns how many, and where the next call goes on.
    pub(super) fn change(
        self,
        store: &Store,
        tube: Option<&Tube>,
        make: impl Fn(Option<&Tube>, Filter) -> tubewell::Result<u64>,
    ) -> tubewell::Result<(u64, Option<Cursor>)> {
        let Pages { filter, state, mut after, limit } = self;
        // Refuses conditions that the change cannot use, also if there is no task.
        make(tube, filter.clone().ids([0_u64; 0]))?;
        let listed = tube.iter().fold(filter.clone(), |listed, tube| listed.tube(tube.name()));
        let listed = state.into_iter().fold(listed, Filter::state);
        // Tasks that come, or come back, meanwhile do not keep the call going.
        let limit = limit.min(count(store, tube, state)?);
        if limit == 0 {
            return Ok((0, None));
        }
        let mut changed = 0;
        while changed < limit {
            let left = usize::try_from(limit - changed).unwrap_or(usize::MAX).min(PAGE);
            let page = store.list(&listed, after, left)?;
            for (name, ids) in by_tube(page.items) {
                let selected = filter.clone().ids(ids);
                let made = store.find_tube(&name).and_then(|tube| make(Some(&tube), selected));
                changed += match made {
                    // It was dropped since, with its tasks.
                    Err(Error::TubeNotFound { .. } | Error::TubeDropped { .. }) => 0,
                    made => made?,
                };
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok((changed, after))
    }
}

/// How many tasks there are in a state.
fn count(store: &Store, tube: Option<&Tube>, state: Option<TaskState>) -> tubewell::Result<u64> {
    let of = |counts: &TaskCounts| match state {
        None => counts.total + counts.kept,
        Some(TaskState::Done) => counts.kept,
        Some(state) => counts.of(state),
    };
    match tube {
        Some(tube) => Ok(of(&tube.statistics()?.tasks)),
        None => Ok(store.statistics()?.values().map(|statistics| of(&statistics.tasks)).sum()),
    }
}

fn by_tube(tasks: Vec<TaskInfo>) -> BTreeMap<String, Vec<u64>> {
    let mut ids: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for task in tasks {
        ids.entry(task.tube).or_default().push(task.id);
    }
    ids
}
