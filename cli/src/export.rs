//! `export`: everything that can be read of a store, damaged or not, as lines of JSON.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::json;
use tubewell::{
    Backoff, Counting, Durability, Error, OnParent, Salvaged, SalvagedTube, StoreOptions, Task,
    TaskInfo,
};

use crate::args::Cli;
use crate::duration::NEVER_SECONDS;
use crate::failure::{CommandResult, Exit, Failure};
use crate::history::EntryRecord;
use crate::moment;
use crate::output::{Output, StandardOutput, count, note};
use crate::owner;
use crate::owners_copy::OwnersCopy;
use crate::printable;
use crate::progress::Progress;
use crate::record::{Body, FailureRecord, ResultBytes, ScheduleRecord, SpawnedByRecord};
use crate::step::StepRecord;
use crate::store;

/// The line of a tube. Lines of tasks have no driver.
#[derive(Serialize)]
struct TubeLine<'a> {
    tube: &'a str,
    driver: &'a str,
    ttl: Option<f64>,
    ttr: Option<f64>,
    pri: u32,
    capacity: u64,
    temporary: bool,
    /// The longest delay of a relaxed tube in seconds, otherwise the text.
    durability: Option<serde_json::Value>,
    /// Left out without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_runtime: Option<f64>,
    /// As above, and so are all that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count_takes: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reclaim_delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_done: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_buried: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_taken: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_queue_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_queue_rate: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shared_limits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<u32>,
    /// How many days are kept; their numbers are not exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<u32>,
    /// What is left of the pauses of its sub-queues; null for one without an end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    paused_sub_queues: BTreeMap<&'a str, Option<f64>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    /// What is left of the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumes_in: Option<f64>,
}

/// The line of a task. Its times are the options of a put that restores the task as it is now.
#[derive(Serialize)]
struct TaskLine<'a> {
    tube: &'a str,
    id: u64,
    state: &'static str,
    put_at: String,
    pri: u32,
    ttl: Option<f64>,
    ttr: Option<f64>,
    delay: Option<f64>,
    /// Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    sub_queue: Option<&'a str>,
    /// Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    takes: u32,
    /// Left out if all takes are attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// Left out without a limit of its own, and so are the others without a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureRecord<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    result: Option<ResultBytes<'a>>,
    /// The ids of the tasks that it waits for. An id is unique in the export.
    #[serde(skip_serializing_if = "<[u64]>::is_empty")]
    parents: &'a [u64],
    /// How many more there are, which could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    parents_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_parent: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<EntryRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawned_by: Option<SpawnedByRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepRecord<'a>>,
    #[serde(flatten)]
    body: Body<'a>,
}

/// An export under way.
struct Export<'a> {
    to: BufWriter<Box<dyn Write + 'a>>,
    progress: &'a Progress,
    bytes: u64,
    tubes: u64,
    tasks: u64,
    lost: u64,
    /// What the wall clock showed before the first line.
    began: SystemTime,
    /// Why a line could not be written.
    failure: Option<Failure>,
}

/// Exports the store at `path` to a file, or to standard output. If a process serves it, exports a copy that this
/// process makes.
pub fn run(path: &Path, cli: &Cli, to: &Path, output: &mut Output) -> CommandResult {
    store::must_exist(path)?;
    let owner = owner::of_file(path, cli.no_socket)?;
    let copy = owner.map(|owner| OwnersCopy::make(&owner, path)).transpose()?;
    export(copy.as_ref().map_or(path, OwnersCopy::path), cli, to, output)
}

/// Exports the file at `path`.
fn export(path: &Path, cli: &Cli, to: &Path, output: &mut Output) -> CommandResult {
    let is_stdout = to.as_os_str() == "-";
    let file = if is_stdout { None } else { Some(create(to)?) };
    let bytes: Box<dyn Write + '_> = match &file {
        Some(file) => Box::new(file),
        None => Box::new(StandardOutput),
    };
    let progress = Progress::unknown_length("exporting");
    let mut export = Export {
        to: BufWriter::new(bytes),
        progress: &progress,
        bytes: 0,
        tubes: 0,
        tasks: 0,
        lost: 0,
        began: moment::now(),
        failure: None,
    };
    let options = || StoreOptions::default().trust_wall_clock(cli.trust_wall_clock);
    let salvage = || options().salvage(path, |found| export.write_found(&found));
    let read = store::retry_in_use(cli, || false, salvage);
    // The user may remove the store after this, so the file must survive a power cut.
    let flushed = export.to.flush().and_then(|()| file.as_ref().map_or(Ok(()), File::sync_all));
    let flushed = flushed.map_err(|error| Failure::output(&error));
    progress.end();
    if let Some(failure) = export.failure {
        return Err(if is_stdout { failure } else { incomplete(failure, to) });
    }
    let Export { tubes, tasks, lost, bytes, .. } = export;
    if let Err(error) = read {
        if bytes == 0 && !is_stdout {
            // The next attempt needs the name.
            let _ = std::fs::remove_file(to);
        }
        return Err(unreadable(path, error));
    }
    flushed.map_err(|failure| if is_stdout { failure } else { incomplete(failure, to) })?;
    if output.json && !is_stdout {
        output.object(&json!({ "tubes": tubes, "tasks": tasks, "lost": lost }))?;
    } else {
        let summary = format!("exported {} of {}", count(tasks, "task"), count(tubes, "tube"));
        if is_stdout { note(&summary) } else { output.line(summary)? }
    }
    if lost == 0 {
        return Ok(());
    }
    Err(Failure::new(Exit::Partly, format!("{} could not be read", count(lost, "item")))
        .hint("keep a copy of the store's file; `tubewell import --all` imports what was exported"))
}

fn create(to: &Path) -> CommandResult<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // It has all bodies, as the file of the store has.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(to) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::new(Exit::Refused, format!("{} already exists", to.display()))
                .hint("name a new file, or - for standard output"))
        }
        Err(error) => {
            Err(Failure::new(Exit::Failed, format!("cannot create {}: {error}", to.display())))
        }
    }
}

/// The file does not show that lines are missing, so the hint says so.
fn incomplete(failure: Failure, to: &Path) -> Failure {
    let file = to.display();
    failure.hint(format!("{file} is incomplete: remove it, and export to a disk with enough space"))
}

fn unreadable(path: &Path, error: Error) -> Failure {
    match error {
        Error::Corrupt { what } => {
            Failure::new(Exit::Failed, format!("nothing in the file can be read: {what}"))
                .hint("keep a copy of the file; restore a backup")
        }
        error => store::open_failure(path, error),
    }
}

impl Export<'_> {
    fn write_found(&mut self, found: &Salvaged) -> tubewell::Result<()> {
        let written = match found {
            Salvaged::Tube(tube) => {
                self.tubes += 1;
                self.write(&tube_line(tube))
            }
            Salvaged::Task { tube, task, result, parents, on_parent, history, steps } => {
                self.tasks += 1;
                if self.tasks.is_multiple_of(1024) {
                    self.progress.set_message(count(self.tasks, "task"));
                }
                let line = task_line(tube, task, result.as_deref(), self.began);
                let rule = Some(*on_parent).filter(|rule| *rule != OnParent::Wait);
                let lost = u64::from(task.info.open_parents).saturating_sub(parents.len() as u64);
                self.write(&TaskLine {
                    parents,
                    parents_lost: Some(lost).filter(|lost| *lost > 0),
                    on_parent: rule.map(OnParent::as_str),
                    history: history.iter().map(EntryRecord::new).collect(),
                    steps: steps.iter().map(StepRecord::new).collect(),
                    ..line
                })
            }
            Salvaged::Schedule { tube, schedule, data } => {
                self.tasks += 1;
                let body = Some(Body::new(data));
                self.write(&ScheduleRecord { body, ..ScheduleRecord::new(tube, schedule) })
            }
            Salvaged::Limit(limit) => {
                self.write(&json!({ "limit": limit.name, "most": limit.most }))
            }
            Salvaged::Lost { what } => {
                self.lost += 1;
                self.progress.note(&format!("lost: {what}"));
                Ok(())
            }
            Salvaged::UntrustedClock { ahead } => {
                self.progress.note(&store::untrusted_clock(*ahead));
                Ok(())
            }
            _ => Ok(()),
        };
        written.map_err(|error| {
            self.failure = Some(Failure::output(&error));
            Error::Closed
        })
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let text = printable::json(line)? + "\n";
        self.bytes += text.len() as u64;
        self.progress.set(self.bytes);
        self.to.write_all(text.as_bytes())
    }
}

fn tube_line(tube: &SalvagedTube) -> TubeLine<'_> {
    let counting = Some(tube.info.count_takes).filter(|counting| *counting != Counting::default());
    let backoff = Some(tube.info.backoff).filter(|backoff| *backoff != Backoff::none());
    TubeLine {
        tube: &tube.info.name,
        driver: &tube.info.driver,
        ttl: seconds(tube.info.ttl),
        ttr: seconds(tube.info.ttr),
        pri: tube.info.pri,
        capacity: tube.info.capacity,
        temporary: tube.info.temporary,
        durability: tube.info.durability.map(|durability| match durability {
            Durability::Relaxed { max_delay } => {
                json!(max_delay.as_secs_f64().min(NEVER_SECONDS))
            }
            durability => json!(durability.to_string()),
        }),
        max_runtime: seconds(tube.info.max_runtime),
        max_attempts: tube.info.max_attempts,
        count_takes: counting.map(Counting::as_str),
        backoff: backoff.map(|backoff| backoff.to_string()),
        reclaim_delay: tube.info.reclaim_delay.map(|delay| delay.as_secs_f64().min(NEVER_SECONDS)),
        keep_done: tube.info.keep_done.map(|keep| keep.to_string()),
        keep_buried: tube.info.keep_buried.map(|keep| keep.to_string()),
        max_taken: tube.info.max_taken,
        rate: tube.info.rate.map(|rate| rate.to_string()),
        sub_queue_limit: tube.info.sub_queue_limit,
        sub_queue_rate: tube.info.sub_queue_rate.map(|rate| rate.to_string()),
        shared_limits: tube.info.shared_limits,
        history: Some(tube.info.history).filter(|entries| *entries > 0),
        metrics: Some(tube.info.metrics).filter(|days| *days > 0),
        paused_sub_queues: tube
            .paused_sub_queues
            .iter()
            .map(|paused| (paused.name.as_str(), seconds(paused.resumes_in)))
            .collect(),
        paused: tube.info.paused,
        resumes_in: seconds(tube.info.resumes_in),
    }
}

/// The line of a task, without its parents, its history and its steps.
fn task_line<'a>(
    tube: &'a str,
    task: &'a Task,
    result: Option<&'a [u8]>,
    began: SystemTime,
) -> TaskLine<'a> {
    let info = &task.info;
    let due_in = info.due_in.unwrap_or_default();
    let delay = if waits_for_moment(info, began) { Duration::ZERO } else { due_in };
    TaskLine {
        tube,
        id: info.id,
        state: info.state.as_str(),
        put_at: moment::show(info.put_at),
        pri: info.pri,
        // A put adds the delay to the ttl. Of a done task it is how long the task is still kept.
        ttl: seconds(info.ttl_left.map(|left| left.saturating_sub(due_in))),
        ttr: seconds(info.ttr),
        delay: seconds(Some(delay)),
        not_before: info.not_before.map(moment::show),
        sub_queue: info.sub_queue.as_deref(),
        key: info.key.as_deref(),
        tags: &info.tags,
        takes: info.takes,
        attempts: Some(info.attempts).filter(|attempts| *attempts != info.takes),
        // A salvaged task has the attempts of its own limit only.
        max_attempts: info.attempts_left.map(|left| left.saturating_add(info.attempts)),
        group: info.group.as_deref(),
        failure: info.failure.as_ref().map(FailureRecord::new),
        result: result.map(|result| ResultBytes::new(Some(result))),
        parents: &[],
        parents_lost: None,
        on_parent: None,
        history: Vec::new(),
        steps: Vec::new(),
        spawned_by: info.spawned_by.as_ref().map(SpawnedByRecord::new),
        body: Body::new(&task.data),
    }
}

/// Whether a delayed task waits for its moment, which the line has, and not for the end of a delay
/// that is more than a second later.
fn waits_for_moment(info: &TaskInfo, began: SystemTime) -> bool {
    let left = info.not_before.and_then(|moment| moment.duration_since(began).ok());
    let longest = left.map(|left| left.saturating_add(Duration::from_secs(1)));
    info.due_in.zip(longest).is_some_and(|(due_in, longest)| due_in <= longest)
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64()).filter(|seconds| *seconds < NEVER_SECONDS)
}
