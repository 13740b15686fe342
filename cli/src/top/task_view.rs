//! A task as lines of text: its fields, its history and its body.

use std::time::{Duration, SystemTime};

use tubewell::expert::HistoryEntry;

use super::reading::{TaskDetail, aged};
use super::view::Tone;
use crate::moment;
use crate::output::size;
use crate::printable;
use crate::task_text;

/// How many bytes of a body are shown.
const BODY: usize = 64 * 1024;

/// The lines of a task that was read some time ago. `now`: by the clock of the store.
pub fn lines(detail: &TaskDetail, ago: Duration, now: SystemTime) -> Vec<(String, Tone)> {
    let mut fields =
        task_text::fields(&aged(&detail.task.info, ago), detail.steps, detail.parents, now);
    if let Some(owner) = &detail.owner {
        fields.push(("owner", task_text::held_by(owner, ago)));
    }
    let field = |(name, value): (&str, String)| {
        (format!("{name:<10}{}", printable::on_one_line(&value)), Tone::Plain)
    };
    let mut lines: Vec<_> = fields.into_iter().map(field).collect();
    if !detail.history.is_empty() {
        lines.push((String::new(), Tone::Plain));
        lines.push(("history".into(), Tone::Bold));
        lines.extend(detail.history.iter().map(|entry| (entry_line(entry), Tone::Plain)));
    }
    lines.push((String::new(), Tone::Plain));
    lines.push(("body".into(), Tone::Bold));
    lines.extend(body(&detail.task.body));
    lines
}

fn entry_line(entry: &HistoryEntry) -> String {
    let (at, what) = (moment::show(entry.at), entry.what.as_str());
    let mut line = format!("{at}  {what:<10}  {:<9}", entry.state.as_str());
    for text in [&entry.owner, &entry.text].into_iter().flatten() {
        line.push_str("  ");
        line.push_str(&printable::on_one_line(text));
    }
    line.trim_end().to_owned()
}

fn body(data: &[u8]) -> Vec<(String, Tone)> {
    let shown = data.get(..BODY).unwrap_or(data);
    let text = String::from_utf8_lossy(shown);
    let mut lines: Vec<_> =
        text.lines().map(|line| (printable::on_one_line(line), Tone::Plain)).collect();
    let left_out = u64::try_from(data.len() - shown.len()).unwrap_or(u64::MAX);
    if left_out > 0 {
        lines.push((format!("… and {} more", size(left_out)), Tone::Dim));
    }
    lines
}
