//! The order in which the tubes of a worker are asked.

use std::collections::HashSet;

use tubewell::Tube;
use tubewell::worker::{Job, Order, Worker};

use super::support::*;

/// Puts this many tasks into each of three tubes, and returns the order of the tubes of the jobs.
fn run(form: Form, order: Order, tasks: [usize; 3]) -> String {
    let case = Case::new();
    let tubes = ["1", "2", "3"].map(|name| case.another(name));
    for (tube, count) in tubes.iter().zip(tasks) {
        tube.put_many((0..count).map(|n| format!("{n}"))).unwrap();
    }
    let (send, receive) = shared_channel();
    let mut worker = Worker::new(&case.store).order(order);
    for tube in &tubes {
        let send = send.clone();
        let tell = move |job: &Job| send.lock().unwrap().send(job.tube().to_owned()).unwrap();
        worker = form.on(worker, tube, tell);
    }
    drop(send);
    let worker = worker.limit(tasks.iter().sum::<usize>() as u64);
    form.start(worker).wait().unwrap();
    receive.iter().collect()
}

/// Q320
#[test]
fn listed_order_takes_from_the_first_tube_that_has_a_task() {
    in_every_form(|form| {
        assert_eq!(run(form, Order::Listed, [2, 0, 2]), "1133");
        assert_eq!(run(form, Order::default(), [1, 3, 1]), "12223");
    });
}

/// Q321
#[test]
fn round_robin_takes_turns_and_skips_empty_tubes() {
    in_every_form(|form| {
        assert_eq!(run(form, Order::RoundRobin, [3, 3, 3]), "123123123");
        assert_eq!(run(form, Order::RoundRobin, [3, 0, 2]), "13131");
        assert_eq!(run(form, Order::RoundRobin, [1, 4, 1]), "123222");
    });
}

/// Q322
#[test]
fn shuffled_order_differs_from_run_to_run() {
    in_every_form(|form| {
        let orders: HashSet<String> =
            (0..50).map(|_| run(form, Order::Shuffled, [1, 1, 1])).collect();
        assert!(orders.len() >= 3, "{orders:?}");
    });
}

#[test]
fn waiting_worker_gets_tasks_of_all_its_tubes() {
    in_every_form(|form| {
        for order in [Order::Listed, Order::RoundRobin, Order::Shuffled] {
            let case = Case::new();
            let other = case.another("other");
            let (send, receive) = shared_channel();
            let again = send.clone();
            let tell = move |job: &Job| send.lock().unwrap().send(job.id()).unwrap();
            let tell_too = move |job: &Job| again.lock().unwrap().send(job.id()).unwrap();
            let worker = form.on(Worker::new(&case.store).order(order), &case.tube, tell);
            let worker = form.start(form.on(worker, &other, tell_too));
            let put = |tube: &Tube| tube.put("x").unwrap().id;
            for tube in [&other, &case.tube, &case.tube, &other] {
                assert_eq!(put(tube), receive.recv().unwrap());
            }
            assert_eq!(worker.stop().unwrap().done, 4);
        }
    });
}
