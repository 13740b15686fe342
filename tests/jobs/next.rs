//! What takes would get now.

use tubewell::driver::{FIFO, FIFOTTL, UTUBE, UTUBETTL};
use tubewell::{Put, Rate, TaskState, Tube, TubeOptions};

use super::support::*;

fn next(tube: &Tube, count: usize) -> Vec<u64> {
    tube.query().next(count).unwrap().iter().map(|info| info.id).collect()
}

/// Q031
#[test]
fn next_returns_the_next_tasks_and_takes_none() {
    for_each_driver(ALL, |case| {
        assert_eq!(next(&case.tube, 10), [0; 0]);
        case.put_all([0, 1]);
        case.advance(2_000);
        let infos = case.tube.query().next(10).unwrap();
        assert_eq!(infos, [case.info(0), case.info(1)]);
        assert_eq!([0, 1].map(|id| case.state(id)), [Some(TaskState::Ready); 2]);
        assert_eq!((case.calls().get("take"), next(&case.tube, 1)), (None, vec![0]));
        assert_eq!(next(&case.tube, 0), [0; 0]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(next(&case.tube, 10), [1]);
    });
}

#[test]
fn next_has_the_order_of_takes() {
    for_each_driver(TIMED, |case| {
        for n in 0..40_u32 {
            case.add(case.draft("x").priority(n * 7 % 5).delay(secs(u64::from(n % 2))));
        }
        let first = next(&case.tube, 100);
        assert_eq!(first.len(), 20);
        case.advance(1_000);
        let all = next(&case.tube, 100);
        assert_eq!(all.len(), 40);
        let late = all[3];
        case.tube.admin().bury(late, None).unwrap();
        let all: Vec<u64> = all.into_iter().filter(|id| *id != late).collect();
        assert_eq!(next(&case.tube, 100), all);
        assert_eq!(case.take_all(), all);
    });
}

#[test]
fn next_leaves_out_expired_tasks() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put_many((0..100).map(|_| Put::new("x").ttl(ZERO))).unwrap();
    let id = tube.put("y").unwrap().id;
    assert_eq!(next(&tube, 10), [id]);
}

/// A take removes them, and goes on with the next task of their sub-queue.
#[test]
fn next_shows_the_task_behind_expired_ones_of_its_sub_queue() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(UTUBETTL)).unwrap();
    let put = |sub: &str| Put::new("x").sub_queue(sub);
    tube.put_many((0..3).map(|_| put("a").ttl(ZERO))).unwrap();
    let ids = [put("a").priority(2), put("b").priority(1), put("c").priority(3)];
    let [a, b, c] = ids.map(|put| tube.put(put).unwrap().id);
    assert_eq!(next(&tube, 10), [b, a, c]);
    assert_eq!(next(&tube, 2), [b, a]);
    let taken: Vec<u64> =
        (0..3).map(|_| tube.try_take().unwrap().unwrap().detach().info.id).collect();
    assert_eq!(taken, [b, a, c]);
}

#[test]
fn next_reads_as_far_as_it_is_asked_to() {
    for driver in [FIFO, FIFOTTL, UTUBE] {
        let store = store_in_memory();
        let tube = store.create_tube("case", TubeOptions::new().driver(driver)).unwrap();
        let put = |n: u64| {
            if driver == UTUBE { Put::new("x").sub_queue(n.to_string()) } else { Put::new("x") }
        };
        tube.put_many((0..5_000).map(put)).unwrap();
        for count in [1, 17, 999, 1_000, 5_000] {
            let expected: Vec<u64> = (0..count.min(1_000)).collect();
            assert_eq!(next(&tube, usize::try_from(count).unwrap()), expected);
        }
        let taken: Vec<u64> = (0..20).filter_map(|_| take(&tube)).collect();
        assert_eq!(taken, (0..20).collect::<Vec<u64>>());
        assert_eq!(next(&tube, 2), [20, 21]);
        assert_sound(&store);
    }
}

#[test]
fn next_stops_at_the_gates_of_the_tube() {
    let max_taken = TubeOptions::new().max_taken(3);
    for_each_driver_with(ALL, max_taken, |case| {
        case.put_all([0, 1, 2, 3, 4]);
        assert_eq!(next(&case.tube, 9), [0, 1, 2]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(next(&case.tube, 9), [1, 2]);
        claim.ack().unwrap();
        case.tube.admin().pause().unwrap();
        assert_eq!(next(&case.tube, 9), [0; 0]);
        case.tube.admin().unpause().unwrap();
        assert_eq!(next(&case.tube, 9), [1, 2, 3]);
    });
    let rate = TubeOptions::new().rate(Rate::per(2, secs(10)));
    for_each_driver_with(ALL, rate, |case| {
        case.put_all([0, 1, 2, 3]);
        assert_eq!(next(&case.tube, 9), [0, 1]);
        assert_eq!(case.take_all(), [0, 1]);
        assert_eq!(next(&case.tube, 9), [0; 0]);
        case.advance(10_000);
        assert_eq!(next(&case.tube, 9), [2, 3]);
        assert_eq!(case.take_all(), [2, 3]);
    });
}

#[test]
fn next_returns_one_task_of_each_free_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        for n in 0..6 {
            case.add(Put::new("x").sub_queue(["a", "b", "c"][n % 3]));
        }
        assert_eq!(next(&case.tube, 9), [0, 1, 2]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(next(&case.tube, 9), [1, 2]);
        claim.ack().unwrap();
        assert_eq!(next(&case.tube, 9), [1, 2, 3]);
        case.tube.admin().pause_sub_queue("b", secs(1)).unwrap();
        assert_eq!(next(&case.tube, 9), [2, 3]);
        case.advance(1_000);
        assert_eq!(next(&case.tube, 9), [1, 2, 3]);
    });
}
