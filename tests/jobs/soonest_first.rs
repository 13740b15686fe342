//! Listings of delayed tasks in the order in which they become ready.

use std::time::Duration;

use tubewell::{Cursor, Error, Filter, Put, TaskState, Tube, TubeOptions};

use super::not_before::{HOUR, at};
use super::rng::Rng;
use super::support::*;

fn soonest() -> Filter {
    Filter::new().soonest_first()
}

/// The ids of all pages.
fn in_pages(tube: &Tube, wanted: &Filter, limit: usize) -> Vec<u64> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = tube.query().list(wanted, after, limit).unwrap();
        assert!(page.items.len() <= limit && page.damaged == 0);
        listed.extend(page.items.iter().map(|info| info.id));
        let Some(next) = page.next else { return listed };
        // As an application passes it on.
        after = Some(next.to_string().parse::<Cursor>().unwrap());
    }
}

/// The delayed tasks, sorted by what each says of itself.
fn sorted(tube: &Tube) -> Vec<u64> {
    let tasks = tube.query().list(TaskState::Delayed, None, 10_000).unwrap().items;
    let mut tasks: Vec<(Duration, u64)> =
        tasks.iter().map(|info| (info.due_in.unwrap(), info.id)).collect();
    tasks.sort_unstable();
    tasks.into_iter().map(|(_, id)| id).collect()
}

/// Q190
#[test]
fn delayed_tasks_are_listed_in_the_order_in_which_they_become_ready() {
    for_each_driver(TIMED, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let mut rng = Rng::new(7);
        for n in 0..60 {
            let after = secs(rng.below(40) + 1);
            let urgency = u32::try_from(rng.below(3)).unwrap();
            let task =
                case.draft("x").priority(urgency).tag(if n % 3 == 0 { "third" } else { "other" });
            match n % 4 {
                0 => drop(case.add(task.not_before(at(after)))),
                1 => drop(case.add(task.ttl(HOUR))),
                2 => drop(other.put(task.delay(after)).unwrap()),
                _ => drop(case.add(task.delay(after))),
            }
        }
        for _ in 0..41 {
            let all = sorted(&case.tube);
            for limit in [1, 2, 7, 10_000] {
                assert_eq!(in_pages(&case.tube, &soonest(), limit), all);
            }
            case.advance(1_000);
        }
        assert_eq!(in_pages(&case.tube, &soonest(), 3), [0; 0]);
    });
}

#[test]
fn soonest_tasks_of_a_tag_or_a_sub_queue_are_listed_alone() {
    for_each_driver(SUB_QUEUED, |case| {
        if !TIMED.contains(&case.driver) {
            return;
        }
        for (delay, sub, tag) in [(3, "a", "x"), (2, "b", "x"), (1, "a", "y"), (4, "b", "y")] {
            let task = Put::new("task").sub_queue(sub).tag(tag);
            case.tube.put(task.delay(secs(delay))).unwrap();
        }
        let listed = |wanted: Filter| in_pages(&case.tube, &wanted, 1);
        assert_eq!(listed(soonest()), [2, 1, 0, 3]);
        assert_eq!(listed(soonest().tag("x")), [1, 0]);
        assert_eq!(listed(soonest().sub_queue("a").state(TaskState::Delayed)), [2, 0]);
    });
}

#[test]
fn task_with_delay_and_moment_is_listed_by_its_delay_until_that_has_elapsed() {
    for_each_driver(TIMED, |case| {
        let both = case.add(case.draft("both").delay(secs(1)).not_before(at(secs(9))));
        let between = case.add(case.draft("between").delay(secs(5)));
        assert_eq!(in_pages(&case.tube, &soonest(), 1), [both, between]);
        case.advance(1_000);
        assert_eq!(in_pages(&case.tube, &soonest(), 1), [between, both]);
        // The wall clock brings its moment nearer.
        case.set_wall(secs(8));
        assert_eq!(in_pages(&case.tube, &soonest(), 1), [both, between]);
    });
}

#[test]
fn task_that_never_becomes_ready_by_itself_is_not_listed() {
    for_each_driver(TIMED, |case| {
        let never = case.add(case.draft("never").delay(Duration::MAX));
        let soon = case.add(case.draft("soon").delay(secs(1)));
        assert_eq!(case.state(never), Some(TaskState::Delayed));
        assert_eq!(in_pages(&case.tube, &soonest(), 9), [soon]);
    });
}

#[test]
fn page_begins_behind_its_cursor_while_delayed_tasks_come_and_go() {
    for_each_driver(TIMED, |case| {
        for n in 0..40 {
            let task = case.draft("x");
            let after = secs(n + 10);
            case.add(if n % 2 == 0 { task.delay(after) } else { task.not_before(at(after)) });
        }
        let (mut seen, mut after, mut gone) = (Vec::new(), None, Vec::new());
        let mut rng = Rng::new(11);
        loop {
            let page = case.tube.query().list(soonest(), after, 3).unwrap();
            seen.extend(page.items.iter().map(|info| info.id));
            let last = seen.last().copied().unwrap();
            for id in [last, rng.below(40)] {
                if !gone.contains(&id) && rng.one_in(2) {
                    case.tube.delete(id).unwrap();
                    gone.push(id);
                }
            }
            // One that is sooner than all, and one that is later.
            case.add(case.draft("sooner").delay(secs(1)));
            case.add(case.draft("later").delay(secs(100)));
            after = page.next;
            if after.is_none() || seen.len() > 60 {
                break;
            }
        }
        let old: Vec<u64> = seen.iter().copied().filter(|id| *id < 40).collect();
        assert!(old.is_sorted_by(|a, b| a < b), "{old:?}");
        let missed = (0..40).find(|id| !old.contains(id) && !gone.contains(id));
        assert_eq!(missed, None);
    });
}

/// The two clocks are not read at once, so a few microseconds lie between them, more or fewer with each
/// page.
#[test]
fn cursor_stays_among_tasks_with_one_moment_when_the_clocks_differ_slightly() {
    for_each_driver(TIMED, |case| {
        let all: Vec<u64> =
            (0..9).map(|_| case.add(case.draft("x").not_before(at(secs(9))))).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        for page in 1.. {
            let listed = case.tube.query().list(soonest(), after, 2).unwrap();
            seen.extend(listed.items.iter().map(|info| info.id));
            after = listed.next;
            if after.is_none() || seen.len() > all.len() {
                break;
            }
            case.set_wall(Duration::from_micros(if page % 2 == 0 { 100 } else { 200 }));
        }
        assert_eq!(seen, all);
    });
}

/// A call that holds the lock looks at a bounded number of rows.
#[test]
fn page_of_soonest_tasks_ends_early_among_the_times_of_other_tasks() {
    for_each_driver(TIMED, |case| {
        let task = |n: u64| case.draft(&format!("{n}")).ttl(HOUR);
        case.tube.put_many((0..2_500).map(task)).unwrap();
        let last = case.add(case.draft("x").delay(2 * HOUR));
        let page = case.tube.query().list(soonest(), None, 5).unwrap();
        assert_eq!((page.items.len(), page.next.is_some()), (0, true));
        assert_eq!(in_pages(&case.tube, &soonest(), 5), [last]);
    });
}

#[test]
fn conditions_that_no_delayed_task_can_meet_are_refused_with_the_soonest_first() {
    for_each_driver(ALL, |case| {
        let ready = soonest().state(TaskState::Ready);
        for wanted in [ready, soonest().newest_first(), soonest().group("g"), soonest().owner("o")]
        {
            let refused = case.tube.query().list(&wanted, None, 1).unwrap_err();
            assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
        }
        let of_others: Cursor = "1d5.7".parse().unwrap();
        let refused = case.tube.query().list(soonest(), Some(of_others), 1).unwrap_err();
        assert!(refused.to_string().contains("not of a page of delayed tasks"), "{refused}");
        let own: Cursor = "1s5.7".parse().unwrap();
        let delayed = Filter::new().state(TaskState::Delayed);
        assert!(case.tube.query().list(&delayed, Some(own.clone()), 1).is_err());
        assert_eq!(case.tube.query().list(soonest(), Some(own), 1).unwrap().items, []);
        assert!("1s5.7.x".parse::<Cursor>().is_err());
    });
}
