//! Tags: `tags`, `tagged`, `add-tags`, `remove-tags`.

use serde_json::json;
use tubewell::expert::TagCount;
use tubewell::{Error, Filter, Receipt, Store};

use crate::args::{EditTags, OneTask, Tagged, Tags};
use crate::failure::{CommandResult, Failure};
use crate::output::{Cell, Output, count, note};
use crate::record::{self, TaskRecord};
use crate::store;
use crate::task_text;

/// How many tasks are read at a time.
const PAGE: usize = 500;

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

/// Lists the tasks with a tag, page by page: a long list is not kept in memory.
pub fn tagged(store: &Store, args: &Tagged, output: &mut Output) -> CommandResult {
    let limit = args.shown.limit();
    let (mut skip, mut shown, mut damaged, mut place) = (args.shown.skip, 0, 0, None);
    let (mut columns, now) = (Vec::new(), store::now(store)?);
    loop {
        let page = store.list(Filter::new().tag(&args.tag), place, PAGE)?;
        damaged += page.damaged;
        let mut rows = Vec::new();
        for found in &page.items {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if shown == limit {
                print_rows(rows, &mut columns, output)?;
                output.flush()?;
                let end = args.shown.skip.saturating_add(shown);
                note(&format!(
                    "there are more; for the next ones give --skip {end}, for all --all"
                ));
                return check_damaged(damaged);
            }
            let tube = store::tube(store, &found.tube)?;
            let task = match tube.query().task(found.id) {
                Ok(task) => task,
                // Its ttl elapsed after the page was read.
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            shown += 1;
            if output.json {
                output.object(&TaskRecord::new(&tube, &task, now)?)?;
            } else if args.shown.bodies {
                if shown > 1 {
                    output.line("")?;
                }
                task_text::print_fields(&[("tube", found.tube.clone())], output)?;
                task_text::print(&tube, &task, now, output)?;
            } else {
                let owner = record::owner(&tube, &task.info)?;
                let mut row = task_text::row(&task, owner.as_ref(), now);
                row.insert(1, Cell::text(&found.tube));
                rows.push(row);
            }
        }
        print_rows(rows, &mut columns, output)?;
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    if shown == 0 && !output.json {
        let more = if args.shown.skip > 0 { "more " } else { "" };
        output.line(format!("no {more}tasks with the tag {:?}", args.tag))?;
    }
    check_damaged(damaged)
}

/// Prints some of the rows of a table that has these columns so far.
fn print_rows(
    rows: Vec<Vec<Cell>>,
    columns: &mut Vec<usize>,
    output: &mut Output,
) -> CommandResult {
    if rows.is_empty() {
        return Ok(());
    }
    let mut head = task_text::COLUMNS.to_vec();
    head.insert(1, "TUBE");
    output.sparse_table_part(&head, rows, columns)
}

fn check_damaged(damaged: u64) -> CommandResult {
    if damaged == 0 {
        return Ok(());
    }
    Err(Error::Corrupt { what: format!("{} cannot be read", count(damaged, "record")) }.into())
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
