//! What is read of a store for a screen.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tubewell::expert::{FailureGroup, HistoryEntry, ParentCounts};
use tubewell::{
    Cursor, Error, Filter, Owner, Page, ScheduleInfo, Statistics, Store, Task, TaskInfo, TaskState,
    TubeInfo,
};

/// The largest number of rows that a list of the overview has.
const MOST: usize = 100;
/// How many tasks are read with one call.
const PAGE: usize = 500;

/// What a screen shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// All tubes, and what goes on in them.
    Overview,
    /// The first tasks of a tube.
    Tasks { tube: String, which: Which, limit: usize },
    /// One task.
    Task { tube: String, id: u64 },
}

/// Which tasks of a tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    State(TaskState),
    /// The buried ones of a failure group.
    Group(String),
}

/// The store as it was when it was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What it was read for.
    pub want: Want,
    /// When, since the command began.
    pub at: Duration,
    /// As above, by the clock of the store.
    pub now: SystemTime,
    pub tubes: Vec<(TubeInfo, Statistics)>,
    pub detail: Detail,
}

/// What only the screen that asked for it shows.
#[derive(Clone, Debug)]
pub enum Detail {
    Overview(Overview),
    /// `has_more`: there are further tasks behind these.
    Tasks {
        tasks: Vec<TaskInfo>,
        has_more: bool,
    },
    Task(Box<TaskDetail>),
    /// There is no such tube or task any more. The text says so.
    Gone(String),
}

/// What goes on in the tubes. Each entry begins with the name of its tube.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub running: Vec<(String, TaskInfo, Option<Owner>)>,
    pub groups: Vec<(String, FailureGroup)>,
    pub schedules: Vec<(String, ScheduleInfo)>,
    /// When the task was put that the next take would get, of each tube that has one.
    pub next: BTreeMap<String, SystemTime>,
}

/// A task with all that is known of it.
#[derive(Clone, Debug)]
pub struct TaskDetail {
    pub task: Task,
    pub owner: Option<Owner>,
    pub history: Vec<HistoryEntry>,
    /// How many steps are done.
    pub steps: Option<usize>,
    /// How far the tasks are that it waits for.
    pub parents: Option<ParentCounts>,
}

/// Reads what a screen shows.
pub fn read(store: &Store, want: Want, at: Duration) -> tubewell::Result<Reading> {
    let tubes = crate::store::counted_tubes(store)?;
    let detail = match &want {
        Want::Overview => Ok(Detail::Overview(overview(store, &tubes)?)),
        Want::Tasks { tube, which, limit } => tasks(store, tube, which, *limit),
        Want::Task { tube, id } => task(store, tube, *id),
    };
    let detail = match detail {
        Err(error @ (Error::TubeNotFound { .. } | Error::TubeDropped { .. })) => {
            Detail::Gone(error.to_string())
        }
        Err(Error::NotFound { id }) => Detail::Gone(format!("task {id} is no longer there")),
        detail => detail?,
    };
    Ok(Reading { want, at, now: crate::store::now(store)?, tubes, detail })
}

fn overview(store: &Store, tubes: &[(TubeInfo, Statistics)]) -> tubewell::Result<Overview> {
    let mut overview = Overview::default();
    for (tube, counts) in tubes {
        let tasks = counts.tasks;
        if tasks.ready == 0 && tasks.taken == 0 && tasks.buried == 0 && tasks.recurring == 0 {
            continue;
        }
        match add(store, tube, counts, &mut overview) {
            // It was dropped after the tubes were read.
            Err(Error::TubeNotFound { .. } | Error::TubeDropped { .. }) => {}
            added => added?,
        }
    }
    Ok(overview)
}

/// Adds what goes on in one tube.
fn add(
    store: &Store,
    TubeInfo { name, usable, .. }: &TubeInfo,
    counts: &Statistics,
    overview: &mut Overview,
) -> tubewell::Result<()> {
    let tube = store.find_tube(name)?;
    // A tube whose driver only the application has gives nothing to this process.
    if counts.tasks.ready > 0 && *usable {
        let next = tube.query().next(1)?.pop();
        overview.next.extend(next.map(|next| (name.clone(), next.put_at)));
    }
    let left = MOST.saturating_sub(overview.running.len());
    if counts.tasks.taken > 0 && left > 0 {
        for info in tube.query().list(TaskState::Taken, None, left)?.items {
            let owner = match tube.query().owner(info.id) {
                // It ended after the list was read.
                Err(Error::NotFound { .. }) => continue,
                owner => owner?,
            };
            overview.running.push((name.clone(), info, owner));
        }
    }
    if counts.tasks.buried > 0 {
        let left = MOST.saturating_sub(overview.groups.len());
        let groups = tube.query().groups()?.into_iter().take(left);
        overview.groups.extend(groups.map(|group| (name.clone(), group)));
    }
    let left = MOST.saturating_sub(overview.schedules.len());
    if counts.tasks.recurring > 0 && left > 0 {
        let schedules = tube.schedules().list(None, left)?.items.into_iter();
        overview.schedules.extend(schedules.map(|schedule| (name.clone(), schedule)));
    }
    Ok(())
}

fn tasks(store: &Store, name: &str, which: &Which, limit: usize) -> tubewell::Result<Detail> {
    let tube = store.find_tube(name)?;
    let page = |after: Option<Cursor>, most: usize| -> tubewell::Result<Page<TaskInfo>> {
        match which {
            Which::State(state) => tube.query().list(*state, after, most),
            Which::Group(group) => {
                tube.query().list(Filter::new().group(group).newest_first(), after, most)
            }
        }
    };
    let (mut tasks, mut after) = (Vec::new(), None);
    loop {
        let next = page(after, PAGE.min(limit.saturating_sub(tasks.len())))?;
        tasks.extend(next.items);
        after = next.next;
        if after.is_none() || tasks.len() >= limit {
            return Ok(Detail::Tasks { tasks, has_more: after.is_some() });
        }
    }
}

fn task(store: &Store, name: &str, id: u64) -> tubewell::Result<Detail> {
    let tube = store.find_tube(name)?;
    let (task, history) = (tube.query().task(id)?, tube.query().history(id)?);
    let owner = crate::record::owner(&tube, &task.info)?;
    let steps = crate::record::count_steps(&tube, &task.info)?;
    let parents = crate::record::count_parents(&tube, &task.info)?;
    Ok(Detail::Task(Box::new(TaskDetail { task, owner, history, steps, parents })))
}

/// A task as it is some time after it was read, if nothing changes it.
pub fn aged(info: &TaskInfo, by: Duration) -> TaskInfo {
    let mut info = info.clone();
    let less = |time: Duration| {
        if time == Duration::MAX { time } else { time.saturating_sub(by) }
    };
    info.due_in = info.due_in.map(less);
    info.reclaimed_in = info.reclaimed_in.map(less);
    info.ttl_left = info.ttl_left.map(less);
    if let Some(failure) = &mut info.failure {
        failure.ago = failure.ago.saturating_add(by);
    }
    info
}
