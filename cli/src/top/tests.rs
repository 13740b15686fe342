//! What the keys of `top` do. The stores are in memory, and their clocks
//! stand still.

mod screens;

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;
use tubewell::{FIFOTTL, Failure, ManualClock, Put, Schedule, Session, Store, TubeOptions};

use super::draw::draw;
use super::key::Key;
use super::model::{Input, Model, Request, TASKS};
use super::reading::{Detail, Want, read};
use super::view::Tone;

/// A model at a store.
struct Desk {
    /// Keeps the clock of the store.
    _clock: ManualClock,
    store: Store,
    model: Model,
    now: Duration,
    /// How often the store was read.
    readings: usize,
    has_quit: bool,
}

impl Desk {
    fn at(clock: ManualClock, store: Store) -> Desk {
        let (model, requests) = Model::new("jobs.tubewell".into(), None, false);
        let now = Duration::ZERO;
        let mut desk = Desk { _clock: clock, store, model, now, readings: 0, has_quit: false };
        desk.answer(requests);
        desk.pass(1);
        desk
    }

    /// Answers the requests of the model, until it has none.
    fn answer(&mut self, mut requests: Vec<Request>) {
        while let Some(request) = requests.pop() {
            let input = match request {
                Request::Read(want) => {
                    self.readings += 1;
                    Input::Read(Box::new(read(&self.store, want, self.now).unwrap()))
                }
                Request::Act(action) => Input::Acted(
                    super::act(&self.store, &action).map_err(|error| error.to_string()),
                ),
                Request::Ask => Input::Answered,
                Request::Quit => {
                    self.has_quit = true;
                    continue;
                }
            };
            requests.extend(self.model.update(self.now, input));
        }
    }

    fn input(&mut self, input: Input) {
        let requests = self.model.update(self.now, input);
        self.answer(requests);
    }

    fn press(&mut self, keys: impl IntoIterator<Item = Key>) {
        keys.into_iter().for_each(|key| self.input(Input::Key(key)));
    }

    fn write(&mut self, text: &str) {
        self.press(text.chars().map(Key::Char));
    }

    /// Time passes, and nothing else happens.
    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.input(Input::Tick);
    }

    /// A second passes, in which a task has changed.
    fn change(&mut self) {
        self.now += Duration::from_secs(1);
        self.input(Input::Changed);
    }

    /// What the terminal shows. A `>` is before the selected row.
    fn shown(&self, columns: u16, lines: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        let view = self.model.view();
        terminal.draw(|frame| draw(&view, true, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |row: u16| {
            let line: String = (0..columns).map(|column| buffer[(column, row)].symbol()).collect();
            let is_selected = columns > 0 && buffer[(0, row)].modifier.contains(Modifier::REVERSED);
            format!("{}{}", if is_selected { ">" } else { " " }, line).trim_end().to_owned()
        };
        (0..lines).map(line).collect::<Vec<_>>().join("\n")
    }

    fn footer(&self) -> String {
        self.model.view().footer.0
    }

    fn states(&self, tube: &str) -> (u64, u64, u64) {
        let tasks = self.store.statistics().unwrap()[tube].tasks;
        (tasks.ready, tasks.taken, tasks.buried)
    }
}

fn store() -> (ManualClock, Store) {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    (clock, store)
}

/// A store with a bit of everything. The session has two tasks of `mail`.
fn busy() -> (Desk, Session) {
    let (clock, store) = store();
    let options = || TubeOptions::new().history(10);
    let mail = store.create_tube("mail", options().driver(FIFOTTL)).unwrap();
    let news = store.create_tube("news", options().driver(FIFOTTL)).unwrap();
    let worker = store.session("worker-3").unwrap();
    for name in ["ann", "bob", "cem", "dan"] {
        mail.put(Put::new(format!("to: {name}\nhello")).key(name).tag("letter")).unwrap();
    }
    mail.put(Put::new("later").delay(Duration::from_secs(90))).unwrap();
    let mine = worker.tube(&mail).unwrap();
    for (group, message) in [("timeout", "no answer"), ("timeout", "no answer"), ("dns", "?")] {
        let claim = mine.try_take().unwrap().unwrap();
        if group == "dns" {
            claim.bury(Failure::new(group, message)).unwrap();
        } else {
            claim.progress(3, 10).unwrap();
            let _task = claim.detach();
        }
    }
    let daily = Schedule::every("hourly", Duration::from_secs(3600));
    let first = std::time::UNIX_EPOCH
        + store.admin().clock_report().unwrap().wall
        + Duration::from_secs(600);
    news.schedule(daily.starting(first), "news").unwrap();
    news.admin().pause_for(Duration::from_secs(60)).unwrap();
    (Desk::at(clock, store), worker)
}

#[test]
fn store_that_does_not_answer_is_shown_as_silent_after_a_second() {
    let (_clock, store) = store();
    let (mut model, requests) = Model::new("jobs.tubewell".into(), None, false);
    let millis = Duration::from_millis;
    let silent = |model: &Model| model.view().footer.0.contains("no answer");
    assert_eq!(model.due_in(millis(0)), Some(millis(1000)));
    assert_eq!(model.update(millis(900), Input::Due), []);
    assert!(!silent(&model));
    assert_eq!(model.due_in(millis(900)), Some(millis(100)));
    model.update(millis(1000), Input::Due);
    assert!(silent(&model));
    model.update(millis(2500), Input::Due);
    let footer = model.view().footer;
    assert!(footer.0.starts_with("no answer of the store for 2s; q quits"), "{footer:?}");
    assert_eq!(footer.1, Tone::Bad);
    assert_eq!(model.due_in(millis(2500)), Some(millis(500)));

    let [Request::Read(want)] = &requests[..] else { panic!("{requests:?}") };
    let reading = read(&store, want.clone(), millis(2600)).unwrap();
    model.update(millis(2600), Input::Read(Box::new(reading)));
    assert!(!silent(&model));
    assert_eq!(model.due_in(millis(2600)), None);
    // The time of the next request begins with that request.
    assert_eq!(model.update(millis(9000), Input::Changed).len(), 1);
    assert!(!silent(&model));
    assert_eq!(model.due_in(millis(9000)), Some(millis(1000)));
}

/// Nothing is read while nothing changes.
#[test]
fn owner_is_asked_each_second_while_nothing_is_read_and_shown_as_silent_a_second_later() {
    let (_clock, store) = store();
    let (mut model, requests) = Model::new("unix:jobs.sock".into(), None, true);
    let millis = Duration::from_millis;
    let [Request::Read(want)] = &requests[..] else { panic!("{requests:?}") };
    let reading = read(&store, want.clone(), millis(100)).unwrap();
    assert_eq!(model.update(millis(100), Input::Read(Box::new(reading))), []);
    assert_eq!(model.due_in(millis(100)), Some(millis(1000)));
    assert_eq!(model.update(millis(1099), Input::Due), []);
    assert_eq!(model.update(millis(1100), Input::Due), [Request::Ask]);
    assert_eq!(model.due_in(millis(1100)), Some(millis(1000)));
    assert_eq!(model.update(millis(1200), Input::Answered), []);
    assert_eq!(model.due_in(millis(1300)), Some(millis(900)));
    // Each request waits for an answer once.
    assert_eq!(model.update(millis(2200), Input::Due), [Request::Ask]);
    model.update(millis(3200), Input::Due);
    let footer = model.view().footer;
    assert!(footer.0.starts_with("no answer of the store for 1s; q quits"), "{footer:?}");
    assert_eq!(model.update(millis(9000), Input::Answered), []);
    assert!(!model.view().footer.0.contains("no answer"));
    // A reading tells it, too, and one that is lost is waited for.
    assert!(matches!(model.update(millis(10_000), Input::Changed)[..], [Request::Read(_)]));
    model.update(millis(10_100), Input::Cut("it is gone".into()));
    assert_eq!(model.due_in(millis(12_000)), None);
}

#[test]
fn actions_without_an_answer_are_shown_as_silent() {
    let (mut desk, _worker) = busy();
    assert_eq!(desk.model.update(desk.now, Input::Key(Key::Char('p'))).len(), 1);
    desk.model.update(desk.now + Duration::from_secs(1), Input::Due);
    assert!(desk.footer().starts_with("no answer"), "{}", desk.footer());
}

#[test]
fn notice_of_a_lost_owner_is_wrapped_and_says_what_to_do() {
    let (mut desk, _worker) = busy();
    let why =
        "cannot connect to unix:/a/long/path/of/a/folder/jobs.tubewell.sock: nobody listens there";
    desk.input(Input::Cut(why.into()));
    let shown = desk.shown(60, 14);
    let footer: Vec<&str> = shown.lines().skip(11).map(str::trim).collect();
    assert_eq!(footer.join(" "), format!("waiting for the owner; q quits: {why}"), "{shown}");
    // A silence is no news then.
    desk.model.update(desk.now, Input::Changed);
    desk.model.update(desk.now + Duration::from_secs(9), Input::Due);
    assert!(desk.footer().starts_with("waiting for the owner"), "{}", desk.footer());
    assert_eq!(desk.model.due_in(desk.now), None);
}

#[test]
fn open_lists_and_tasks_follow_the_keys_and_back() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Tab, Key::Tab, Key::Enter]);
    assert!(desk.shown(90, 8).contains("mail: buried in dns"));
    desk.press([Key::Enter]);
    assert!(desk.shown(90, 8).contains("task 2 of mail"));
    desk.press([Key::Back, Key::Back, Key::Tab, Key::Enter]);
    assert!(desk.shown(90, 8).contains("recurring"));
    desk.press([Key::Back, Key::Tab, Key::BackTab, Key::BackTab]);
    assert!(desk.shown(90, 20).contains(">mail       1  dns"));
    desk.press([Key::Back, Key::Back]);
    assert!(!desk.has_quit);
    desk.press([Key::Interrupt]);
    assert!(desk.has_quit);
}

#[test]
fn kick_of_a_task_kicks_immediately_and_of_many_asks_first() {
    let (mut desk, _worker) = busy();
    desk.write("k");
    assert_eq!(desk.footer(), "kick 1 buried task of mail? y/n");
    desk.write("n");
    assert_eq!((desk.footer().as_str(), desk.states("mail")), ("nothing was changed", (1, 2, 1)));
    desk.write("ky");
    assert_eq!((desk.footer().as_str(), desk.states("mail")), ("kicked 1 task of mail", (2, 2, 0)));
    desk.write("k");
    assert_eq!(desk.footer(), "mail has no buried task");

    let mail = desk.store.find_tube("mail").unwrap();
    mail.admin().bury(2, None).unwrap();
    desk.change();
    desk.press([Key::Enter, Key::Left, Key::Left]);
    desk.write("k");
    assert_eq!((desk.footer().as_str(), desk.states("mail")), ("kicked task 2 of mail", (2, 2, 0)));
    assert!(desk.shown(90, 8).contains("[buried 0]"));
}

#[test]
fn kick_of_a_delayed_task_makes_it_ready() {
    let (mut desk, _worker) = busy();
    assert_eq!(desk.states("mail"), (1, 2, 1));
    desk.press([Key::Enter, Key::Right, Key::Right]);
    desk.write("k");
    assert_eq!((desk.footer().as_str(), desk.states("mail")), ("kicked task 4 of mail", (2, 2, 1)));
}

#[test]
fn kick_of_a_failure_group_kicks_its_tasks() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Tab, Key::Tab]);
    desk.write("k");
    assert_eq!(desk.footer(), "kick the tasks of mail in the failure group dns? y/n");
    desk.write("y");
    assert_eq!((desk.footer().as_str(), desk.states("mail")), ("kicked 1 task of mail", (2, 2, 0)));
    // The list is gone, and keys move among the tubes.
    assert!(desk.shown(90, 20).contains(">mail"));
}

#[test]
fn delete_asks_first_and_only_tasks_are_deleted() {
    let (mut desk, _worker) = busy();
    desk.write("d");
    assert!(desk.footer().starts_with("d deletes a task"), "{}", desk.footer());
    desk.press([Key::Enter]);
    desk.write("dq");
    assert_eq!((desk.footer().as_str(), desk.states("mail").0), ("nothing was changed", 1));
    assert!(!desk.has_quit);
    desk.write("d");
    assert_eq!(desk.footer(), "delete task 3 of mail? y/n");
    desk.write("y");
    assert_eq!((desk.footer().as_str(), desk.states("mail").0), ("deleted task 3 of mail", 0));
}

#[test]
fn pause_pauses_the_tube_and_resumes_it() {
    let (mut desk, _worker) = busy();
    let is_paused = |desk: &Desk, tube| desk.store.find_tube(tube).unwrap().info().unwrap().paused;
    desk.write("p");
    assert!(is_paused(&desk, "mail") && desk.shown(90, 8).contains("     yes"));
    desk.press([Key::Enter]);
    desk.write("p");
    assert_eq!((desk.footer().as_str(), is_paused(&desk, "mail")), ("resumed mail", false));
    desk.press([Key::Back, Key::Down]);
    assert!(desk.shown(90, 8).contains("      1m  "), "{}", desk.shown(90, 8));
    desk.write("p");
    assert!(!is_paused(&desk, "news"));
}

#[test]
fn failed_action_says_why() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Enter]);
    desk.write("k");
    assert!(desk.footer().contains("not buried"), "{}", desk.footer());
    let (mail, options) = (desk.store.find_tube("mail").unwrap(), desk.model.view().footer.1);
    assert_eq!(options, Tone::Bad);
    mail.admin().truncate().unwrap();
    desk.write("dy");
    assert!(desk.footer().contains('3'), "{}", desk.footer());
}

#[test]
fn filter_shows_the_rows_with_its_text() {
    let (mut desk, _worker) = busy();
    desk.write("/NEW");
    assert_eq!(desk.footer(), "/NEW");
    let shown = desk.shown(100, 12);
    assert!(shown.contains(">news") && !shown.contains("mail") && shown.contains("hourly"));
    desk.press([Key::Backspace, Key::Enter]);
    desk.press([Key::Enter, Key::Back]);
    assert!(desk.shown(100, 12).contains("tubes with \"NE\""));
    desk.press([Key::Back]);
    assert!(desk.shown(100, 20).contains(" mail"));
    desk.write("/x");
    desk.press([Key::Back]);
    assert!(desk.footer().contains("q quit") && desk.shown(100, 20).contains(">news"));
}

#[test]
fn selected_task_stays_selected_while_others_come_and_go() {
    let (clock, store) = store();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    jobs.put_many((0..5).map(|n| format!("{n}"))).unwrap();
    let mut desk = Desk::at(clock, store);
    desk.press([Key::Enter, Key::Down, Key::Down]);
    jobs.delete(0).unwrap();
    desk.change();
    assert!(desk.shown(80, 10).contains("> 2"), "{}", desk.shown(80, 10));
    jobs.delete(2).unwrap();
    desk.change();
    assert!(desk.shown(80, 10).contains("> 3"), "{}", desk.shown(80, 10));
    for id in [3, 4] {
        jobs.delete(id).unwrap();
    }
    desk.change();
    assert!(desk.shown(80, 10).contains("> 1"), "{}", desk.shown(80, 10));
}

#[test]
fn long_lists_are_read_in_parts_and_scroll() {
    let (clock, store) = store();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    jobs.put_many((0..TASKS * 2 + 50).map(|n| format!("{n}"))).unwrap();
    let mut desk = Desk::at(clock, store);
    desk.press([Key::Enter]);
    let rows = |desk: &Desk| desk.model.rows().len();
    assert_eq!(rows(&desk), TASKS);
    desk.press([Key::End]);
    assert_eq!(rows(&desk), TASKS * 2);
    assert!(desk.shown(80, 10).contains(">199"), "{}", desk.shown(80, 10));
    desk.press([Key::Down]);
    assert!(desk.shown(80, 10).contains(">200"));
    desk.press([Key::End, Key::End, Key::End]);
    assert_eq!(rows(&desk), TASKS * 2 + 50);
    assert!(desk.shown(80, 10).contains(">449"));
    desk.press([Key::PageUp]);
    assert!(desk.shown(80, 10).contains(">431"), "{}", desk.shown(80, 10));
    desk.press([Key::Home]);
    assert!(desk.shown(80, 10).contains(">  0"));
}

#[test]
fn each_list_of_the_overview_but_the_tubes_has_at_most_100_rows() {
    let (_clock, store) = store();
    let hourly = |key: String| Schedule::every(key, Duration::from_secs(3600));
    let session = store.session("").unwrap();
    for name in ["mail", "news"] {
        let created = store.create_tube(name, TubeOptions::new().driver(FIFOTTL)).unwrap();
        let tube = session.tube(&created).unwrap();
        tube.put_many(["x"; 120]).unwrap();
        for n in 0..60 {
            let failure = Failure::new(format!("group {n}"), "");
            tube.try_take().unwrap().unwrap().bury(failure).unwrap();
            let _taken = tube.try_take().unwrap().unwrap().detach();
            tube.schedule(hourly(format!("{name} {n}")), "").unwrap();
        }
    }
    let reading = read(&store, Want::Overview, Duration::ZERO).unwrap();
    let Detail::Overview(overview) = reading.detail else { panic!("{reading:?}") };
    let rows = [overview.running.len(), overview.groups.len(), overview.schedules.len()];
    assert_eq!(rows, [100; 3]);
}

#[test]
fn task_is_shown_with_the_first_64_kib_of_its_body() {
    const SHOWN: usize = 64 * 1024;
    for more in [0, 1] {
        let (_clock, store) = store();
        let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let id = jobs.put(vec![b'x'; SHOWN + more]).unwrap().id;
        let want = Want::Task { tube: "jobs".into(), id };
        let reading = read(&store, want, Duration::ZERO).unwrap();
        let Detail::Task(detail) = reading.detail else { panic!("{reading:?}") };
        let lines = super::task_view::lines(&detail, Duration::ZERO, reading.now);
        let body = lines.iter().position(|(line, _)| line == "body").unwrap() + 1;
        assert_eq!(lines[body].0, "x".repeat(SHOWN));
        let rest: Vec<&str> = lines[body + 1..].iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(rest, ["… and 1 B more"; 1][..more]);
    }
}

#[test]
fn nothing_is_read_while_nothing_changes() {
    let (mut desk, _worker) = busy();
    let before = desk.readings;
    assert_eq!(before, 2);
    for _ in 0..100 {
        desk.pass(1);
    }
    assert_eq!(desk.readings, before);
    desk.change();
    assert_eq!(desk.readings, before + 1);
    // What no event tells is read a second later, once.
    desk.pass(1);
    desk.pass(1);
    assert_eq!(desk.readings, before + 2);
}

#[test]
fn clock_of_ages_stands_still_if_there_are_none() {
    let (clock, store) = store();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let mut desk = Desk::at(clock, store);
    assert!(!desk.model.has_clock());
    jobs.put("one").unwrap();
    desk.change();
    assert!(desk.model.has_clock());
    (0..10).for_each(|_| desk.pass(1));
    assert!(desk.model.has_clock(), "a task is ready");
    jobs.try_take().unwrap().unwrap().ack().unwrap();
    desk.change();
    desk.pass(1);
    assert!(desk.model.has_clock(), "the rates are not zero yet");
    (0..10).for_each(|_| desk.pass(1));
    assert!(!desk.model.has_clock());
    jobs.put("two").unwrap();
    let _claim = jobs.try_take().unwrap();
    desk.change();
    (0..10).for_each(|_| desk.pass(1));
    assert!(desk.model.has_clock(), "a task runs");
}

#[test]
fn ages_go_on_without_readings() {
    let (mut desk, _worker) = busy();
    desk.pass(5);
    let shown = desk.shown(100, 20);
    assert!(shown.contains("worker-3   5s"), "{shown}");
    assert!(shown.contains("mail      1   5s "), "{shown}");
    assert!(shown.contains("9m55s") && shown.contains("  55s"), "{shown}");
    desk.pass(1000);
    assert!(desk.shown(100, 20).contains("hourly      0ms"), "{}", desk.shown(100, 20));
    desk.press([Key::Tab, Key::Enter]);
    desk.pass(90);
    let shown = desk.shown(100, 20);
    assert!(shown.contains("put       2026-01-01T00:00:00Z, 1m30s ago"), "{shown}");
}

/// The age is that of the task which a take would get, and not that of the oldest one.
#[test]
fn tube_shows_the_age_of_its_next_task() {
    let (clock, store) = store();
    let options = || TubeOptions::new().max_taken(1);
    let jobs = store.create_tube("jobs", options().driver(FIFOTTL)).unwrap();
    let age = |desk: &mut Desk| {
        desk.change();
        desk.model.rows()[0].cells[2].text.clone()
    };
    jobs.put("old").unwrap();
    clock.advance(Duration::from_secs(60));
    let mut desk = Desk::at(clock.clone(), store);
    assert_eq!(age(&mut desk), "1m");
    jobs.put(Put::new("urgent").priority(1)).unwrap();
    clock.advance(Duration::from_secs(2));
    assert_eq!(age(&mut desk), "2s");
    let claim = jobs.try_take().unwrap().unwrap();
    assert_eq!(age(&mut desk), "", "the tube is busy");
    claim.ack().unwrap();
    assert_eq!(age(&mut desk), "1m2s");
    jobs.admin().pause().unwrap();
    assert_eq!(age(&mut desk), "");
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let (clock, store) = store();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let mut desk = Desk::at(clock, store);
    let rates = |desk: &Desk| desk.model.rates.of("jobs").map(|rate| format!("{rate:.1}"));
    jobs.put_many((0..10).map(|n| format!("{n}"))).unwrap();
    jobs.try_take().unwrap().unwrap().ack().unwrap();
    let _failed = jobs.try_take().unwrap().unwrap().fail(Failure::new("x", "y")).unwrap();
    desk.change();
    // The first reading is two seconds old.
    assert_eq!(rates(&desk), ["5.0", "1.0", "0.5", "0.5"]);
    let shown = desk.shown(80, 5);
    assert!(shown.contains("FAIL/S  PAUSED  PUT/S  TAKE/S"), "{shown}");
    assert!(shown.contains("0.5            5.0     1.0"), "{shown}");
    (0..3).for_each(|_| desk.pass(1));
    assert_eq!(rates(&desk), ["2.0", "0.4", "0.2", "0.2"]);
    (0..3).for_each(|_| desk.pass(1));
    assert_eq!(rates(&desk), ["0.0"; 4]);
}

#[test]
fn tube_that_was_dropped_is_reported() {
    let (mut desk, _worker) = busy();
    desk.press([Key::Down, Key::Enter]);
    let news = desk.store.find_tube("news").unwrap();
    news.schedules().remove("hourly").unwrap();
    desk.store.drop_tube("news").unwrap();
    desk.change();
    assert!(desk.shown(80, 10).contains("news"), "{}", desk.shown(80, 10));
    assert!(desk.shown(80, 10).contains("not found"), "{}", desk.shown(80, 10));
    desk.press([Key::Back]);
    assert!(desk.shown(80, 10).contains(">mail"), "{}", desk.shown(80, 10));
}

#[test]
fn names_and_bodies_cannot_control_the_terminal() {
    let (clock, store) = store();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    jobs.put(Put::new("a\x1b[2Jb\tc").key("k\u{9b}2J")).unwrap();
    let mut desk = Desk::at(clock, store);
    for _ in 0..2 {
        desk.press([Key::Enter]);
        let shown = desk.shown(80, 24);
        assert!(shown.contains("k\\u{9b}2J") && !shown.contains('\x1b'), "{shown}");
    }
    assert!(desk.shown(80, 24).contains("a\\u{1b}[2Jb\\tc"), "{}", desk.shown(80, 24));
}

#[test]
fn any_size_of_the_terminal_is_drawn() {
    let (mut desk, _worker) = busy();
    for key in [Key::Char('?'), Key::Down, Key::Tab, Key::Enter, Key::Down, Key::PageDown] {
        for columns in (0..30).chain([200]) {
            for lines in 0..14 {
                desk.shown(columns, lines);
            }
        }
        desk.input(Input::Lines(1));
        desk.press([key]);
    }
}
