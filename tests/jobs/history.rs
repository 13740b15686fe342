//! The history of a task: which entries it has, and how many of them are kept.

use std::time::SystemTime;

use tubewell::driver::{FIFO, FIFOTTL, UTUBE};
use tubewell::expert::HistoryEntry;
use tubewell::{
    Claim, Error, EventKind, Failure, Filter, Keep, OnKey, Outcome, Put, TaskState, Tube,
    TubeOptions, Update,
};

use super::support::*;
use crate::options::only;
use crate::stores::{self, ManualClock};

pub fn history(entries: u32) -> TubeOptions {
    TubeOptions::new().history(entries)
}

/// The entries of a task.
pub fn entries(tube: &Tube, id: u64) -> Vec<HistoryEntry> {
    tube.query().history(id).unwrap()
}

/// What the entries of a task say.
pub fn kinds(tube: &Tube, id: u64) -> Vec<EventKind> {
    entries(tube, id).into_iter().map(|entry| entry.what).collect()
}

pub fn numbers(tube: &Tube, id: u64) -> Vec<u64> {
    entries(tube, id).into_iter().map(|entry| entry.number).collect()
}

/// The last entry of a task.
pub fn last(tube: &Tube, id: u64) -> HistoryEntry {
    entries(tube, id).pop().unwrap()
}

pub fn claim(tube: &Tube) -> Claim {
    tube.try_take().unwrap().unwrap()
}

/// What the wall clock of the case shows.
fn now(clock: &ManualClock) -> SystemTime {
    SystemTime::UNIX_EPOCH + secs(1_767_225_600) + clock.now()
}

/// Q060
#[test]
fn completed_task_has_put_take_and_ack_in_its_history() {
    for_each_driver_with(ALL, history(10).keep_done(Keep::new()), |case| {
        let mut times = vec![now(&case.clock)];
        case.put_all([0]);
        case.advance(1_000);
        times.push(now(&case.clock));
        let worker = case.store.session("worker").unwrap();
        let claim = claim(&worker.tube(&case.tube).unwrap());
        assert_eq!(kinds(&case.tube, 0), [EventKind::Put, EventKind::Take]);
        case.advance(1_000);
        times.push(now(&case.clock));
        claim.ack().unwrap();
        let entries = entries(&case.tube, 0);
        assert!(entries.iter().map(|entry| entry.at).eq(times));
        assert_eq!(entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [0, 1, 2]);
        let said = entries.iter().map(|entry| (entry.what, entry.state, entry.owner.as_deref()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                (EventKind::Put, TaskState::Ready, None),
                (EventKind::Take, TaskState::Taken, Some("worker")),
                (EventKind::Ack, TaskState::Done, Some("worker")),
            ]
        );
        assert!(entries.iter().all(|entry| entry.tube == "case" && entry.text.is_none()));
        case.tube.admin().forget(0).unwrap();
        assert_not_found(case.tube.query().history(0), 0);
    });
}

/// Q110
#[test]
fn buried_task_has_its_failure_and_its_worker_in_its_history() {
    for_each_driver_with(ALL, history(10), |case| {
        case.put_all([0]);
        let worker = case.store.session("worker").unwrap();
        let claim = claim(&worker.tube(&case.tube).unwrap());
        case.advance(1_000);
        claim.bury(Failure::new("g", "m")).unwrap();
        assert_eq!(kinds(&case.tube, 0), [EventKind::Put, EventKind::Take, EventKind::Bury]);
        let bury = last(&case.tube, 0);
        assert_eq!((bury.state, bury.owner.as_deref()), (TaskState::Buried, Some("worker")));
        assert_eq!((bury.text.as_deref(), bury.at), (Some("g: m"), now(&case.clock)));
    });
}

/// Q163
#[test]
fn failed_attempt_has_an_entry_with_its_failure() {
    for_each_driver_with(ALL, history(10).max_attempts(2), |case| {
        case.put_all([0]);
        for (n, state) in [(1, TaskState::Ready), (2, TaskState::Buried)] {
            let failure = Failure::new("timeout", format!("no answer {n}"));
            claim(&case.tube).fail(failure).unwrap();
            let fail = last(&case.tube, 0);
            assert_eq!((fail.what, fail.state), (EventKind::Fail, state));
            assert_eq!(fail.text, Some(format!("timeout: no answer {n}")));
        }
        // The text of an entry is cut, the message of the failure is not.
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        claim(&case.tube).fail(Failure::new("long", "ö".repeat(2_000))).unwrap();
        let text = last(&case.tube, 0).text.unwrap();
        assert!((1020..=1024).contains(&text.len()), "{}", text.len());
        assert_eq!(case.info(0).failure.unwrap().message.len(), 4_000);
    });
}

/// Q212
#[test]
fn entries_of_a_program_are_in_the_history() {
    for_each_driver_with(ALL, history(10).keep_done(Keep::new()), |case| {
        case.put_all([0]);
        let logged = case.tube.admin().log(0, "foo bar").unwrap();
        assert_eq!((logged.id, logged.state), (0, TaskState::Ready));
        let worker = case.store.session("worker").unwrap();
        let claim = claim(&worker.tube(&case.tube).unwrap());
        assert_eq!(claim.log("half").unwrap().state, TaskState::Taken);
        // Another caller, while it is taken.
        case.tube.admin().log(0, "hurry").unwrap();
        claim.ack().unwrap();
        assert_eq!(case.tube.admin().log(0, "").unwrap().state, TaskState::Done);
        let said: Vec<_> = entries(&case.tube, 0)
            .into_iter()
            .map(|entry| (entry.what, entry.owner.is_some(), entry.text.unwrap_or_default()))
            .collect();
        let worker = |kind, text: &str| (kind, true, text.to_owned());
        assert_eq!(
            said,
            [
                (EventKind::Put, false, String::new()),
                (EventKind::Log, false, "foo bar".to_owned()),
                worker(EventKind::Take, ""),
                worker(EventKind::Log, "half"),
                worker(EventKind::Log, "hurry"),
                worker(EventKind::Ack, ""),
                (EventKind::Log, false, String::new()),
            ]
        );
        assert_eq!(case.tube.statistics().unwrap().calls.log, 4);
        assert_not_found(case.tube.admin().log(9, "x"), 9);
        assert_not_found(case.tube.query().history(9), 9);
    });
}

#[test]
fn entry_is_refused_without_a_claim_a_history_or_with_a_long_text() {
    let is_invalid = |refused: tubewell::Result<_>, why: &str| match refused {
        Err(Error::Invalid { what: said }) => assert!(said.contains(why), "{said}"),
        other => panic!("{other:?}"),
    };
    for_each_driver_with(ALL, history(10), |case| {
        case.put_all([0]);
        is_invalid(case.tube.admin().log(0, &"x".repeat(1025)), "1024");
        let claim = claim(&case.tube);
        is_invalid(claim.log(&"ö".repeat(513)), "1026");
        claim.log(&"ö".repeat(512)).unwrap();
        assert_eq!(case.tube.admin().revoke(0), Ok(1));
        assert_not_taken(claim.log("late"), 0);
        drop(claim);
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        is_invalid(case.tube.admin().log(0, "x"), "keeps no history");
        is_invalid(case.tube.admin().log(9, "x"), "keeps no history");
        assert_eq!(numbers(&case.tube, 0), [0, 1, 2, 3]);
        let wide = case.store.create_tube("wide", history(1001).driver(case.driver));
        is_invalid(wide.map(|_| unreachable!()), "1000");
    });
}

/// Q213
#[test]
fn first_entry_and_the_newest_ones_are_kept() {
    for (limit, expected) in
        [(5, vec![0, 96, 97, 98, 99]), (2, vec![0, 99]), (1, vec![0]), (1000, (0..100).collect())]
    {
        for_each_driver_with(ALL, history(limit), |case| {
            for n in 0..100 {
                let put = Put::new(format!("{n}")).key("job").on_key(OnKey::Replace);
                assert_eq!(case.tube.put(put).unwrap().id, 0);
                assert_eq!(last(&case.tube, 0).number, if limit == 1 { 0 } else { n });
            }
            assert_eq!(numbers(&case.tube, 0), expected);
            let kinds = kinds(&case.tube, 0);
            assert_eq!(kinds[0], EventKind::Put);
            assert!(kinds[1..].iter().all(|kind| *kind == EventKind::Replace));
        });
    }
}

/// Q214
#[test]
fn history_has_puts_takes_and_entries_of_a_program_in_order() {
    for_each_driver_with(ALL, history(5).keep_done(Keep::new()), |case| {
        let put = || Put::new("x").key("job").on_key(OnKey::Replace);
        let begin = now(&case.clock);
        case.add(put());
        case.advance(2_000);
        case.add(put());
        case.advance(1_000);
        let claim = claim(&case.tube);
        case.advance(1_000);
        claim.log("custom").unwrap();
        case.advance(1_000);
        claim.ack().unwrap();
        let said = entries(&case.tube, 0)
            .into_iter()
            .map(|entry| (entry.what, entry.at.duration_since(begin).unwrap()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                (EventKind::Put, ZERO),
                (EventKind::Replace, secs(2)),
                (EventKind::Take, secs(3)),
                (EventKind::Log, secs(4)),
                (EventKind::Ack, secs(5)),
            ]
        );
    });
}

/// B001, T026
/// Difference: a task has no time of its last change but that of the newest entry of its history.
#[test]
fn first_entry_has_the_time_of_the_put() {
    for_each_driver_with(ALL, history(1), |case| {
        case.advance(12_000);
        case.put_all([0]);
        case.advance(5_000);
        let put = last(&case.tube, 0);
        assert_eq!((put.what, put.state), (EventKind::Put, TaskState::Ready));
        assert_eq!(put.at + secs(5), now(&case.clock));
    });
}

/// B015
#[test]
fn elapsed_delay_has_an_entry_with_its_time() {
    for_each_driver_with(TIMED, history(5), |case| {
        for delay in [30, 10] {
            case.add(case.draft("x").delay(secs(delay)));
        }
        let begin = now(&case.clock);
        case.advance(40_000);
        for (id, delay) in [(0, 30), (1, 10)] {
            assert_eq!(kinds(&case.tube, id), [EventKind::Put, EventKind::Delay]);
            let entry = last(&case.tube, id);
            assert_eq!((entry.at, entry.state), (begin + secs(delay), TaskState::Ready));
            assert_eq!(entries(&case.tube, id)[0].state, TaskState::Delayed);
        }
    });
}

/// How a test ends the claim that it is given.
type EndOfClaim = fn(&Case, Claim);

#[test]
fn take_has_an_entry_before_the_end_of_its_claim() {
    const RELEASE: EventKind = EventKind::Release;
    let ends: [(EndOfClaim, EventKind); 8] = [
        (
            |_, claim| {
                claim.release().unwrap();
            },
            RELEASE,
        ),
        (|_, claim| drop(claim), RELEASE),
        (|case, claim| drop((case.tube.admin().revoke(0).unwrap(), claim)), EventKind::Revoke),
        (|case, claim| drop((case.tube.admin().release(Filter::new()).unwrap(), claim)), RELEASE),
        (
            |_, claim| {
                claim.end(Outcome::snooze(ZERO)).unwrap();
            },
            EventKind::Snooze,
        ),
        (
            |_, claim| {
                claim.fail(Failure::new("g", "m")).unwrap();
            },
            EventKind::Fail,
        ),
        (|case, claim| drop((case.tube.admin().bury(0, None).unwrap(), claim)), EventKind::Bury),
        (
            |_, claim| {
                claim.bury(None).unwrap();
            },
            EventKind::Bury,
        ),
    ];
    for (end, kind) in ends {
        for_each_driver_with(ALL, history(10), |case| {
            case.put_all([0]);
            for round in 1..=3 {
                case.advance(1_000);
                let taken = now(&case.clock);
                let claim = claim(&case.tube);
                case.advance(1_000);
                end(case, claim);
                let entries = entries(&case.tube, 0);
                let [.., take, ended] = entries.as_slice() else { panic!("{entries:?}") };
                assert_eq!((take.what, take.at), (EventKind::Take, taken));
                assert_eq!((ended.what, ended.at), (kind, now(&case.clock)));
                assert_eq!(entries.iter().filter(|it| it.what == EventKind::Take).count(), round);
                case.tube.admin().kick(Filter::new().limit(1)).unwrap();
            }
        });
    }
}

/// The entry is the one that is stored later, though the take has written nothing.
#[test]
fn take_under_way_is_in_the_history() {
    for_each_driver_with(ALL, history(2), |case| {
        case.put_all([0]);
        let worker = case.store.session("worker").unwrap().tube(&case.tube).unwrap();
        for round in 1..=3 {
            case.advance(1_000);
            let (commits, taken) =
                (case.store.admin().counters().unwrap().commits, now(&case.clock));
            let claim = claim(&worker);
            case.advance(1_000);
            assert_eq!(case.store.admin().counters().unwrap().commits, commits);
            let entries = entries(&case.tube, 0);
            let [put, take] = entries.as_slice() else { panic!("{entries:?}") };
            assert_eq!((put.what, put.number), (EventKind::Put, 0));
            assert_eq!((take.what, take.state), (EventKind::Take, TaskState::Taken));
            assert_eq!((take.number, take.at), (2 * round - 1, taken));
            assert_eq!((take.owner.as_deref(), &*take.tube), (Some("worker"), "case"));
            claim.release().unwrap();
            assert_eq!(numbers(&case.tube, 0), [0, 2 * round]);
        }
    });
}

#[test]
fn expired_claim_and_ended_session_have_entries() {
    for_each_driver_with(TIMED, history(10).ttr(secs(5)), |case| {
        case.put_all([0]);
        let held = claim(&case.tube);
        case.advance(5_000);
        assert_not_taken(held.ack(), 0);
        assert_eq!(kinds(&case.tube, 0)[1..], [EventKind::Take, EventKind::Ttr]);
        let session = case.store.session("worker").unwrap();
        keep(claim(&session.tube(&case.tube).unwrap()));
        drop(session);
        assert_eq!(kinds(&case.tube, 0)[3..], [EventKind::Take, EventKind::Release]);
        assert_eq!(last(&case.tube, 0).owner.as_deref(), Some("worker"));
    });
}

#[test]
fn each_stored_change_of_a_task_has_an_entry() {
    use EventKind::{
        Block, Bury, Checkpoint, Delay, Kick, Put as Placed, Release, Take, Touch, Unblock,
        Update as Changed,
    };
    for_each_driver_with(TIMED, history(100), |case| {
        case.put_all([0, 1]);
        let tube = &case.tube;
        tube.admin().set_priority(1, 7).unwrap();
        tube.admin().set_priority(1, 7).unwrap(); // No change.
        tube.update(1, Update::new().body("y").delay(secs(1))).unwrap();
        case.advance(1_000);
        tube.admin().add_parents(1, tube, &[0]).unwrap();
        tube.admin().remove_parents(1, None).unwrap();
        tube.admin().bury(1, None).unwrap();
        tube.admin().kick(Filter::new().limit(1)).unwrap();
        let mut claim = tube.claim(1).unwrap();
        claim.touch(secs(1)).unwrap();
        claim.checkpoint("z").unwrap();
        tube.admin().set_priority(1, 8).unwrap();
        claim.renew(secs(9)).unwrap(); // Not stored.
        claim.release().unwrap();
        assert_eq!(
            kinds(tube, 1),
            [
                Placed, Changed, Changed, Delay, Block, Unblock, Bury, Kick, Take, Touch,
                Checkpoint, Changed, Release,
            ]
        );
        // The ack of a parent.
        tube.admin().add_parents(1, tube, &[0]).unwrap();
        tube.claim(0).unwrap().ack().unwrap();
        assert_eq!(kinds(tube, 1)[13..], [Block, Unblock]);
        assert_eq!(tube.claim(1).unwrap().body(), b"z");
    });
}

#[test]
fn tube_without_a_history_has_no_entries() {
    for_each_driver(&[FIFO, FIFOTTL, UTUBE], |case| {
        case.put_all([0]);
        claim(&case.tube).bury(None).unwrap();
        assert_eq!(entries(&case.tube, 0), []);
        assert_eq!(case.tube.info().unwrap().history, 0);
    });
}

#[test]
fn altered_limit_holds_from_the_next_change_on() {
    for_each_driver_with(ALL, history(10), |case| {
        case.put_all([0]);
        for n in 0..20 {
            case.tube.admin().log(0, &n.to_string()).unwrap();
        }
        let alter = |entries| {
            case.tube.admin().alter(only(history(entries))).unwrap();
            assert_eq!(case.tube.info().unwrap().history, entries);
        };
        assert_eq!(numbers(&case.tube, 0), [0, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        alter(3);
        assert_eq!(numbers(&case.tube, 0).len(), 10);
        case.tube.admin().log(0, "").unwrap();
        assert_eq!(numbers(&case.tube, 0), [0, 20, 21]);
        alter(5);
        claim(&case.tube).release().unwrap();
        assert_eq!(numbers(&case.tube, 0), [0, 20, 21, 22, 23]);
        alter(0);
        assert_eq!(numbers(&case.tube, 0).len(), 5);
        claim(&case.tube).release().unwrap();
        assert_eq!(entries(&case.tube, 0), []);
        // A history begins again, and a take before it is not in it.
        let held = claim(&case.tube);
        alter(5);
        held.release().unwrap();
        assert_eq!(kinds(&case.tube, 0), [EventKind::Take, EventKind::Release]);
        assert_eq!(numbers(&case.tube, 0), [0, 1]);
    });
}

#[test]
fn history_ends_with_its_task() {
    let ends: [fn(&Case); 6] = [
        |case| {
            claim(&case.tube).ack().unwrap();
        },
        |case| {
            case.tube.delete(0).unwrap();
        },
        |case| {
            case.tube.admin().delete(Filter::new().ids([0])).unwrap();
        },
        |case| {
            case.tube.admin().resolve(0, ()).unwrap();
        },
        |case| case.tube.admin().truncate().unwrap(),
        |case| {
            let put = Put::new("x").ttl(secs(1)).key("job").on_key(OnKey::Replace);
            if case.timed() {
                case.add(put);
            } else {
                case.tube.delete(0).map(drop).unwrap();
            }
            case.advance(2_000);
        },
    ];
    for end in ends {
        for_each_driver_with(ALL, history(100), |case| {
            case.add(case.draft("x").key("job"));
            for _ in 0..200 {
                case.tube.admin().log(0, "x").unwrap();
            }
            assert_eq!(numbers(&case.tube, 0).len(), 100);
            end(case);
            assert_not_found(case.tube.query().history(0), 0);
            // The task with the next id has a history of its own.
            let id = case.put("next");
            assert_eq!((id, numbers(&case.tube, id)), (1, vec![0]));
        });
    }
}

/// Wider than an integer of a few bytes, so that the numbers are sorted as numbers.
#[test]
fn many_entries_are_in_order() {
    let store = stores::in_memory();
    let tube = store.create_tube("case", history(1000).driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    for n in 1..=1300 {
        tube.admin().log(0, &n.to_string()).unwrap();
    }
    let texts = entries(&tube, 0).into_iter().skip(1).map(|entry| entry.text.unwrap());
    assert!(texts.eq((302..=1300).map(|n| n.to_string())));
    assert_sound(&store);
}
