//! Group K: creating, finding, emptying and dropping tubes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tubewell::driver::{Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Traits, UTUBETTL};
use tubewell::expert::OptionValue;
use tubewell::{
    Backoff, Counting, Durability, Error, Filter, Keep, Rate, TaskState, Tube, TubeOptions,
};

use super::support::*;
use crate::stores;

fn default_options() -> TubeOptions {
    TubeOptions::default()
}

fn not_found(name: &str) -> Error {
    Error::TubeNotFound { name: name.to_owned(), similar: None }
}

/// K01
#[test]
fn create_tube_with_existing_name_returns_tube_exists() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let again = case.store.create_tube("case", default_options().driver(case.driver));
        assert_eq!(again.err(), Some(Error::TubeExists { name: "case".to_owned() }));
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// K02
#[test]
fn open_tube_opens_an_existing_tube_or_creates_one() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        for same in [
            case.store.tube("case").unwrap(),
            case.store.find_tube("case").unwrap(),
            case.store.open_tube("case", default_options().driver(case.driver)).unwrap(),
        ] {
            assert_eq!((same.name(), same.driver()), ("case", case.driver));
            assert_eq!(state(&same, 0), Some(TaskState::Ready));
        }
        let new = case.store.open_tube("new", default_options().driver(case.driver)).unwrap();
        assert_eq!((new.put("x").unwrap().id, new.driver()), (1, case.driver));
        assert_eq!(case.store.tube("newer").unwrap().driver(), FIFOTTL);
        assert_eq!(case.store.tubes().unwrap().len(), 3);
    });
}

/// K03
/// Difference: a tube with another driver, or an option that never changes, is an error.
#[test]
fn open_tube_refuses_another_driver_and_what_never_changes() {
    for_each_driver(ALL, |case| {
        let other = if case.driver == FIFO { FIFOTTL } else { FIFO };
        let open = |options| case.store.open_tube("case", options).map(drop);
        let differs = |what: String| Err(Error::TubeDiffers { name: "case".into(), what });
        let driver = format!("its driver is {}, not {other:?}", case.driver);
        assert_eq!(open(default_options().max_taken(2).driver(other)), differs(driver));
        let temporary = "its option temporary is false, not true".to_owned();
        assert_eq!(open(default_options().max_taken(2).temporary(true)), differs(temporary));
        assert_eq!(case.tube.info().unwrap().max_taken, None);
    });
}

/// K03
/// Difference: the tube gets the options that are named. The others stay.
#[test]
fn open_tube_gives_every_option_that_is_named() {
    let second = secs(1);
    let store = store_in_memory();
    for driver in [UTUBETTL, LIMFIFOTTL] {
        store.create_tube(driver, default_options().driver(driver)).unwrap();
    }
    let new = default_options;
    let options = [
        (UTUBETTL, new().ttl(second)),
        (UTUBETTL, new().ttr(second)),
        (UTUBETTL, new().priority(5)),
        (LIMFIFOTTL, new().capacity(5)),
        (UTUBETTL, new().max_runtime(second)),
        (UTUBETTL, new().max_attempts(5)),
        (UTUBETTL, new().count_takes(Counting::Flushed)),
        (UTUBETTL, new().backoff(Backoff::constant(second))),
        (UTUBETTL, new().reclaim_delay(second)),
        (UTUBETTL, new().keep_done(Keep::new().count(5))),
        (UTUBETTL, new().keep_buried(Keep::new().count(5))),
        (UTUBETTL, new().max_taken(5)),
        (UTUBETTL, new().sub_queue_limit(5)),
        (UTUBETTL, new().shared_limits(true)),
        (UTUBETTL, new().sub_queue_rate(Rate::per(5, second))),
        (UTUBETTL, new().sub_queue_cooldown(second)),
        (UTUBETTL, new().rate(Rate::per(5, second))),
        (UTUBETTL, new().history(5)),
        (UTUBETTL, new().metrics(5)),
        (UTUBETTL, new().durability(Durability::relaxed())),
    ];
    let given = |tube: &Tube| tube.info().unwrap().options().given().collect::<Vec<_>>();
    let mut named = Vec::new();
    for (tube, options) in options {
        let opened = store.open_tube(tube, options.clone()).unwrap();
        named.extend(options.given().map(|(name, _)| (tube, name)));
        for (_, name) in named.iter().filter(|(of, _)| *of == tube) {
            assert!(given(&opened).iter().any(|(given, _)| given == name), "{name}");
        }
    }
    let names: BTreeSet<&str> = named.iter().map(|(_, name)| *name).collect();
    let all = store.find_tube(UTUBETTL).unwrap().info().unwrap().option_values();
    let all: BTreeSet<&str> = all.into_iter().map(|(name, _)| name).collect();
    assert_eq!(all.difference(&names).collect::<Vec<_>>(), [&"temporary"]);
    // A default that is named, too.
    for (tube, name) in named {
        let default = new().set(name, OptionValue::Without("none")).unwrap();
        let opened = store.open_tube(tube, default).unwrap();
        let is_ttr = |other: &str| name == "ttr" && other == "ttr";
        assert!(given(&opened).iter().all(|(other, _)| *other != name || is_ttr(other)), "{name}");
    }
    assert_sound(&store);
}

/// Q24
#[test]
fn rejected_create_tube_leaves_no_tube() {
    for_each_driver(ALL, |case| {
        let refused = if case.timed() && case.driver != LIMFIFOTTL {
            default_options().capacity(1)
        } else {
            default_options().ttl(secs(1)).temporary(true)
        };
        let answer = match case.driver {
            LIMFIFOTTL => case.store.create_tube("new", refused.driver("nosuch")),
            driver => case.store.create_tube("new", refused.driver(driver)),
        };
        assert!(answer.is_err(), "{answer:?}");
        assert_eq!(case.store.find_tube("new").err(), Some(not_found("new")));
        let again = case.store.create_tube("new", default_options().driver(case.driver)).unwrap();
        assert_eq!(again.put(case.draft("x")).unwrap().id, 0);
    });
}

/// K04
#[test]
fn create_tube_rejects_unknown_driver() {
    let store = store_in_memory();
    match store.create_tube("case", default_options().driver("nosuch")).err() {
        Some(Error::DriverUnknown { name, known }) => {
            assert_eq!(name, "nosuch");
            assert!(ALL.iter().all(|driver| known.contains(driver)), "{known}");
        }
        other => panic!("not refused as unknown: {other:?}"),
    }
    assert_eq!(store.tubes().unwrap().len(), 0);
    assert_sound(&store);
}

/// K05, K09
#[test]
fn tubes_are_listed_by_name() {
    let store = store_in_memory();
    for (name, driver) in [("b", FIFOTTL), ("a", FIFO), ("c", FIFO)] {
        store.create_tube(name, default_options().temporary(name == "c").driver(driver)).unwrap();
    }
    let tubes: Vec<_> = store
        .tubes()
        .unwrap()
        .into_iter()
        .map(|tube| (tube.name, tube.driver, tube.temporary))
        .collect();
    let owned =
        |name: &str, driver: &str, temporary| (name.to_owned(), driver.to_owned(), temporary);
    assert_eq!(
        tubes,
        [owned("a", FIFO, false), owned("b", FIFOTTL, false), owned("c", FIFO, true)]
    );
    assert_eq!(store.find_tube("b").unwrap().driver(), FIFOTTL);
    assert_eq!(store.find_tube("d").err(), Some(not_found("d")));
    assert_sound(&store);
}

/// K06
#[test]
fn dropped_tube_is_not_found() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        case.store.drop_tube("case").unwrap();
        assert!(case.store.tubes().unwrap().is_empty());
        assert_eq!(case.store.find_tube("case").err(), Some(not_found("case")));
        assert_eq!(case.store.drop_tube("case").err(), Some(not_found("case")));
    });
}

/// K06
#[test]
fn calls_on_dropped_tube_return_tube_dropped() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        case.store.drop_tube("case").unwrap();
        let dropped = || Some(Error::TubeDropped { name: "case".to_owned() });
        assert_eq!(case.tube.put("x").err(), dropped());
        assert_eq!(case.tube.try_take().err(), dropped());
        assert_eq!(case.tube.query().task(0).err(), dropped());
        assert_eq!(case.tube.claimed(0).and_then(tubewell::Claim::ack).err(), dropped());
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).err(), dropped());
        assert_eq!(case.tube.admin().truncate().err(), dropped());
        // A new tube of the same name is a different tube.
        let again = case.store.create_tube("case", default_options().driver(case.driver)).unwrap();
        assert_eq!(case.tube.put("x").err(), dropped());
        assert_eq!(tasks(&again), counts([]));
    });
}

/// K07
#[test]
fn drop_tube_with_taken_task_returns_tube_busy() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        match case.store.drop_tube("case") {
            Err(Error::TubeBusy { name, .. }) => assert_eq!(name, "case"),
            other => panic!("not refused: {other:?}"),
        }
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        case.store.drop_tube("case").unwrap();
    });
}

/// K08
#[test]
fn drop_tube_without_taken_tasks_succeeds() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(1, None).unwrap();
        if case.timed() {
            case.add(case.draft("late").delay(secs(10)));
            case.add(case.draft("short").ttl(secs(10)));
        }
        case.store.drop_tube("case").unwrap();
        case.advance(20_000);
        assert!(case.store.tubes().unwrap().is_empty());
    });
}

/// K10
/// Difference: a name has at most 255 bytes and no control characters.
#[test]
fn create_tube_accepts_names_without_control_characters() {
    for_each_driver(ALL, |case| {
        let long = "n".repeat(100);
        for name in ["with space", "with-dash", "with/slash", "\u{1F347} grapes", &long] {
            let tube = case.store.create_tube(name, default_options().driver(case.driver)).unwrap();
            assert_eq!(tube.name(), name);
            let id = tube.put("x").unwrap().id;
            assert_eq!(take(&case.store.find_tube(name).unwrap()), Some(id));
        }
        for name in ["", "line\n", &"n".repeat(256)] {
            let refused = case.store.create_tube(name, default_options().driver(case.driver)).err();
            assert!(matches!(refused, Some(Error::Invalid { .. })), "{name:?}: {refused:?}");
        }
    });
}

/// K10
/// Difference: a name is any text of 1 to 255 bytes without control characters, kept unchanged.
#[test]
fn tube_names_of_every_length_survive_restart() {
    let file = StoreFile::new();
    let store = file.open();
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
        let tube = store.create_tube(name, default_options().driver(FIFO)).unwrap();
        tube.put(number.to_string()).unwrap();
    }
    let long = ["n".repeat(256), "\u{e9}".repeat(128), "\u{1F347}".repeat(64)];
    let controls = ["\0", "\t", "\n", "\u{1b}", "\u{7f}", "\u{80}", "\u{85}", "\u{9f}"];
    let controls = controls.map(|control| format!("a{control}b"));
    for name in long.iter().chain(&controls).map(String::as_str).chain([""]) {
        let refused = store.create_tube(name, default_options().driver(FIFO)).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{name:?}: {refused:?}");
    }

    let store = file.reopen(store);
    let listed: Vec<String> = store.tubes().unwrap().into_iter().map(|tube| tube.name).collect();
    assert_eq!(listed, names);
    for (number, name) in names.iter().enumerate() {
        let claim = store.find_tube(name).unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.body(), number.to_string().as_bytes());
        claim.ack().unwrap();
        store.drop_tube(name).unwrap();
    }
    assert!(store.tubes().unwrap().is_empty());
    assert_sound(&store);
}

/// K11
/// Difference: the ids are not reset.
#[test]
fn dropped_tube_name_can_be_reused() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.store.drop_tube("case").unwrap();
        let again = case.store.create_tube("case", default_options().driver(FIFO)).unwrap();
        assert_eq!(again.driver(), FIFO);
        assert_eq!(take(&again), None);
        assert_eq!(again.put("x").unwrap().id, 2);
        assert_eq!(state(&again, 0), None);
    });
}

/// K12, K14
#[test]
fn truncate_removes_tasks_in_every_state() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(1, None).unwrap();
        if case.timed() {
            case.add(case.draft("late").delay(secs(10)));
        }
        case.tube.admin().truncate().unwrap();
        assert_eq!(case.tasks(), counts([]));
        for id in 0..4 {
            assert_eq!(case.state(id), None);
        }
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(10)).unwrap(), 0);
        case.advance(20_000);
        assert_eq!(case.take(), None);
        let id = case.put("x");
        assert_eq!(case.take_all(), [id]);
    });
}

/// K12
#[test]
fn truncate_frees_sub_queues() {
    for_each_driver(SUB_QUEUED, |case| {
        let put = || case.add(tubewell::Put::new("x").sub_queue("x"));
        put();
        put();
        assert_eq!(case.take_all(), [0]);
        case.tube.admin().truncate().unwrap();
        put();
        assert_eq!(case.take_all(), [2]);
    });
}

/// K14
#[test]
fn truncate_keeps_tasks_of_other_tubes() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", default_options().driver(case.driver)).unwrap();
        let kept = other.put("kept").unwrap().id;
        case.tube.admin().truncate().unwrap();
        case.tube.put_many((0..3000).map(|_| case.draft("x"))).unwrap();
        case.tube.admin().truncate().unwrap();
        assert_eq!(case.tasks(), counts([]));
        assert_eq!(tasks(&other), counts([("ready", 1), ("total", 1)]));
        assert_eq!(take(&other), Some(kept));
    });
}

/// Q17
#[test]
fn drop_tube_succeeds_after_truncate_of_taken_tasks() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().truncate().unwrap();
        case.store.drop_tube("case").unwrap();
        assert!(claim.ack().is_err());
    });
}

/// N05
#[test]
fn register_driver_rejects_existing_name() {
    let store = store_in_memory();
    let again = stores::owner(&store).admin().register_driver(LongestFirst(FIFO)).err();
    assert_eq!(again, Some(Error::DriverExists { name: FIFO.to_owned() }));
    stores::owner(&store).admin().register_driver(LongestFirst("longest-first")).unwrap();
    let again = stores::owner(&store).admin().register_driver(LongestFirst("longest-first")).err();
    assert_eq!(again, Some(Error::DriverExists { name: "longest-first".to_owned() }));
    assert_sound(&store);
}

/// N05
#[test]
fn registered_driver_decides_order_and_sub_queues() {
    let store = store_in_memory();
    stores::owner(&store).admin().register_driver(LongestFirst("longest-first")).unwrap();
    let tube = store.create_tube("case", default_options().driver("longest-first")).unwrap();
    assert_eq!(tube.driver(), "longest-first");
    tube.put_many(["a", "bbb", "aaa", "bb"]).unwrap();
    let next = || take(&tube);
    assert_eq!((next(), next(), next()), (Some(1), Some(2), None));
    tube.claimed(2).and_then(tubewell::Claim::ack).unwrap();
    assert_eq!((next(), next()), (Some(0), None));
    tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
    assert_eq!((next(), next()), (Some(3), None));
    assert_unsupported(tube.put(tubewell::Put::new("x").ttl(secs(1))), "longest-first");
    assert_sound(&store);
}

/// Takes the longest body first. The first byte of the body names the sub-queue.
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
