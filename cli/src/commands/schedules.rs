//! `schedule`, `reschedule`, `unschedule` and `schedules`.

use serde_json::json;
use tubewell::{Error, Put, Receipt, ScheduleInfo, Store, TaskState};

use super::put;
use crate::args::{self, RescheduleArgs, Schedules, Unschedule};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Cell, Output, Style};
use crate::record::ScheduleRecord;
use crate::{bytes, duration, moment, store};

/// How many schedules are read at a time.
const PAGE: usize = 500;

pub fn schedule(store: &Store, args: &args::Schedule, output: &mut Output) -> CommandResult {
    if args.rule.every.is_none() && args.rule.cron.is_none() {
        return Err(Failure::usage("the schedule does not say when its runs are")
            .hint("give --every DURATION, or --cron EXPRESSION"));
    }
    let tube = store::tube_to_fill(store, &args.tube)?;
    let receipt = tube.schedule(args.terms(), task(args)?)?;
    // A run that is due at once is there when the command ends.
    store::catch_up_now(store)?;
    report(("stored", &args.key), &args.tube, receipt, output)
}

/// The task that each run puts.
fn task(args: &args::Schedule) -> CommandResult<Put> {
    let options = args::PutOptions {
        priority: args.priority,
        ttl: args.ttl,
        ttr: args.ttr,
        delay: args.delay,
        not_before: None,
        sub_queue: args.sub_queue.clone(),
        max_attempts: args.max_attempts,
        max_runtime: args.max_runtime,
        tags: args.tags.clone(),
        traceparent: None,
    };
    Ok(options.apply(Put::new(put::body(args.body.as_deref())?.into())))
}

pub fn reschedule(store: &Store, args: &RescheduleArgs, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    let schedules = tube.schedules();
    let changed = if args.changes_task() {
        schedules.change_task(args.terms(), changed_task(store, args)?)
    } else {
        schedules.change(args.terms())
    };
    let receipt = changed.map_err(unknown)?;
    store::catch_up_now(store)?;
    report(("changed", &args.key), &args.tube, receipt, output)
}

/// The task of the schedule, with the changes.
fn changed_task(store: &Store, args: &RescheduleArgs) -> CommandResult<Put> {
    let not_found = || unknown(Error::KeyNotFound { key: args.key.clone() });
    let Some(was) = store.schedule(&args.key)? else {
        let task = store.by_key(&args.key)?.filter(|task| task.state != TaskState::Recurring);
        return Err(task.map_or_else(not_found, |task| {
            let wanted = TaskState::Recurring.to_string();
            unknown(Error::WrongState { id: task.id, state: task.state, wanted })
        }));
    };
    let body = match &args.body {
        Some(body) => bytes::of_argument("body", body)?,
        None => store::tube(store, &was.tube)?.query().task(was.id)?.body.to_vec(),
    };
    Ok(args.task(&was, body))
}

/// Removes a schedule, in whichever tube it is.
pub fn unschedule(store: &Store, args: &Unschedule, output: &mut Output) -> CommandResult {
    let key = args.key.clone();
    let found = store.by_key(&key)?.ok_or_else(|| unknown(Error::KeyNotFound { key }))?;
    let receipt =
        store::tube(store, &found.tube)?.schedules().remove(&args.key).map_err(unknown)?;
    report(("removed", &args.key), &found.tube, receipt, output)
}

/// Lists the schedules of a tube, or of all tubes.
pub fn list(store: &Store, args: &Schedules, output: &mut Output) -> CommandResult {
    let tubes = match &args.tube {
        Some(name) => vec![name.clone()],
        None => store.tubes()?.into_iter().map(|tube| tube.name).collect(),
    };
    let (mut rows, mut damaged) = (Vec::new(), 0);
    for name in tubes {
        let tube = store::tube(store, &name)?;
        let mut after = None;
        loop {
            let page = tube.schedules().list(after, PAGE)?;
            damaged += page.damaged;
            for schedule in &page.items {
                if output.json {
                    output.object(&ScheduleRecord::new(&name, schedule))?;
                } else {
                    rows.push(row(&name, schedule));
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    if !output.json {
        if rows.is_empty() {
            output.line("no schedules")?;
        } else {
            let head = ["KEY", "TUBE", "RUNS", "SKIPPED", "NEXT", "WHEN", "STOPPED"];
            output.table(&head, &rows)?;
        }
    }
    if damaged == 0 {
        return Ok(());
    }
    let what = crate::output::count(damaged, "schedule");
    Err(Error::Corrupt { what: format!("{what} cannot be read") }.into())
}

fn row(tube: &str, schedule: &ScheduleInfo) -> Vec<Cell> {
    let runs = match schedule.times {
        None => schedule.runs.to_string(),
        Some(times) => format!("{}/{times}", schedule.runs),
    };
    let next = format!("{} ({})", moment::show(schedule.next), duration::show(schedule.due_in));
    vec![
        Cell::text(&schedule.key),
        Cell::text(tube),
        Cell::number(runs),
        Cell::number(schedule.skipped),
        Cell::text(next),
        Cell::text(schedule.recurrence.to_string()),
        Cell::text(schedule.stopped.as_deref().unwrap_or("-")).style(Style::Dim),
    ]
}

fn report(
    (what, key): (&str, &str),
    tube: &str,
    receipt: Receipt,
    output: &mut Output,
) -> CommandResult {
    if output.json {
        let state = receipt.state.as_str();
        let object = json!({ "id": receipt.id, "tube": tube, "key": key, "state": state });
        return output.object(&object);
    }
    output.line(format!("{what} schedule {key} of {tube}"))
}

fn unknown(error: Error) -> Failure {
    match error {
        Error::KeyNotFound { key } => {
            Failure::new(Exit::NoTask, format!("no schedule has the key {key:?}"))
                .hint("`tubewell schedules` lists them")
        }
        Error::WrongState { id, state, .. } => {
            let why = format!("task {id}, which is {state}, has the key; it is no schedule");
            Failure::new(Exit::Refused, why).hint(
                "`tubewell schedules` lists the schedules; `update` and `delete` are for tasks",
            )
        }
        error => error.into(),
    }
}
