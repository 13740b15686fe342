//! `peek` and `list`: looking at tasks without changing them.

use std::time::Duration;

use tubewell::{Error, State, Store, Task, TaskInfo, Tube, UTUBE, UTUBETTL};

use crate::args::{self, List, Peek};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Cell, Output, Style, count, note, plain, size};
use crate::record::{self, TaskRecord};
use crate::{duration, store};

/// How many tasks are read at a time.
const PAGE: usize = 500;
/// How much of a body fits into a line.
const PREVIEW: usize = 50;

/// One task with its body.
pub fn peek(store: &Store, asked: &Peek, output: &mut Output) -> Outcome {
    let tube = store::tube(store, &asked.tube)?;
    let id = match asked.id {
        Some(id) => id,
        None => next(&tube)?,
    };
    let task = tube.peek(id).map_err(|error| match error {
        Error::NotFound { .. } => {
            Failure::new(Exit::NoTask, format!("{} has no task {id}", asked.tube))
        }
        error => error.into(),
    })?;
    if asked.body {
        return output.bytes(&task.data);
    }
    if output.json {
        return output.object(&TaskRecord::new(&asked.tube, &task.info, Some(&task.data)));
    }
    describe(&task, output)
}

/// The tasks of a tube, by state, in the order in which they will be taken.
pub fn list(store: &Store, asked: &List, output: &mut Output) -> Outcome {
    let tube = store::tube(store, &asked.tube)?;
    let states = states_of(&asked.state);
    let tasks = tube.statistics()?.tasks;
    let of = |state: &State| match state {
        State::Ready => tasks.ready,
        State::Taken => tasks.taken,
        State::Delayed => tasks.delayed,
        State::Buried => tasks.buried,
        State::Done => 0,
    };
    let total: u64 = states.iter().map(of).sum();
    let limit = if asked.all { u64::MAX } else { asked.limit };
    let (mut skip, mut left) = (asked.skip, limit);
    let mut rows = Rows::new(&tube, &asked.tube, output);
    for state in states {
        let mut place = None;
        while left > 0 {
            let page = tube.list(state, place, PAGE)?;
            for info in &page.tasks {
                if skip > 0 {
                    skip -= 1;
                } else if left > 0 {
                    left -= 1;
                    rows.add(info)?;
                }
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
    }
    rows.end(total)?;
    let shown = limit.saturating_sub(left);
    let behind = asked.skip.saturating_add(shown);
    if behind < total && shown > 0 {
        output.flush()?;
        note(&format!("{shown} of {total} tasks; the next ones: --skip {behind}, all: --all"));
    }
    Ok(())
}

/// The task that a take would give: nobody has taken one, so every sub-queue is free.
fn next(tube: &Tube) -> Outcome<u64> {
    let sub_queued = [UTUBE, UTUBETTL].contains(&tube.driver());
    let (mut first, mut place) = (None, None);
    loop {
        let page = tube.list(State::Ready, place, if sub_queued { PAGE } else { 1 })?;
        first = page.tasks.iter().map(|info| (info.pri, info.id)).chain(first).min();
        place = page.next;
        // A list of sub-queues begins with the first one's tasks, the next to be taken may be in
        // any.
        if !sub_queued || place.is_none() {
            break;
        }
    }
    let nothing = || Failure::new(Exit::NoTask, format!("no task is ready in {}", tube.name()));
    first.map(|(_, id)| id).ok_or_else(nothing)
}

fn states_of(asked: &[args::State]) -> Vec<State> {
    let all = [
        (args::State::Ready, State::Ready),
        (args::State::Taken, State::Taken),
        (args::State::Delayed, State::Delayed),
        (args::State::Buried, State::Buried),
    ];
    let wanted = |(name, _): &(args::State, State)| asked.is_empty() || asked.contains(name);
    all.into_iter().filter(wanted).map(|(_, state)| state).collect()
}

/// The lines of a list, as they come: a long list is not kept in memory.
struct Rows<'a> {
    tube: &'a Tube,
    name: &'a str,
    output: &'a mut Output,
    waiting: Vec<Vec<Cell>>,
    printed: bool,
}

impl<'a> Rows<'a> {
    fn new(tube: &'a Tube, name: &'a str, output: &'a mut Output) -> Rows<'a> {
        Rows { tube, name, output, waiting: Vec::new(), printed: false }
    }

    fn add(&mut self, info: &TaskInfo) -> Outcome {
        let task = match self.tube.peek(info.id) {
            Ok(task) => task,
            // Its life ended between the page and this look.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => {
                // What comes before it is worth having.
                if !self.waiting.is_empty() {
                    self.print()?;
                }
                return Err(error.into());
            }
        };
        if self.output.json {
            let record = TaskRecord::new(self.name, info, Some(&task.data));
            return self.output.object(&record);
        }
        self.waiting.push(vec![
            Cell::number(info.id),
            Cell::text(record::state(info.state)).style(colour(info.state)),
            Cell::number(info.pri),
            Cell::number(info.takes),
            Cell::number(size(info.size)),
            Cell::text(times(info)).style(Style::Dim),
            Cell::text(info.sub_queue.as_deref().unwrap_or("-")),
            Cell::text(preview(&task.data)),
        ]);
        if self.waiting.len() >= PAGE { self.print() } else { Ok(()) }
    }

    fn end(mut self, total: u64) -> Outcome {
        if !self.waiting.is_empty() {
            return self.print();
        }
        match self.output.json || self.printed {
            true => Ok(()),
            false if total == 0 => self.output.line("no tasks"),
            false => self.output.line(format!("no more tasks: there are {total}")),
        }
    }

    fn print(&mut self) -> Outcome {
        let first = !std::mem::replace(&mut self.printed, true);
        let head = ["ID", "STATE", "PRI", "TAKES", "SIZE", "TIMES", "SUB-QUEUE", "BODY"];
        self.output.more_table(&head, &std::mem::take(&mut self.waiting), first)
    }
}

fn describe(task: &Task, output: &mut Output) -> Outcome {
    let info = &task.info;
    let mut lines = vec![
        ("task", info.id.to_string()),
        ("state", record::state(info.state).to_owned()),
        ("pri", info.pri.to_string()),
        ("taken", count(u64::from(info.takes), "time")),
        ("size", size(info.size)),
    ];
    lines.extend(info.sub_queue.as_ref().map(|name| ("sub-queue", plain(name))));
    lines.extend(info.due_in.map(|time| ("ready", ready(time))));
    lines.extend(info.ttl_left.map(|time| ("ttl left", duration::show(time))));
    lines.extend(info.ttr.map(|time| ("ttr", duration::show(time))));
    for (name, value) in lines {
        let name = output.paint(Style::Bold, &format!("{name:<10}"));
        output.line(format!("{name}{value}"))?;
    }
    output.line("")?;
    output.bytes(&task.data)?;
    if task.data.ends_with(b"\n") { Ok(()) } else { output.line("") }
}

fn colour(state: State) -> Style {
    match state {
        State::Ready => Style::Green,
        State::Delayed => Style::Yellow,
        State::Buried => Style::Red,
        _ => Style::Plain,
    }
}

fn times(info: &TaskInfo) -> String {
    let due = info.due_in.map(|time| format!("ready {}", ready(time)));
    let ttl = info.ttl_left.map(|time| format!("ttl {}", duration::show(time)));
    let parts: Vec<String> = due.into_iter().chain(ttl).collect();
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

/// When a delay is over.
fn ready(time: Duration) -> String {
    if time == Duration::MAX { "never".into() } else { format!("in {}", duration::show(time)) }
}

/// The beginning of a body in one line, safe for a terminal.
fn preview(data: &[u8]) -> String {
    let start = data.get(..PREVIEW * 4).unwrap_or(data);
    let text = String::from_utf8_lossy(start);
    let mut line: String =
        text.chars().take(PREVIEW).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < data.len() {
        line.push('…');
    }
    line
}
