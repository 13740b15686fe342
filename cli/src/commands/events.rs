//! `events`: what happens in a store, as it happens.

use std::time::Duration;

use tubewell::expert::{EventDetails, LastFailure};
use tubewell::{Event, Store};
use tubewell_json::event::EventRecord;

use crate::args::Events;
use crate::columns::pad;
use crate::failure::{CommandResult, Exit, Failure};
use crate::follow::{Followed, Follower};
use crate::output::{Output, Style, count, note};
use crate::printable::on_one_line;
use crate::{connection, duration, moment, signals, store};

/// How many events may wait for the output.
const EVENTS: usize = 10_000;

/// Prints the next event, or all that come.
pub fn run(store: &Store, args: &Events, output: &mut Output) -> CommandResult {
    for tube in &args.tubes {
        store::tube(store, tube)?;
    }
    let mut follower = Follower::new(store, args.filter(), EVENTS)?;
    let closing = store.clone();
    // The close ends the wait for an event.
    let signal = signals::forward(move |_| {
        let _ = closing.close();
        true
    })?;
    match store::catch_up(store) {
        Err(_) if signal.number().is_some() => {}
        caught_up => caught_up?,
    }
    match connection::owner() {
        Some(owner) if args.follow => note(&format!("following {owner}; Ctrl-C stops")),
        None if !output.json => note(
            "no other process can change the store while this command has it open; an application \
             that serves it, or `tubewell serve`, lets others do so",
        ),
        _ => {}
    }
    let printed = print_all(&mut follower, args, output)?;
    match signal.number() {
        Some(number) if !args.follow => Err(Failure::silent(Exit::Signal(number))),
        Some(_) => Ok(()),
        None if printed > 0 => Ok(()),
        None => {
            let time = args.timeout.unwrap_or_default();
            let why = format!("no event came within {}", duration::show(time));
            Err(Failure::new(Exit::NoTask, why))
        }
    }
}

/// Prints events until there are enough. Returns how many were printed.
fn print_all(follower: &mut Follower, args: &Events, output: &mut Output) -> CommandResult<u64> {
    let mut printed = 0;
    loop {
        match follower.next(args.timeout.filter(|time| *time != Duration::MAX)) {
            Followed::Event(event) => {
                let mut next = Some(event);
                while let Some(event) = next {
                    print(&event, printed == 0, output)?;
                    printed += 1;
                    next = follower.try_next();
                }
                output.flush()?;
                if !args.follow {
                    return Ok(printed);
                }
            }
            Followed::Interrupted => {}
            Followed::Broken(why) if args.follow => note(&format!("{why}; waiting for the owner")),
            Followed::Resumed => note("connected again; events may have been missed"),
            Followed::Broken(why) => return Err(Failure::new(Exit::Failed, why)),
            Followed::Refused(error) => return Err(error.into()),
            // A signal closes the store too.
            Followed::TimedOut | Followed::Closed => return Ok(printed),
        }
    }
}

fn print(event: &Event, is_first: bool, output: &mut Output) -> CommandResult {
    if output.json {
        return output.object(&EventRecord::new(event));
    }
    if event.missed > 0 {
        note(&format!(
            "missed {}: they came faster than they were printed",
            count(event.missed, "event")
        ));
    }
    if is_first {
        let head = line(["TIME", "TUBE", "ID", "WHAT", "STATE", "OWNER", "TEXT"]);
        output.painted(&[(Style::Bold, &head)])?;
    }
    let progress = event.progress.as_ref().map(ToString::to_string);
    let text = event.cause.as_deref().or(progress.as_deref()).unwrap_or("-");
    output.line(line([
        &moment::show(moment::now()),
        &on_one_line(&event.tube),
        &event.id.to_string(),
        event.kind.as_str(),
        event.state.as_str(),
        &on_one_line(event.owner.as_deref().unwrap_or("-")),
        &on_one_line(text),
    ]))?;
    event.details.as_deref().map_or(Ok(()), |details| print_details(details, output))
}

/// The task of an event, below its line.
fn print_details(details: &EventDetails, output: &mut Output) -> CommandResult {
    let tags = if details.tags.is_empty() { "" } else { "  tags " };
    output.line(format!("  priority {}{tags}{}", details.priority, details.tags.join(", ")))?;
    if let Some(failure) = &details.failure {
        let LastFailure { group, message, attempt, .. } = failure;
        output.line(format!("  {group} in attempt {attempt}: {message}"))?;
    }
    details.body.as_deref().map_or(Ok(()), |body| {
        let shown = String::from_utf8_lossy(body);
        shown.lines().try_for_each(|text| output.line(format!("  > {text}")))
    })
}

/// A line of columns. The widths of those that are to come are not known.
fn line([at, tube, id, what, state, owner, text]: [&str; 7]) -> String {
    let columns = [
        pad(at, 27, false),
        pad(tube, 12, false),
        pad(id, 8, true),
        pad(what, 10, false),
        pad(state, 9, false),
        pad(owner, 12, false),
        text.to_owned(),
    ];
    columns.join("  ")
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn columns_after_wide_names_begin_where_the_others_do() {
        for tube in ["mail", "日本語", "e\u{301}te\u{301}", "🦀🇩🇪"] {
            let shown = line(["now", tube, "7", "put", "ready", tube, "text"]);
            let (before, _) = shown.split_once("text").unwrap();
            assert_eq!(before.width(), 27 + 12 + 8 + 10 + 9 + 12 + 6 * 2, "{shown}");
        }
    }
}
