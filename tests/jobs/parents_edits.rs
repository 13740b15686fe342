//! Tasks that wait for each other, and calls that move, replace or delete them.

use tubewell::{
    Error, Filter, Keep, OnKey, OnParent, Outcome, Put, TaskState, Tube, TubeOptions, Update,
};

use super::support::*;

fn other(case: &Case) -> Tube {
    case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap()
}

fn child_of(case: &Case, parent: u64) -> u64 {
    case.add(case.draft("child").after(&case.tube, [parent]))
}

/// Q073
#[test]
fn task_that_advances_keeps_its_children() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let parent = case.put("parent");
        let child = child_of(case, parent);
        let claim = case.tube.claim(parent).unwrap();
        claim.end(Outcome::advance(&other, case.draft("next"))).unwrap();
        assert_eq!(case.state(child), Some(TaskState::Blocked));
        assert_eq!(other.query().children(parent), Ok(vec![child]));
        // A child that is put afterwards finds it, whichever tube is named.
        let late = child_of(case, parent);
        other.claim(parent).unwrap().ack().unwrap();
        assert_eq!(case.take_all(), [child, late]);
    });
}

/// Its tube knows that it was put there.
#[test]
fn parent_that_has_left_the_tube_that_is_named_is_waited_for() {
    type Leave = fn(&Case, &Tube, u64);
    let leaves: [Leave; 3] = [
        |case, other, parent| {
            assert_eq!(case.tube.admin().move_to(other, parent), Ok(1));
        },
        |case, other, parent| {
            let claim = case.tube.claim(parent).unwrap();
            claim.end(Outcome::advance(other, case.draft("next"))).unwrap();
        },
        |case, other, parent| {
            let put = case.draft("next").key("k").on_key(OnKey::Replace);
            assert_eq!(other.put(put).unwrap().id, parent);
        },
    ];
    for leave in leaves {
        for_each_driver(ALL, |case| {
            let other = other(case);
            let parent = case.add(case.draft("parent").key("k"));
            leave(case, &other, parent);
            let child = child_of(case, parent);
            assert_eq!(case.state(child), Some(TaskState::Blocked));
            assert_eq!(other.admin().move_to(&case.tube, parent), Ok(1));
            let late = case.add(case.draft("child").after(&other, [parent]));
            assert_eq!(case.state(late), Some(TaskState::Blocked));
            case.ack(parent);
            assert_eq!(case.take_all(), [child, late]);
        });
    }
}

#[test]
fn parent_that_an_earlier_put_of_the_same_call_moves_is_waited_for() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let parent = case.add(case.draft("parent").key("k"));
        let replaces = case.draft("next").key("k").on_key(OnKey::Replace);
        let child = case.draft("child").after(&case.tube, [parent]);
        let receipts = other.put_many([replaces, child]).unwrap();
        let states: Vec<TaskState> = receipts.iter().map(|receipt| receipt.state).collect();
        assert_eq!((receipts[0].id, states), (parent, vec![TaskState::Ready, TaskState::Blocked]));
    });
}

/// Q070 Q071
#[test]
fn task_that_advances_may_wait_for_others() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let (task, parent) = (case.put("task"), case.put("parent"));
        let put = case.draft("next").after(&case.tube, [parent]);
        let delay = if case.timed() { secs(10) } else { ZERO };
        let claim = case.tube.claim(task).unwrap();
        assert_eq!(
            claim.end(Outcome::advance(&other, put.delay(delay))).unwrap().state,
            TaskState::Blocked
        );
        assert_eq!(other.query().parents(task), Ok(vec![parent]));
        assert_eq!(case.take_all(), [parent]);
        case.advance(3000);
        case.tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap();
        let state = if case.timed() { TaskState::Delayed } else { TaskState::Ready };
        assert_eq!(state_of(&other, task), state);
        case.advance(7000);
        assert_eq!(take(&other), Some(task));
    });
}

fn state_of(tube: &Tube, id: u64) -> TaskState {
    state(tube, id).unwrap()
}

#[test]
fn task_that_advances_to_wait_for_its_own_child_is_refused() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let parent = case.put("parent");
        let child = child_of(case, parent);
        for id in [parent, child] {
            let claim = case.tube.claim(parent).unwrap();
            let refused =
                claim.end(Outcome::advance(&other, case.draft("next").after(&case.tube, [id])));
            assert_eq!(refused.err(), Some(Error::Cycle { id: parent }));
            assert_eq!(case.tube.query().children(parent), Ok(vec![child]));
        }
        assert_eq!(case.take_all(), [parent]);
    });
}

#[test]
fn finish_frees_children_and_its_puts_may_wait_for_others() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        case.put_all([0, 1]);
        let put = |_| case.draft("child").after(&case.tube, [0]);
        case.tube.put_many((0..70).map(put)).unwrap();
        let finish = Outcome::done()
            .and_put(&other, case.draft("free").after(&case.tube, [0]))
            .and_put(&other, case.draft("waits").after(&case.tube, [1]));
        case.tube.claim(0).unwrap().end(finish).unwrap();
        let counts = |tube: &Tube| {
            let tasks = tube.statistics().unwrap().tasks;
            (tasks.ready, tasks.blocked)
        };
        assert!(counts(&case.tube).0 >= 65);
        assert_eq!(counts(&other), (1, 1));
        case.advance(0);
        assert_eq!(counts(&case.tube), (71, 0));
    });
}

#[test]
fn puts_of_a_finish_wait_for_the_task_that_goes_on() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let task = case.add(case.draft("task").key("k"));
        let finish = Outcome::advance(&other, case.draft("next"))
            .and_put(&other, case.draft("by id").after(&case.tube, [task]))
            .and_put(&case.tube, case.draft("by key").after_key("k"));
        case.tube.claim(task).unwrap().end(finish).unwrap();
        assert_eq!(other.query().children(task), Ok(vec![task + 1, task + 2]));
        assert_sound(&case.store);
        assert_eq!((case.take(), take(&other)), (None, Some(task)));
        other.claimed(task).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((case.take(), take(&other)), (Some(task + 2), Some(task + 1)));
    });
}

#[test]
fn put_of_a_finish_replaces_a_child_that_the_finish_frees() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        for tube in [&case.tube, &other] {
            let parent = case.put("parent");
            let child = case.add(case.draft("child").key("c").after(&case.tube, [parent]));
            let replacement = case.draft("new").key("c").on_key(OnKey::Replace);
            let finish = Outcome::done().and_put(tube, replacement);
            case.tube.claim(parent).unwrap().end(finish).unwrap();
            assert_sound(&case.store);
            assert_eq!(state_of(tube, child), TaskState::Ready);
            assert_eq!(case.tube.statistics().unwrap().tasks.blocked, 0);
            assert_eq!(take(tube), Some(child));
            tube.claimed(child).and_then(tubewell::Claim::ack).unwrap();
            assert_eq!((case.take(), take(&other)), (None, None));
            assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
        }
    });
}

#[test]
fn moved_tasks_keep_their_edges() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let parent = case.put("parent");
        let child = child_of(case, parent);
        let grandchild = child_of(case, child);
        assert_eq!(case.tube.admin().move_to(&other, child), Ok(1));
        assert_eq!(state(&other, child), Some(TaskState::Blocked));
        assert_eq!(
            (other.query().parents(child), other.query().children(child)),
            (Ok(vec![parent]), Ok(vec![grandchild]))
        );
        assert_sound(&case.store);
        assert_eq!(case.tube.admin().move_to(&other, parent), Ok(1));
        assert_eq!(other.query().children(parent), Ok(vec![child]));
        assert_eq!(other.admin().move_to(&case.tube, Filter::new()), Ok(2));
        let tasks = case.tube.statistics().unwrap().tasks;
        assert_eq!((tasks.ready, tasks.blocked, tasks.total), (1, 2, 3));
        drop_without_effect(case, &other);
        assert_sound(&case.store);
        for id in [parent, child, grandchild] {
            assert_eq!(case.take_all(), [id]);
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
    });
}

/// The tube has no edges any more: nothing happens to a task when it is dropped.
fn drop_without_effect(case: &Case, tube: &Tube) {
    case.store.drop_tube(tube.name()).unwrap();
    case.advance(0);
    assert_eq!(case.tube.statistics().unwrap().tasks.buried, 0);
}

/// Q094 Q095 Q096
#[test]
fn parents_are_deleted_together_with_all_that_wait_for_them() {
    for_each_driver(ALL, |case| {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let first = case.store.admin().next_id().unwrap();
            let parent = case.put("a");
            let child = child_of(case, parent);
            let grandchild = child_of(case, child);
            let refused = case.tube.admin().delete(Filter::new().ids([parent, child]));
            assert_eq!(refused, Err(Error::HasDependents { id: child, count: 1 }));
            assert_eq!(
                case.tube.admin().delete(Filter::new().ids([parent, grandchild])),
                Err(Error::HasDependents { id: parent, count: 1 })
            );
            assert_eq!(case.tube.query().parents(grandchild), Ok(vec![child]));
            let ids = order.map(|n| first + n);
            assert_eq!(
                case.tube.admin().delete(Filter::new().ids([&ids[..], &[first + 99]].concat())),
                Ok(3)
            );
            assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
        }
        let parent = case.put("a");
        let child = child_of(case, parent);
        let refused = Error::HasDependents { id: parent, count: 1 };
        assert_eq!(case.tube.cancel(parent), Err(refused.clone()));
        let by_id = Filter::from(parent).state(TaskState::Ready);
        assert_eq!(case.tube.admin().delete(by_id), Err(refused.clone()));
        let select = Filter::new().state(TaskState::Ready);
        assert_eq!(case.tube.admin().delete(select), Err(refused));
        let select = Filter::new().state(TaskState::Blocked);
        assert_eq!(case.tube.admin().delete(select), Ok(1));
        assert_eq!((case.state(child), case.tube.query().children(parent)), (None, Ok(vec![])));
        case.tube.cancel(parent).unwrap();
    });
}

/// More tasks than a commit of `delete_where` selects.
#[test]
fn delete_of_a_filter_deletes_tasks_together_with_later_ones_that_wait_for_them() {
    for_each_driver(ALL, |case| {
        let root = case.put("root");
        let mut chain = vec![root];
        for _ in 0..1100 {
            chain.push(child_of(case, chain[chain.len() - 1]));
        }
        let select = Filter::new().state(TaskState::Blocked);
        let refused = Error::HasDependents { id: chain[600], count: 1 };
        assert_eq!(case.tube.admin().delete(select.clone().limit(600)), Err(refused));
        assert_eq!(case.tube.statistics().unwrap().tasks.blocked, 1100);
        assert_eq!(case.tube.admin().delete(select.clone()), Ok(1100));
        assert_eq!(case.tube.query().children(root), Ok(vec![]));

        // A ready task is not among the selected ones that are buried, nor is a blocked one.
        let parents = [case.put("a"), case.put("b")];
        let children = parents.map(|parent| child_of(case, parent));
        for id in [parents[0], parents[1], children[0]] {
            case.tube.admin().bury(id, None).unwrap();
        }
        let select = Filter::new().state(TaskState::Buried);
        let refused = Error::HasDependents { id: parents[1], count: 1 };
        assert_eq!(case.tube.admin().delete(select.clone()), Err(refused));
        case.tube.delete(children[1]).unwrap();
        assert_eq!(case.tube.admin().delete(select), Ok(3));
    });
}

#[test]
fn blocked_task_is_updated_and_stays_blocked() {
    for_each_driver(TIMED, |case| {
        let parent = case.put("parent");
        let child = case.add(case.draft("child").after(&case.tube, [parent]).ttl(secs(100)));
        let update = Update::new().body("new").priority(7).delay(secs(10));
        assert_eq!(case.tube.update(child, update).unwrap().state, TaskState::Blocked);
        assert_eq!(case.tube.admin().set_priority(child, 8).unwrap().state, TaskState::Blocked);
        assert_eq!(case.tube.query().parents(child), Ok(vec![parent]));
        case.advance(5000);
        case.ack(parent);
        assert_eq!(case.state(child), Some(TaskState::Delayed));
        case.advance(5000);
        let claim = case.tube.claim(child).unwrap();
        assert_eq!((claim.body(), claim.priority()), (&b"new"[..], 8));
        assert_eq!(case.info(child).ttl_left, Some(secs(100)));
        claim.ack().unwrap();
    });
}

/// Q012 Q013 Q179
#[test]
fn replaced_task_keeps_its_parents_unless_it_gets_others() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        case.put_all([0, 1]);
        let task = || case.draft("c").key("c").on_key(OnKey::Replace);
        let child = case.add(task().after(&case.tube, [0]));
        let grandchild = child_of(case, child);
        assert_eq!(case.tube.put(task()).unwrap().state, TaskState::Blocked);
        assert_eq!(
            (case.tube.query().parents(child), case.tube.query().children(0)),
            (Ok(vec![0]), Ok(vec![child]))
        );
        let moved = other.requeue("c", task().after(&case.tube, [1])).unwrap();
        assert_eq!((moved.id, moved.state), (child, TaskState::Blocked));
        assert_eq!(
            (case.tube.query().children(0), case.tube.query().children(1)),
            (Ok(vec![]), Ok(vec![child]))
        );
        assert_eq!(other.query().children(child), Ok(vec![grandchild]));
        assert_sound(&case.store);
        let cycle = other.requeue("c", task().after(&case.tube, [grandchild]));
        assert_eq!(cycle, Err(Error::Cycle { id: child }));
        case.ack(0);
        assert_eq!(state_of(&other, child), TaskState::Blocked);
        case.ack(1);
        assert_eq!(take(&other), Some(child));
        other.claimed(child).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(grandchild));
    });
}

#[test]
fn replaced_task_that_gets_another_rule_keeps_its_parents() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let task = || case.draft("c").key("c").on_key(OnKey::Replace);
        let child = case.add(task().after(&case.tube, [0]));
        let replaced = case.tube.put(task().on_parent(OnParent::Bury)).unwrap();
        assert_eq!((replaced.id, replaced.state), (child, TaskState::Blocked));
        assert_eq!(case.tube.query().parents(child), Ok(vec![0]));
        case.tube.admin().bury(0, None).unwrap();
        case.advance(0);
        assert_eq!(case.state(child), Some(TaskState::Buried));
        // It keeps the rule that it has.
        case.tube.admin().kick(Filter::new().limit(2)).unwrap();
        assert_eq!(case.tube.put(task()).unwrap().state, TaskState::Blocked);
        case.tube.admin().bury(0, None).unwrap();
        case.advance(0);
        assert_eq!(case.state(child), Some(TaskState::Buried));
        // A put that names no parents has none.
        assert_eq!(case.tube.put(task().after(&case.tube, [])).unwrap().state, TaskState::Ready);
        assert_eq!(case.tube.query().children(0), Ok(vec![]));
    });
}

#[test]
fn task_waits_for_the_task_with_a_key() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let refused = case.tube.put(case.draft("x").after_key("a"));
        assert_eq!(refused, Err(Error::KeyNotFound { key: "a".into() }));
        let long = case.tube.put(case.draft("x").after_key("a".repeat(tubewell::MAX_KEY + 1)));
        assert!(matches!(long, Err(Error::Invalid { .. })), "{long:?}");
        let parent = case.add(case.draft("parent").key("a"));
        let other = case.put("other");
        let put = case.draft("child").after_key("a").after(&case.tube, [other, parent]);
        let child = case.add(put.on_parent(OnParent::Bury));
        assert_eq!(case.tube.query().parents(child), Ok(vec![parent, other]));
        case.ack(other);
        case.ack(parent);
        assert_eq!(case.state(child), Some(TaskState::Ready));
        // Done and kept.
        assert_eq!(case.tube.put(Put::new("x").after_key("a")).unwrap().state, TaskState::Ready);
    });
}
