//! The message of a failed expectation.

use crate::text::durations;
use crate::{Bytes, Task, TaskState};

/// How many tasks a message has at most.
const TASKS: usize = 20;

/// The longest text that a message has of a task, in characters.
const TEXT_MAX: usize = 1000;

/// What follows the expectation of done tasks in a tube that keeps none.
pub(super) const KEEPS_NO_DONE: &str = "but the tube keeps no task that is done; \
    give it `TubeOptions::keep_done` in this test";

const KEEPS_NONE: &str = "it keeps none that is done (`TubeOptions::keep_done`)";

/// A task, and what is different in it.
pub(super) struct Shown<T: 'static> {
    pub(super) task: Task<T>,
    pub(super) differences: Vec<String>,
}

/// The expectation: how many tasks, and these conditions.
pub(super) fn expected(count: usize, conditions: &[String]) -> String {
    let (tasks, which) = match count {
        0 => ("no task".to_owned(), " that "),
        1 => ("one task".to_owned(), " that "),
        _ => (format!("{count} tasks"), ", each of which "),
    };
    let conditions: Vec<String> = conditions.iter().map(|words| on_one_line(words)).collect();
    let which = if conditions.is_empty() { "" } else { which };
    format!("expected {tasks}{which}{}", conditions.join(" and "))
}

/// How many tasks were found, the tasks of the tube, and how many have left it.
pub(super) fn details<T>(found: usize, mut shown: Vec<Shown<T>>, left: u64) -> String {
    let found = if found == 0 { "none".to_owned() } else { found.to_string() };
    let tasks = match shown.len() {
        0 => "no task".to_owned(),
        1 => "one task:".to_owned(),
        all if all > TASKS => format!("{all} tasks; these {TASKS} differ least:"),
        all => format!("{all} tasks:"),
    };
    let mut lines = vec![format!("found {found}"), format!("the tube has {tasks}")];
    shown.sort_by_key(|Shown { differences, .. }| differences.len());
    for Shown { task, differences } in shown.iter().take(TASKS) {
        lines.push(format!("  {}", line_of(task)));
        let differences: Vec<String> = differences.iter().map(|it| on_one_line(it)).collect();
        if !differences.is_empty() {
            lines.push(format!("    differs: {}", differences.join(", ")));
        }
    }
    if left > 0 {
        lines.push(format!("tasks that have left the tube: {left}; {KEEPS_NONE}"));
    }
    lines.join("\n")
}

/// Bytes as text, if they are text.
pub(super) fn bytes(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| format!("{:?}", Bytes::from(bytes)), str::to_owned)
}

/// Id, state, key, body and failure of a task.
fn line_of<T>(task: &Task<T>) -> String {
    let info = &task.info;
    let delay = info.due_in.filter(|_| info.state == TaskState::Delayed);
    let delay = delay.map(|due_in| format!(" for {}", durations::show(due_in))).unwrap_or_default();
    let mut parts = vec![format!("task {} is {}{delay}", info.id, info.state)];
    parts.extend(info.key.iter().map(|key| format!("key {key:?}")));
    parts.push(match &*task.body {
        [] => "no body".to_owned(),
        body => format!("body {}", on_one_line(&bytes(body))),
    });
    parts.extend(info.failure.iter().map(|failure| {
        let message = on_one_line(&failure.message);
        let group = on_one_line(&failure.group);
        format!("failed in attempt {} with {group}: {message}", failure.attempt)
    }));
    parts.join(", ")
}

/// The text without line breaks, cut off if it is long.
fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    for (count, letter) in text.chars().enumerate() {
        if count == TEXT_MAX {
            return line + "...";
        }
        if letter.is_control() || is_invisible(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// Whether a letter hides what is shown: it begins a line, changes the direction, or has no width.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
