//! `list`: the tasks of a tube or of all tubes, by state.

use std::collections::BinaryHeap;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use tubewell::{Cursor, Error, Filter, Page, Store, Task, TaskInfo, TaskState, Tube};

use super::all_tubes;
use crate::failure::CommandResult;
use crate::output::{Cell, Columns, Output, count, note};
use crate::record::{self, TaskRecord};
use crate::task_text;
use crate::{args, store};

/// How many tasks are read at a time.
const PAGE: usize = 500;
/// How many delayed tasks are read at a time. Their due times are exact within a page, and between
/// pages as exact as the clock is read.
const DELAYED_PAGE: usize = 10_000;

pub fn run(store: &Store, args: &args::List, output: &mut Output) -> CommandResult {
    match &args.place.tube {
        Some(name) => of_tube(store, name, args, output),
        None => of_all_tubes(store, args, output),
    }
}

/// One tube after the other; with several states, one state after the other.
fn of_all_tubes(store: &Store, args: &args::List, output: &mut Output) -> CommandResult {
    let filters = match &args.group {
        Some(group) => vec![Filter::new().group(group).newest_first()],
        None => wanted(args, &states(&args.state)),
    };
    all_tubes::print(store, &filters, &args.shown, "tasks", output)
}

fn of_tube(store: &Store, name: &str, args: &args::List, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, name)?;
    let states = if args.soonest_first { vec![TaskState::Delayed] } else { states(&args.state) };
    let tasks = tube.statistics()?.tasks;
    let has_conditions = args.soonest_first
        || args.tag.is_some()
        || args.owner.is_some()
        || args.sub_queue.is_some();
    // How many tasks meet conditions is not known before all are read.
    let total: u64 = match &args.group {
        _ if has_conditions => u64::MAX,
        None => states.iter().map(|state| tasks.of(*state)).sum(),
        Some(name) => group_size(&tube, name)?,
    };
    let limit = args.shown.limit();
    let mut printer = Printer::new(&tube, args, store::now(store)?, output);
    if let Some(name) = &args.group {
        let pages =
            |place| tube.query().list(Filter::new().group(name).newest_first(), place, PAGE);
        print_pages(pages, &mut printer)?;
    } else if has_conditions || args.newest_first {
        for wanted in wanted(args, &states) {
            print_pages(|place| tube.query().list(&wanted, place, PAGE), &mut printer)?;
        }
    } else if states == [TaskState::Delayed] {
        let number = args.shown.skip.saturating_add(limit);
        for id in ids_by_due_time(store, &tube, number, &mut printer.damaged)? {
            printer.task(id, Some(TaskState::Delayed))?;
        }
    } else {
        for state in states {
            print_pages(|place| tube.query().list(state, place, PAGE), &mut printer)?;
        }
    }
    let (damaged, may_have_more) = (printer.damaged, printer.left == 0);
    let shown = printer.end(total)?;
    let end = args.shown.skip.saturating_add(shown);
    if has_conditions && may_have_more && shown > 0 {
        output.flush()?;
        note(&format!("there may be more; for the next ones give --skip {end}, for all --all"));
    } else if !has_conditions && end.saturating_add(damaged) < total && shown > 0 {
        output.flush()?;
        note(&format!(
            "{shown} of {total} tasks; for the next ones give --skip {end}, for all --all"
        ));
    }
    if damaged == 0 {
        return Ok(());
    }
    let what = format!("{} of {name}", count(damaged, "record"));
    Err(Error::Corrupt { what: format!("{what} cannot be read") }.into())
}

/// The states to list, in the order of the list.
fn states(asked: &[args::State]) -> Vec<TaskState> {
    let is_asked = |state: &&args::State| match asked {
        [] => !matches!(state, args::State::Done | args::State::Recurring),
        asked => asked.contains(state),
    };
    let all = args::State::value_variants().iter();
    all.filter(is_asked).copied().map(TaskState::from).collect()
}

/// The conditions, for each state to list.
fn wanted(args: &args::List, states: &[TaskState]) -> Vec<Filter> {
    let of = |wanted: Filter| {
        let wanted = args.tag.iter().fold(wanted, Filter::tag);
        let wanted = args.sub_queue.iter().fold(wanted, Filter::sub_queue);
        let wanted = if args.newest_first { wanted.newest_first() } else { wanted };
        if args.soonest_first { wanted.soonest_first() } else { wanted }
    };
    match &args.owner {
        Some(owner) => vec![of(Filter::new().owner(owner))],
        None => states.iter().map(|state| of(Filter::new().state(*state))).collect(),
    }
}

/// How many tasks a failure group has.
fn group_size(tube: &Tube, name: &str) -> CommandResult<u64> {
    let groups = tube.query().groups()?;
    Ok(groups.iter().find(|group| group.name == name).map_or(0, |group| group.count))
}

fn print_pages(
    pages: impl Fn(Option<Cursor>) -> tubewell::Result<Page<TaskInfo>>,
    printer: &mut Printer<'_>,
) -> CommandResult {
    let mut place = None;
    while printer.left > 0 {
        let page = pages(place)?;
        printer.damaged += page.damaged;
        for info in &page.items {
            printer.task(info.id, None)?;
        }
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    Ok(())
}

/// The first delayed tasks by due time, then by id. Keeps this many ids in memory. Counts those whose
/// records are damaged.
fn ids_by_due_time(
    store: &Store,
    tube: &Tube,
    number: u64,
    damaged: &mut u64,
) -> CommandResult<Vec<u64>> {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let mut first: BinaryHeap<(Duration, u64)> = BinaryHeap::new();
    let mut place = None;
    loop {
        let page = tube.query().list(TaskState::Delayed, place, DELAYED_PAGE)?;
        *damaged += page.damaged;
        let now = store.admin().clock_report()?.timeline;
        for info in &page.items {
            let due_in = info.due_in.unwrap_or_default();
            first.push((now.saturating_add(due_in), info.id));
            if first.len() > number {
                first.pop();
            }
        }
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    Ok(first.into_sorted_vec().into_iter().map(|(_, id)| id).collect())
}

/// Prints the tasks that `--skip` and `--limit` select, page by page: a long list is not kept in
/// memory.
struct Printer<'a> {
    tube: &'a Tube,
    args: &'a args::List,
    output: &'a mut Output,
    /// When the list began, by the clock of the store.
    now: SystemTime,
    skip: u64,
    left: u64,
    shown: u64,
    /// Tasks whose records cannot be read.
    damaged: u64,
    rows: Vec<Vec<Cell>>,
    /// The columns that the table has so far.
    columns: Columns,
    printed: bool,
}

impl<'a> Printer<'a> {
    fn new(
        tube: &'a Tube,
        args: &'a args::List,
        now: SystemTime,
        output: &'a mut Output,
    ) -> Printer<'a> {
        Printer {
            tube,
            args,
            output,
            now,
            skip: args.shown.skip,
            left: args.shown.limit(),
            shown: 0,
            damaged: 0,
            rows: Vec::new(),
            columns: Columns::default(),
            printed: false,
        }
    }

    /// Prints the task, unless it is skipped, is over the limit, or has left this state.
    fn task(&mut self, id: u64, only: Option<TaskState>) -> CommandResult {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        self.shown += 1;
        let task = match self.tube.query().task(id) {
            Ok(task) => task,
            // Its ttl elapsed after the page was read.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => {
                // The tasks before a damaged one are printed.
                self.print_rows()?;
                return Err(error.into());
            }
        };
        if only.is_some_and(|state| state != task.info.state) {
            return Ok(());
        }
        self.print(&task)
    }

    fn print(&mut self, task: &Task) -> CommandResult {
        if self.output.json {
            return self.output.object(&TaskRecord::new(self.tube, task, self.now)?);
        }
        if self.args.shown.bodies {
            if std::mem::replace(&mut self.printed, true) {
                self.output.line("")?;
            }
            return task_text::print(self.tube, task, self.now, self.output);
        }
        let owner = record::owner(self.tube, &task.info)?;
        self.rows.push(task_text::row(task, owner.as_ref(), self.now));
        if self.rows.len() >= PAGE { self.print_rows() } else { Ok(()) }
    }

    /// Prints what is left to print; returns how many tasks were shown.
    fn end(mut self, total: u64) -> CommandResult<u64> {
        self.print_rows()?;
        if !self.output.json && !self.printed {
            self.output.line(match total {
                u64::MAX if self.args.shown.skip == 0 => "no tasks".into(),
                u64::MAX => "no more tasks".into(),
                0 => "no tasks".into(),
                _ => format!("no more tasks: there are {total}"),
            })?;
        }
        Ok(self.shown)
    }

    fn print_rows(&mut self) -> CommandResult {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.printed = true;
        let rows = std::mem::take(&mut self.rows);
        self.output.sparse_table_part(&task_text::COLUMNS, rows, &mut self.columns)
    }
}
