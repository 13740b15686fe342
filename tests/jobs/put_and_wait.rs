//! Puts that wait for the end of their task.

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tubewell::driver::LIMFIFOTTL;
use tubewell::{Ending, Error, Receipt, TaskState, TubeOptions};

use super::executor::{block_on, with_timeout};
use super::support::*;
use super::wait::*;

#[test]
fn put_and_wait_returns_receipt_and_ending() {
    with_timeout(|| {
        for_each_driver(ALL, |case| {
            let wait = begin_put(case, NO_TIMEOUT);
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            let (receipt, ending) = end_of(wait).unwrap();
            assert_eq!((receipt.id, receipt.state), (0, TaskState::Ready));
            assert_eq!(ending, Some(DONE));

            let wait = begin_put(case, secs(1));
            case.advance(1_000);
            let (receipt, ending) = end_of(wait).unwrap();
            assert_eq!((receipt.id, ending), (1, None));
            assert_eq!(case.take(), Some(1), "the task is still there");

            let (receipt, ending) = case.tube.put_and_wait(case.draft("x"), ZERO).unwrap();
            assert_eq!((receipt.id, ending), (2, None));
        });
    });
}

/// A worker that has the task before `put_and_wait` has returned from the put is not missed.
#[test]
fn put_and_wait_does_not_miss_an_end_before_it_waits() {
    for options in [TubeOptions::new(), TubeOptions::new().temporary(true)] {
        for_each_driver_with(TIMED, options, |case| {
            let taker = case.begin_take();
            let put = case.tube.to_async().put_and_wait(case.draft("x").ttl(ZERO), NO_TIMEOUT);
            let mut put = Box::pin(put);
            let first = put.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            case.advance(1);
            let ending = match first {
                Poll::Ready(ending) => ending,
                Poll::Pending => block_on(put),
            };
            assert_eq!(ending.unwrap().1, Some(Ending::Expired));
            drop(taker);
        });
    }
}

#[test]
fn refused_put_and_wait_leaves_no_wait() {
    let options = TubeOptions::new().capacity(1);
    for_each_driver_with(&[LIMFIFOTTL], options, |case| {
        case.put_all([0]);
        let full = case.tube.put_and_wait("x", NO_TIMEOUT).err();
        assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
        assert_eq!(block_on(case.tube.to_async().put_and_wait("x", NO_TIMEOUT)).err(), full);
        case.tube.delete(0).unwrap();
        assert_eq!(case.tube.put_and_wait("x", ZERO).unwrap().0.id, 1);
    });
}

/// Begins a put that waits for the end of its task, and returns once the task is visible.
fn begin_put(case: &Case, timeout: Duration) -> Wait<(Receipt, Option<Ending>)> {
    let wait = Wait::begin(case.tube.to_async().put_and_wait(case.draft("x"), timeout));
    case.store.flush().unwrap();
    wait
}
