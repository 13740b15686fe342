//! A task as text.

use std::time::{Duration, SystemTime};

use tubewell::expert::{FailureKind, LastFailure, ParentCounts};
use tubewell::{Owner, Task, TaskInfo, TaskState, Tube};

use crate::failure::CommandResult;
use crate::output::{Cell, Output, Style, count, size};
use crate::record::{count_parents, count_steps, owner};
use crate::{columns, duration, moment, printable};

/// How many columns of a table a body gets, and a failure, beside the mark of one that is cut.
const PREVIEW: usize = 50;

/// The columns of a table of tasks.
pub const COLUMNS: [&str; 16] = [
    "ID",
    "STATE",
    "AGE",
    "PRI",
    "TAKES",
    "ATTEMPTS",
    "PARENTS",
    "SIZE",
    "TIMES",
    "OWNER",
    "PROGRESS",
    "KEY",
    "TAGS",
    "SUB-QUEUE",
    "FAILURE",
    "BODY",
];

/// The label of the session, or the beginning of its id.
pub fn owner_name(owner: &Owner) -> String {
    let session = owner.session.to_string();
    let name = match &owner.label {
        Some(label) => label.to_string(),
        None => session.chars().take(8).collect(),
    };
    if owner.is_parked { format!("{name} (parked)") } else { name }
}

/// The owner of a task, and for how long it has had it, some time after that was read.
pub fn held_by(owner: &Owner, ago: Duration) -> String {
    format!("{}, for {}", owner_name(owner), duration::show(owner.held.saturating_add(ago)))
}

/// A task as a row of a table. `now`: by the clock of the store, as in the other functions.
pub fn row(task: &Task, owner: Option<&Owner>, now: SystemTime) -> Vec<Cell> {
    let info = &task.info;
    vec![
        Cell::number(info.id),
        Cell::text(info.state.as_str()).style(colour(info.state)),
        Cell::number(duration::show(moment::age(info.put_at, now))),
        Cell::number(info.priority),
        Cell::number(info.takes),
        Cell::number(attempts(info)),
        or_none((info.open_parents > 0).then(|| info.open_parents.to_string())).right(),
        Cell::number(size(info.size)),
        or_none(times(info)).style(Style::Dim),
        or_none(owner.map(owner_name)),
        or_none(info.progress.as_ref().map(ToString::to_string)),
        or_none(info.key.clone()),
        or_none((!info.tags.is_empty()).then(|| info.tags.join(", "))),
        or_none(info.sub_queue.clone()),
        or_none(info.failure.as_ref().map(summary)),
        Cell::text(preview(&task.body)),
    ]
}

/// Prints a task of this tube with its whole body, one field per line.
pub fn print(tube: &Tube, task: &Task, now: SystemTime, output: &mut Output) -> CommandResult {
    let (steps, parents) = (count_steps(tube, &task.info)?, count_parents(tube, &task.info)?);
    let mut fields = fields(&task.info, steps, parents, now);
    let owner = owner(tube, &task.info)?;
    fields.extend(owner.map(|owner| ("owner", held_by(&owner, Duration::ZERO))));
    print_fields(&fields, output)?;
    output.line("")?;
    output.lines(&task.body)?;
    let Some(result) = &task.result else { return Ok(()) };
    output.line("")?;
    output.line("result")?;
    output.lines(result)
}

/// The fields of a task that has finished so many steps and waits for these tasks, with their names.
pub fn fields(
    info: &TaskInfo,
    steps: Option<usize>,
    parents: Option<ParentCounts>,
    now: SystemTime,
) -> Vec<(&'static str, String)> {
    let age = duration::show(moment::age(info.put_at, now));
    let mut lines = vec![
        ("task", info.id.to_string()),
        ("state", info.state.as_str().to_owned()),
        ("put", format!("{}, {age} ago", moment::show(info.put_at))),
        ("priority", info.priority.to_string()),
        ("taken", count(u64::from(info.takes), "time")),
    ];
    if info.max_attempts.is_some() || info.attempts != info.takes {
        lines.push(("attempts", attempts(info)));
    }
    if info.open_parents > 0 {
        lines.push(("waits for", waits_for(info, parents)));
    }
    lines.extend(info.ended_at.map(|at| (info.state.as_str(), ended(at, now))));
    lines.extend(info.buried_by().map(|kind| ("buried by", burial(kind).to_owned())));
    lines.extend(info.group.as_ref().map(|group| ("group", group.clone())));
    lines.extend(info.failure.iter().flat_map(failure_lines));
    lines.extend(steps.map(|steps| ("steps", format!("{steps} done"))));
    let progress = info.progress.as_ref();
    lines.extend(progress.map(|it| ("progress", it.to_string())));
    lines.push(("size", size(info.size)));
    lines.extend(info.sub_queue.as_ref().map(|name| ("sub-queue", name.clone())));
    lines.extend(info.key.as_ref().map(|key| ("key", key.clone())));
    if !info.tags.is_empty() {
        lines.push(("tags", info.tags.join(", ")));
    }
    lines.extend(becomes(info));
    lines.extend(info.not_before.map(|time| ("moment", moment::show(time))));
    let ttl = if info.state == TaskState::Done { "kept for" } else { "ttl left" };
    lines.extend(info.ttl_left.map(|time| (ttl, duration::show(time))));
    lines.extend(info.ttr.map(|time| ("ttr", duration::show(time))));
    lines.extend(info.max_runtime.map(|time| ("may run", duration::show(time))));
    lines.extend(info.traceparent.as_ref().map(|text| ("trace", text.clone())));
    lines
}

/// `7 of 10 tasks: 2 done, 1 failed, 3 taken, 1 buried`.
fn waits_for(info: &TaskInfo, parents: Option<ParentCounts>) -> String {
    // It may wait for none any more since it was read.
    let Some(counts) = parents.filter(|counts| counts.open > 0) else {
        return count(u64::from(info.open_parents), "task");
    };
    let parts = [
        (counts.done, "done"),
        (counts.failed, "failed"),
        (counts.taken, "taken"),
        (counts.buried, "buried"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, what)| format!("{number} {what}")).collect();
    let all = if counts.open == counts.total {
        count(counts.total, "task")
    } else {
        format!("{} of {}", counts.open, count(counts.total, "task"))
    };
    if parts.is_empty() { all } else { format!("{all}: {}", parts.join(", ")) }
}

/// Prints fields, one per line.
pub fn print_fields(lines: &[(&str, String)], output: &mut Output) -> CommandResult {
    lines.iter().try_for_each(|(name, value)| {
        output.painted(&[(Style::Bold, &format!("{name:<10}")), (Style::Plain, value)])
    })
}

/// A failure with its whole message, each line of which is a line.
pub fn failure_lines(failure: &LastFailure) -> Vec<(&'static str, String)> {
    let LastFailure { group, attempt, ago, .. } = failure;
    let ago = duration::show(*ago);
    let mut text = format!("{group} in attempt {attempt}, {ago} ago");
    if let Some(owner) = &failure.owner {
        text = format!("{text}, by {owner}");
    }
    let message = failure.message.lines().map(str::to_owned);
    let names = std::iter::once("message").chain(std::iter::repeat(""));
    std::iter::once(("failure", text)).chain(names.zip(message)).collect()
}

pub fn colour(state: TaskState) -> Style {
    match state {
        TaskState::Ready => Style::Green,
        TaskState::Delayed | TaskState::Blocked => Style::Yellow,
        TaskState::Buried => Style::Red,
        _ => Style::Plain,
    }
}

/// When a task is ready or its claim expires, and when its ttl elapses, if it is or does.
pub fn times(info: &TaskInfo) -> Option<String> {
    let due = becomes(info).map(|(verb, due)| format!("{verb} {due}"));
    let ttl = if info.state == TaskState::Done { "kept" } else { "ttl" };
    let ttl = info.ttl_left.map(|time| format!("{ttl} {}", duration::show(time)));
    let parts: Vec<String> = due.into_iter().chain(ttl).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What happens to a task next by itself, and when: it becomes ready, its claim expires, or an overdue one ends.
fn becomes(info: &TaskInfo) -> Option<(&'static str, String)> {
    let verb = if info.state == TaskState::Taken { "expires" } else { "ready" };
    match info.reclaimed_in {
        Some(time) => Some(("overdue", format!("taken back {}", due(time)))),
        None => info.due_in.map(|time| (verb, due(time))),
    }
}

/// When a task was buried or done.
fn ended(at: SystemTime, now: SystemTime) -> String {
    format!("{}, {} ago", moment::show(at), duration::show(moment::age(at, now)))
}

/// How a task was buried.
fn burial(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Reported => "its last attempt, which failed",
        FailureKind::Call => "a call",
        FailureKind::Expired => "its last attempt, whose time elapsed",
        FailureKind::Lost => "its last attempt, which was lost",
        FailureKind::Released => "its last attempt, which was released",
        FailureKind::Parent => "a task that it waits for",
        other => other.as_str(),
    }
}

/// When that is.
fn due(time: Duration) -> String {
    if time == Duration::MAX { "never".into() } else { format!("in {}", duration::show(time)) }
}

/// `2 of 5`, or `2` without a limit.
pub fn attempts(info: &TaskInfo) -> String {
    let attempts = info.attempts;
    info.max_attempts.map_or(attempts.to_string(), |most| format!("{attempts} of {most}"))
}

fn or_none(text: Option<String>) -> Cell {
    text.map_or_else(Cell::none, Cell::text)
}

/// The group of a failure and the first line of its message, cut to the width of a column.
pub fn summary(failure: &LastFailure) -> String {
    let first = failure.message.lines().find(|line| !line.trim().is_empty());
    preview(
        first.map_or(failure.group.clone(), |line| format!("{}: {line}", failure.group)).as_bytes(),
    )
}

/// The beginning of a body on one line, without control characters.
fn preview(data: &[u8]) -> String {
    // Enough for any letters and flags. Characters that take no column would have no end.
    let start = data.get(..PREVIEW * 8).unwrap_or(data);
    let is_whole = start.len() == data.len();
    let text = String::from_utf8_lossy(start);
    // The last character may be cut.
    let text = if is_whole { &text } else { text.trim_end_matches(char::REPLACEMENT_CHARACTER) };
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = printable::on_one_line(&text);
    let shown = columns::beginning(&text, PREVIEW);
    if is_whole && shown == text { text } else { format!("{shown}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preview_has_so_many_columns_of_whole_characters() {
        let preview = |text: &str| preview(text.as_bytes());
        assert_eq!(preview("a\tb\n"), "a b ");
        for (character, columns) in [("x", 1), ("日", 2), ("e\u{301}", 1), ("🦀", 2), ("🇩🇪", 2)]
        {
            let most = PREVIEW / columns;
            assert_eq!(preview(&character.repeat(most)), character.repeat(most));
            assert_eq!(preview(&character.repeat(most + 1)), character.repeat(most) + "…");
            // One column is left, which is too narrow for a wide one.
            let shown = character.repeat((PREVIEW - 1) / columns);
            let text = format!("a{}", character.repeat(most + 1));
            assert_eq!(preview(&text), format!("a{shown}…"));
        }
    }

    #[test]
    fn preview_is_cut_where_characters_take_no_column_and_in_the_middle_of_none() {
        let text = format!("a{}", "\u{301}".repeat(1000));
        assert_eq!(preview(text.as_bytes()), format!("a{}…", "\u{301}".repeat(199)));
        // Escapes take the columns that they are shown with.
        let hidden = "\u{200b}".repeat(40);
        assert_eq!(columns::width(&preview(hidden.as_bytes())), PREVIEW + 1);
        assert_eq!(preview(b"\xff\xff"), "\u{fffd}\u{fffd}");
    }
}
