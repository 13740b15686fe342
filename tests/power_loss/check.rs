//! The checks of a crash image: it opens, `verify` finds nothing, it has the expected contents, and
//! further calls work.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Cursor, Filter, ManualClock, Result, Store, StoreOptions, TaskInfo, TaskState, Tube,
};

use crate::disk::{Disk, Medium};
use crate::entries::read;
use crate::history::{Candidate, Expectation};
use crate::image_run::{ImageRun, RecoveredStore};
use crate::rng::Rng;
use crate::state::{Contents, Found};

/// Up to this many tasks all bodies are read, beyond that a sample.
const READ_ALL_BODIES_UP_TO: usize = 48;

/// Opens an image and checks it; the error describes what is wrong.
pub fn check(image: Medium, expected: &Expectation, rng: &mut Rng) -> Result<ImageRun, String> {
    let disk = Disk::new(image, Duration::ZERO);
    let checked = catch_unwind(AssertUnwindSafe(|| run_image(&disk, expected, rng)));
    match checked {
        Ok(Ok(run)) => run,
        Ok(Err(error)) => Err(format!("a call failed: {error}")),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("a panic: {}", message.unwrap_or("without a message")))
        }
    }
}

/// A clock at the time at which the previous run was cut off, so that no task falls due in between.
pub fn clock_at(now: u64) -> ManualClock {
    ManualClock::at(Duration::from_micros(now))
}

fn run_image(
    disk: &Arc<Disk>,
    expected: &Expectation,
    rng: &mut Rng,
) -> Result<Result<ImageRun, String>> {
    let clock = clock_at(expected.now);
    let cache = rng.pick(&[0, 64 << 10, 4 << 20]);
    let options = StoreOptions::default().cache_size(cache).clock(&clock);
    let store = match options.open_on(disk.storage()) {
        Ok(store) => store,
        Err(error) => return Ok(Err(format!("it does not open: {error}"))),
    };
    let opened = disk.position();
    let (commits, opened_at) =
        (store.admin().counters().unwrap().commits, store.admin().counters().unwrap().opened_at);
    if opened_at < expected.opened_at {
        let told = expected.opened_at;
        return Ok(Err(format!("it opens at commit {opened_at}, before {told} of a receipt")));
    }
    let defects = store.admin().verify()?;
    if !defects.is_empty() {
        return Ok(Err(format!("verify: {}", defects.join("; "))));
    }
    let found = read_contents(&store, READ_ALL_BODIES_UP_TO)?;
    let contents = match matching_contents(expected, &found, commits) {
        Ok(contents) => contents,
        Err(problem) => return Ok(Err(problem)),
    };
    if let Err(problem) = check_counts(&store, &contents) {
        return Ok(Err(problem));
    }
    if let Err(problem) = check_take(&store, &contents, expected.now, rng)? {
        return Ok(Err(problem));
    }
    let (store, clock, contents) = (&store, &clock, &contents);
    let recovered = RecoveredStore { disk, store, clock, expected, contents, commits };
    let history = match recovered.put_after_recovery(rng.one_in(6))? {
        Ok(history) => history,
        Err(problem) => return Ok(Err(problem)),
    };
    store.close()?;
    let (log, contents, before) = (disk.take_log(), contents.clone(), expected.clone());
    Ok(Ok(ImageRun { contents, log, opened, before, history }))
}

/// The contents of the candidate that matches what was found.
fn matching_contents(
    expected: &Expectation,
    found: &Found,
    commits: u64,
) -> Result<Arc<Contents>, String> {
    let fits = |one: &Candidate| {
        if let Some(difference) = one.contents.difference(found, expected.now) {
            return Err(difference);
        }
        if commits < one.commits_from || commits >= one.commits_below {
            let (from, below) = (one.commits_from, one.commits_below);
            return Err(format!("it has {commits} commits, not {from} to less than {below}"));
        }
        Ok(())
    };
    let mut mismatches = Vec::new();
    for one in &expected.candidates {
        match fits(one) {
            Ok(()) => return Ok(one.contents.clone()),
            Err(difference) => mismatches.push(format!("  after {:?}: {difference}", one.what)),
        }
    }
    let all = mismatches.len();
    // The oldest and the newest are the most useful.
    if all > 24 {
        mismatches.drain(12..all - 12);
    }
    Err(format!("none of the {all} allowed states, at commit {commits}\n{}", mismatches.join("\n")))
}

/// Reads all tubes and tasks of a store.
pub fn read_contents(store: &Store, all_bodies_up_to: usize) -> Result<Found> {
    let mut found = Found {
        tubes: store.tubes().unwrap(),
        limits: store.admin().limits().unwrap(),
        ..Found::default()
    };
    for info in &found.tubes {
        let tube = store.find_tube(&info.name)?;
        for state in [
            TaskState::Ready,
            TaskState::Delayed,
            TaskState::Buried,
            TaskState::Taken,
            TaskState::Done,
        ] {
            for task in list(&tube, state)? {
                found.tasks.insert(task.id, (info.name.clone(), task, None));
            }
        }
        found.groups.insert(info.name.clone(), read_groups(&tube)?);
        found.paused_sub_queues.insert(info.name.clone(), tube.query().paused_sub_queues()?);
    }
    let every = found.tasks.len() / all_bodies_up_to + 1;
    for (id, (tube, info, body)) in found.tasks.iter_mut().step_by(every) {
        let tube = store.find_tube(tube)?;
        *body = Some(tube.query().task(*id)?.body.into());
        found.histories.insert(*id, read(store, tube.name(), *id)?);
        if info.state == TaskState::Done {
            found.endings.insert(*id, tube.ending(*id)?);
        }
    }
    Ok(found)
}

fn read_groups(tube: &Tube) -> Result<BTreeMap<String, (u64, Vec<u64>)>> {
    let mut found = BTreeMap::new();
    for group in tube.query().groups()? {
        let listed =
            tube.query().list(Filter::new().group(&group.name).newest_first(), None, 10_000)?.items;
        let mut ids: Vec<u64> = listed.into_iter().map(|task| task.id).collect();
        ids.sort_unstable();
        found.insert(group.name, (group.count, ids));
    }
    Ok(found)
}

fn list(tube: &Tube, state: TaskState) -> Result<Vec<TaskInfo>> {
    let (mut all, mut place): (_, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = tube.query().list(state, place, 10_000)?;
        all.extend(page.items);
        match page.next {
            Some(next) => place = Some(next),
            None => return Ok(all),
        }
    }
}

fn check_counts(store: &Store, contents: &Contents) -> Result<(), String> {
    for (name, statistics) in store.statistics().unwrap() {
        let of = |state| {
            let all = contents.tasks.values();
            all.filter(|task| task.tube == name && task.state == state).count() as u64
        };
        let tasks = statistics.tasks;
        let counted = [tasks.ready, tasks.taken, tasks.delayed, tasks.buried, tasks.kept];
        let expected = [
            TaskState::Ready,
            TaskState::Taken,
            TaskState::Delayed,
            TaskState::Buried,
            TaskState::Done,
        ]
        .map(of);
        if counted != expected {
            return Err(format!("{name:?} counts {counted:?} tasks, expected {expected:?}"));
        }
    }
    Ok(())
}

/// Takes from one tube and checks that it is the first ready task, with its body. Skipped if a task
/// is overdue, since the take would then change the contents.
fn check_take(
    store: &Store,
    contents: &Contents,
    now: u64,
    rng: &mut Rng,
) -> Result<Result<(), String>> {
    let overdue = contents.tasks.values().any(|task| task.next_change() <= now);
    // A take of a task with a limited number of attempts changes the contents.
    let unlimited = contents.tubes.iter().filter(|(_, kind)| kind.limit.is_none());
    let names: Vec<&'static str> = unlimited.map(|(name, _)| *name).collect();
    if names.is_empty() || overdue {
        return Ok(Ok(()));
    }
    let name = rng.pick(&names);
    let here = contents.tasks.iter().filter(|(_, task)| task.tube == name);
    let ready =
        here.filter(|(_, task)| task.state == TaskState::Ready && !contents.is_busy(task, now));
    let best = ready.min_by_key(|(id, task)| (task.priority, **id));
    let best = best.filter(|_| !contents.tubes[name].is_paused(now));
    let taken = store.find_tube(name)?.try_take()?;
    Ok(match (best, taken) {
        (None, None) => Ok(()),
        (Some((id, task)), Some(claim)) if *id == claim.id() && *task.body == *claim.body() => {
            Ok(())
        }
        (best, taken) => Err(format!("took {taken:?} from {name:?}, expected {best:?}")),
    })
}
