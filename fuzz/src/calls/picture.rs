//! What a store says of its tubes and tasks.

use std::fmt::Write;
use std::time::Duration;

use tubewell::expert::Recurrence;
use tubewell::{Filter, Store, TaskInfo};

/// What changes when a call changes something, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub tubes: Vec<String>,
    /// The names of the tubes and the ids of all tasks.
    pub tasks: Vec<(String, u64)>,
    text: String,
    /// Whether a schedule has more than a run in a minute.
    pub has_frequent_schedules: bool,
}

impl Picture {
    /// Everything that follows from earlier calls must be done: see `StoreAdmin::catch_up`.
    pub fn of(store: &Store) -> Picture {
        let mut picture = Picture {
            tubes: Vec::new(),
            tasks: Vec::new(),
            text: format!("{:?}\n", store.admin().limits().unwrap()),
            has_frequent_schedules: false,
        };
        for info in store.tubes().unwrap() {
            let tube = store.tube(&info.name).unwrap();
            let statistics = tube.statistics().unwrap();
            writeln!(picture.text, "{info:?}\n{statistics:?}").unwrap();
            let tasks = tube.query().list(Filter::new(), None, usize::MAX).unwrap();
            let schedules = tube.schedules().list(None, usize::MAX).unwrap();
            picture.has_frequent_schedules |= schedules.items.iter().any(|it| {
                matches!(it.recurrence, Recurrence::Every(every) if every < Duration::from_secs(60))
            });
            writeln!(picture.text, "{:?}\n{:?}", tasks.damaged, schedules.damaged).unwrap();
            for schedule in &schedules.items {
                writeln!(picture.text, "{schedule:?}").unwrap();
            }
            for task in &tasks.items {
                writeln!(picture.text, "{task:?}").unwrap();
            }
            let ids = tasks.items.iter().map(|task: &TaskInfo| task.id);
            let ids = ids.chain(schedules.items.iter().map(|it| it.id));
            picture.tasks.extend(ids.map(|id| (info.name.clone(), id)));
            picture.tubes.push(info.name);
        }
        picture
    }

    /// The lines that differ.
    pub fn difference(&self, other: &Picture) -> String {
        let lines = |of: &str, than: &str, sign: char| -> String {
            let other: Vec<&str> = than.lines().collect();
            let lines = of.lines().filter(|line| !other.contains(line));
            lines.map(|line| format!("{sign} {line}\n")).collect()
        };
        lines(&self.text, &other.text, '-') + &lines(&other.text, &self.text, '+')
    }
}
