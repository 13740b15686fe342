//! Outcomes: the end of a task, and everything that follows from it, with one commit.

use std::task::Waker;
use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE};
use tubewell::{
    Durability, Ending, Error, EventKind, Filter, Keep, Outcome, Put, TaskState, TubeOptions,
};

use super::executor::{block_on, poll_pending, with_timeout};
use super::files::{after_a_kill, create_with};
use super::moves::{done, listed, other};
use super::support::*;
use super::wait::{on_disk, wait_for};
use crate::stores;

#[test]
fn finish_acks_with_a_result_and_puts() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let mail = other(&case.store, case.driver);
        let id = case.put("x");
        let wait = wait_for(&case.tube, id);
        let claim = case.tube.try_take().unwrap().unwrap();
        let finish = Outcome::result("R")
            .and_put(&mail, case.draft("to: ann"))
            .and_put(&case.tube, case.draft("again"))
            .and_put(&mail, case.draft("to: bob"));
        let before = case.store.admin().counters().unwrap().commits;
        let receipt = claim.end(finish).unwrap();
        assert_eq!((receipt.id, receipt.state), (id, TaskState::Done));
        assert_eq!(case.store.admin().counters().unwrap().commits - before, 1);
        assert_eq!(wait.answer(), Ok(Some(done("R"))));
        assert_eq!(case.tube.ending(id), Ok(Some(done("R"))));
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1), ("done", 1)]));
        assert_eq!((listed(&mail, TaskState::Ready), listed(&case.tube, TaskState::Ready)), {
            (vec![id + 1, id + 3], vec![id + 2])
        });
        assert_eq!(mail.query().task(id + 3).unwrap().body, b"to: bob");
        assert_eq!((case.calls()["ack"], calls(&mail)["put"]), (1, 2));
    });
}

#[test]
fn finish_advances_and_puts() {
    for_each_driver(ALL, |case| {
        let (next, mail) = (
            other(&case.store, case.driver),
            case.store.create_tube("mail", TubeOptions::new().driver(FIFO)),
        );
        let mail = mail.unwrap();
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        let finish =
            Outcome::advance(&next, case.draft("y")).and_put(&mail, "a").and_put(&mail, "b");
        let receipt = claim.end(finish).unwrap();
        assert_eq!((receipt.id, receipt.state), (id, TaskState::Ready));
        assert_eq!(next.try_take().unwrap().unwrap().body(), b"y");
        assert_eq!(listed(&mail, TaskState::Ready), [id + 1, id + 2]);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

#[test]
fn finish_without_anything_is_an_ack() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let log = case.event_log();
        let [plain, with_result] = [0, 1].map(|id| case.tube.claim(id).unwrap());
        let wait = wait_for(&case.tube, 1);
        plain.end(Outcome::done()).unwrap();
        with_result.end(Outcome::result("R")).unwrap();
        assert_eq!(wait.answer(), Ok(Some(done("R"))));
        assert_eq!(log.read().split_off(2), [0, 1].map(|id| (id, EventKind::Ack, TaskState::Done)));
    });
}

#[test]
fn refused_finish_changes_nothing() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let next = other(&case.store, case.driver);
        let small = TubeOptions::new().capacity(2);
        let small = case.store.create_tube("small", small.driver(LIMFIFOTTL)).unwrap();
        let plain = case.store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let memory = TubeOptions::new().temporary(true);
        let memory = case.store.create_tube("memory", memory.driver(FIFO)).unwrap();
        let elsewhere = store_in_memory();
        let elsewhere = elsewhere.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let gone = case.store.create_tube("gone", TubeOptions::new().driver(FIFO)).unwrap();
        case.store.drop_tube("gone").unwrap();
        let id = case.put("x");
        let before = (
            Outcome::result("R").and_put(&next, case.draft("a")),
            case.store.admin().next_id().unwrap(),
        );
        let all = |outcome: Outcome| outcome.and_put(&next, case.draft("b"));
        let invalid = [
            all(before.0.clone().and_put(&memory, "b")),
            all(before.0.clone().and_put(&elsewhere, "b")),
            all(before.0.clone().and_put(&plain, vec![0; tubewell::MAX_BODY + 1])),
            all(Outcome::result(vec![0; tubewell::MAX_BODY + 1])),
        ];
        for finish in invalid {
            let refused = case.tube.claim(id).unwrap().end(finish);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        let three = ["b", "c", "d"]
            .into_iter()
            .fold(before.0.clone(), |finish, body| finish.and_put(&small, body));
        let full = Error::Full { tube: "small".into(), capacity: 2 };
        assert_eq!(case.tube.claim(id).unwrap().end(all(three.clone())), Err(full.clone()));
        let refused = case.tube.claim(id).unwrap().into_async().end(three);
        assert_eq!(refused.wait(), Err(full));
        let unsupported = all(before.0.clone().and_put(&plain, Put::new("b").priority(1)));
        assert_unsupported(case.tube.claim(id).unwrap().end(unsupported), FIFO);
        let dropped = case.tube.claim(id).unwrap().end(all(before.0.clone().and_put(&gone, "b")));
        assert_eq!(dropped, Err(Error::TubeDropped { name: "gone".into() }));
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
        for tube in [&next, &small, &plain, &memory] {
            assert_eq!(tasks(tube), counts([]));
        }
        assert_eq!(case.store.admin().next_id().unwrap(), before.1);
        // And what was refused is accepted when nothing is in its way.
        case.tube.claim(id).unwrap().end(before.0).unwrap();
    });
}

#[test]
fn finish_of_ended_claim_is_refused() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(case.tube.admin().revoke(id), Ok(1));
        let current = case.tube.try_take().unwrap().unwrap();
        let finish = Outcome::advance(&next, "b").and_put(&next, "a");
        assert_not_taken(claim.end(finish.clone()), id);
        assert_eq!(tasks(&next), counts([]));
        current.end(finish).unwrap();
        assert_eq!(listed(&next, TaskState::Ready), [id, id + 1]);
        if case.timed() {
            let id = case.add(case.draft("x").ttr(secs(1)));
            let late = case.tube.try_take().unwrap().unwrap();
            case.advance(1000);
            assert_not_taken(late.end(Outcome::done().and_put(&next, "c")), id);
        }
    });
}

/// The tasks of one finish count towards the capacity together, and the finished one not at all.
#[test]
fn tasks_of_a_finish_share_the_capacity_of_a_tube() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(3), |case| {
        for body in ["a", "b", "c"] {
            case.put(body);
        }
        let full = Error::Full { tube: "case".into(), capacity: 3 };
        let twice = |outcome: Outcome| outcome.and_put(&case.tube, "d").and_put(&case.tube, "e");
        assert_eq!(case.tube.claim(0).unwrap().end(twice(Outcome::done())), Err(full.clone()));
        case.tube.claim(0).unwrap().end(Outcome::done().and_put(&case.tube, "d")).unwrap();
        assert_eq!(case.tasks()["total"], 3);
        let mut put = case.tube.to_async().put_timeout("waits", Duration::MAX);
        poll_pending(&mut put, Waker::noop());
        case.tube.claim(1).unwrap().end(Outcome::done().and_put(&case.tube, "e")).unwrap();
        assert_eq!(case.tasks()["total"], 3);
        poll_pending(&mut put, Waker::noop());
        case.tube.delete(2).unwrap();
        block_on(put).unwrap();
        case.tube.delete(3).unwrap();
        // Two places: one is free, one is that of the finished task.
        case.tube.claim(4).unwrap().end(twice(Outcome::done())).unwrap();
        assert_eq!(case.tasks()["total"], 3);
    });
}

#[test]
fn takers_of_all_tubes_get_what_a_finish_puts() {
    with_timeout(|| {
        let (disk, _, store, tube) = on_disk(UTUBE);
        let next = other(&store, FIFOTTL);
        let id = tube.put(Put::new("x").sub_queue("host")).unwrap().id;
        let second = tube.put(Put::new("y").sub_queue("host")).unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        let takes = [
            WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT)),
            WaitingTake::begin(next.to_async().take_timeout(NO_TIMEOUT)),
            WaitingTake::begin(next.to_async().take_timeout(NO_TIMEOUT)),
        ];
        let finish = Outcome::advance(&next, "first").and_put(&next, Put::new("urgent"));
        let ticket = disk.block_flush_of(|| claim.into_async().end(finish));
        let mut takes = takes;
        assert!(takes.iter_mut().all(WaitingTake::is_pending));
        assert_eq!(tube.statistics().unwrap().tasks.taken, 1);
        stores::settle(&store);
        disk.unblock_flushes();
        ticket.wait().unwrap();
        assert_eq!(takes.map(WaitingTake::id), [Some(second), Some(id), Some(id + 2)]);
        assert_sound(&store);
    });
}

/// A relaxed tube does not weaken the flush of the other one, and its wait gets the result.
#[test]
fn finish_with_a_flushed_tube_is_flushed() {
    with_timeout(|| {
        let (disk, _, store, strong) = on_disk(FIFO);
        for durability in [Durability::relaxed(), Durability::write()] {
            let options = TubeOptions::new().durability(durability);
            let name = format!("{durability}");
            let weak = store.open_tube(&name, options.driver(FIFO)).unwrap();
            let id = weak.put("x").unwrap().id;
            let claim = weak.try_take().unwrap().unwrap();
            let finish = Outcome::result("R").and_put(&strong, "y");
            let ticket = disk.block_flush_of(|| claim.into_async().end(finish));
            let wait = wait_for(&weak, id);
            assert_eq!(weak.statistics().unwrap().tasks.taken, 1);
            stores::settle(&store);
            disk.unblock_flushes();
            ticket.wait().unwrap();
            assert_eq!(super::wait::end_of(wait), Ok(Some(done("R"))));
            strong.try_take().unwrap().unwrap().ack().unwrap();
        }
        assert_sound(&store);
    });
}

/// I07
#[test]
fn kill_leaves_all_of_a_finish_or_nothing() {
    for driver in ALL {
        let file = StoreFile::new();
        let keep = TubeOptions::new().keep_done(Keep::new());
        let (store, tube) = create_with(&file, driver, keep);
        let mail = other(&store, driver);
        let mut images = Vec::new();
        for round in 0..4 {
            tube.put(format!("{round}")).unwrap();
            let claim = tube.try_take().unwrap().unwrap();
            let finish = Outcome::result("R").and_put(&mail, vec![7; 3000]).and_put(&mail, "b");
            images.push((round, after_a_kill(&file)));
            match round {
                3 => drop(claim.end(Outcome::advance(&mail, "d").and_put(&mail, "c")).unwrap()),
                _ => drop(claim.end(finish).unwrap()),
            }
        }
        images.push((4, after_a_kill(&file)));
        for (round, (_image, killed)) in images {
            assert_sound(&killed);
            let (tube, mail) =
                (killed.find_tube("case").unwrap(), killed.find_tube("other").unwrap());
            let (ended, open) = (round.min(3), u64::from(round < 4));
            let statistics = tube.statistics().unwrap().tasks;
            assert_eq!((statistics.kept, statistics.ready), (ended, open));
            assert_eq!(mail.statistics().unwrap().tasks.ready, 2 * round);
        }
        assert_sound(&store);
    }
}

#[test]
fn typed_claims_advance_and_finish() {
    for_each_driver(ALL, |case| {
        let numbers = case.tube.typed::<u64>();
        let words = other(&case.store, case.driver).typed::<String>();
        numbers.put(7).unwrap();
        numbers
            .try_take()
            .unwrap()
            .unwrap()
            .end(Outcome::advance(&words, "seven".to_owned()))
            .unwrap();
        let seven = words.try_take().unwrap().unwrap();
        assert_eq!((seven.id(), seven.value().as_str()), (0, "seven"));
        let finish = Outcome::done().and_put(&numbers, 8);
        seven.into_async().end(finish).wait().unwrap();
        let eight = numbers.try_take().unwrap().unwrap();
        let word = "eight".to_owned();
        eight.into_async().end(Outcome::advance(&words, &word)).wait().unwrap();
        assert_eq!(words.try_take().unwrap().unwrap().value(), "eight");
        let more = case.store.create_tube("more", TubeOptions::new().driver(case.driver)).unwrap();
        let more = more.typed::<String>();
        assert_eq!(words.admin().move_to(&more, 1), Ok(1));
        assert_eq!(
            (
                more.admin().move_to(&words, Filter::new()),
                words.admin().move_to(&more, Filter::new())
            ),
            (Ok(1), Ok(1))
        );
        assert_eq!(more.to_async().admin().move_to(&words, 1).wait(), Ok(1));
        assert_eq!(block_on(words.to_async().admin().move_to(&more, Filter::new())), Ok(1));
        assert_eq!(*more.try_take().unwrap().unwrap().value(), word);
        assert_eq!(more.ending(0), Ok(Some(Ending::Gone)));
    });
}
