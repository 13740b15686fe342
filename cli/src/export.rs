//! `export`: everything that can be read of a store, damaged or not, as lines of JSON.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::json;
use tubewell::expert::{Salvaged, SalvagedTube};
use tubewell::{Error, OnParent, StoreOptions, Task, TaskInfo};

use crate::args::{self, Cli};
use crate::duration::NEVER_SECONDS;
use crate::export_line::{LimitLine, TaskLine, TubeLine};
use crate::failure::{CommandResult, Exit, Failure};
use crate::history::EntryRecord;
use crate::moment;
use crate::output::{Output, StandardOutput, count, note};
use crate::owner;
use crate::owners_copy::OwnersCopy;
use crate::printable;
use crate::progress::Progress;
use crate::record::{FailureRecord, ScheduleRecord, SpawnedByRecord, Time, text_and_base64};
use crate::step::StepRecord;
use crate::store;
use tubewell_json::option_fields::OptionFields;

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
            Salvaged::Task { tube, task, parents, on_parent, history, steps } => {
                self.tasks += 1;
                if self.tasks.is_multiple_of(1024) {
                    self.progress.set_message(count(self.tasks, "task"));
                }
                let line = task_line(tube, task, self.began);
                let rule = Some(*on_parent).filter(|rule| *rule != OnParent::Wait);
                let known = u32::try_from(parents.len()).unwrap_or(u32::MAX);
                self.write(&TaskLine {
                    parents: parents.as_slice().into(),
                    parents_lost: task.info.open_parents.saturating_sub(known),
                    on_parent: rule.and_then(args::OnParent::of),
                    history: history.iter().map(EntryRecord::new).collect(),
                    steps: steps.iter().map(StepRecord::new).collect(),
                    ..line
                })
            }
            Salvaged::Schedule { tube, schedule, body } => {
                self.tasks += 1;
                let (data, data_base64) = text_and_base64(body);
                let record = ScheduleRecord::new(tube, schedule);
                self.write(&ScheduleRecord { data, data_base64, ..record })
            }
            Salvaged::Limit(limit) => {
                self.write(&LimitLine { limit: limit.name.as_str().into(), most: limit.most })
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
    TubeLine {
        tube: tube.info.name.as_str().into(),
        driver: tube.info.driver.as_str().into(),
        options: OptionFields::given(&tube.info),
        paused_sub_queues: tube
            .paused_sub_queues
            .iter()
            .map(|paused| (paused.name.as_str().into(), seconds(paused.resumes_in)))
            .collect(),
        paused: tube.info.paused,
        resumes_in: seconds(tube.info.resumes_in),
    }
}

/// The line of a task, without its parents, its history and its steps.
fn task_line<'a>(tube: &'a str, task: &'a Task, began: SystemTime) -> TaskLine<'a> {
    let info = &task.info;
    let due_in = info.due_in.unwrap_or_default();
    let delay = if waits_for_moment(info, began) { Duration::ZERO } else { due_in };
    let result = task.result.as_deref();
    let (result, result_base64) = result.map(text_and_base64).unwrap_or_default();
    let (data, data_base64) = text_and_base64(&task.body);
    TaskLine {
        tube: tube.into(),
        id: Some(info.id),
        state: info.state,
        put_at: Some(moment::show(info.put_at)),
        ended_at: info.ended_at.map(moment::show),
        priority: Some(info.priority),
        // A put adds the delay to the ttl. Of a done task it is how long the task is still kept.
        ttl: Some(seconds(info.ttl_left.map(|left| left.saturating_sub(due_in)))),
        ttr: Some(seconds(info.ttr)),
        delay: Some(seconds(Some(delay))),
        not_before: info.not_before.map(moment::show),
        sub_queue: info.sub_queue.as_deref().map(Cow::from),
        key: info.key.as_deref().map(Cow::from),
        tags: info.tags.as_slice().into(),
        takes: Some(info.takes),
        attempts: Some(info.attempts).filter(|attempts| *attempts != info.takes),
        max_runtime: info.max_runtime.map(Time::new),
        traceparent: info.traceparent.as_deref().map(Cow::from),
        // A salvaged task has its own limit only.
        max_attempts: info.max_attempts,
        group: info.group.as_deref().map(Cow::from),
        failure: info.failure.as_ref().map(FailureRecord::new),
        result,
        result_base64,
        parents: Cow::default(),
        parents_lost: 0,
        on_parent: None,
        history: Vec::new(),
        steps: Vec::new(),
        spawned_by: info.spawned_by.as_ref().map(SpawnedByRecord::new),
        data,
        data_base64,
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
