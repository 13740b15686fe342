//! The rows of the lists, cell by cell.

use std::time::Duration;

use tubewell::{Owner, Statistics, TaskInfo, TubeInfo};

use super::model::{List, Model};
use super::reading::{Detail, Want, aged};
use super::view::{Cell, Item, Row, Tone};
use crate::output::size;
use crate::printable;
use crate::task_text;
use crate::{duration, moment};

/// A terminal of 80 columns shows the first ten, up to the takes, if no name of a tube has more than twelve.
pub const TUBES: &[&str] = &[
    "TUBE", "READY", "AGE", "TAKEN", "DELAYED", "BURIED", "FAIL/S", "PAUSED", "PUT/S", "TAKE/S",
    "ACK/S", "BLOCKED", "OVERDUE", "WAITING", "KEPT",
];
pub const RUNNING: &[&str] = &["TUBE", "ID", "OWNER", "FOR", "EXPIRES", "PROGRESS"];
pub const GROUPS: &[&str] = &["TUBE", "BURIED", "GROUP"];
pub const SCHEDULES: &[&str] = &["TUBE", "KEY", "NEXT IN", "RUNS", "WHEN", "STOPPED"];
pub const TASKS: &[&str] =
    &["ID", "PRI", "TAKES", "ATTEMPTS", "SIZE", "TIMES", "KEY", "TAGS", "FAILURE"];

impl Model {
    /// The rows of the list in which keys move, those that the filter leaves out excepted.
    pub fn rows(&self) -> Vec<Row> {
        match self.screen().want {
            Want::Overview => self.rows_of(self.screen().list),
            Want::Tasks { .. } => self.filtered(self.task_rows()),
            Want::Task { .. } => Vec::new(),
        }
    }

    /// The rows of a list of the overview.
    pub fn rows_of(&self, list: List) -> Vec<Row> {
        if let List::Tubes = list {
            let tubes = self.reading.iter().flat_map(|reading| &reading.tubes);
            return self.filtered(tubes.map(|(tube, counts)| self.tube_row(tube, counts)));
        }
        let Some(Detail::Overview(shown)) = self.detail() else { return Vec::new() };
        let by = self.age();
        match list {
            List::Tubes | List::Running => {
                self.filtered(shown.running.iter().map(|(tube, info, owner)| Row {
                    item: Item::Task { tube: tube.clone(), id: info.id },
                    cells: running_cells(tube, info, owner.as_ref(), by),
                }))
            }
            List::Groups => self.filtered(shown.groups.iter().map(|(tube, group)| Row {
                item: Item::Group { tube: tube.clone(), group: group.name.clone() },
                cells: vec![
                    Cell::text(tube),
                    Cell::count(group.count, Tone::Bad),
                    Cell::text(&group.name),
                ],
            })),
            List::Schedules => self.filtered(shown.schedules.iter().map(|(tube, schedule)| Row {
                item: Item::Task { tube: tube.clone(), id: schedule.id },
                cells: vec![
                    Cell::text(tube),
                    Cell::text(&schedule.key),
                    Cell::number(left(schedule.due_in, by)),
                    Cell::number(match schedule.times {
                        None => schedule.runs.to_string(),
                        Some(times) => format!("{}/{times}", schedule.runs),
                    }),
                    Cell::text(schedule.recurrence.to_string()),
                    Cell::text(schedule.stopped.as_deref().unwrap_or_default()).tone(Tone::Bad),
                ],
            })),
        }
    }

    fn tube_row(&self, tube: &TubeInfo, counts: &Statistics) -> Row {
        let tasks = counts.tasks;
        let paused = match tube.resumes_in {
            Some(time) => left(time, self.age()),
            None => if tube.paused { "yes" } else { "" }.into(),
        };
        let next = match self.detail() {
            Some(Detail::Overview(shown)) => shown.next.get(&tube.name),
            _ => None,
        };
        let age = next.zip(self.clock()).map(|(put_at, now)| moment::age(*put_at, now));
        let [puts, takes, acks, fails] = self.rates.of(&tube.name).map(Cell::rate);
        let cells = vec![
            Cell::text(&tube.name).tone(Tone::Bold),
            Cell::count(tasks.ready, Tone::Good),
            Cell::number(age.map(duration::show).unwrap_or_default()),
            Cell::count(tasks.taken, Tone::Plain),
            Cell::count(tasks.delayed, Tone::Warn),
            Cell::count(tasks.buried, Tone::Bad),
            fails,
            Cell { right: true, ..Cell::text(paused).tone(Tone::Warn) },
            puts,
            takes,
            acks,
            Cell::count(tasks.blocked, Tone::Warn),
            Cell::count(tasks.overdue, Tone::Warn),
            Cell::count(tube.waiting.saturating_add(tube.waiting_puts), Tone::Plain),
            Cell::count(tasks.kept, Tone::Plain),
        ];
        Row { item: Item::Tube(tube.name.clone()), cells }
    }

    fn task_rows(&self) -> Vec<Row> {
        let (Want::Tasks { tube, .. }, Some(Detail::Tasks { tasks, .. })) =
            (&self.screen().want, self.detail())
        else {
            return Vec::new();
        };
        let row = |info: &TaskInfo| Row {
            item: Item::Task { tube: tube.clone(), id: info.id },
            cells: task_cells(&aged(info, self.age())),
        };
        tasks.iter().map(row).collect()
    }

    /// The rows that have the text of the filter in a cell, whatever its case.
    fn filtered(&self, rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
        let filter = self.screen().filter.to_lowercase();
        let has_text = |cell: &Cell| cell.text.to_lowercase().contains(&filter);
        rows.into_iter().filter(|row| row.cells.iter().any(has_text)).collect()
    }
}

impl Cell {
    fn text(text: impl AsRef<str>) -> Cell {
        Cell { text: printable::on_one_line(text.as_ref()), right: false, tone: Tone::Plain }
    }

    fn number(number: impl ToString) -> Cell {
        Cell { text: number.to_string(), right: true, tone: Tone::Plain }
    }

    /// A number, dim if it is 0.
    fn count(number: u64, tone: Tone) -> Cell {
        Cell::number(number).tone(if number == 0 { Tone::Dim } else { tone })
    }

    fn rate(rate: f64) -> Cell {
        let text = match rate {
            0.0 => "0".into(),
            ..0.1 => "<0.1".into(),
            ..10.0 => format!("{rate:.1}"),
            _ => format!("{rate:.0}"),
        };
        Cell::number(text).tone(if rate == 0.0 { Tone::Dim } else { Tone::Plain })
    }

    fn tone(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }
}

fn running_cells(tube: &str, info: &TaskInfo, owner: Option<&Owner>, by: Duration) -> Vec<Cell> {
    let held = owner.map(|owner| duration::show(owner.held.saturating_add(by)));
    let expires = owner.and_then(|owner| owner.expires_in).map(|time| left(time, by));
    vec![
        Cell::text(tube),
        Cell::number(info.id),
        Cell::text(owner.map(task_text::owner_name).unwrap_or_default()),
        Cell::number(held.unwrap_or_default()),
        match info.reclaimed_in {
            Some(_) => Cell { right: true, ..Cell::text("overdue").tone(Tone::Warn) },
            None => Cell::number(expires.unwrap_or_default()).tone(Tone::Dim),
        },
        Cell::text(info.progress.as_ref().map(ToString::to_string).unwrap_or_default()),
    ]
}

fn task_cells(info: &TaskInfo) -> Vec<Cell> {
    let failure = info.failure.as_ref().map(task_text::summary).unwrap_or_default();
    vec![
        Cell::number(info.id),
        Cell::number(info.priority),
        Cell::number(info.takes),
        Cell::number(task_text::attempts(info)),
        Cell::number(size(info.size)),
        Cell::text(task_text::times(info).unwrap_or_else(|| "-".into())).tone(Tone::Dim),
        Cell::text(info.key.as_deref().unwrap_or_default()),
        Cell::text(info.tags.join(", ")),
        Cell::text(failure).tone(Tone::Bad),
    ]
}

/// What is left of a time some time after it was read.
fn left(time: Duration, by: Duration) -> String {
    if time == Duration::MAX { "never".into() } else { duration::show(time.saturating_sub(by)) }
}
