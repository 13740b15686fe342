//! Group K: creating, finding, emptying and dropping tubes.

use std::borrow::Cow;

use tubewell::driver::{Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Traits};
use tubewell::{Durability, Error, State, TubeOptions};

use crate::support::*;

fn plain() -> TubeOptions {
    TubeOptions::default()
}

fn if_not_exists() -> TubeOptions {
    TubeOptions::default().if_not_exists(true)
}

fn not_found(name: &str) -> Error {
    Error::TubeNotFound { name: name.to_owned() }
}

/// K01
#[test]
fn a_name_is_given_once() {
    each(ALL, |case| {
        case.put_all([0]);
        let again = case.store.create_tube("case", case.driver, plain());
        assert_eq!(again.err(), Some(Error::TubeExists { name: "case".to_owned() }));
        assert_eq!(case.state(0), Some(State::Ready));
    });
}

/// K02
#[test]
fn a_tube_that_exists_is_opened_if_that_is_asked_for() {
    each(ALL, |case| {
        case.put_all([0]);
        let same = case.store.create_tube("case", case.driver, if_not_exists()).unwrap();
        assert_eq!((same.name(), same.driver()), ("case", case.driver));
        assert_eq!(take(&same), Some(0));
        case.tube.ack(0).unwrap();
        let new = case.store.create_tube("new", case.driver, if_not_exists()).unwrap();
        assert_eq!(new.put("x").unwrap().id, 1);
    });
}

/// K03
/// Here: a tube that differs from what is asked for is not taken for it.
#[test]
fn a_tube_with_another_driver_or_other_options_is_refused() {
    each(ALL, |case| {
        let other = if case.driver == FIFO { FIFOTTL } else { FIFO };
        let differs = |options, driver| match case.store.create_tube("case", driver, options) {
            Err(Error::TubeDiffers { name, .. }) => assert_eq!(name, "case"),
            Err(error) => panic!("refused for another reason: {error:?}"),
            Ok(_) => panic!("not refused"),
        };
        differs(if_not_exists(), other);
        differs(if_not_exists().temporary(true), case.driver);
        if case.timed() {
            differs(if_not_exists().ttl(secs(5)), case.driver);
            differs(if_not_exists().ttr(secs(5)), case.driver);
            differs(if_not_exists().pri(5), case.driver);
        }
    });
}

/// K03
/// Here: whichever option differs, it is named, and the tube stays what it was.
#[test]
fn every_option_of_a_tube_that_exists_is_compared() {
    let store = store_in_memory();
    let options = || plain().ttl(secs(20)).ttr(secs(3)).pri(7).capacity(2);
    let asked = || options().if_not_exists(true);
    let tube = store.create_tube("case", LIMFIFOTTL, options()).unwrap();
    let differences = [
        ("driver", store.create_tube("case", FIFOTTL, if_not_exists().ttl(secs(20)).ttr(secs(3)))),
        ("ttl", store.create_tube("case", LIMFIFOTTL, asked().ttl(secs(21)))),
        ("ttr", store.create_tube("case", LIMFIFOTTL, asked().ttr(secs(4)))),
        ("priority", store.create_tube("case", LIMFIFOTTL, asked().pri(8))),
        ("capacity", store.create_tube("case", LIMFIFOTTL, asked().capacity(3))),
        ("temporary", store.create_tube("case", LIMFIFOTTL, asked().temporary(true))),
        (
            "durability",
            store.create_tube("case", LIMFIFOTTL, asked().durability(Durability::relaxed())),
        ),
    ];
    for (named, answer) in differences {
        match answer {
            Err(Error::TubeDiffers { name, what }) => {
                assert_eq!(name, "case");
                assert!(what.contains(named), "{named}: {what}");
            }
            other => panic!("{named}: {other:?}"),
        }
    }
    let same = store.create_tube("case", LIMFIFOTTL, asked()).unwrap();
    same.put_many(["a", "b"]).unwrap();
    assert!(matches!(tube.put("c"), Err(Error::Full { .. })));
    assert_eq!(store.tubes().len(), 1);
    assert_sound(&store);
}

/// Q24
#[test]
fn a_tube_that_was_refused_leaves_nothing_behind() {
    each(ALL, |case| {
        let refused = if case.timed() && case.driver != LIMFIFOTTL {
            plain().capacity(1)
        } else {
            plain().ttl(secs(1)).temporary(true)
        };
        let answer = match case.driver {
            LIMFIFOTTL => case.store.create_tube("new", "nosuch", refused),
            driver => case.store.create_tube("new", driver, refused),
        };
        assert!(answer.is_err(), "{answer:?}");
        assert_eq!(case.store.tube("new").err(), Some(not_found("new")));
        let again = case.store.create_tube("new", case.driver, plain()).unwrap();
        assert_eq!(again.put(case.draft("x")).unwrap().id, 0);
    });
}

/// K04
#[test]
fn an_unknown_driver_is_refused() {
    let store = store_in_memory();
    match store.create_tube("case", "nosuch", plain()).err() {
        Some(Error::DriverUnknown { name, known }) => {
            assert_eq!(name, "nosuch");
            assert!(ALL.iter().all(|driver| known.contains(driver)), "{known}");
        }
        other => panic!("not refused as unknown: {other:?}"),
    }
    assert_eq!(store.tubes().len(), 0);
    assert_sound(&store);
}

/// K05, K09
#[test]
fn a_store_lists_its_tubes_by_name() {
    let store = store_in_memory();
    for (name, driver) in [("b", FIFOTTL), ("a", FIFO), ("c", FIFO)] {
        store.create_tube(name, driver, plain().temporary(name == "c")).unwrap();
    }
    let tubes: Vec<_> =
        store.tubes().into_iter().map(|tube| (tube.name, tube.driver, tube.temporary)).collect();
    let owned =
        |name: &str, driver: &str, temporary| (name.to_owned(), driver.to_owned(), temporary);
    assert_eq!(
        tubes,
        [owned("a", FIFO, false), owned("b", FIFOTTL, false), owned("c", FIFO, true)]
    );
    assert_eq!(store.tube("b").unwrap().driver(), FIFOTTL);
    assert_eq!(store.tube("d").err(), Some(not_found("d")));
    assert_sound(&store);
}

/// K06
#[test]
fn a_dropped_tube_is_gone() {
    each(ALL, |case| {
        case.put_all([0]);
        case.store.drop_tube("case").unwrap();
        assert!(case.store.tubes().is_empty());
        assert_eq!(case.store.tube("case").err(), Some(not_found("case")));
        assert_eq!(case.store.drop_tube("case").err(), Some(not_found("case")));
    });
}

/// K06
#[test]
fn a_handle_of_a_dropped_tube_says_so() {
    each(ALL, |case| {
        case.put_all([0]);
        case.store.drop_tube("case").unwrap();
        let dropped = || Some(Error::TubeDropped { name: "case".to_owned() });
        assert_eq!(case.tube.put("x").err(), dropped());
        assert_eq!(case.tube.try_take().err(), dropped());
        assert_eq!(case.tube.peek(0).err(), dropped());
        assert_eq!(case.tube.ack(0).err(), dropped());
        assert_eq!(case.tube.kick(1).err(), dropped());
        assert_eq!(case.tube.truncate().err(), dropped());
        // A new tube of that name is another tube.
        let again = case.store.create_tube("case", case.driver, plain()).unwrap();
        assert_eq!(case.tube.put("x").err(), dropped());
        assert_eq!(tasks(&again), counts([]));
    });
}

/// K07
#[test]
fn a_tube_with_a_taken_task_is_not_dropped() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        match case.store.drop_tube("case") {
            Err(Error::TubeBusy { name, .. }) => assert_eq!(name, "case"),
            other => panic!("not refused: {other:?}"),
        }
        assert_eq!(case.state(0), Some(State::Taken));
        case.tube.ack(0).unwrap();
        case.store.drop_tube("case").unwrap();
    });
}

/// K08
#[test]
fn tasks_that_nobody_holds_do_not_keep_a_tube() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.bury(1).unwrap();
        if case.timed() {
            case.add(case.draft("late").delay(secs(10)));
            case.add(case.draft("short").ttl(secs(10)));
        }
        case.store.drop_tube("case").unwrap();
        case.advance(20_000);
        assert!(case.store.tubes().is_empty());
    });
}

/// K10
/// Here: a name has at most 255 bytes and no control characters.
#[test]
fn almost_any_text_is_a_name() {
    each(ALL, |case| {
        let long = "n".repeat(100);
        for name in ["with space", "with-dash", "with/slash", "\u{1F347} grapes", &long] {
            let tube = case.store.create_tube(name, case.driver, plain()).unwrap();
            assert_eq!(tube.name(), name);
            let id = tube.put("x").unwrap().id;
            assert_eq!(take(&case.store.tube(name).unwrap()), Some(id));
        }
        for name in ["", "line\n", &"n".repeat(256)] {
            let refused = case.store.create_tube(name, case.driver, plain()).err();
            assert!(matches!(refused, Some(Error::Invalid { .. })), "{name:?}: {refused:?}");
        }
    });
}

/// K10
/// Here: any text of 1 to 255 bytes without control characters, kept as it is.
#[test]
fn every_length_of_name_is_kept_to_the_byte() {
    let disk = Disk::new();
    let store = disk.open();
    let texts = ["n", "\u{e9}", "\u{1F347}", " ", "\"", "\\", "\u{301}"];
    let mut names: Vec<String> = (1..=255).map(|bytes| "n".repeat(bytes)).collect();
    for text in texts {
        names.push(text.repeat(255 / text.len()));
        for wide in ["\u{7ff}", "\u{ffff}", "\u{10ffff}"] {
            names.push(format!("{text}{wide}"));
        }
    }
    names.sort();
    names.dedup();
    for (number, name) in names.iter().enumerate() {
        let tube = store.create_tube(name, FIFO, plain()).unwrap();
        tube.put(number.to_string()).unwrap();
    }
    let long = ["n".repeat(256), "\u{e9}".repeat(128), "\u{1F347}".repeat(64)];
    let controls = ["\0", "\t", "\n", "\u{1b}", "\u{7f}", "\u{80}", "\u{85}", "\u{9f}"];
    let controls = controls.map(|control| format!("a{control}b"));
    for name in long.iter().chain(&controls).map(String::as_str).chain([""]) {
        let refused = store.create_tube(name, FIFO, plain()).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{name:?}: {refused:?}");
    }

    let store = disk.reopen(store);
    let listed: Vec<String> = store.tubes().into_iter().map(|tube| tube.name).collect();
    assert_eq!(listed, names);
    for (number, name) in names.iter().enumerate() {
        let claim = store.tube(name).unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.data(), number.to_string().as_bytes());
        claim.ack().unwrap();
        store.drop_tube(name).unwrap();
    }
    assert!(store.tubes().is_empty());
    assert_sound(&store);
}

/// K11
/// Here: ids go on.
#[test]
fn a_name_is_free_after_a_drop() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        case.store.drop_tube("case").unwrap();
        let again = case.store.create_tube("case", FIFO, plain()).unwrap();
        assert_eq!(again.driver(), FIFO);
        assert_eq!(take(&again), None);
        assert_eq!(again.put("x").unwrap().id, 2);
        assert_eq!(state(&again, 0), None);
    });
}

/// K12, K14
#[test]
fn a_truncate_removes_every_task() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.bury(1).unwrap();
        if case.timed() {
            case.add(case.draft("late").delay(secs(10)));
        }
        case.tube.truncate().unwrap();
        assert_eq!(case.tasks(), counts([]));
        for id in 0..4 {
            assert_eq!(case.state(id), None);
        }
        assert_not_taken(case.tube.ack(0), 0);
        assert_eq!(case.tube.kick(10).unwrap(), 0);
        case.advance(20_000);
        assert_eq!(case.take(), None);
        let id = case.put("x");
        assert_eq!(case.take_all(), [id]);
    });
}

/// K12
#[test]
fn a_truncate_frees_every_sub_queue() {
    each(SUB_QUEUED, |case| {
        let put = || case.add(tubewell::Put::new("x").sub_queue("x"));
        put();
        put();
        assert_eq!(case.take_all(), [0]);
        case.tube.truncate().unwrap();
        put();
        assert_eq!(case.take_all(), [2]);
    });
}

/// K14
#[test]
fn a_truncate_of_nothing_and_of_much_leaves_the_other_tubes_alone() {
    each(ALL, |case| {
        let other = case.store.create_tube("other", case.driver, plain()).unwrap();
        let kept = other.put("kept").unwrap().id;
        case.tube.truncate().unwrap();
        case.tube.put_many((0..3000).map(|_| case.draft("x"))).unwrap();
        case.tube.truncate().unwrap();
        assert_eq!(case.tasks(), counts([]));
        assert_eq!(tasks(&other), counts([("ready", 1), ("total", 1)]));
        assert_eq!(take(&other), Some(kept));
    });
}

/// Q17
#[test]
fn a_truncate_of_taken_tasks_lets_a_tube_be_dropped() {
    each(ALL, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.truncate().unwrap();
        case.store.drop_tube("case").unwrap();
        assert!(claim.ack().is_err());
    });
}

/// N05
#[test]
fn a_driver_is_registered_under_a_name_of_its_own() {
    let store = store_in_memory();
    let again = store.register_driver(LongestFirst(FIFO)).err();
    assert_eq!(again, Some(Error::DriverExists { name: FIFO.to_owned() }));
    store.register_driver(LongestFirst("longest-first")).unwrap();
    let again = store.register_driver(LongestFirst("longest-first")).err();
    assert_eq!(again, Some(Error::DriverExists { name: "longest-first".to_owned() }));
    assert_sound(&store);
}

/// N05
#[test]
fn a_registered_driver_decides_order_and_sub_queues() {
    let store = store_in_memory();
    store.register_driver(LongestFirst("longest-first")).unwrap();
    let tube = store.create_tube("case", "longest-first", plain()).unwrap();
    assert_eq!(tube.driver(), "longest-first");
    tube.put_many(["a", "bbb", "aaa", "bb"]).unwrap();
    let next = || take(&tube);
    assert_eq!((next(), next(), next()), (Some(1), Some(2), None));
    tube.ack(2).unwrap();
    assert_eq!((next(), next()), (Some(0), None));
    tube.ack(1).unwrap();
    assert_eq!((next(), next()), (Some(3), None));
    assert_unsupported(tube.put(tubewell::Put::new("x").ttl(secs(1))), "longest-first");
    assert_sound(&store);
}

/// The longest body first; of those with the same first byte, one at a time.
struct LongestFirst(&'static str);

impl Driver for LongestFirst {
    fn name(&self) -> &str {
        self.0
    }

    fn traits(&self) -> Traits {
        Traits { timed: false, sub_queued: true, bounded: false }
    }

    fn order(&self, task: &Draft<'_>) -> u64 {
        u64::MAX - task.body.len() as u64
    }

    fn sub_queue<'a>(&self, task: &Draft<'a>) -> Cow<'a, str> {
        String::from_utf8_lossy(task.body.get(..1).unwrap_or_default())
    }
}
