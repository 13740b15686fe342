//! Changes of the tasks that meet a filter: moves, kicks, deletes, ends of claims.

use tubewell::driver::{FIFO, LIMFIFOTTL};
use tubewell::{Error, Failure, Filter, Keep, Session, Store, TaskState, Tube, TubeOptions};

use super::moves::{listed, other};
use super::support::*;

/// Buries a task that is ready, as one of a failure group.
fn bury(tube: &Tube, id: u64, group: &str) {
    tube.claim(id).unwrap().bury(Failure::new(group, "")).unwrap();
}

/// A session with this label, and its handle of the tube.
fn worker(store: &Store, label: &str) -> (Session, Tube) {
    let session = store.session(label).unwrap();
    let tube = session.tube(&store.find_tube("case").unwrap()).unwrap();
    (session, tube)
}

#[test]
fn move_takes_the_tasks_that_meet_all_conditions() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let ids: Vec<u64> = (0..8).map(|n: u64| case.put(&n.to_string())).collect();
        let tagged = case.tube.put(case.draft("tagged").tag("red")).unwrap().id;
        for (id, group) in [(ids[0], "net"), (ids[1], "disk"), (ids[2], "net"), (ids[3], "net")] {
            bury(&case.tube, id, group);
        }
        let moves = |filter: Filter| case.tube.admin().move_to(&to, filter).unwrap();
        assert_eq!(moves(Filter::new().group("net").limit(2)), 2);
        assert_eq!(listed(&to, TaskState::Buried), [ids[0], ids[2]]);
        assert_eq!(moves(Filter::new().group("net").tag("red")), 0);
        assert_eq!(moves(Filter::new().tag("red")), 1);
        assert_eq!(moves(TaskState::Buried.into()), 2);
        let named = [ids[7], ids[4], ids[7], 99];
        assert_eq!(moves(Filter::new().ids(named).state(TaskState::Buried)), 0);
        assert_eq!(moves(Filter::new().ids(named)), 2);
        assert_eq!(listed(&case.tube, TaskState::Ready), [ids[5], ids[6]]);
        let mut ready = listed(&to, TaskState::Ready);
        ready.sort_unstable();
        assert_eq!(ready, [ids[4], ids[7], tagged]);
        assert_sound(&case.store);
    });
}

/// More than one commit moves, in the order of their ids.
#[test]
fn move_by_ids_goes_on_in_steps_and_into_a_full_tube_as_far_as_it_goes() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let limited = TubeOptions::new().driver(LIMFIFOTTL).capacity(300);
    let to = store.create_tube("limited", limited).unwrap();
    let ids: Vec<u64> =
        tube.put_many(vec!["x"; 600]).unwrap().iter().map(|receipt| receipt.id).collect();
    let named = Filter::new().ids(ids.iter().rev().take(599));
    let full = Error::Full { tube: "limited".into(), capacity: 300 };
    assert_eq!(tube.admin().move_to(&to, &named), Err(full));
    assert_eq!(listed(&to, TaskState::Ready), ids[1..301]);
    let wide = other(&store, FIFO);
    assert_eq!(tube.admin().move_to(&wide, named.limit(260)), Ok(260));
    assert_eq!(listed(&wide, TaskState::Ready), ids[301..561]);
    assert_eq!(tube.statistics().unwrap().tasks.total, 40);
}

#[test]
fn kick_and_delete_by_ids_skip_what_does_not_meet_the_other_conditions() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        case.put_all([0, 1, 2, 3, 4]);
        for id in [0, 1, 3] {
            bury(&case.tube, id, if id == 1 { "disk" } else { "net" });
        }
        let ids = Filter::new().ids([3, 2, 1, 99]);
        assert_eq!(case.tube.admin().kick(ids.clone().group("net")), Ok(1));
        assert_eq!(case.state(3), Some(TaskState::Ready));
        assert_eq!(case.tube.admin().kick(ids.clone().limit(0)), Ok(0));
        assert_eq!(case.tube.admin().kick(&ids), Ok(1));
        assert_eq!(case.tube.admin().kick(Filter::new().ids([4_u64; 0])), Ok(0));
        assert_eq!(listed(&case.tube, TaskState::Buried), [0]);
        assert_eq!(case.tube.admin().delete(ids.clone().state(TaskState::Buried)), Ok(0));
        assert_eq!(
            case.tube.admin().delete(Filter::new().ids(0..4).state(TaskState::Ready)),
            Ok(3)
        );
        assert_eq!(case.tube.admin().delete(0), Ok(1));
        assert_eq!(listed(&case.tube, TaskState::Ready), [4]);
        assert_sound(&case.store);
    });
}

/// A worker that hangs is known by its label.
#[test]
fn claims_of_an_owner_are_released_and_revoked_alone() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(9), |case| {
        let puts = (0..6).map(|n: u64| case.draft(&n.to_string()).tag(format!("t{}", n % 2)));
        case.tube.put_many(puts).unwrap();
        let ((_hung, hung), (_other, other)) =
            (worker(&case.store, "hung"), worker(&case.store, "other"));
        let hung: Vec<_> = (0..4).map(|id| hung.claim(id).unwrap()).collect();
        let other: Vec<_> = (4..6).map(|id| other.claim(id).unwrap()).collect();
        let admin = case.tube.admin();
        let of_hung = Filter::new().owner("hung");
        assert_eq!(admin.revoke(of_hung.clone().tag("t1").limit(1)), Ok(1));
        assert_eq!(case.info(1).attempts, 0);
        assert_eq!(admin.release(of_hung.clone().ids([0, 1, 4, 99])), Ok(1));
        assert_eq!(case.info(0).attempts, 1);
        assert_eq!(admin.release(TaskState::Taken), Ok(4));
        assert_eq!(admin.release(of_hung), Ok(0));
        for claim in hung.into_iter().chain(other) {
            let id = claim.id();
            assert_not_taken(claim.ack(), id);
        }
        assert_eq!(case.take_all().len(), 6);
    });
}

/// More claims than one hold of the lock looks at, the wanted ones behind others.
#[test]
fn claims_of_an_owner_are_found_behind_those_of_others() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(vec!["x"; 9000]).unwrap();
    let ((_many, many), (_few, few)) = (worker(&store, "many"), worker(&store, "few"));
    let take = |tube: &Tube, count: usize| {
        let mut claims = Vec::new();
        while claims.len() < count {
            claims.extend(tube.take_many(count - claims.len(), ZERO).unwrap());
        }
        claims
    };
    let (many, few) = (take(&many, 8990), take(&few, 10));
    assert_eq!(tube.admin().revoke(Filter::new().owner("few")), Ok(10));
    assert!(few.iter().all(|claim| claim.is_current() == Ok(false)));
    assert!(many.iter().all(|claim| claim.is_current() == Ok(true)));
    assert_eq!(tube.admin().revoke(Filter::new()), Ok(8990));
}

#[test]
fn conditions_that_a_change_does_not_use_are_refused_by_their_names() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let (admin, to) = (case.tube.admin(), other(&case.store, case.driver));
        let refused = [
            (admin.move_to(&to, Filter::new().owner("w")), "owner"),
            (admin.move_to(&to, TaskState::Done), "done"),
            (admin.kick(Filter::new().sub_queue("s")), "sub_queue"),
            (admin.kick(TaskState::Ready), "ready"),
            (admin.delete(Filter::new()), "truncate"),
            (admin.delete(Filter::new().ids([0]).key("k")), "key"),
            (admin.delete(Filter::new().ids(0..10_001)), "10000"),
            (admin.release(Filter::new().group("net")), "group"),
            (admin.revoke(TaskState::Buried), "buried"),
            (admin.revoke(Filter::new().newest_first()), "newest_first"),
        ];
        for (answer, named) in refused {
            let error = answer.unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
            assert!(error.to_string().contains(named), "{error}, not {named}");
        }
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// A move that counts tasks and does not know them would take the new one instead of an old one.
#[test]
fn task_that_is_put_during_a_move_stays_and_the_old_ones_behind_it_move() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let to = other(&store, FIFO);
    let ids: Vec<u64> =
        tube.put_many(vec!["x"; 600]).unwrap().iter().map(|receipt| receipt.id).collect();
    bury(&tube, ids[599], "net");
    let moving = tube.to_async().admin().move_to(&to, Filter::new());
    let new = tube.put("new").unwrap().id;
    assert_eq!(moving.wait(), Ok(600));
    assert_eq!(listed(&tube, TaskState::Ready), [new]);
    assert_eq!(listed(&to, TaskState::Buried), [ids[599]]);
}

#[test]
fn kick_of_all_kicks_each_task_once_also_if_some_are_buried_again_meanwhile() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let ids: Vec<u64> =
        tube.put_many(vec!["x"; 1000]).unwrap().iter().map(|receipt| receipt.id).collect();
    for id in &ids {
        bury(&tube, *id, "net");
    }
    let kicking = tube.to_async().admin().kick(Filter::new());
    for _ in 0..20 {
        tube.take().unwrap().bury(Failure::new("net", "")).unwrap();
    }
    assert_eq!(kicking.wait(), Ok(1000));
    assert_eq!(listed(&tube, TaskState::Buried), ids[..20]);
    assert_eq!(tube.admin().kick(Filter::new()), Ok(20));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}
