//! The history of a task that goes to another tube, to another run of the store, or to another store.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::{HistoryEntry, Restore};
use tubewell::{
    Counting, Durability, Error, EventKind, Failure, Filter, Keep, OnKey, Outcome, Put, Store,
    TaskState, Tube, TubeOptions,
};

use super::files::{after_a_kill, create_with, draft};
use super::history::{claim, entries, history, kinds, last, numbers};
use super::support::*;
use crate::options::only;
use crate::stores;

/// What the entries of a task say, each with its tube.
fn way(tube: &Tube, id: u64) -> Vec<(EventKind, String)> {
    entries(tube, id).into_iter().map(|entry| (entry.what, entry.tube)).collect()
}

fn said(kinds: &[(EventKind, &str)]) -> Vec<(EventKind, String)> {
    kinds.iter().map(|(kind, tube)| (*kind, (*tube).to_owned())).collect()
}

/// Another tube of the case.
fn other(case: &Case, name: &str, options: TubeOptions) -> Tube {
    case.store.create_tube(name, options.driver(case.driver)).unwrap()
}

use EventKind::{Ack, Advance, Fail, Log, Lost, Move, Put as Placed, Release, Replace, Take};

#[test]
fn moved_task_has_the_entries_of_both_tubes() {
    for_each_driver_with(ALL, history(10), |case| {
        let next = other(case, "next", history(3));
        case.put_all([0, 1]);
        claim(&case.tube).release().unwrap();
        let held = claim(&case.tube);
        assert_eq!(held.id(), 0);
        assert_eq!(case.tube.admin().move_to(&next, 0), Ok(1));
        assert_eq!(way(&next, 0), said(&[(Placed, "case"), (Take, "case"), (Move, "next")]));
        assert_eq!(numbers(&next, 0), [0, 3, 4]);
        assert_not_taken(held.ack(), 0);
        assert_eq!(case.tube.admin().move_to(&next, Filter::new()).unwrap(), 1);
        assert_eq!(way(&next, 1), said(&[(Placed, "case"), (Move, "next")]));
        // Back, through a tube that keeps nothing.
        let silent = other(case, "silent", TubeOptions::new());
        assert_eq!(next.admin().move_to(&silent, Filter::new()).unwrap(), 2);
        assert_eq!((entries(&silent, 0), entries(&silent, 1)), (vec![], vec![]));
        assert_eq!(silent.admin().move_to(&case.tube, 0), Ok(1));
        assert_eq!(way(&case.tube, 0), said(&[(Move, "case")]));
        assert_eq!(numbers(&case.tube, 0), [0]);
    });
}

#[test]
fn advanced_task_keeps_its_history() {
    for_each_driver_with(ALL, history(10), |case| {
        let next = other(case, "next", history(10).keep_done(Keep::new()));
        case.put_all([0]);
        let worker = case.store.session("worker").unwrap();
        let first = claim(&worker.tube(&case.tube).unwrap());
        case.advance(1_000);
        first.log("half").unwrap();
        first.end(Outcome::advance(&next, case.draft("y"))).unwrap();
        claim(&next).ack().unwrap();
        assert_eq!(
            way(&next, 0),
            said(&[
                (Placed, "case"),
                (Take, "case"),
                (Log, "case"),
                (Advance, "next"),
                (Take, "next"),
                (Ack, "next"),
            ])
        );
        let owners = entries(&next, 0).into_iter().map(|entry| entry.owner.is_some());
        assert!(owners.eq([false, true, true, true, false, false]));
        // Within its tube, and to a tube that keeps nothing.
        let silent = other(case, "silent", TubeOptions::new());
        case.put_all([1]);
        claim(&case.tube).end(Outcome::advance(&case.tube, case.draft("z"))).unwrap();
        assert_eq!(kinds(&case.tube, 1), [Placed, Take, Advance]);
        claim(&case.tube).end(Outcome::advance(&silent, case.draft("z"))).unwrap();
        assert_eq!(entries(&silent, 1), []);
        claim(&silent).end(Outcome::advance(&next, case.draft("z"))).unwrap();
        assert_eq!(way(&next, 1), said(&[(Take, "silent"), (Advance, "next")]));
    });
}

#[test]
fn replaced_task_keeps_its_history() {
    for_each_driver_with(ALL, history(10), |case| {
        let next = other(case, "next", history(4));
        let put = || case.draft("x").key("job").on_key(OnKey::Replace);
        case.add(put());
        let held = claim(&case.tube);
        case.add(put());
        assert_eq!(kinds(&case.tube, 0), [Placed, Take, Replace]);
        assert_not_taken(held.ack(), 0);
        next.put(put()).unwrap();
        next.requeue("job", case.draft("y")).unwrap();
        assert_eq!(
            way(&next, 0),
            said(&[(Placed, "case"), (Replace, "case"), (Replace, "next"), (Replace, "next")])
        );
        assert_eq!(numbers(&next, 0), [0, 2, 3, 4]);
        let silent = other(case, "silent", TubeOptions::new());
        silent.put(put()).unwrap();
        assert_eq!(entries(&silent, 0), []);
    });
}

#[test]
fn history_survives_close_and_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, history(4));
        tube.put(draft(driver, "x")).unwrap();
        tube.admin().log(0, "one").unwrap();
        let worker = store.session("worker").unwrap();
        let held = claim(&worker.tube(&tube).unwrap());
        file.clock.advance(secs(2));
        let (_killed, other) = after_a_kill(&file);
        let killed = other.find_tube("case").unwrap();
        assert_eq!(kinds(&killed, 0), [Placed, Log], "the claim was in memory only");
        assert_sound(&other);
        held.log("two").unwrap();
        let before = entries(&tube, 0);
        let (_killed, other) = after_a_kill(&file);
        assert_eq!(entries(&other.find_tube("case").unwrap(), 0), before);
        assert_sound(&other);
        drop((tube, worker));
        let store = file.reopen_after(store, secs(60));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.info().unwrap().history, 4);
        assert_eq!(kinds(&tube, 0), [Placed, Take, Log, Lost]);
        let lost = last(&tube, 0);
        assert_eq!((lost.number, lost.owner.as_deref()), (4, Some("worker")));
        assert_eq!(lost.at, before[0].at + secs(2));
        drop(held);
    }
}

#[test]
fn counted_take_of_a_killed_process_has_an_entry() {
    for driver in ALL {
        for counting in [Counting::Written, Counting::Flushed] {
            let file = StoreFile::new();
            let options = history(10).max_attempts(2).count_takes(counting);
            let (store, tube) = create_with(&file, driver, options);
            tube.put(draft(driver, "x")).unwrap();
            let worker = store.session("worker").unwrap();
            file.clock.advance(secs(5));
            let held = claim(&worker.tube(&tube).unwrap());
            file.clock.advance(secs(2));
            for has_logged in [false, true] {
                if has_logged {
                    held.log("half").unwrap();
                }
                let (_killed, store) = after_a_kill(&file);
                let tube = store.find_tube("case").unwrap();
                let entries = entries(&tube, 0);
                let log = [Log].into_iter().filter(|_| has_logged);
                let kinds = [Placed, Take].into_iter().chain(log).chain([Lost]);
                assert!(entries.iter().map(|entry| entry.what).eq(kinds), "{entries:?}");
                let take = &entries[1];
                assert_eq!(take.at, entries[0].at + secs(5));
                assert_eq!(take.owner.as_deref(), Some("worker"));
                assert_eq!(last(&tube, 0).owner.as_deref(), Some("worker"));
                // The last attempt: it is buried, with the cause.
                keep(claim(&tube));
                assert_sound(&store);
                drop(tube);
                stores::close(&store);
            }
            held.fail(Failure::new("g", "m")).unwrap();
            assert_eq!(kinds(&tube, 0), [Placed, Take, Log, Fail]);
            drop((tube, worker));
            drop(file.reopen(store));
        }
    }
}

/// The row that counts the take was written before the tube had a history.
#[test]
fn counted_take_before_the_history_of_its_tube_has_its_time_after_a_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let options = |history| {
            TubeOptions::new().history(history).max_attempts(2).count_takes(Counting::Flushed)
        };
        let (_store, tube) = create_with(&file, driver, options(0));
        tube.put(draft(driver, "x")).unwrap();
        file.clock.advance(secs(5));
        let held = claim(&tube);
        file.clock.advance(secs(2));
        tube.admin().alter(only(options(10))).unwrap();
        let (_killed, killed) = after_a_kill(&file);
        let entries = entries(&killed.find_tube("case").unwrap(), 0);
        assert!(entries.iter().map(|entry| entry.what).eq([Take, Lost]), "{entries:?}");
        assert_eq!(entries[0].at + secs(2), entries[1].at);
        assert_sound(&killed);
        held.ack().unwrap();
    }
}

#[test]
fn parked_claim_has_its_take_in_the_history() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, history(10));
        tube.put(draft(driver, "x")).unwrap();
        let held = claim(&tube);
        file.clock.advance(secs(1));
        let token = held.park(secs(100)).unwrap();
        assert_eq!(kinds(&tube, 0), [Placed, Take]);
        drop(tube);
        let store = file.reopen_after(store, secs(50));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(kinds(&tube, 0), [Placed, Take]);
        let resumed = store.resume_claim(&token).unwrap();
        resumed.log("on").unwrap();
        resumed.release().unwrap();
        assert_eq!(kinds(&tube, 0), [Placed, Take, Log, Release]);
        let times: Vec<_> = entries(&tube, 0).into_iter().map(|entry| entry.at).collect();
        assert_eq!(times[1], times[0]);
        assert_eq!(times[3], times[0] + secs(51));
        assert_sound(&store);
    }
}

#[test]
fn history_of_relaxed_written_and_temporary_tubes_is_complete() {
    let file = StoreFile::new();
    let store = file.open();
    for (name, options) in [
        ("relaxed", history(5).durability(Durability::relaxed())),
        ("written", history(5).durability(Durability::write())),
        ("temporary", history(5).temporary(true)),
    ] {
        let tube = store.create_tube(name, options.driver(FIFOTTL)).unwrap();
        let id = tube.put("x").unwrap().id;
        claim(&tube).release().unwrap();
        claim(&tube).bury(None).unwrap();
        assert_eq!(kinds(&tube, id)[1..], [Take, Release, Take, EventKind::Bury], "{name}");
        assert_eq!(numbers(&tube, id), [0, 1, 2, 3, 4]);
    }
    assert_sound(&store);
}

#[test]
fn restored_task_has_its_history() {
    for_each_driver_with(ALL, history(4).keep_done(Keep::new()), |case| {
        case.advance(100_000);
        case.put_all([0]);
        claim(&case.tube).fail(Failure::new("g", "m")).unwrap();
        case.tube.admin().log(0, "by hand").unwrap();
        let taken = entries(&case.tube, 0);
        let restore = |tube: &Tube, history: Vec<HistoryEntry>| {
            tube.admin().restore_many([Restore::new("x").takes(1).history(history)]).unwrap()[0].id
        };
        case.advance(5_000);
        let id = restore(&case.tube, taken.clone());
        assert_eq!(entries(&case.tube, id), taken);
        case.tube.delete(0).unwrap();
        case.tube.admin().log(id, "here").unwrap();
        assert_eq!(numbers(&case.tube, id), [0, 2, 3, 4]);
        let narrow = other(case, "narrow", history(2));
        let id = restore(&narrow, taken.clone());
        assert_eq!(entries(&narrow, id), [taken[0].clone(), taken[3].clone()]);
        let silent = other(case, "silent", TubeOptions::new());
        let id = restore(&silent, taken.clone());
        assert_eq!(entries(&silent, id), []);
        // Entries that were lost leave no gap but one.
        let damaged = [taken[1].clone(), taken[3].clone()].to_vec();
        let id = restore(&narrow, damaged);
        assert_eq!((numbers(&narrow, id), kinds(&narrow, id)), (vec![0, 3], vec![Take, Log]));
        for wrong in [
            vec![taken[1].clone(), taken[0].clone()],
            vec![taken[1].clone(), taken[1].clone()],
            vec![HistoryEntry::new(u64::MAX, taken[0].at, "case", Placed, TaskState::Ready)],
            vec![taken[0].clone().text(Some("x".repeat(1025)))],
            vec![taken[0].clone().owner(Some("x".repeat(10_000)))],
            (0..=1000)
                .map(|n| HistoryEntry::new(n, taken[0].at, "t", Log, TaskState::Ready))
                .collect(),
        ] {
            let refused = case.tube.admin().restore_many([Restore::new("x").history(wrong)]);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
    });
}

#[test]
fn backup_has_the_histories() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, history(4));
    tube.put(Put::new("x")).unwrap();
    (0..9).for_each(|n| drop(tube.admin().log(0, &n.to_string())));
    let copy = StoreFile::new();
    store.admin().backup(copy.path()).unwrap();
    let copied: Store = stores::open_with(copy.path(), Store::options().clock(&file.clock));
    assert_eq!(entries(&copied.find_tube("case").unwrap(), 0), entries(&tube, 0));
    assert_sound(&copied);
}
