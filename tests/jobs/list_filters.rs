//! Listings on conditions: by state, tag, failure group, owner and sub-queue, in both orders.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::{
    Error, Failure, Filter, Keep, Page, Put, Session, Store, TaskInfo, TaskState, Tube, TubeOptions,
};

use super::rng::Rng;
use super::support::*;

fn ids(page: &Page<TaskInfo>) -> Vec<u64> {
    page.items.iter().map(|info| info.id).collect()
}

/// The ids of all pages.
fn in_pages(tube: &Tube, wanted: &Filter, limit: usize) -> Vec<u64> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = tube.query().list(wanted, after, limit).unwrap();
        assert!(page.items.len() <= limit && page.damaged == 0);
        listed.extend(ids(&page));
        after = page.next;
        if after.is_none() {
            return listed;
        }
    }
}

/// The ids of the listed tasks: the same with pages of any size, and in the reverse order.
fn listed(tube: &Tube, wanted: &Filter) -> Vec<u64> {
    let ids = in_pages(tube, wanted, 10_000);
    for limit in [1, 2, 3] {
        assert_eq!(in_pages(tube, wanted, limit), ids, "{limit} a page: {wanted:?}");
        let mut reversed = in_pages(tube, &wanted.clone().newest_first(), limit);
        reversed.reverse();
        assert_eq!(reversed, ids, "{limit} a page, reversed: {wanted:?}");
    }
    let page = tube.query().tasks(wanted, None, 10_000).unwrap();
    assert_eq!(page.items.iter().map(|task| task.info.id).collect::<Vec<u64>>(), ids);
    for task in page.items {
        assert_eq!(task, tube.query().task(task.info.id).unwrap());
    }
    ids
}

fn state(state: TaskState) -> Filter {
    Filter::new().state(state)
}

/// A tube with tasks in each state: with tags, in failure groups, with owners and in sub-queues.
struct Tasks {
    tube: Tube,
    sessions: Vec<Session>,
}

impl Tasks {
    fn put(store: &Store, driver: &str) -> Tasks {
        let keep = TubeOptions::new().keep_done(Keep::new());
        let tube = store.create_tube("tasks", keep.driver(driver)).unwrap();
        let sessions = ["ann", "bob"].map(|name| store.session(name).unwrap());
        let mut rng = Rng::new(3);
        for n in 0..120_u64 {
            let mut put = Put::new(vec![7; rng.index(1_500)]);
            for tag in 0..3 {
                if rng.one_in(2) {
                    put = put.tag(format!("t{tag}"));
                }
            }
            if SUB_QUEUED.contains(&driver) {
                put = put.sub_queue(format!("s{n}"));
            }
            let id = tube.put(put).unwrap().id;
            match rng.below(6) {
                0 => drop(tube.admin().bury(id, None).unwrap()),
                1 => {
                    let group = format!("g{}", rng.below(2));
                    tube.claim(id).unwrap().bury(Failure::new(group, "m")).unwrap();
                }
                2 => drop(tube.claim(id).unwrap().ack().unwrap()),
                3 => {
                    let session = rng.pick(&[0, 1]);
                    let _id = keep_claim(&sessions[session], &tube, id);
                }
                _ => {}
            }
        }
        Tasks { tube, sessions: sessions.into() }
    }
}

fn keep_claim(session: &Session, tube: &Tube, id: u64) -> u64 {
    keep(session.tube(tube).unwrap().claim(id).unwrap())
}

#[test]
fn listed_tasks_are_those_that_meet_all_conditions() {
    for driver in all_or_few() {
        let store = store_in_memory();
        let Tasks { tube, sessions } = Tasks::put(&store, driver);
        let all = listed(&tube, &Filter::new());
        assert_eq!(all.len(), 120);
        let states = [TaskState::Ready, TaskState::Taken, TaskState::Buried, TaskState::Done];
        let infos: Vec<_> = all.iter().map(|id| tube.query().task(*id).unwrap().info).collect();
        let label = |id| tube.query().owner(id).unwrap().and_then(|owner| owner.label);
        let mut rng = Rng::new(9);
        for _ in 0..40 {
            let mut wanted = Filter::new();
            let (mut tag, mut group, mut owner, mut in_state) = (None, None, None, None);
            if rng.one_in(2) {
                tag = Some(format!("t{}", rng.below(4)));
                wanted = wanted.tag(tag.clone().unwrap());
            }
            match rng.below(4) {
                0 => {
                    group = Some(format!("g{}", rng.below(3)));
                    wanted = wanted.group(group.clone().unwrap());
                }
                1 => {
                    owner = Some(rng.pick(&["ann", "bob", "cem"]));
                    wanted = wanted.owner(owner.unwrap());
                }
                2 => {
                    in_state = Some(rng.pick(&states));
                    wanted = wanted.state(in_state.unwrap());
                }
                _ => {}
            }
            let mut expected: Vec<u64> = infos
                .iter()
                .filter(|info| tag.as_ref().is_none_or(|tag| info.tags.contains(tag)))
                .filter(|info| group.is_none() || info.group == group)
                .filter(|info| in_state.is_none_or(|state| info.state == state))
                .filter(|info| owner.is_none_or(|of| label(info.id).as_deref() == Some(of)))
                .map(|info| info.id)
                .collect();
            let mut found = listed(&tube, &wanted);
            if tag.is_some() {
                assert!(found.is_sorted(), "{found:?}");
            }
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{wanted:?}");
        }
        let in_sub_queue = listed(&tube, &Filter::new().sub_queue("s7"));
        assert_eq!(in_sub_queue, if SUB_QUEUED.contains(driver) { vec![7] } else { vec![] });
        drop(sessions);
        assert_sound(&store);
    }
}

#[test]
fn states_are_listed_as_by_list() {
    for driver in ALL {
        let store = store_in_memory();
        let Tasks { tube, .. } = Tasks::put(&store, driver);
        for of in [
            TaskState::Ready,
            TaskState::Taken,
            TaskState::Buried,
            TaskState::Done,
            TaskState::Delayed,
        ] {
            let page = tube.query().list(of, None, 10_000).unwrap();
            assert_eq!(tube.query().list(state(of), None, 10_000).unwrap(), page, "{of}");
        }
    }
}

/// Q190 Q193
/// Difference: taken tasks are listed in the order of takes; delayed ones too, unless
/// `Filter::soonest_first` is asked for, and blocked and recurring ones in the order of their ids.
#[test]
fn pages_of_taken_and_delayed_tasks_are_disjoint_and_complete() {
    for_each_driver(TIMED, |case| {
        let taken: Vec<u64> = (0..100).map(|_| case.put("x")).collect();
        assert_eq!(case.take_all(), taken);
        let delayed: Vec<u64> =
            (0..100).map(|_| case.add(case.draft("x").delay(secs(1)))).collect();
        for (of, ids_of) in [(TaskState::Taken, &taken), (TaskState::Delayed, &delayed)] {
            let first = case.tube.query().list(state(of), None, 50).unwrap();
            let second = case.tube.query().list(state(of), first.next.clone(), 50).unwrap();
            assert_eq!((ids(&first), ids(&second)), (ids_of[..50].to_vec(), ids_of[50..].to_vec()));
            assert_eq!(second.next, None);
        }
    });
}

/// Q192
/// Difference: the size of a page is an argument.
#[test]
fn page_has_as_many_tasks_as_its_limit() {
    for_each_driver(ALL, |case| {
        for _ in 0..30 {
            case.put("x");
        }
        for limit in [1, 25, 30, 31] {
            let page = case.tube.query().list(state(TaskState::Ready), None, limit).unwrap();
            assert_eq!(page.items.len(), limit.min(30));
            assert_eq!(page.next.is_some(), limit < 30);
        }
        let empty = case.tube.query().list(Filter::new(), None, 0).unwrap();
        assert_eq!(ids(&empty), [0; 0]);
        let rest = case.tube.query().list(Filter::new(), empty.next, 99).unwrap();
        assert_eq!(rest.items.len(), 30);
    });
}

/// Q196
#[test]
fn a_task_is_counted_in_its_state_only() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").ttr(secs(60)));
        let counted = || {
            let states = [
                TaskState::Ready,
                TaskState::Taken,
                TaskState::Delayed,
                TaskState::Blocked,
                TaskState::Buried,
            ];
            let count = |of| case.tube.query().list(state(of), None, 9).unwrap().items.len();
            let listed = states.map(count);
            let tasks = case.tube.statistics().unwrap().tasks;
            let known = [tasks.ready, tasks.taken, tasks.delayed, tasks.blocked, tasks.buried];
            assert_eq!(listed.map(|count| count as u64), known);
            listed
        };
        assert_eq!(counted(), [1, 0, 0, 0, 0]);
        let claim = case.tube.claim(id).unwrap();
        assert_eq!(counted(), [0, 1, 0, 0, 0]);
        let child = case.add(case.draft("y").after(&case.tube, [id]));
        assert_eq!(counted(), [0, 1, 0, 1, 0]);
        case.tube.delete(child).unwrap();
        claim.release_in(secs(1)).unwrap();
        assert_eq!(counted(), [0, 0, 1, 0, 0]);
        case.advance(1_000);
        let _stalled = case.tube.claim(id).unwrap();
        case.advance(60_000);
        assert_eq!(counted(), [1, 0, 0, 0, 0]);
        case.tube.admin().bury(id, None).unwrap();
        assert_eq!(counted(), [0, 0, 0, 0, 1]);
    });
}

/// Q200
/// Difference: the total counts blocked and buried tasks too, and done ones not.
#[test]
fn total_is_the_number_of_tasks_that_are_not_over() {
    for_each_driver_with(TIMED, TubeOptions::new().keep_done(Keep::new()), |case| {
        case.put_all([0, 1, 2, 3]);
        case.add(case.draft("x").delay(secs(1)));
        case.add(case.draft("x").after(&case.tube, [0]));
        let _claim = case.tube.claim(0).unwrap();
        case.tube.admin().bury(1, None).unwrap();
        case.tube.claim(2).unwrap().ack().unwrap();
        assert_eq!(case.tube.statistics().unwrap().tasks.total, 5);
        assert_eq!(in_pages(&case.tube, &Filter::new(), 9).len(), 6);
    });
}

#[test]
fn page_begins_behind_its_cursor_while_tasks_come_and_go() {
    for driver in all_or_few() {
        for newest_first in [false, true] {
            for wanted in [
                Filter::new(),
                state(TaskState::Ready),
                state(TaskState::Taken),
                Filter::new().tag("t1"),
                Filter::new().group("g1"),
            ] {
                let wanted = if newest_first { wanted.newest_first() } else { wanted };
                let store = store_in_memory();
                let Tasks { tube, sessions } = Tasks::put(&store, driver);
                let before = in_pages(&tube, &wanted, 10_000);
                let (mut seen, mut after, mut gone) = (Vec::new(), None, Vec::new());
                let mut rng = Rng::new(5);
                loop {
                    let page = tube.query().list(&wanted, after, 3).unwrap();
                    seen.extend(ids(&page));
                    // The task of the cursor, and any other one.
                    for id in [seen.last().copied(), Some(rng.pick(&before))] {
                        if let Some(id) = id.filter(|id| !gone.contains(id) && rng.one_in(2)) {
                            tube.delete(id).unwrap();
                            gone.push(id);
                        }
                    }
                    let new = Put::new("new").tag("t1");
                    tube.put(if SUB_QUEUED.contains(driver) { new.sub_queue("new") } else { new })
                        .unwrap();
                    after = page.next;
                    // The new tasks of a listing could keep it going.
                    if after.is_none() || seen.len() > before.len() + 50 {
                        break;
                    }
                }
                let mut once = seen.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), seen.len(), "listed twice: {wanted:?}");
                let missed: Vec<&u64> =
                    before.iter().filter(|id| !seen.contains(id) && !gone.contains(id)).collect();
                assert!(missed.is_empty(), "{missed:?} of {wanted:?}");
                drop(sessions);
            }
        }
    }
}

/// A call that holds the lock looks at a bounded number of tasks.
#[test]
fn page_ends_early_if_few_tasks_meet_the_conditions() {
    let store = store_in_memory();
    let tube = store.create_tube("tasks", TubeOptions::new().driver(FIFO)).unwrap();
    let put = |n: u64| Put::new("x").tag("all").tag(if n % 5_000 == 4_999 { "rare" } else { "no" });
    tube.put_many((0..25_000).map(put)).unwrap();
    let buried = state(TaskState::Buried).tag("all");
    let page = tube.query().list(&buried, None, 10).unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (0, true));
    assert_eq!(in_pages(&tube, &buried, 10), [0; 0]);
    let rare: Vec<u64> = (0..5).map(|n| n * 5_000 + 4_999).collect();
    assert_eq!(in_pages(&tube, &Filter::new().tag("rare"), 2), rare);
    let owned = Filter::new().sub_queue("none");
    let page = tube.query().list(&owned, None, 10).unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (0, true));
    assert_eq!(in_pages(&tube, &owned, 10), [0; 0]);
    assert_eq!(in_pages(&tube, &Filter::new(), 10_000).len(), 25_000);
}

#[test]
fn page_with_bodies_ends_after_four_mebibytes() {
    let store = store_in_memory();
    let tube = store.create_tube("tasks", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many((0..9).map(|n| vec![n; 3 << 20])).unwrap();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = tube.query().tasks(Filter::new(), after, 100).unwrap();
        assert!(page.items.len() <= 2);
        for task in page.items {
            assert_eq!(task.body, vec![u8::try_from(task.info.id).unwrap(); 3 << 20]);
            listed.push(task.info.id);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, (0..9).collect::<Vec<u64>>());
}

#[test]
fn tasks_of_one_sub_queue_are_listed() {
    let store = store_in_memory();
    let tube = store.create_tube("tasks", TubeOptions::new().driver(UTUBE)).unwrap();
    let put = |n: u64| Put::new("x").sub_queue(["", "a", "b"][(n % 3) as usize]);
    tube.put_many((0..30).map(put)).unwrap();
    tube.admin().bury(4, None).unwrap();
    let of = |name: &str| Filter::new().sub_queue(name);
    let a: Vec<u64> = (0..10).map(|n| n * 3 + 1).filter(|id| *id != 4).collect();
    assert_eq!(listed(&tube, &of("a").state(TaskState::Ready)), a);
    assert_eq!(listed(&tube, &of("a")), [&a[..], &[4]].concat());
    assert_eq!(listed(&tube, &of("")), (0..10).map(|n| n * 3).collect::<Vec<u64>>());
    assert_eq!(listed(&tube, &of("c")), [0; 0]);
}

#[test]
fn conditions_that_no_task_can_meet_are_refused() {
    for_each_driver(&[FIFO], |case| {
        case.put("x");
        for wanted in [
            Filter::new().group("g").owner("w"),
            state(TaskState::Ready).group("g"),
            state(TaskState::Buried).owner("w"),
        ] {
            let refused = case.tube.query().list(&wanted, None, 9);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{wanted:?}: {refused:?}");
        }
        let next = case.tube.query().list(state(TaskState::Ready), None, 0).unwrap().next;
        case.tube.query().list(state(TaskState::Buried), next, 9).unwrap();
        case.put("y");
        let next = || case.tube.query().list(state(TaskState::Ready), None, 1).unwrap().next;
        let refused = case.tube.query().list(state(TaskState::Buried), next(), 9);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        let refused = case.tube.query().list(Filter::new().tag("t"), next(), 9);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    });
}
