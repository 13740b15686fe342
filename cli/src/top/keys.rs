//! What the keys do.

use tubewell::TaskState;

use super::key::Key;
use super::model::{Action, List, Mode, Model, Request, STATES, tasks};
use super::reading::{Detail, Want, Which};
use super::view::{Item, Tone};

impl Model {
    pub(super) fn key(&mut self, key: Key) -> Vec<Request> {
        if key == Key::Interrupt {
            return vec![Request::Quit];
        }
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Normal => {
                self.notice = None;
                self.normal_key(key)
            }
            Mode::Help => Vec::new(),
            Mode::Filter => {
                self.filter_key(key);
                Vec::new()
            }
            Mode::Confirm(action) if key == Key::Char('y') => vec![Request::Act(action)],
            Mode::Confirm(_) => {
                self.notice = Some(("nothing was changed".into(), Tone::Plain));
                Vec::new()
            }
        }
    }

    /// A key that writes the filter.
    fn filter_key(&mut self, key: Key) {
        match key {
            Key::Enter => return,
            Key::Back => return self.filter(String::clear),
            Key::Backspace => self.filter(|filter| _ = filter.pop()),
            Key::Char(letter) => self.filter(|filter| filter.push(letter)),
            _ => {}
        }
        self.mode = Mode::Filter;
    }

    fn normal_key(&mut self, key: Key) -> Vec<Request> {
        match key {
            Key::Char('q') => return vec![Request::Quit],
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('/') if !self.shows_task() => self.mode = Mode::Filter,
            Key::Char('r') => return self.read(),
            Key::Char('k') => return self.kick(),
            Key::Char('d') => self.delete(),
            Key::Char('p') => return self.pause(),
            Key::Enter => return self.open_selected(),
            Key::Back if !self.screen().filter.is_empty() => self.filter(String::clear),
            Key::Back | Key::Backspace => return self.back(),
            Key::Tab | Key::BackTab => self.next_list(key == Key::Tab),
            Key::Left | Key::Right => return self.next_state(key == Key::Right),
            key => return self.move_by(key),
        }
        Vec::new()
    }

    fn move_by(&mut self, key: Key) -> Vec<Request> {
        let at = self.screen().at;
        let to = match key {
            Key::Up => at.saturating_sub(1),
            Key::Down => at.saturating_add(1),
            Key::PageUp => at.saturating_sub(self.page()),
            Key::PageDown => at.saturating_add(self.page()),
            Key::Home => 0,
            Key::End => usize::MAX,
            _ => return Vec::new(),
        };
        if self.shows_task() {
            self.scroll(to);
            return Vec::new();
        }
        self.select(to);
        self.extend()
    }

    /// Moves to the next list of the overview that has rows, or to the one before.
    fn next_list(&mut self, forward: bool) {
        if self.screen().want != Want::Overview {
            return;
        }
        let mut lists = List::ALL.to_vec();
        if !forward {
            lists.reverse();
        }
        let at = lists.iter().position(|list| *list == self.screen().list).unwrap_or(0);
        lists.rotate_left(at);
        lists.retain(|list| *list == List::Tubes || !self.rows_of(*list).is_empty());
        // The first one is that in which the keys moved, unless it is empty now.
        let next = lists.iter().find(|list| **list != self.screen().list);
        if let Some(next) = next {
            self.show_list(*next);
        }
    }

    /// Shows the tasks in the next state, or in the one before.
    fn next_state(&mut self, forward: bool) -> Vec<Request> {
        let Want::Tasks { which, .. } = &self.screen().want else { return Vec::new() };
        let shown = match which {
            Which::State(state) => *state,
            Which::Group(_) => TaskState::Buried,
        };
        let at = STATES.iter().position(|state| *state == shown).unwrap_or(0);
        let step = if forward { 1 } else { STATES.len() - 1 };
        let next = STATES.iter().cycle().nth(at + step).copied().unwrap_or(shown);
        self.show(Which::State(next))
    }

    fn open_selected(&mut self) -> Vec<Request> {
        match self.selected() {
            Some(Item::Tube(tube)) => {
                let state = self.first_state(&tube);
                self.open(tasks(tube, Which::State(state)))
            }
            Some(Item::Group { tube, group }) => self.open(tasks(tube, Which::Group(group))),
            Some(Item::Task { tube, id }) if !self.shows_task() => {
                self.open(Want::Task { tube, id })
            }
            Some(Item::Task { .. }) | None => Vec::new(),
        }
    }

    /// The first state in which the tube has tasks.
    fn first_state(&self, name: &str) -> TaskState {
        let has_tasks = |state: &TaskState| self.count(name, *state) > 0;
        STATES.into_iter().find(has_tasks).unwrap_or(TaskState::Ready)
    }

    fn kick(&mut self) -> Vec<Request> {
        match self.selected() {
            Some(Item::Task { tube, id }) => vec![Request::Act(Action::Kick { tube, id })],
            Some(Item::Group { tube, group }) => {
                self.mode = Mode::Confirm(Action::KickGroup { tube, group });
                Vec::new()
            }
            Some(Item::Tube(tube)) if self.count(&tube, TaskState::Buried) > 0 => {
                self.mode = Mode::Confirm(Action::KickAll { tube });
                Vec::new()
            }
            Some(Item::Tube(tube)) => {
                self.notice = Some((format!("{tube} has no buried task"), Tone::Plain));
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn delete(&mut self) {
        match self.selected() {
            Some(Item::Task { tube, id }) => {
                self.mode = Mode::Confirm(Action::Delete { tube, id });
            }
            Some(_) => {
                let how = "d deletes a task: open the tube with Enter and select one";
                self.notice = Some((how.into(), Tone::Plain));
            }
            None => {}
        }
    }

    /// Pauses the tube of the selected row, or resumes it.
    fn pause(&mut self) -> Vec<Request> {
        let tube = match (&self.screen().want, self.selected()) {
            (Want::Tasks { tube, .. } | Want::Task { tube, .. }, _) => tube.clone(),
            (_, Some(item)) => item.tube().to_owned(),
            (_, None) => return Vec::new(),
        };
        let known = self.reading.iter().flat_map(|reading| &reading.tubes);
        let paused = known.filter(|(info, _)| info.name == tube).any(|(info, _)| info.paused);
        let action = if paused { Action::Resume { tube } } else { Action::Pause { tube } };
        vec![Request::Act(action)]
    }

    /// What the selected row is about, or the task that is shown.
    fn selected(&self) -> Option<Item> {
        let screen = self.screen();
        match (&screen.want, self.detail()) {
            (Want::Task { tube, id }, Some(Detail::Task(_))) => {
                Some(Item::Task { tube: tube.clone(), id: *id })
            }
            (Want::Task { .. }, _) => None,
            _ => self.rows().into_iter().nth(screen.at).map(|row| row.item),
        }
    }

    fn shows_task(&self) -> bool {
        matches!(self.screen().want, Want::Task { .. })
    }
}
