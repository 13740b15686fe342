//! What `top` shows: keys and answers of the store go in, requests and a view come out.
//!
//! The model reads nothing itself, neither the store nor a clock. Times are those since the command
//! began.

use std::time::{Duration, SystemTime};

use super::key::Key;
use super::rates::Rates;
use super::reading::{Detail, Reading, Want, Which};
use super::view::{Item, Tone};
use tubewell::TaskState;

/// How many tasks of a tube are read at first, and how many more at the end of the list.
pub const TASKS: usize = 200;
/// The largest number of tasks of a list.
const MOST_TASKS: usize = 10_000;
/// A store that has not answered for so long is said to be silent, and for how long after each of these.
const SILENT: Duration = Duration::from_secs(1);
/// How long after its last answer an owner is asked whether it still answers, if nothing is read meanwhile.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// The states of tasks, in the order in which Left and Right go through them.
pub const STATES: [TaskState; 6] = [
    TaskState::Ready,
    TaskState::Taken,
    TaskState::Delayed,
    TaskState::Blocked,
    TaskState::Buried,
    TaskState::Done,
];

/// What happens to the model.
#[derive(Debug)]
pub enum Input {
    /// A key was pressed.
    Key(Key),
    /// The terminal has this many lines.
    Lines(u16),
    /// A task has changed since the last reading began.
    Changed,
    /// Time has passed.
    Tick,
    /// What the model waits for by the clock is due.
    Due,
    /// The store was read.
    Read(Box<Reading>),
    /// The store could not be read.
    NotRead(String),
    /// The owner has answered that it is there.
    Answered,
    /// The connection to the owner has broken.
    Cut(String),
    /// An action is over: what was done, or why not.
    Acted(Result<String, String>),
}

/// What the model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read the store. `Input::Read` or `Input::NotRead` is the answer.
    Read(Want),
    /// Change the store. `Input::Acted` is the answer.
    Act(Action),
    /// Ask the owner whether it answers. `Input::Answered` is the answer.
    Ask,
    Quit,
}

/// A change of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Kick { tube: String, id: u64 },
    KickGroup { tube: String, group: String },
    KickAll { tube: String },
    Delete { tube: String, id: u64 },
    Pause { tube: String },
    Resume { tube: String },
}

/// What keys do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They move and act.
    Normal,
    /// They write the filter.
    Filter,
    /// `y` does this, any other key does not.
    Confirm(Action),
    /// Any key closes the help.
    Help,
}

/// A list of the overview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Tubes,
    Running,
    Groups,
    Schedules,
}

impl List {
    pub const ALL: [List; 4] = [List::Tubes, List::Running, List::Groups, List::Schedules];
}

/// A screen, and where the user is in it.
#[derive(Clone, Debug)]
pub struct Screen {
    pub want: Want,
    /// The list of the overview in which keys move.
    pub list: List,
    /// The selected row. It stays selected if rows before it appear or go.
    pub selected: Option<Item>,
    /// Its number, or that of the first line of a task which is shown.
    pub at: usize,
    /// Only rows with this text are shown.
    pub filter: String,
}

impl Screen {
    fn of(want: Want) -> Screen {
        Screen { want, list: List::Tubes, selected: None, at: 0, filter: String::new() }
    }
}

/// Whether the store is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    None,
    Reading,
    /// It is, and must be once more, since what is read is no longer what is shown.
    Stale,
}

/// The state of `top`.
#[derive(Debug)]
pub struct Model {
    /// The file or the address of the store.
    pub source: String,
    pub now: Duration,
    overview: Screen,
    /// The screens that were opened above it, the one that is shown last.
    opened: Vec<Screen>,
    pub reading: Option<Reading>,
    pub rates: Rates,
    pub mode: Mode,
    /// What the last action has done, or why it has failed.
    pub notice: Option<(String, Tone)>,
    lines: u16,
    pending: Pending,
    /// How many requests have no answer, and since when the next answer is waited for.
    unanswered: usize,
    waits_since: Duration,
    /// The store is that of another process, which may cease to answer.
    has_owner: bool,
    /// When the store has last answered.
    answered: Duration,
    /// The notice says why the store could not be read.
    is_cut: bool,
    /// What changes nothing in the events, such as a take that waits, is read once more a while after
    /// a change.
    settles: bool,
}

impl Model {
    /// A model that shows this screen first, and what to do first. `has_owner`: the store is that of another
    /// process.
    pub fn new(source: String, tube: Option<String>, has_owner: bool) -> (Model, Vec<Request>) {
        let opened = tube.map(|tube| Screen::of(tasks(tube, Which::State(TaskState::Ready))));
        let mut model = Model {
            source,
            now: Duration::ZERO,
            overview: Screen::of(Want::Overview),
            opened: opened.into_iter().collect(),
            reading: None,
            rates: Rates::default(),
            mode: Mode::Normal,
            notice: None,
            lines: 24,
            pending: Pending::None,
            unanswered: 0,
            waits_since: Duration::ZERO,
            has_owner,
            answered: Duration::ZERO,
            is_cut: false,
            settles: true,
        };
        let requests = model.read();
        model.unanswered = requests.len();
        (model, requests)
    }

    /// The screen that is shown.
    pub fn screen(&self) -> &Screen {
        self.opened.last().unwrap_or(&self.overview)
    }

    fn screen_mut(&mut self) -> &mut Screen {
        self.opened.last_mut().unwrap_or(&mut self.overview)
    }

    /// What was read for the screen that is shown, if it has been read.
    pub fn detail(&self) -> Option<&Detail> {
        let reading = self.reading.as_ref()?;
        let same = match (&reading.want, &self.screen().want) {
            (
                Want::Tasks { tube, which, .. },
                Want::Tasks { tube: shown_tube, which: shown_which, .. },
            ) => (tube, which) == (shown_tube, shown_which),
            (read, shown) => read == shown,
        };
        same.then_some(&reading.detail)
    }

    /// How long ago the store was read.
    pub fn age(&self) -> Duration {
        self.reading.as_ref().map_or(Duration::ZERO, |reading| self.now.saturating_sub(reading.at))
    }

    /// What the clock of the store shows now, if it was read.
    pub fn clock(&self) -> Option<SystemTime> {
        self.reading.as_ref()?.now.checked_add(self.age())
    }

    /// Takes an input in, and returns what is to be done.
    pub fn update(&mut self, now: Duration, input: Input) -> Vec<Request> {
        self.now = self.now.max(now);
        let is_answer =
            matches!(input, Input::Read(_) | Input::NotRead(_) | Input::Acted(_) | Input::Answered);
        if is_answer {
            self.unanswered = self.unanswered.saturating_sub(1);
            self.answered = self.now;
        }
        let mut requests = self.take_in(input);
        if requests.is_empty() && self.asks_in(self.now) == Some(Duration::ZERO) {
            requests.push(Request::Ask);
        }
        if is_answer || self.unanswered == 0 {
            self.waits_since = self.now;
        }
        self.unanswered += requests.iter().filter(|request| **request != Request::Quit).count();
        requests
    }

    /// For how long the store has not answered, if it is long. A broken connection has its own notice.
    pub(super) fn silence(&self) -> Option<Duration> {
        let waited = self.now.saturating_sub(self.waits_since);
        (self.unanswered > 0 && !self.is_cut && waited >= SILENT).then_some(waited)
    }

    /// How long after `now` something is due by the clock, if nothing happens until then: the view tells how long
    /// the store has not answered, or its owner is asked.
    pub fn due_in(&self, now: Duration) -> Option<Duration> {
        let waited = now.saturating_sub(self.waits_since);
        let told = Duration::from_secs(waited.as_secs()) + SILENT;
        let tells = (self.unanswered > 0 && !self.is_cut).then(|| told.saturating_sub(waited));
        tells.or_else(|| self.asks_in(now))
    }

    /// How long after `now` the owner is asked whether it answers. One that is known to be lost is waited for.
    fn asks_in(&self, now: Duration) -> Option<Duration> {
        let asks = self.has_owner && self.unanswered == 0 && !self.is_cut;
        asks.then(|| (self.answered + ASK_AFTER).saturating_sub(now))
    }

    fn take_in(&mut self, input: Input) -> Vec<Request> {
        match input {
            Input::Key(key) => self.key(key),
            Input::Lines(lines) => {
                self.lines = lines;
                Vec::new()
            }
            Input::Changed => {
                self.settles = true;
                self.read()
            }
            Input::Tick => {
                self.rates.pass(self.now);
                if std::mem::take(&mut self.settles) { self.read() } else { Vec::new() }
            }
            Input::Read(reading) => {
                self.rates.add(reading.at, &reading.tubes);
                if std::mem::take(&mut self.is_cut) {
                    self.notice = None;
                }
                self.reading = Some(*reading);
                self.reselect();
                self.go_on()
            }
            Input::Due | Input::Answered => Vec::new(),
            Input::Cut(why) => {
                self.cut(&why);
                Vec::new()
            }
            Input::NotRead(why) => {
                self.cut(&why);
                self.go_on()
            }
            Input::Acted(done) => {
                self.notice = Some(match done {
                    Ok(done) => (done, Tone::Good),
                    Err(why) => (why, Tone::Bad),
                });
                self.read()
            }
        }
    }

    /// The store cannot be read.
    fn cut(&mut self, why: &str) {
        self.is_cut = true;
        self.notice = Some((format!("waiting for the owner; q quits: {why}"), Tone::Bad));
    }

    /// Whether the view changes with time alone.
    pub fn has_clock(&self) -> bool {
        let is_paused_for_a_time =
            |reading: &Reading| reading.tubes.iter().any(|(tube, _)| tube.resumes_in.is_some());
        let has_times = match self.detail() {
            Some(Detail::Overview(shown)) => {
                !(shown.running.is_empty() && shown.schedules.is_empty() && shown.next.is_empty())
            }
            Some(Detail::Tasks { tasks, .. }) => {
                tasks.iter().any(|task| task.due_in.or(task.ttl_left).is_some())
            }
            Some(Detail::Task(_)) => true,
            Some(Detail::Gone(_)) | None => false,
        };
        let is_paused = self.reading.as_ref().is_some_and(is_paused_for_a_time);
        self.settles || has_times || is_paused || !self.rates.are_zero()
    }

    /// Reads what is shown, now or after the reading that is under way.
    pub(super) fn read(&mut self) -> Vec<Request> {
        if self.pending != Pending::None {
            self.pending = Pending::Stale;
            return Vec::new();
        }
        self.pending = Pending::Reading;
        vec![Request::Read(self.screen().want.clone())]
    }

    /// A reading has ended.
    fn go_on(&mut self) -> Vec<Request> {
        let is_stale = std::mem::replace(&mut self.pending, Pending::None) == Pending::Stale;
        if is_stale { self.read() } else { Vec::new() }
    }

    /// Finds the selected row among those that there are now. If it is gone, the one in its place is
    /// selected.
    pub(super) fn reselect(&mut self) {
        if matches!(self.screen().want, Want::Task { .. }) {
            return;
        }
        let mut rows = self.rows();
        if rows.is_empty() && self.screen().list != List::Tubes {
            self.screen_mut().list = List::Tubes;
            rows = self.rows();
        }
        let screen = self.screen();
        let found = rows.iter().position(|row| Some(&row.item) == screen.selected.as_ref());
        self.select(found.unwrap_or(screen.at));
    }

    /// Selects the row with this number, or the last one.
    pub(super) fn select(&mut self, at: usize) {
        let rows = self.rows();
        let at = at.min(rows.len().saturating_sub(1));
        // If the filter leaves no row, the selected one is selected again without the filter.
        if let Some(row) = rows.into_iter().nth(at) {
            let screen = self.screen_mut();
            (screen.at, screen.selected) = (at, Some(row.item));
        }
    }

    /// Shows another screen on top of this one.
    pub(super) fn open(&mut self, want: Want) -> Vec<Request> {
        self.opened.push(Screen::of(want));
        self.read()
    }

    /// Goes back to the screen before.
    pub(super) fn back(&mut self) -> Vec<Request> {
        if self.opened.pop().is_some() { self.read() } else { Vec::new() }
    }

    /// Shows the tasks in another state.
    pub(super) fn show(&mut self, which: Which) -> Vec<Request> {
        let screen = self.screen_mut();
        if let Want::Tasks { tube, .. } = &screen.want {
            screen.want = tasks(tube.clone(), which);
            (screen.at, screen.selected) = (0, None);
        }
        self.read()
    }

    /// Reads more tasks if the last one is selected and there are further ones.
    pub(super) fn extend(&mut self) -> Vec<Request> {
        let Some(Detail::Tasks { tasks, has_more: true }) = self.detail() else {
            return Vec::new();
        };
        let read = tasks.len();
        let is_last = self.screen().at + 1 >= self.rows().len();
        let Want::Tasks { limit, .. } = &mut self.screen_mut().want else { return Vec::new() };
        if !is_last || *limit > read || *limit >= MOST_TASKS {
            return Vec::new();
        }
        *limit += TASKS;
        self.read()
    }

    /// Changes the filter of the screen.
    pub(super) fn filter(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.screen_mut().filter);
        self.reselect();
    }

    /// Moves between the lists of the overview.
    pub(super) fn show_list(&mut self, list: List) {
        let screen = self.screen_mut();
        (screen.list, screen.at, screen.selected) = (list, 0, None);
        self.reselect();
    }

    /// Scrolls the text of a task.
    pub(super) fn scroll(&mut self, to: usize) {
        let last = self.text().len().saturating_sub(1);
        self.screen_mut().at = to.min(last);
    }

    /// How many rows a page has, about.
    pub(super) fn page(&self) -> usize {
        usize::from(self.lines.saturating_sub(6).max(1))
    }
}

/// The first tasks of a tube.
pub fn tasks(tube: String, which: Which) -> Want {
    Want::Tasks { tube, which, limit: TASKS }
}
