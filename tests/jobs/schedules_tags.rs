//! Schedules whose runs have tags, a history and numbers.

use tubewell::{
    Error, EventKind, Filter, Keep, MAX_TAG, MAX_TAGS, Schedule, TaskState, TubeOptions,
};

use super::files::{after_a_kill, create};
use super::history::{history, kinds};
use super::metrics::{cycles, today, with_metrics};
use super::schedules::{MINUTE, every, only_schedule, work};
use super::support::*;
use super::tags::{tagged, tagged_put, used};
use crate::stores;

impl Case {
    /// A schedule with the key `R` whose runs have these tags.
    fn schedule_tagged(&self, tags: &[&str]) -> u64 {
        self.schedule(every(MINUTE), tagged_put(self.draft("run"), tags))
    }

    /// The id and the tags of a run.
    fn run(&self, run: u64) -> (u64, Vec<String>) {
        let info = self.store.by_key(&format!("R-{run}")).unwrap().unwrap();
        (info.id, info.tags)
    }

    fn next_run(&self) {
        self.clock.advance(MINUTE);
    }
}

fn texts(tags: &[&str]) -> Vec<String> {
    tags.iter().map(ToString::to_string).collect()
}

/// Q224
#[test]
fn runs_have_the_tags_of_their_schedule_and_are_found_by_them() {
    for_each_driver(ALL, |case| {
        let schedule = case.schedule_tagged(&["b", "a"]);
        case.advance(0);
        case.next_run();
        let (first, second) = (case.run(1), case.run(2));
        assert_eq!((&first.1, &second.1), (&texts(&["b", "a"]), &texts(&["b", "a"])));
        assert_eq!(tagged(&case.store, "a"), [first.0, second.0]);
        assert_eq!(used(&case.store), [("a".to_owned(), 2), ("b".to_owned(), 2)]);
        let claim = case.tube.claim(first.0).unwrap();
        assert_eq!(claim.tags().collect::<Vec<_>>(), ["b", "a"]);
        claim.ack().unwrap();
        assert_eq!(tagged(&case.store, "b"), [second.0]);
        assert_eq!((case.only_schedule().id, case.only_schedule().tags), (schedule, first.1));
    });
}

#[test]
fn schedule_is_not_found_by_the_tags_of_its_runs() {
    for_each_driver(ALL, |case| {
        let schedule = case.schedule_tagged(&["foo"]);
        assert_eq!(tagged(&case.store, "foo"), [0; 0]);
        case.advance(0);
        let run = case.run(1).0;
        assert_eq!(tagged(&case.store, "foo"), [run]);
        let listed = case.tube.query().list(Filter::new().tag("foo"), None, 9).unwrap();
        assert_eq!(listed.items.iter().map(|task| task.id).collect::<Vec<_>>(), [run]);
        let recurring = Filter::new().tag("foo").state(TaskState::Recurring);
        assert_eq!(case.tube.query().list(&recurring, None, 9).unwrap().items, []);
        assert_eq!(case.info(schedule).tags, [""; 0], "the tags are those of its runs");
        assert_eq!(case.tube.admin().delete(Filter::new().tag("foo")).unwrap(), 1);
        assert_eq!(case.only_schedule().tags, ["foo"]);
        case.next_run();
        assert_eq!(tagged(&case.store, "foo"), [case.run(2).0]);
    });
}

/// Q271
#[test]
fn new_tags_of_a_schedule_concern_later_runs_only() {
    for_each_driver(ALL, |case| {
        let id = case.schedule_tagged(&["old", "both"]);
        case.advance(0);
        let retag = |tags: &[&str]| {
            let task = tagged_put(case.draft("run"), tags);
            assert_eq!(case.tube.schedules().change_task("R", task).unwrap().id, id);
            assert_eq!(case.only_schedule().tags, tags);
        };
        retag(&["both", "new"]);
        case.next_run();
        assert_eq!(case.run(1).1, ["old", "both"]);
        assert_eq!(case.run(2).1, ["both", "new"]);
        case.tube.schedules().change(Schedule::of("R").times(9)).unwrap();
        assert_eq!(case.only_schedule().tags, ["both", "new"], "they stay");
        retag(&[]);
        case.next_run();
        assert_eq!(case.run(3).1, [""; 0]);
        retag(&["third"]);
        case.next_run();
        assert_eq!(case.run(4).1, ["third"]);
        let tags_of_a_run = ["both", "old"].map(|tag| tagged(&case.store, tag));
        let [first, second] = [1, 2].map(|run| case.run(run).0);
        assert_eq!(tags_of_a_run, [vec![first, second], vec![first]]);
    });
}

/// Q276
#[test]
fn tag_of_a_schedule_that_is_named_twice_is_there_once() {
    for_each_driver(ALL, |case| {
        case.schedule_tagged(&["a", "a"]);
        case.advance(0);
        assert_eq!((case.only_schedule().tags, case.run(1).1), (texts(&["a"]), texts(&["a"])));
        let task = tagged_put(case.draft("run"), &["a", "b", "b", "a"]);
        case.tube.schedules().change_task("R", task).unwrap();
        case.next_run();
        assert_eq!(case.only_schedule().tags, ["a", "b"]);
        assert_eq!(case.run(2).1, ["a", "b"]);
        assert_eq!(used(&case.store), [("a".to_owned(), 2)]);
    });
}

#[test]
fn schedule_that_is_stored_again_has_the_tags_of_its_new_task() {
    for_each_driver(ALL, |case| {
        let id = case.schedule_tagged(&["one"]);
        case.advance(0);
        assert_eq!(case.schedule_tagged(&["two"]), id);
        case.next_run();
        assert_eq!((case.run(1).1, case.run(2).1), (texts(&["one"]), texts(&["two"])));
        // In another tube.
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        other.schedules().change(Schedule::of("R")).unwrap();
        assert_eq!(only_schedule(&other).tags, ["two"]);
        case.next_run();
        assert_eq!(tagged(&case.store, "two"), [case.run(2).0, case.run(3).0]);
        assert_eq!(work(&other), ["R-3"]);
    });
}

#[test]
fn tags_and_entries_of_a_schedule_itself_are_refused() {
    for_each_driver_with(ALL, history(9), |case| {
        let id = case.schedule_tagged(&["foo"]);
        case.advance(0);
        let before = (case.only_schedule(), case.info(id), kinds(&case.tube, id));
        let refused = |answer: tubewell::Result<tubewell::Receipt>| {
            let error = answer.unwrap_err();
            let is_refused = matches!(&error, Error::NotReady { id: named, state, .. }
                if *named == id && *state == TaskState::Recurring);
            assert!(is_refused, "{error:?}");
            let after = (case.only_schedule(), case.info(id), kinds(&case.tube, id));
            assert_eq!(after, before);
            assert_eq!(tagged(&case.store, "foo"), [case.run(1).0]);
            assert_eq!(tagged(&case.store, "bar"), [0; 0]);
        };
        refused(case.tube.admin().add_tags(id, ["bar"]));
        refused(case.tube.admin().add_tags(id, ["foo"]));
        refused(case.tube.admin().remove_tags(id, ["foo"]));
        refused(case.tube.admin().log(id, "text"));
    });
}

#[test]
fn wrong_tags_of_a_schedule_change_nothing() {
    for_each_driver(ALL, |case| {
        case.schedule_tagged(&["foo"]);
        let before = case.only_schedule();
        let long = "x".repeat(MAX_TAG + 1);
        let many: Vec<String> = (0..=MAX_TAGS).map(|n| format!("t{n}")).collect();
        for wrong in [vec![String::new()], vec![long], many] {
            let put = wrong.iter().fold(case.draft("x"), |put, tag| put.tag(tag.as_str()));
            let answers = [
                case.tube.schedules().change_task("R", put.clone()),
                case.tube.schedule(every(MINUTE), put.clone()),
                case.tube.schedule(Schedule::every("S", MINUTE), put),
            ];
            for answer in answers {
                assert!(matches!(answer, Err(Error::Invalid { .. })), "{answer:?}");
            }
            assert_eq!(case.only_schedule(), before);
        }
        let largest: Vec<String> = (0..MAX_TAGS).map(|n| format!("{n:0>MAX_TAG$}")).collect();
        let put = largest.iter().fold(case.draft("x"), |put, tag| put.tag(tag.as_str()));
        case.tube.schedules().change_task("R", put).unwrap();
        case.advance(0);
        assert_eq!((case.only_schedule().tags, case.run(1).1), (largest.clone(), largest));
    });
}

#[test]
fn history_of_a_run_begins_with_spawn() {
    for_each_driver_with(ALL, history(9).keep_done(Keep::new()), |case| {
        case.schedule_tagged(&["foo"]);
        case.advance(0);
        let run = case.run(1).0;
        let entries = case.tube.query().history(run).unwrap();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(
            (entry.number, entry.what, entry.state),
            (0, EventKind::Spawn, TaskState::Ready)
        );
        let at = case.info(run).spawned_by.unwrap().moment;
        assert_eq!((entry.at, &entry.owner), (at, &None));
        case.tube.admin().log(run, "text").unwrap();
        case.tube.claim(run).unwrap().ack().unwrap();
        let expected = [EventKind::Spawn, EventKind::Log, EventKind::Take, EventKind::Ack];
        assert_eq!(kinds(&case.tube, run), expected);
    });
}

#[test]
fn stored_schedule_is_no_put_and_its_run_is_one() {
    for_each_driver_with(ALL, with_metrics(), |case| {
        let numbers = || cycles(&today(&case.store, &case.tube));
        case.schedule_tagged(&["foo"]);
        assert_eq!(numbers(), (0, 0, 0));
        case.advance(0);
        assert_eq!(numbers(), (1, 0, 0));
        case.tube.schedules().change_task("R", case.draft("run").tag("bar")).unwrap();
        assert_eq!(numbers(), (1, 0, 0));
        case.next_run();
        assert_eq!(numbers(), (2, 0, 0));
        assert_eq!(case.work(), ["R-1", "R-2"]);
        assert_eq!(numbers(), (2, 2, 2));
        case.tube.schedules().remove("R").unwrap();
        assert_eq!(numbers(), (2, 2, 2));
    });
}

#[test]
fn tags_of_schedules_survive_a_close_a_kill_and_a_copy() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let put = tagged_put(super::files::draft(driver, "x"), &["b", "a"]);
        tube.schedule(every(MINUTE), put).unwrap();
        file.tick();
        let is_there = |store: &tubewell::Store| {
            let tube = store.find_tube("case").unwrap();
            assert_eq!(only_schedule(&tube).tags, ["b", "a"]);
            assert_eq!(tagged(store, "a"), [store.by_key("R-1").unwrap().unwrap().id]);
            assert_sound(store);
        };
        is_there(&store);
        let copy = StoreFile::new();
        store.admin().backup(copy.path()).unwrap();
        is_there(&stores::open_with(copy.path(), tubewell::Store::options().clock(&file.clock)));
        let (_killed, after_kill) = after_a_kill(&file);
        is_there(&after_kill);
        drop(tube);
        let store = file.reopen(store);
        is_there(&store);
        stores::close(&store);
        let mut tags = Vec::new();
        let salvage = |found: tubewell::expert::Salvaged| {
            if let tubewell::expert::Salvaged::Schedule { schedule, .. } = found {
                tags.push(schedule.tags);
            }
            Ok(())
        };
        tubewell::Store::options().clock(&file.clock).salvage(file.path(), salvage).unwrap();
        assert_eq!(tags, [["b", "a"]], "{driver}");
    }
}
