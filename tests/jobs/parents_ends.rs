//! The ends of parents: what becomes of the tasks that wait for them.

use tubewell::{
    Ending, Error, EventKind, Failure, Filter, Keep, OnParent, Outcome, TaskState, TubeOptions,
};

use super::files::{create, create_with, draft, group_of_buried};
use super::support::*;
use crate::stores;

const RULES: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];

/// One child of a parent for each of the rules.
fn children(case: &Case, parent: u64) -> [u64; 3] {
    RULES.map(|rule| case.add(case.draft("child").after(&case.tube, [parent]).on_parent(rule)))
}

fn states(case: &Case, ids: [u64; 3]) -> [TaskState; 3] {
    ids.map(|id| case.state(id).unwrap())
}

/// Runs the chores.
pub fn settle(case: &Case) {
    case.advance(0);
    assert_sound(&case.store);
}

/// Q093 Q095
#[test]
fn delete_of_a_task_that_others_wait_for_is_refused() {
    for_each_driver(ALL, |case| {
        let parent = case.put("parent");
        let child = case.add(case.draft("child").after(&case.tube, [parent]));
        let grandchild = case.add(case.draft("grandchild").after(&case.tube, [child]));
        for id in [parent, child] {
            assert_eq!(case.tube.delete(id), Err(Error::HasDependents { id, count: 1 }));
        }
        assert_eq!(case.tasks(), counts([("ready", 1), ("blocked", 2), ("total", 3)]));
        for id in [grandchild, child, parent] {
            case.tube.delete(id).unwrap();
        }
        assert_eq!(case.tasks(), counts([("done", 3)]));
    });
}

/// The burial of a child removes the parent, since its tube keeps two buried tasks only.
#[test]
fn parent_that_is_trimmed_while_its_children_are_buried_is_not_waited_for() {
    for_each_driver_with(ALL, TubeOptions::new().keep_buried(Keep::new().count(2)), |case| {
        let parent = case.put("parent");
        let children = RULES.into_iter().cycle().take(12).map(|rule| {
            (rule, case.add(case.draft("child").after(&case.tube, [parent]).on_parent(rule)))
        });
        let children: Vec<_> = children.collect();
        case.tube.admin().bury(parent, None).unwrap();
        settle(case);
        assert_not_found(case.tube.query().task(parent), parent);
        let left: Vec<_> =
            children.iter().filter_map(|(rule, id)| Some((rule, case.state(*id)?))).collect();
        let states = |of: OnParent| {
            left.iter().filter(move |(rule, _)| **rule == of).map(|(_, state)| *state)
        };
        assert!(states(OnParent::Release).eq([TaskState::Ready; 4]));
        assert_eq!(case.tasks(), counts([("ready", 4), ("buried", 2), ("done", 7), ("total", 6)]));
        assert!(
            children.iter().all(|(_, id)| case
                .tube
                .query()
                .parents(*id)
                .is_ok_and(|ids| ids.is_empty())
                || case.state(*id).is_none())
        );
    });
}

/// Q183
#[test]
fn children_of_a_buried_parent_follow_their_rules() {
    for_each_driver(ALL, |case| {
        let parent = case.put("parent");
        let children @ [waits, released, buried] = children(case, parent);
        case.tube.admin().bury(parent, None).unwrap();
        settle(case);
        assert_eq!(
            states(case, children),
            [TaskState::Blocked, TaskState::Ready, TaskState::Buried]
        );
        assert_eq!(group_of_buried(&case.tube, buried).unwrap(), "parent-buried");
        assert_eq!(case.tube.query().children(parent), Ok(vec![waits, buried]));
        // The children that were buried with it still wait for it.
        assert_eq!(case.tube.kick(buried).unwrap().state, TaskState::Blocked);
        assert_eq!(case.tube.kick(parent).unwrap().state, TaskState::Ready);
        assert_eq!(case.take_all(), [parent, released]);
        case.tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take_all(), [waits, buried]);
    });
}

#[test]
fn every_bury_of_a_parent_counts() {
    let buries: [fn(&Case, u64); 4] = [
        |case, id| assert_eq!(case.tube.admin().bury(id, None).unwrap().state, TaskState::Buried),
        |case, id| {
            let claim = case.tube.claim(id).unwrap();
            claim.bury(Failure::new("g", "m")).unwrap();
        },
        |case, id| {
            let claim = case.tube.claim(id).unwrap();
            assert_eq!(claim.fail(Failure::new("g", "m")).unwrap().state, TaskState::Buried);
        },
        |case, id| drop(case.tube.claim(id).unwrap()),
    ];
    for bury in buries {
        for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
            let parent = case.put("parent");
            let children = children(case, parent);
            bury(case, parent);
            settle(case);
            assert_eq!(case.state(parent), Some(TaskState::Buried));
            assert_eq!(
                states(case, children),
                [TaskState::Blocked, TaskState::Ready, TaskState::Buried]
            );
        });
    }
}

#[test]
fn children_of_an_expired_parent_follow_their_rules() {
    for_each_driver(TIMED, |case| {
        for state in [TaskState::Ready, TaskState::Taken, TaskState::Buried, TaskState::Blocked] {
            let above = case.add(case.draft("above").ttl(secs(100)));
            let parent = case.add(
                case.draft("parent")
                    .ttl(secs(10))
                    .after(&case.tube, (state == TaskState::Blocked).then_some(above)),
            );
            match state {
                TaskState::Taken => assert_eq!(keep(case.tube.claim(parent).unwrap()), parent),
                TaskState::Buried => {
                    assert_eq!(case.tube.admin().bury(parent, None).unwrap().state, state);
                }
                _ => {}
            }
            assert_eq!(case.state(parent), Some(state));
            let rules = [OnParent::Wait, OnParent::Release, OnParent::Wait];
            let [waits, released, both] = rules.map(|rule| {
                let put = case.draft("child").after(&case.tube, [parent]).on_parent(rule);
                case.add(put)
            });
            case.tube.admin().add_parents(both, &case.tube, &[above]).unwrap();
            case.advance(10_000);
            settle(case);
            assert_eq!(case.state(parent), None);
            let children = [waits, released, both];
            assert_eq!(
                states(case, children),
                [TaskState::Buried, TaskState::Ready, TaskState::Buried]
            );
            for id in [waits, both] {
                assert_eq!(group_of_buried(&case.tube, id).unwrap(), "parent-gone");
            }
            // The other parent is still there.
            assert_eq!(case.tube.kick(both).unwrap().state, TaskState::Blocked);
            assert_eq!(case.tube.kick(waits).unwrap().state, TaskState::Ready);
            case.ack(above);
            for id in children {
                case.ack(id);
            }
        }
    });
}

#[test]
fn ttl_of_a_blocked_task_goes_on() {
    for_each_driver(TIMED, |case| {
        let parent = case.put("parent");
        let child = case.add(case.draft("child").after(&case.tube, [parent]).ttl(secs(10)));
        let grandchild = case.add(case.draft("x").after(&case.tube, [child]));
        case.advance(9_999);
        assert_eq!(case.state(child), Some(TaskState::Blocked));
        case.advance(1);
        settle(case);
        assert_eq!(case.state(child), None);
        assert_eq!(case.state(grandchild), Some(TaskState::Buried));
        assert_eq!(case.tube.query().children(parent), Ok(vec![]));
        assert_eq!(case.calls()["ttl"], 1);
    });
}

/// A child that is buried may be a parent itself.
#[test]
fn bury_of_a_parent_goes_down_a_chain_of_children_that_are_buried_with_it() {
    for_each_driver(ALL, |case| {
        let mut chain = vec![case.put("first")];
        for _ in 0..9 {
            let put = case.draft("x").after(&case.tube, chain.last().copied());
            chain.push(case.add(put.on_parent(OnParent::Bury)));
        }
        case.tube.admin().bury(chain[0], None).unwrap();
        settle(case);
        assert_eq!(case.tasks(), counts([("buried", 10), ("total", 10)]));
        assert_eq!(case.tube.admin().kick(Filter::new().limit(10)), Ok(10));
        for id in chain {
            assert_eq!(case.take_all(), [id]);
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
    });
}

#[test]
fn buried_parent_that_is_forgotten_is_gone_for_its_children() {
    let options = TubeOptions::new().keep_buried(Keep::new().count(1));
    for_each_driver(ALL, |case| {
        let tube = case.store.create_tube("kept", options.clone().driver(case.driver)).unwrap();
        let parent = tube.put(case.draft("parent")).unwrap().id;
        let child = case.add(case.draft("child").after(&tube, [parent]));
        tube.admin().bury(parent, None).unwrap();
        settle(case);
        assert_eq!(case.state(child), Some(TaskState::Blocked));
        case.advance(1);
        let other = tube.put(case.draft("x")).unwrap().id;
        tube.admin().bury(other, None).unwrap();
        settle(case);
        assert_eq!((state(&tube, parent), case.state(child)), (None, Some(TaskState::Buried)));
    });
}

#[test]
fn children_of_a_truncated_or_dropped_tube_follow_their_rules() {
    for drop_tube in [false, true] {
        for temporary in [false, true] {
            let options = TubeOptions::new().temporary(temporary);
            for_each_driver_with(all_or_few(), options.clone(), |case| {
                let tube =
                    case.store.create_tube("parents", options.clone().driver(case.driver)).unwrap();
                let parents: Vec<u64> =
                    (0..150).map(|_| tube.put(case.draft("x")).unwrap().id).collect();
                let child = |parent: u64, rule: OnParent| {
                    case.add(case.draft("child").after(&tube, [parent]).on_parent(rule))
                };
                let children: Vec<[u64; 3]> =
                    parents.iter().map(|parent| RULES.map(|rule| child(*parent, rule))).collect();
                let here = case.put("here");
                let inner = tube.put(case.draft("inner").after(&case.tube, [here])).unwrap().id;
                case.tube.admin().add_parents(children[0][1], &tube, &[inner]).unwrap();
                let buried = tube.put(case.draft("buried").after(&case.tube, [here])).unwrap().id;
                tube.admin().bury(buried, None).unwrap();
                if drop_tube {
                    case.store.drop_tube("parents").unwrap();
                } else {
                    tube.admin().truncate().unwrap();
                }
                settle(case);
                for ids in children {
                    assert_eq!(
                        states(case, ids),
                        [TaskState::Buried, TaskState::Ready, TaskState::Buried]
                    );
                    assert_eq!(case.tube.query().parents(ids[0]), Ok(vec![]));
                }
                assert_eq!(case.tube.query().children(here), Ok(vec![]));
                case.tube.delete(here).unwrap();
            });
        }
    }
}

/// I03
#[test]
fn ack_frees_64_children_with_its_commit_and_the_others_soon_after() {
    for (count, at_once) in [(1, 1), (64, 64), (65, 64), (1000, 64)] {
        for_each_driver(ALL, |case| {
            let parent = case.put("parent");
            let put = |_| case.draft("child").after(&case.tube, [parent]);
            let children = case.tube.put_many((0..count).map(put)).unwrap();
            let sum = || {
                let tasks = case.tube.statistics().unwrap().tasks;
                assert_eq!(tasks.total, tasks.ready + tasks.taken + tasks.blocked);
                (tasks.ready, tasks.blocked)
            };
            assert_eq!(sum(), (1, count));
            let claim = case.tube.claim(parent).unwrap();
            let acked = claim.ack().unwrap();
            assert!(acked.commit > children[0].commit);
            assert!(sum().0 >= at_once, "{:?}", sum());
            assert_sound(&case.store);
            settle(case);
            assert_eq!(sum(), (count, 0));
            assert_eq!(case.take_all().len() as u64, count);
        });
    }
}

/// The chore goes on in the next run: what is killed is a copy of the file after the ack.
#[test]
fn children_of_a_done_parent_are_freed_after_a_kill() {
    for driver in all_or_few() {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let parent = tube.put(draft(driver, "parent")).unwrap().id;
        let put = |n: u64| draft(driver, &n.to_string()).after(&tube, [parent]);
        tube.put_many((0..2000).map(put)).unwrap();
        tube.claim(parent).unwrap().ack().unwrap();
        let (killed_file, killed) = super::files::after_a_kill(&file);
        assert_sound(&killed);
        killed_file.clock.advance(ZERO);
        file.clock.advance(ZERO);
        for store in [&killed, &store] {
            let tube = store.find_tube("case").unwrap();
            assert_eq!(tasks(&tube), counts_of_ready(&tube, 2000));
            assert_sound(store);
        }
    }
}

fn counts_of_ready(tube: &tubewell::Tube, ready: u64) -> Counts {
    let done = tube.statistics().unwrap().tasks.done;
    let all = [("ready", ready), ("total", ready), ("done", done)];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn kept_parent_frees_its_children_and_has_none() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new().count(1)), |case| {
        let parent = case.put("parent");
        let put = |_| case.draft("child").after(&case.tube, [parent]);
        case.tube.put_many((0..100).map(put)).unwrap();
        case.tube.claim(parent).unwrap().end(Outcome::result("result")).unwrap();
        // Its end is the last one that counts, also if nothing is kept of it any more.
        case.tube.admin().forget(parent).unwrap();
        settle(case);
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 100);
    });
}

#[test]
fn events_tell_when_a_task_is_blocked_and_free() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let log = case.event_log();
        case.tube.admin().add_parents(1, &case.tube, &[0]).unwrap();
        case.tube.admin().remove_parents(1, None).unwrap();
        let block = (1, EventKind::Block, TaskState::Blocked);
        let unblock = (1, EventKind::Unblock, TaskState::Ready);
        assert_eq!(log.read(), [block, unblock]);
        let calls = case.tube.statistics().unwrap().calls;
        assert_eq!((calls.block, calls.unblock), (1, 1));
    });
}

#[test]
fn wait_for_a_blocked_task_ends_when_it_is_buried_with_its_parent() {
    for_each_driver(ALL, |case| {
        let parent = case.put("parent");
        let put = case.draft("child").after(&case.tube, [parent]).on_parent(OnParent::Bury);
        let child = case.add(put);
        assert_eq!(case.tube.ending(child), Ok(None));
        case.tube.admin().bury(parent, None).unwrap();
        settle(case);
        let Ok(Some(Ending::Buried { failure: Some(failure) })) = case.tube.ending(child) else {
            panic!("{:?}", case.tube.ending(child));
        };
        assert_eq!(failure.message, format!("its parent, task {parent}, was buried"));
        assert_eq!(case.tube.wait_done(child, ZERO).unwrap(), case.tube.ending(child).unwrap());
    });
}

#[test]
fn edges_of_purged_tasks_are_removed_after_a_compaction() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::new());
        let parents = store.create_tube("parents", TubeOptions::new().driver(driver)).unwrap();
        let parent = parents.put(draft(driver, "parent")).unwrap().id;
        let child = tube.put(draft(driver, "child").after(&parents, [parent])).unwrap().id;
        store.drop_tube("parents").unwrap();
        drop((tube, parents));
        stores::close(&store);
        tubewell::Store::options().clock(&file.clock).compact(file.path(), |_, _| {}).unwrap();
        let store = file.open();
        assert_sound(&store);
        file.clock.advance(ZERO);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(state(&tube, child), Some(TaskState::Buried));
        assert_sound(&store);
    }
}
