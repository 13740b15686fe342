//! Tasks that wait for other tasks: parents that are given with the put, added and removed.

use tubewell::{Error, Filter, Outcome, Put, Store, TaskState, Tube, TubeOptions};

use super::support::*;

/// A put of the case, after these tasks of the same tube.
fn after(case: &Case, parents: &[u64]) -> Put {
    case.draft("child").after(&case.tube, parents.iter().copied())
}

impl Case {
    pub fn ack(&self, id: u64) {
        self.tube.claim(id).unwrap().ack().unwrap();
    }
}

/// Q007 Q062 Q090 Q097 Q111 Q133
#[test]
fn task_with_an_open_parent_is_blocked() {
    for_each_driver(ALL, |case| {
        let parent = case.put("parent");
        let receipt = case.tube.put(after(case, &[parent])).unwrap();
        let child = receipt.id;
        assert_eq!(
            (receipt.state, case.state(child)),
            (TaskState::Blocked, Some(TaskState::Blocked))
        );
        assert_eq!(case.info(child).open_parents, 1);
        assert_eq!(case.tube.query().parents(child), Ok(vec![parent]));
        assert_eq!(case.tube.query().children(parent), Ok(vec![child]));
        assert_eq!(
            (case.tube.query().parents(parent), case.tube.query().children(child)),
            (Ok(vec![]), Ok(vec![]))
        );
        assert_eq!(case.tasks(), counts([("ready", 1), ("blocked", 1), ("total", 2)]));
        let blocked = case.tube.query().list(TaskState::Blocked, None, 10).unwrap().items;
        assert_eq!(blocked, [case.info(child)]);

        let refused = case.tube.claim(child).unwrap_err();
        assert!(
            matches!(refused, Error::NotReady { state: TaskState::Blocked, .. }),
            "{refused:?}"
        );
        assert_not_taken(case.tube.claimed(child).and_then(tubewell::Claim::ack), child);
        assert_not_taken(
            case.tube
                .claimed(child)
                .and_then(|claim| claim.fail(tubewell::Failure::new("g", "m").clone())),
            child,
        );
        assert_not_taken(case.tube.claimed(child).and_then(tubewell::Claim::release), child);
        if case.timed() {
            assert_not_taken(
                case.tube.claimed(child).and_then(|claim| claim.renew(secs(1))),
                child,
            );
        }
        assert_eq!(case.tube.kick(child), Err(Error::NotBuried { id: child }));

        assert_eq!(case.tube.delete(child).unwrap().state, TaskState::Done);
        assert_eq!(case.tube.query().children(parent), Ok(vec![]));
        assert_eq!(case.tube.delete(parent).unwrap().state, TaskState::Done);
        assert_eq!(case.tasks(), counts([("done", 2)]));
    });
}

/// Q170 Q184 I08
#[test]
fn ack_of_the_last_parent_gives_the_task_to_one_waiting_take() {
    for_each_driver(ALL, |case| {
        let parent = case.put("parent");
        let child = case.add(after(case, &[parent]));
        assert_eq!(case.take_all(), [parent]);
        let takers = [case.begin_take(), case.begin_take()];
        assert_eq!(
            case.tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
        let [first, mut second] = takers;
        assert_eq!(first.id(), Some(child));
        assert!(second.is_pending());
        assert_eq!(case.tube.query().parents(child), Ok(vec![]));
        assert_not_found(case.tube.query().children(parent), parent);
        case.tube.claimed(child).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// Q008 Q171
#[test]
fn delay_begins_with_the_put_and_is_a_gate_besides_the_parents() {
    for_each_driver(TIMED, |case| {
        let parent = case.put("parent");
        let late = case.add(after(case, &[parent]).delay(secs(1000)));
        let early = case.add(after(case, &[parent]).delay(secs(1)));
        assert_eq!([late, early].map(|id| case.state(id)), [Some(TaskState::Blocked); 2]);
        case.advance(2000);
        assert_eq!([late, early].map(|id| case.state(id)), [Some(TaskState::Blocked); 2]);
        case.ack(parent);
        let states = [late, early].map(|id| case.state(id).unwrap());
        assert_eq!(states, [TaskState::Delayed, TaskState::Ready]);
        assert_eq!(case.info(late).due_in, Some(secs(998)));
        case.advance(997_999);
        assert_eq!(case.take_all(), [early]);
        case.advance(1);
        assert_eq!(case.take_all(), [late]);
    });
}

/// Q172 Q174
///
/// Difference: qless counts an unknown parent as done. Here its put is refused.
#[test]
fn put_after_an_unknown_task_is_refused() {
    for_each_driver(ALL, |case| {
        let next = case.store.admin().next_id().unwrap();
        for unknown in [next, next + 1, u64::MAX] {
            assert_not_found(case.tube.put(after(case, &[unknown])), unknown);
            let many = [case.draft("x"), after(case, &[unknown])];
            // The first task of the call gets the id `next`.
            if unknown > next {
                assert_not_found(case.tube.put_many(many), unknown);
            }
            assert_eq!(case.tasks(), counts([]));
        }
        assert_eq!(case.store.admin().next_id().unwrap(), next);
    });
}

/// Q173
#[test]
fn put_after_tasks_that_are_over_is_ready() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.ack(0);
        case.tube.delete(1).unwrap();
        let receipt = case.tube.put(after(case, &[0, 1])).unwrap();
        assert_eq!((receipt.state, case.take()), (TaskState::Ready, Some(receipt.id)));
    });
    let kept = TubeOptions::new().keep_done(tubewell::Keep::new());
    for_each_driver_with(ALL, kept, |case| {
        case.put_all([0]);
        case.ack(0);
        assert_eq!(case.tube.put(after(case, &[0])).unwrap().state, TaskState::Ready);
    });
}

/// Q175 Q178
#[test]
fn task_with_many_parents_is_ready_after_the_last_of_them() {
    for_each_driver(ALL, |case| {
        let parents: [u64; 10] = std::array::from_fn(|n| n as u64);
        case.put_all(parents);
        let child = case.add(after(case, &[&parents[..], &parents[..]].concat()));
        assert_eq!(case.tube.query().parents(child), Ok(parents.to_vec()));
        for (done, parent) in parents.iter().enumerate() {
            assert_eq!(case.info(child).open_parents as usize, 10 - done);
            assert_eq!(case.state(child), Some(TaskState::Blocked));
            assert_sound(&case.store);
            if done % 2 == 0 {
                case.ack(*parent);
            } else {
                case.tube.admin().remove_parents(child, Some(&[*parent, 77])).unwrap();
            }
        }
        assert_eq!((case.info(child).open_parents, case.state(child)), (0, Some(TaskState::Ready)));
    });
}

/// Q176
#[test]
fn chain_of_tasks_is_taken_one_after_the_other() {
    for_each_driver(ALL, |case| {
        let mut chain = vec![case.put("first")];
        for _ in 1..10 {
            chain.push(case.add(after(case, &[chain[chain.len() - 1]])));
        }
        for id in chain {
            assert_eq!(case.take_all(), [id]);
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
        assert_eq!(case.tasks(), counts([("done", 10)]));
    });
}

/// Q177 Q180
///
/// Difference: qless adds parents to a task only if it has one.
#[test]
fn parents_are_added_to_tasks_that_wait() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(
            case.tube.admin().add_parents(2, &case.tube, &[0]).unwrap().state,
            TaskState::Blocked
        );
        assert_eq!(
            case.tube.admin().add_parents(2, &case.tube, &[0, 1]).unwrap().state,
            TaskState::Blocked
        );
        assert_eq!((case.tube.query().parents(2), case.take_all()), (Ok(vec![0, 1]), vec![0, 1]));
        if case.timed() {
            let delayed = case.add(case.draft("x").delay(secs(10)));
            assert_eq!(
                case.tube.admin().add_parents(delayed, &case.tube, &[0]).unwrap().state,
                TaskState::Blocked
            );
            case.tube.admin().remove_parents(delayed, None).unwrap();
            assert_eq!(case.state(delayed), Some(TaskState::Delayed));
            case.tube.delete(delayed).unwrap();
        }
        let claims = [0, 1].map(|id| case.tube.claimed(id).unwrap());
        tubewell::Claim::end_many(Vec::from(claims), |_| Outcome::done()).unwrap();
        assert_eq!(case.take_all(), [2]);
    });
}

/// Q180 Q182
#[test]
fn parents_of_tasks_that_do_not_wait_are_refused() {
    let kept = TubeOptions::new().keep_done(tubewell::Keep::new());
    for_each_driver_with(ALL, kept, |case| {
        case.put_all([0, 1, 2, 3]);
        keep(case.tube.claim(1).unwrap());
        case.tube.admin().bury(2, None).unwrap();
        case.ack(3);
        for (id, state) in [(1, TaskState::Taken), (2, TaskState::Buried), (3, TaskState::Done)] {
            let refused = case.tube.admin().add_parents(id, &case.tube, &[0]).unwrap_err();
            assert!(matches!(refused, Error::NotReady { state: was, .. } if was == state));
            assert_eq!(
                case.tube.admin().remove_parents(id, None).unwrap().state,
                case.state(id).unwrap()
            );
        }
        for id in [4, u64::MAX] {
            assert_not_found(case.tube.admin().add_parents(id, &case.tube, &[0]), id);
            assert_not_found(case.tube.admin().remove_parents(id, None), id);
            assert_not_found(case.tube.admin().add_parents(0, &case.tube, &[id]), id);
        }
        // Over, and the task itself.
        assert_eq!(
            case.tube.admin().add_parents(0, &case.tube, &[3]).unwrap().state,
            TaskState::Ready
        );
        assert_eq!(
            case.tube.admin().add_parents(0, &case.tube, &[]).unwrap().state,
            TaskState::Ready
        );
        assert_eq!(case.tube.query().parents(0), Ok(vec![]));
    });
}

/// Q181
///
/// Difference: qless forgets the delay.
#[test]
fn task_without_its_parents_is_delayed_until_its_delay_elapses() {
    for_each_driver(TIMED, |case| {
        let parent = case.put("parent");
        let child = case.add(after(case, &[parent]).delay(secs(10)));
        case.advance(4000);
        assert_eq!(
            case.tube.admin().remove_parents(child, None).unwrap().state,
            TaskState::Delayed
        );
        assert_eq!(case.info(child).due_in, Some(secs(6)));
        case.advance(6000);
        assert_eq!(case.state(child), Some(TaskState::Ready));
    });
}

/// Q025 I12
///
/// Difference: qless blocks a task that waits for itself forever.
#[test]
fn cycle_is_refused_and_changes_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        let add = |id: u64, parents: &[u64]| case.tube.admin().add_parents(id, &case.tube, parents);
        assert_eq!(add(0, &[0]), Err(Error::Cycle { id: 0 }));
        add(1, &[0]).unwrap();
        add(2, &[1]).unwrap();
        assert_eq!(add(0, &[1]), Err(Error::Cycle { id: 0 }));
        assert_eq!(add(0, &[3, 2]), Err(Error::Cycle { id: 0 }));
        let parents = [0, 1, 2, 3].map(|id| case.tube.query().parents(id).unwrap());
        assert_eq!(parents, [vec![], vec![0], vec![1], vec![]]);
        add(2, &[0, 3]).unwrap();
        assert_eq!(case.take_all(), [0, 3]);
    });
}

#[test]
fn parents_of_other_tubes_are_found() {
    for_each_driver(ALL, |case| {
        let others = ["a", "b"].map(|name| {
            case.store.create_tube(name, TubeOptions::new().driver(case.driver)).unwrap()
        });
        let parents = others.each_ref().map(|tube| tube.put(case.draft("x")).unwrap().id);
        // The second parent is named with the wrong tube, as one that has moved.
        let child = case.add(case.draft("child").after(&others[0], parents));
        assert_eq!(case.tube.query().parents(child), Ok(parents.to_vec()));
        for (tube, parent) in others.iter().zip(parents) {
            assert_eq!(case.take(), None);
            assert_eq!(tube.query().children(parent), Ok(vec![child]));
            tube.try_take().unwrap().unwrap().ack().unwrap();
        }
        assert_eq!(case.take(), Some(child));
    });
}

#[test]
fn parents_in_another_store_or_kind_of_tube_are_refused() {
    for_each_driver(ALL, |case| {
        let temporary = TubeOptions::new().temporary(true);
        let memory = case.store.create_tube("memory", temporary.driver(case.driver)).unwrap();
        let (here, there) = (case.put("x"), memory.put(case.draft("x")).unwrap().id);
        let invalid = |refused: Option<Error>| {
            assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        };
        invalid(case.tube.put(case.draft("x").after(&memory, [there])).err());
        invalid(case.tube.put(case.draft("x").after(&case.tube, [there])).err());
        invalid(memory.put(case.draft("x").after(&case.tube, [here])).err());
        invalid(case.tube.admin().add_parents(here, &memory, &[there]).err());
        let store = store_in_memory();
        let foreign = store.create_tube("case", TubeOptions::new().driver(case.driver)).unwrap();
        let id = foreign.put(case.draft("x")).unwrap().id;
        invalid(case.tube.admin().add_parents(here, &foreign, &[id]).err());
        let unnamed = store.create_tube("unnamed", TubeOptions::new().driver(case.driver)).unwrap();
        let refused = case.tube.put(case.draft("x").after(&unnamed, [0])).unwrap_err();
        assert!(matches!(refused, Error::TubeNotFound { .. }));
        let many = vec![here; 10_001];
        invalid(case.tube.put(case.draft("x").after(&case.tube, many.clone())).err());
        invalid(case.tube.admin().add_parents(here, &case.tube, &many).err());
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
    });
}

#[test]
fn tasks_of_temporary_tubes_wait_for_each_other() {
    for_each_driver_with(ALL, TubeOptions::new().temporary(true), |case| {
        let parent = case.put("parent");
        let child = case.add(after(case, &[parent]));
        assert_eq!(case.take_all(), [parent]);
        case.tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take_all(), [child]);
    });
}

/// The parents of a task that is put are found among the tasks of the same call.
#[test]
fn put_many_finds_parents_within_the_call_only_if_they_come_first() {
    for_each_driver(ALL, |case| {
        let first = case.store.admin().next_id().unwrap();
        let put = [case.draft("parent"), after(case, &[first])];
        let states: Vec<TaskState> =
            case.tube.put_many(put).unwrap().iter().map(|receipt| receipt.state).collect();
        assert_eq!(states, [TaskState::Ready, TaskState::Blocked]);
        case.ack(first);
        assert_eq!(case.take(), Some(first + 1));
    });
}

/// A blocked task does not occupy its sub-queue.
#[test]
fn blocked_task_does_not_hold_up_its_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        let parent = case.add(Put::new("parent").sub_queue("p"));
        let task = |parents: &[u64]| {
            case.add(Put::new("x").sub_queue("s").after(&case.tube, parents.iter().copied()))
        };
        let (child, free) = (task(&[parent]), task(&[]));
        assert_eq!(case.take_all(), [parent, free]);
        case.tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((case.state(child), case.take()), (Some(TaskState::Ready), None));
        case.tube.claimed(free).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(child));
        case.tube.claimed(child).and_then(tubewell::Claim::ack).unwrap();

        let (first, second) = (task(&[]), task(&[]));
        let parent = case.add(Put::new("parent").sub_queue("p"));
        case.tube.admin().add_parents(first, &case.tube, &[parent]).unwrap();
        assert_eq!(case.take_all(), [second, parent]);
    });
}

#[test]
fn buried_task_keeps_its_parents_and_is_blocked_again_by_a_kick() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let child = case.add(after(case, &[0, 1]));
        assert_eq!(case.tube.admin().bury(child, None).unwrap().state, TaskState::Buried);
        assert_eq!(case.info(child).open_parents, 2);
        case.ack(0);
        assert_eq!(
            (case.info(child).open_parents, case.state(child)),
            (1, Some(TaskState::Buried))
        );
        assert_eq!(case.tube.kick(child).unwrap().state, TaskState::Blocked);
        case.tube.admin().bury(child, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(9)), Ok(1));
        assert_eq!(case.state(child), Some(TaskState::Blocked));
        case.tube.admin().bury(child, None).unwrap();
        assert_eq!(case.tube.admin().remove_parents(child, None).unwrap().state, TaskState::Buried);
        assert_eq!(case.tube.kick(child).unwrap().state, TaskState::Ready);
    });
}

#[test]
fn blocked_task_that_is_resolved_waits_for_nothing() {
    for keep in [TubeOptions::new(), TubeOptions::new().keep_done(tubewell::Keep::new())] {
        for_each_driver_with(ALL, keep, |case| {
            let parent = case.put("parent");
            let child = case.add(after(case, &[parent]));
            let grandchild = case.add(after(case, &[child]));
            case.tube.admin().resolve(child, ()).unwrap();
            assert_eq!(case.tube.query().children(parent), Ok(vec![]));
            assert_eq!(case.take_all(), [parent, grandchild]);
            case.tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap();
        });
    }
}

#[test]
fn tube_with_a_blocked_task_is_not_drained() {
    for_each_driver(ALL, |case| {
        let elsewhere =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let parent = elsewhere.put(case.draft("x")).unwrap().id;
        let child = case.add(case.draft("child").after(&elsewhere, [parent]));
        assert_eq!(case.tube.wait_drained(ZERO), Ok(false));
        elsewhere.try_take().unwrap().unwrap().ack().unwrap();
        case.ack(child);
        assert_eq!(case.tube.wait_drained(ZERO), Ok(true));
    });
}

#[test]
fn edges_survive_a_close_and_a_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = super::files::create(&file, driver);
        let parent = tube.put(super::files::draft(driver, "parent")).unwrap().id;
        let put = super::files::draft(driver, "child").after(&tube, [parent]);
        let child = tube.put(put).unwrap().id;
        let check = |store: &Store, tube: &Tube| {
            assert_eq!(
                (tube.query().parents(child), state(tube, child)),
                (Ok(vec![parent]), Some(TaskState::Blocked),)
            );
            assert_eq!(tasks(tube), counts([("ready", 1), ("blocked", 1), ("total", 2)]));
            assert_sound(store);
        };
        let (_killed_file, killed) = super::files::after_a_kill(&file);
        check(&killed, &killed.find_tube("case").unwrap());
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        check(&store, &tube);
        assert_eq!(take(&tube), Some(parent));
        tube.claimed(parent).and_then(tubewell::Claim::ack).unwrap();
        let (_killed_file, killed) = super::files::after_a_kill(&file);
        assert_eq!(take(&killed.find_tube("case").unwrap()), Some(child));
        assert_sound(&killed);
        assert_eq!(take(&tube), Some(child));
    }
}
