//! Tags: `tags`, `tagged`, `add-tags`, `remove-tags`.

use serde_json::json;
use tubewell::expert::TagCount;
use tubewell::{Filter, Receipt, Store};

use super::all_tubes;
use crate::args::{EditTags, OneTask, Tagged, Tags};
use crate::failure::{CommandResult, Failure};
use crate::output::{Cell, Output, note};
use crate::store;

pub fn add(store: &Store, args: &EditTags, output: &mut Output) -> CommandResult {
    let OneTask { tube, id } = &args.task;
    let added = store::tube(store, tube)?.admin().add_tags(*id, &args.tags);
    print_tags(store, &args.task, added, output)
}

pub fn remove(store: &Store, args: &EditTags, output: &mut Output) -> CommandResult {
    let OneTask { tube, id } = &args.task;
    let removed = store::tube(store, tube)?.admin().remove_tags(*id, &args.tags);
    print_tags(store, &args.task, removed, output)
}

/// Lists the tags that several tasks have.
pub fn tags(store: &Store, args: &Tags, output: &mut Output) -> CommandResult {
    let end = if args.all { u64::MAX } else { args.skip.saturating_add(args.limit) };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    // One more than is shown tells whether there are more.
    let mut tags = store.tags(None, number(end.saturating_add(1)))?;
    let has_more = tags.len() > number(end);
    tags.truncate(number(end));
    tags.drain(..number(args.skip).min(tags.len()));
    print_counts(&tags, args.skip, output)?;
    if has_more {
        output.flush()?;
        note(&format!("there are more; for the next ones give --skip {end}, for all --all"));
    }
    Ok(())
}

fn print_counts(tags: &[TagCount], skipped: u64, output: &mut Output) -> CommandResult {
    if output.json {
        return tags.iter().try_for_each(|tag| output.object(tag));
    }
    if tags.is_empty() {
        let more = if skipped > 0 { "more " } else { "" };
        return output.line(format!("no {more}tags that several tasks have"));
    }
    let row = |tag: &TagCount| vec![Cell::text(&tag.tag), Cell::number(tag.tasks)];
    output.table(&["TAG", "TASKS"], &tags.iter().map(row).collect::<Vec<_>>())
}

/// Lists the tasks with a tag.
pub fn tagged(store: &Store, args: &Tagged, output: &mut Output) -> CommandResult {
    let what = format!("tasks with the tag {:?}", args.tag);
    all_tubes::print(store, &[Filter::new().tag(&args.tag)], &args.shown, &what, output)
}

fn print_tags(
    store: &Store,
    OneTask { tube, id }: &OneTask,
    changed: tubewell::Result<Receipt>,
    output: &mut Output,
) -> CommandResult {
    changed.map_err(|error| Failure::of_task(error, tube, *id))?;
    let task = store::tube(store, tube)?.query().task(*id);
    // It may be done since.
    let tags = task.map(|task| task.info.tags).unwrap_or_default();
    if output.json {
        return output.object(&json!({ "id": id, "tube": tube, "tags": tags }));
    }
    output.line(match tags.len() {
        0 => format!("task {id} has no tags"),
        _ => format!("tags of task {id}: {}", tags.join(", ")),
    })
}
