//! `create`, `drop`, `truncate`, `tubes` and `stats`.

use serde_json::json;
use tubewell::{Error, Store, Tube, TubeInfo};

use crate::args::{Cli, Create};
use crate::failure::{CommandResult, Failure};
use crate::output::{Cell, Columns, Output, Style, count, store_size};
use crate::record::{ClockRecord, CountsRecord, TubeRecord};
use crate::store::Place;
use crate::tube_options::phrases;
use crate::{duration, store};

/// Creates a tube, and the store if there is none.
pub fn create(place: Place<'_>, cli: &Cli, args: &Create, output: &mut Output) -> CommandResult {
    let is_new = match place {
        Place::File(path) => !path.exists() || store::is_empty(path),
        Place::Owner(_) => false,
    };
    if is_new {
        // If the tube cannot be created, no file is left behind.
        create_tube(&Store::in_memory()?, args)?;
    }
    let store = store::open_or_create(place, cli)?;
    let existed = store.find_tube(&args.tube).is_ok();
    // Printed before the close: the tube is created even if the close fails.
    let created = create_tube(&store, args).and_then(|tube| {
        let (name, driver) = (&args.tube, tube.driver());
        if output.json {
            return output.object(&json!({
                "tube": name, "driver": driver, "tube_created": !existed, "store_created": is_new,
            }));
        }
        if existed && args.options().given().next().is_some() {
            return output.line(format!("tube {name} ({driver}) has these options"));
        }
        if existed {
            return output.line(format!("tube {name} ({driver}) already exists"));
        }
        if is_new {
            output.line(format!("created store {place}"))?;
        }
        output.line(format!("created tube {name} ({driver})"))
    });
    created.and(store::close(&store))
}

pub fn drop(store: &Store, name: &str, output: &mut Output) -> CommandResult {
    let stored = store::stored(&store::tube(store, name)?.statistics()?);
    store.drop_tube(name)?;
    if output.json {
        return output.object(&json!({ "tube": name, "removed": stored }));
    }
    output.line(format!("dropped tube {name} with {}", count(stored, "task")))
}

pub fn truncate(store: &Store, name: &str, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, name)?;
    let stored = store::stored(&tube.statistics()?);
    tube.admin().truncate()?;
    if output.json {
        return output.object(&json!({ "tube": name, "removed": stored }));
    }
    output.line(format!("removed {} from {name}", count(stored, "task")))
}

/// Lists the tubes and their options.
pub fn list(store: &Store, output: &mut Output) -> CommandResult {
    let counted = store::counted_tubes(store)?;
    if output.json {
        return counted
            .iter()
            .try_for_each(|(tube, counts)| output.object(&TubeRecord::new(tube, counts.tasks)));
    }
    if counted.is_empty() {
        return output.line("no tubes; `tubewell create NAME` creates one");
    }
    let rows: Vec<Vec<Cell>> = counted
        .iter()
        .map(|(tube, counts)| {
            vec![
                Cell::text(&tube.name),
                Cell::text(&tube.driver),
                Cell::number(counts.tasks.total),
                Cell::number(counts.tasks.kept),
                Cell::text(describe(tube)).style(Style::Dim),
            ]
        })
        .collect();
    output.table(&["TUBE", "DRIVER", "TASKS", "KEPT", "OPTIONS"], &rows)
}

/// Counts the tasks by state. `bytes` is the size of the store, if its file is named.
pub fn stats(
    store: &Store,
    only: Option<&str>,
    place: Place<'_>,
    bytes: Option<u64>,
    output: &mut Output,
) -> CommandResult {
    if let Some(name) = only {
        store::tube(store, name)?;
    }
    let mut counted = store::counted_tubes(store)?;
    counted.retain(|(tube, _)| only.is_none_or(|name| tube.name == name));
    if output.json {
        let clock = ClockRecord::new(store.admin().clock_report()?);
        return counted
            .iter()
            .try_for_each(|(tube, counts)| output.object(&CountsRecord::new(tube, counts, clock)));
    }
    if counted.is_empty() {
        return output.line("no tubes; `tubewell create NAME` creates one");
    }
    let dim_zero = |number: u64, style| {
        Cell::number(number).style(if number == 0 { Style::Dim } else { style })
    };
    let unless_zero = |number: u64| match number {
        0 => Cell::none().right(),
        number => Cell::number(number),
    };
    let rows: Vec<Vec<Cell>> = counted
        .iter()
        .map(|(tube, counts)| {
            let tasks = counts.tasks;
            vec![
                Cell::text(&tube.name),
                dim_zero(tasks.ready, Style::Green),
                dim_zero(tasks.taken, Style::Plain),
                unless_zero(tasks.overdue).style(Style::Yellow),
                dim_zero(tasks.delayed, Style::Yellow),
                dim_zero(tasks.blocked, Style::Yellow),
                dim_zero(tasks.buried, Style::Red),
                dim_zero(tasks.total, Style::Bold),
                dim_zero(tasks.kept, Style::Plain),
                unless_zero(tasks.recurring),
                pause(tube).map_or_else(Cell::none, |text| Cell::text(text).style(Style::Yellow)),
            ]
        })
        .collect();
    let head = [
        "TUBE",
        "READY",
        "TAKEN",
        "OVERDUE",
        "DELAYED",
        "BLOCKED",
        "BURIED",
        "TOTAL",
        "KEPT",
        "SCHEDULES",
        "PAUSE",
    ];
    output.sparse_table_part(&head, rows, &mut Columns::default())?;
    if only.is_none() {
        let size = match bytes {
            Some(bytes) => format!("{place}, {}", store_size(bytes)),
            None => place.to_string(),
        };
        output.painted(&[(Style::Dim, &size)])?;
    }
    Ok(())
}

fn create_tube(store: &Store, args: &Create) -> CommandResult<Tube> {
    let created = if args.if_not_exists {
        store.open_tube(&args.tube, args.options())
    } else {
        store.create_tube(&args.tube, args.options())
    };
    created.map_err(unsupported)
}

/// The failure of a call with an option that the driver of the tube does not support.
pub fn unsupported(error: Error) -> Failure {
    let Error::Unsupported { what, driver } = error else { return error.into() };
    let able = match what.as_str() {
        "a capacity" => "limfifottl",
        what if what.contains("sub-queue") || what.contains("sub_queue") => "utube or utubettl",
        _ => "fifottl, utubettl or limfifottl",
    };
    Failure::usage(format!("the {driver} driver does not support {what}"))
        .hint(format!("leave it out, or create the tube with --driver {able}"))
}

/// The options of a tube that differ from their defaults, and its pause.
pub fn describe(tube: &TubeInfo) -> String {
    let mut parts = Vec::new();
    if !tube.usable {
        parts.push("its driver is registered by an application only".to_owned());
    }
    parts.extend(phrases(tube));
    parts.extend(pause(tube));
    parts.join(", ")
}

fn pause(tube: &TubeInfo) -> Option<String> {
    match tube.resumes_in {
        Some(left) => Some(format!("paused for {}", duration::show(left))),
        None => tube.paused.then(|| "paused".to_owned()),
    }
}
