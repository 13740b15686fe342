//! `set-limit`, `limits`, and the pauses of sub-queues.

use std::time::Duration;

use serde_json::json;
use tubewell::Store;
use tubewell::expert::PausedSubQueue;

use super::tubes::unsupported;
use crate::args::{Most, SetLimit};
use crate::failure::CommandResult;
use crate::output::{Cell, Output};
use crate::record::seconds;
use crate::{duration, store};

pub fn set(store: &Store, args: &SetLimit, output: &mut Output) -> CommandResult {
    let name = &args.name;
    match args.most {
        Most(Some(most)) => store.admin().set_limit(name, most)?,
        Most(None) => store.admin().remove_limit(name)?,
    }
    if output.json {
        return output.object(&json!({ "name": name, "most": args.most.0 }));
    }
    output.line(match args.most {
        Most(Some(most)) => format!("the limit of {name} is {most}"),
        Most(None) => format!("{name} has no limit"),
    })
}

/// Lists the limits that tubes share, and the paused sub-queues.
pub fn list(store: &Store, output: &mut Output) -> CommandResult {
    let limits = store.admin().limits()?;
    let mut paused = Vec::new();
    for tube in store.tubes()? {
        let of_tube = store::tube(store, &tube.name)?.query().paused_sub_queues()?;
        paused.extend(of_tube.into_iter().map(|paused| (tube.name.clone(), paused)));
    }
    if output.json {
        limits.iter().try_for_each(|limit| output.object(limit))?;
        let mut paused = paused.into_iter();
        return paused.try_for_each(|(tube, PausedSubQueue { name, resumes_in, .. })| {
            let left = seconds(resumes_in);
            output.object(&json!({ "tube": tube, "name": name, "resumes_in": left }))
        });
    }
    if limits.is_empty() && paused.is_empty() {
        return output.line("no limits, and no paused sub-queues");
    }
    if !limits.is_empty() {
        let rows: Vec<Vec<Cell>> = limits
            .iter()
            .map(|limit| {
                let (most, taken) = (Cell::number(limit.most), Cell::number(limit.taken));
                vec![Cell::text(&limit.name), most, taken]
            })
            .collect();
        output.table(&["LIMIT", "MOST", "TAKEN"], &rows)?;
    }
    let rows: Vec<Vec<Cell>> = paused
        .iter()
        .map(|(tube, paused)| {
            let left = paused.resumes_in.map_or("unpause".to_owned(), duration::show);
            vec![Cell::text(tube), Cell::text(&paused.name), Cell::text(left)]
        })
        .collect();
    if rows.is_empty() { Ok(()) } else { output.table(&["TUBE", "PAUSED", "UNTIL"], &rows) }
}

/// Pauses a sub-queue, or ends its pause with a time of zero.
pub fn pause(
    store: &Store,
    (tube, name): (&str, &str),
    (time, until): (Duration, Option<String>),
    output: &mut Output,
) -> CommandResult {
    let of = store::tube(store, tube)?;
    let was_paused = of.query().paused_sub_queues()?.iter().any(|paused| paused.name == name);
    of.admin().pause_sub_queue(name, time).map_err(unsupported)?;
    if output.json {
        let left = seconds(Some(time).filter(|time| !time.is_zero()));
        return output.object(&json!({
            "tube": tube, "sub_queue": name, "paused": !time.is_zero(), "resumes_in": left,
        }));
    }
    output.line(match time {
        Duration::ZERO => unpaused(&format!("sub-queue {name} of {tube}"), was_paused),
        time => format!("paused sub-queue {name} of {tube}{}", how_long(time, until)),
    })
}

/// What a pause of no time, or its end, has done.
pub(super) fn unpaused(what: &str, was_paused: bool) -> String {
    if was_paused {
        format!("unpaused {what}")
    } else {
        format!("{what} was not paused: takes go on")
    }
}

/// How long a pause is, as the end of a sentence.
pub(super) fn how_long(time: Duration, until: Option<String>) -> String {
    match until {
        _ if time == Duration::MAX => String::new(),
        Some(until) => format!(" until {until}"),
        None => format!(" for {}", duration::show(time)),
    }
}
