//! What the model shows: its view.

use std::time::Duration;

use tubewell::{Statistics, TaskState};

use super::key::HELP;
use super::model::{Action, List, Mode, Model, STATES};
use super::reading::{Detail, Want, Which};
use super::rows::{GROUPS, RUNNING, SCHEDULES, TASKS, TUBES};
use super::task_view;
use super::view::{Body, Panel, Row, Tone, View};
use crate::output::count;
use crate::{duration, printable};

impl Model {
    /// What is shown now.
    pub fn view(&self) -> View {
        View {
            title: self.title(),
            body: self.body(),
            footer: self.footer(),
            popup: if self.mode == Mode::Help { help() } else { Vec::new() },
        }
    }

    fn title(&self) -> String {
        let source = printable::on_one_line(&self.source);
        let Some(reading) = &self.reading else { return format!("{source}  reading …") };
        let total = |of: fn(&Statistics) -> u64| -> u64 {
            reading.tubes.iter().map(|(_, counts)| of(counts)).sum()
        };
        let tubes = u64::try_from(reading.tubes.len()).unwrap_or(u64::MAX);
        format!(
            "{source}  {}: {} ready, {} taken, {} buried",
            count(tubes, "tube"),
            total(|counts| counts.tasks.ready),
            total(|counts| counts.tasks.taken),
            total(|counts| counts.tasks.buried),
        )
    }

    fn body(&self) -> Body {
        match (&self.screen().want, self.detail()) {
            (_, Some(Detail::Gone(why))) => Body::Text {
                title: String::new(),
                lines: vec![(printable::on_one_line(why), Tone::Warn)],
                first: 0,
            },
            (Want::Task { tube, id }, _) => Body::Text {
                title: format!("task {id} of {}", printable::on_one_line(tube)),
                lines: self.text(),
                first: self.screen().at,
            },
            (Want::Tasks { tube, which, .. }, _) => {
                let title = self.tasks_title(tube, which);
                Body::Panels(vec![self.panel(title, TASKS, self.rows(), true)])
            }
            (Want::Overview, _) => Body::Panels(self.lists()),
        }
    }

    /// The lists of the overview that have rows.
    fn lists(&self) -> Vec<Panel> {
        let lists = [
            (List::Tubes, "tubes", TUBES),
            (List::Running, "running tasks", RUNNING),
            (List::Groups, "failure groups", GROUPS),
            (List::Schedules, "schedules", SCHEDULES),
        ];
        let shown = lists.into_iter().filter_map(|(list, title, head)| {
            let rows = self.rows_of(list);
            let has_no_tubes =
                self.reading.as_ref().is_some_and(|reading| reading.tubes.is_empty());
            let title =
                if has_no_tubes { "no tubes: `tubewell create` creates one" } else { title };
            let is_shown = list == List::Tubes || !rows.is_empty();
            let is_active = self.screen().list == list;
            is_shown.then(|| self.panel(title.to_owned(), head, rows, is_active))
        });
        shown.collect()
    }

    fn panel(
        &self,
        title: String,
        head: &'static [&'static str],
        rows: Vec<Row>,
        is_active: bool,
    ) -> Panel {
        let screen = self.screen();
        let title = if screen.filter.is_empty() {
            title
        } else {
            format!("{title} with {:?}", screen.filter)
        };
        let rows = rows.into_iter().map(|row| row.cells).collect();
        Panel { title, head, rows, selected: is_active.then_some(screen.at) }
    }

    /// The name of the tube, and how many tasks it has in each state.
    fn tasks_title(&self, tube: &str, which: &Which) -> String {
        let name = printable::on_one_line(tube);
        let which = match which {
            Which::Group(group) => {
                return format!("{name}: buried in {}", printable::on_one_line(group));
            }
            Which::State(state) => *state,
        };
        let states = STATES.map(|state| {
            let number = self.count(tube, state);
            if state == which { format!("[{state} {number}]") } else { format!("{state} {number}") }
        });
        format!("{name}: {}", states.join(" "))
    }

    /// The last line: a question, a message, or the keys that there are.
    fn footer(&self) -> (String, Tone) {
        match (&self.mode, self.silence(), &self.notice) {
            (Mode::Filter, ..) => (format!("/{}", self.screen().filter), Tone::Bold),
            (Mode::Confirm(action), ..) => {
                let what = match action {
                    Action::KickAll { tube } => {
                        let buried = self.count(tube, TaskState::Buried);
                        format!("kick {} of {tube}", count(buried, "buried task"))
                    }
                    action => action.verb("kick", "delete", "pause", "resume"),
                };
                (format!("{}? y/n", printable::on_one_line(&what)), Tone::Warn)
            }
            (_, Some(silence), _) => {
                let waited = duration::show(Duration::from_secs(silence.as_secs()));
                let why = "it is busy, stopped, or cannot be reached";
                (format!("no answer of the store for {waited}; q quits: {why}"), Tone::Bad)
            }
            (_, _, Some((notice, tone))) => (printable::on_one_line(notice), *tone),
            _ => {
                let keys = match self.screen().want {
                    Want::Overview => "Enter open  Tab next list  k kick  p pause  / filter",
                    Want::Tasks { .. } => {
                        "Enter look  Left/Right state  k kick  d delete  p pause  / filter  Esc back"
                    }
                    Want::Task { .. } => "k kick  d delete  p pause  Esc back",
                };
                (format!("{keys}  ? help  q quit"), Tone::Dim)
            }
        }
    }

    /// The lines of the task that is shown.
    pub fn text(&self) -> Vec<(String, Tone)> {
        match self.detail() {
            Some(Detail::Task(detail)) => {
                let clock = self.clock().unwrap_or(detail.task.info.put_at);
                task_view::lines(detail, self.age(), clock)
            }
            _ => Vec::new(),
        }
    }

    /// How many tasks a tube has in a state.
    pub fn count(&self, name: &str, state: TaskState) -> u64 {
        let mut tubes = self.reading.iter().flat_map(|reading| &reading.tubes);
        let Some((_, counts)) = tubes.find(|(tube, _)| tube.name == name) else { return 0 };
        counts.tasks.of(state)
    }
}

impl Action {
    /// What it does, with the form of the verb that is asked for.
    pub fn verb(&self, kick: &str, delete: &str, pause: &str, resume: &str) -> String {
        match self {
            Action::Kick { tube, id } => format!("{kick} task {id} of {tube}"),
            Action::KickGroup { tube, group } => {
                format!("{kick} the tasks of {tube} in the failure group {group}")
            }
            Action::KickAll { tube } => format!("{kick} the buried tasks of {tube}"),
            Action::Delete { tube, id } => format!("{delete} task {id} of {tube}"),
            Action::Pause { tube } => format!("{pause} {tube}"),
            Action::Resume { tube } => format!("{resume} {tube}"),
        }
    }
}

fn help() -> Vec<String> {
    HELP.iter().map(|(keys, what)| format!("{keys:<17} {what}")).collect()
}
