//! Cases of other job systems: the order in which a worker asks its tubes.

use std::sync::{Arc, Mutex};

use tubewell::Tube;
use tubewell::worker::{Job, Order, Worker};

use super::executor::with_timeout;
use super::support::*;

const ORDERS: [Order; 3] = [Order::Listed, Order::RoundRobin, Order::Shuffled];

/// A store with so many tubes, named `1` and so on.
fn tubes(count: usize) -> (Case, Vec<Tube>) {
    let case = Case::new();
    let tubes = (1..=count).map(|n| case.another(&n.to_string())).collect();
    (case, tubes)
}

/// The tubes of the jobs that a worker has begun, in order.
type Log = Arc<Mutex<String>>;

/// A worker of these tubes whose jobs note their tubes and then make this call.
fn worker_of(
    form: Form,
    case: &Case,
    tubes: &[Tube],
    order: Order,
    then: impl Fn(&Job) + Clone + Send + Sync + 'static,
) -> (Worker, Log) {
    let log = Log::default();
    let mut worker = Worker::new(&case.store).order(order);
    for tube in tubes {
        let (log, then) = (log.clone(), then.clone());
        worker = form.on(worker, tube, move |job: &Job| {
            log.lock().unwrap().push_str(job.tube());
            then(job);
        });
    }
    (worker, log)
}

/// Q320
#[test]
fn listed_order_does_not_ask_a_later_tube_while_an_earlier_one_has_a_task() {
    in_every_form(|form| {
        let (case, tubes) = tubes(3);
        for tube in &tubes {
            tube.put_many(["a", "b", "c"]).unwrap();
        }
        let (worker, log) = worker_of(form, &case, &tubes, Order::Listed, |_| {});
        form.start(worker.limit(3)).wait().unwrap();
        assert_eq!(*log.lock().unwrap(), "111");
        let takes = |tube: &Tube| tube.statistics().unwrap().calls.take;
        assert_eq!(tubes.iter().map(takes).collect::<Vec<_>>(), [3, 0, 0]);
    });
}

/// Q320
#[test]
fn listed_order_returns_to_the_first_tube_as_soon_as_it_has_a_task() {
    in_every_form(|form| {
        let (case, tubes) = tubes(3);
        tubes[2].put_many(["a", "b", "c"]).unwrap();
        tubes[1].put("a").unwrap();
        let (first, second) = (tubes[0].clone(), tubes[1].clone());
        let put = move |job: &Job| match (job.tube(), job.body()) {
            ("2", b"a") => assert!(first.put("x").is_ok()),
            ("3", b"b") => assert!(second.put("x").is_ok()),
            _ => {}
        };
        let (worker, log) = worker_of(form, &case, &tubes, Order::Listed, put);
        form.start(worker.limit(6)).wait().unwrap();
        assert_eq!(*log.lock().unwrap(), "213323");
    });
}

/// Q320 Q321
#[test]
fn worker_of_empty_tubes_takes_nothing_in_any_order() {
    with_timeout(|| {
        for order in ORDERS {
            let (case, tubes) = tubes(3);
            let (worker, log) = worker_of(Form::Threads, &case, &tubes, order, |_| {});
            assert_eq!(worker.run_until_idle().unwrap().jobs(), 0);
            assert_eq!(*log.lock().unwrap(), "");
            assert!(tubes.iter().all(|tube| tube.statistics().unwrap().calls.take == 0));
        }
    });
}

/// Q321
#[test]
fn round_robin_goes_on_after_the_tube_of_the_last_task() {
    in_every_form(|form| {
        let (case, tubes) = tubes(3);
        tubes[1].put("begin").unwrap();
        let all = tubes.clone();
        let put = move |job: &Job| {
            if job.body() == b"begin" {
                assert!(all.iter().all(|tube| tube.put("x").is_ok()));
            }
        };
        let (worker, log) = worker_of(form, &case, &tubes, Order::RoundRobin, put);
        form.start(worker.limit(4)).wait().unwrap();
        assert_eq!(*log.lock().unwrap(), "2312");
    });
}

/// Q322
#[test]
fn task_is_given_to_the_handler_of_its_tube_in_every_order() {
    in_every_form(|form| {
        for order in ORDERS {
            let (case, tubes) = tubes(4);
            let (send, receive) = shared_channel();
            let mut worker = Worker::new(&case.store).order(order);
            for tube in &tubes {
                tube.put_many((0..10).map(|_| tube.name())).unwrap();
                let (send, name) = (send.clone(), tube.name().to_owned());
                worker = form.on(worker, tube, move |job: &Job| {
                    assert_eq!((job.tube(), job.body()), (&*name, name.as_bytes()));
                    send.lock().unwrap().send(name.clone()).unwrap();
                });
            }
            drop(send);
            let tally = form.start(worker.limit(40)).wait().unwrap();
            assert_eq!((tally.done, tally.jobs()), (40, 40));
            let names: Vec<String> = receive.iter().collect();
            for tube in &tubes {
                assert_eq!(names.iter().filter(|name| *name == tube.name()).count(), 10);
            }
        }
    });
}

/// Q333
#[test]
fn round_robin_divides_the_jobs_of_a_worker_evenly_among_its_tubes() {
    in_every_form(|form| {
        let (case, tubes) = tubes(7);
        for tube in &tubes {
            tube.put_many((0..100).map(|n| n.to_string())).unwrap();
        }
        let (worker, _) = worker_of(form, &case, &tubes, Order::RoundRobin, |_| {});
        form.start(worker.limit(100)).wait().unwrap();
        let done = |tube: &Tube| tube.statistics().unwrap().tasks.done;
        let done: Vec<u64> = tubes.iter().map(done).collect();
        assert_eq!(done, [15, 15, 14, 14, 14, 14, 14]);
    });
}
