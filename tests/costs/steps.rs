//! Steps: one row for each, the record with the first one, and nothing for tasks without.

use tubewell::{Durability, Error, FIFO, TubeOptions, UTUBETTL};

use crate::{assert_plain_costs, flushes_and_commits, rows_edited, with_tube};

/// The step and the header of the store; the first one, also the record of its task.
#[test]
fn step_writes_one_row_with_one_flush() {
    for driver in [FIFO, UTUBETTL] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            tube.put("x").unwrap();
            let job = tube.try_take().unwrap().unwrap();
            let number = std::cell::Cell::new(0);
            let next = || {
                number.set(number.get() + 1);
                _ = job.step(&number.get().to_string(), || Ok::<u8, Error>(1)).unwrap();
            };
            assert_eq!(rows_edited(store, next), 3, "{driver}");
            assert_eq!(rows_edited(store, next), 2, "{driver}");
            assert_eq!(flushes_and_commits(store, next), (1, 1));
            let steps = tube.query().steps(0).unwrap().len();
            drop(job);
            store.flush().unwrap();

            // A step that is stored writes nothing.
            let job = tube.try_take().unwrap().unwrap();
            let stored = || {
                _ = job.step("1", || -> Result<u8, Error> { panic!("it is stored") }).unwrap();
            };
            assert_eq!(rows_edited(store, stored), 0);
            let stored = || {
                _ = job.step("2", || -> Result<u8, Error> { panic!("it is stored") }).unwrap();
            };
            assert_eq!(flushes_and_commits(store, stored), (0, 0));
            // A later attempt writes no record either.
            let another = || _ = job.step("another", || Ok::<u8, Error>(1)).unwrap();
            assert_eq!(rows_edited(store, another), 2, "{driver}");
            let steps = steps + 1;

            // The end of the task removes them.
            let rows = rows_edited(store, || _ = job.ack().unwrap());
            tube.put("x").unwrap();
            let plain = tube.try_take().unwrap().unwrap();
            let without = rows_edited(store, || _ = plain.ack().unwrap());
            assert_eq!(rows, without + steps as u64, "{driver}");
        });
    }
}

/// A put and a step with one commit.
#[test]
fn spawned_task_costs_a_put_and_a_step_with_one_flush() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put("x").unwrap();
        let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let put = rows_edited(store, || _ = other.put("x").unwrap());
        let job = tube.try_take().unwrap().unwrap();
        job.step("first", || Ok::<u8, Error>(1)).unwrap();
        let step = || _ = job.step("second", || Ok::<u8, Error>(1)).unwrap();
        let step = rows_edited(store, step);
        let spawn = rows_edited(store, || _ = job.spawn("one", &other, "x").unwrap());
        // They share the header of the store.
        assert_eq!(spawn, put + step - 1);
        let spawn = || _ = job.spawn("two", &other, "x").unwrap();
        assert_eq!(flushes_and_commits(store, spawn), (1, 1));
    });
}

#[test]
fn step_of_a_written_tube_waits_for_no_flush() {
    with_tube(FIFO, TubeOptions::new().durability(Durability::write()), |store, tube| {
        tube.put("x").unwrap();
        store.flush().unwrap();
        let job = tube.try_take().unwrap().unwrap();
        let before = store.admin().counters().unwrap();
        job.step("first", || Ok::<u8, Error>(1)).unwrap();
        let after = store.admin().counters().unwrap();
        assert_eq!((after.flushes - before.flushes, after.writes - before.writes), (0, 1));
    });
}

#[test]
fn steps_of_another_task_cost_a_plain_one_nothing() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put_many(["x"; 100]).unwrap();
        let job = tube.try_take().unwrap().unwrap();
        job.step("first", || Ok::<u8, Error>(1)).unwrap();
        let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        assert_plain_costs(store, &plain);
        drop(job);
    });
}
