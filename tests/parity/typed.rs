//! Typed handles: values go in and come out, and undecodable tasks are buried.

use std::task::Waker;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tubewell::{
    AsyncClaim, Claim, Error, FIFO, FIFOTTL, Filter, LIMFIFOTTL, Outcome, Put, Store, TaskState,
    Tube, TubeOptions,
};

use super::support::{
    SmallBuffer, block_on, ms, poll_pending, timed_store, wait_all, with_timeout,
};
use crate::options::only;
use crate::stores;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    name: String,
    step: u32,
}

fn job(step: u32) -> Job {
    Job { name: "resize".into(), step }
}

fn tube(store: &Store, driver: &str) -> Tube {
    store.create_tube("jobs", TubeOptions::new().driver(driver)).unwrap()
}

/// Puts a task that does not decode, and returns its id.
fn put_undecodable(tube: &Tube) -> u64 {
    tube.put("x").unwrap().id
}

#[test]
fn values_come_out_as_they_went_in() {
    let (store, _clock) = timed_store();
    let jobs = tube(&store, FIFO).typed::<Job>();
    assert_eq!(
        (jobs.name(), jobs.driver(), jobs.session()),
        ("jobs", FIFO, jobs.to_bytes().session())
    );
    jobs.put(job(0)).unwrap();
    jobs.put_many(&[job(1), job(2)]).unwrap();
    jobs.put_timeout(job(3), Duration::MAX).unwrap();
    block_on(jobs.to_async().put_timeout(job(4), Duration::MAX)).unwrap();
    let deferred = jobs.to_async();
    deferred.put(job(5)).wait().unwrap();
    deferred.put(Put::new(&job(6))).wait().unwrap();
    deferred.put_many(&[job(7), job(8)]).wait().unwrap();
    assert_eq!(jobs.query().task(3).unwrap().value().unwrap(), job(3));
    assert_eq!(block_on(jobs.to_async().query().task(4)).unwrap().value().unwrap(), job(4));
    assert_eq!(jobs.query().list(TaskState::Ready, None, 100).unwrap().items.len(), 9);

    let mut claims = vec![jobs.take().unwrap(), jobs.try_take().unwrap().unwrap()];
    claims.extend(jobs.take_many(2, Duration::MAX).unwrap());
    claims.push(block_on(jobs.to_async().take()).unwrap().into_blocking());
    let more = block_on(jobs.to_async().take_many(10, Duration::MAX)).unwrap();
    claims.extend(more.into_iter().map(AsyncClaim::into_blocking));
    let steps: Vec<u32> = claims.iter().map(|claim| claim.value().step).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(Claim::end_many(claims, |_| Outcome::done()).unwrap().iter().all(Result::is_ok));
    assert_eq!(jobs.statistics().unwrap().tasks.done, 9);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn claim_has_the_attributes_of_its_task() {
    let (store, _clock) = timed_store();
    let jobs = tube(&store, FIFOTTL).typed::<Job>();
    let id = jobs.put(Put::new(&job(1)).priority(7).ttr(ms(10))).unwrap().id;
    let claim = jobs.take().unwrap();
    let attributes = (claim.id(), claim.priority(), claim.takes(), claim.tube(), claim.sub_queue());
    assert_eq!(attributes, (id, 7, 1, "jobs", None));
    assert_eq!(claim.body(), br#"{"name":"resize","step":1}"#);
    claim.renew(ms(20)).unwrap();
    claim.touch(ms(5)).unwrap();
    let claim = claim.into_async();
    claim.touch(ms(5)).wait().unwrap();
    let claim = claim.into_blocking();
    let task = claim.detach();
    assert_eq!((task.value().unwrap(), task.info.state), (job(1), TaskState::Taken));
    assert_eq!(task.info.ttr, Some(ms(20)));
    jobs.claimed(id).and_then(|claim| claim.renew(ms(5))).unwrap();
    jobs.claimed(id).and_then(|claim| claim.touch(ms(5))).unwrap();
    jobs.claimed(id).and_then(tubewell::Claim::release).unwrap();
    let (value, claim) = jobs.try_take().unwrap().unwrap().into_parts();
    assert_eq!(value, job(1));
    claim.release().unwrap();
}

#[test]
fn ids_of_typed_and_untyped_handles_are_the_same() {
    let (store, _clock) = timed_store();
    let jobs = tube(&store, FIFO).typed::<Job>();
    let deferred = jobs.to_async();
    let ids: Vec<u64> =
        jobs.put_many(&[job(0), job(1), job(2)]).unwrap().iter().map(|it| it.id).collect();
    for claim in jobs.take_many(3, Duration::MAX).unwrap() {
        let _ = claim.detach();
    }
    jobs.claimed(ids[0]).and_then(tubewell::Claim::ack).unwrap();
    jobs.claimed(ids[1]).and_then(Claim::ack).unwrap();
    assert_eq!(jobs.admin().release(Filter::new()).unwrap(), 1);
    jobs.admin().bury(ids[2], None).unwrap();
    assert_eq!(jobs.admin().kick(Filter::new().limit(1)).unwrap(), 1);
    deferred.admin().bury(ids[2], None).wait().unwrap();
    assert_eq!(deferred.admin().kick(Filter::new().limit(1)).wait(), Ok(1));
    assert_eq!(block_on(jobs.to_async().admin().kick(Filter::new().limit(1))), Ok(0));
    let _ = jobs.try_take().unwrap().unwrap().detach();
    deferred.claimed(ids[2]).wait().unwrap().release().wait().unwrap();
    let _ = jobs.try_take().unwrap().unwrap().detach();
    let refused = deferred.claimed(ids[2]).wait().unwrap().touch(ms(1)).wait();
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    deferred.claimed(ids[2]).wait().unwrap().ack().wait().unwrap();
    let missing = Error::NotTaken { id: ids[2] };
    assert_eq!(deferred.claimed(ids[2]).wait().err(), Some(missing));
    let id = jobs.put(job(3)).unwrap().id;
    deferred.delete(id).wait().unwrap();
    assert_eq!(jobs.delete(id), Err(Error::NotFound { id }));
    jobs.put(job(4)).unwrap();
    deferred.admin().truncate().wait().unwrap();
    jobs.admin().truncate().unwrap();
    jobs.admin().pause().unwrap();
    deferred.admin().unpause().wait().unwrap();
    jobs.admin().pause_for(ms(5)).unwrap();
    deferred.admin().pause().wait().unwrap();
    jobs.admin().pause_until(UNIX_EPOCH).unwrap();
    deferred.admin().pause_until(UNIX_EPOCH).wait().unwrap();
    deferred.admin().pause_for(ms(9)).wait().unwrap();
    assert_eq!(jobs.info().unwrap().resumes_in, Some(ms(9)));
    jobs.admin().unpause().unwrap();
    jobs.admin().alter(only(TubeOptions::new().max_taken(3))).unwrap();
    assert_eq!(jobs.info().unwrap().max_taken, Some(3));
    deferred.admin().alter(only(TubeOptions::new())).wait().unwrap();
    assert!(!jobs.info().unwrap().paused && jobs.info().unwrap().max_taken.is_none());
    assert_eq!(jobs.statistics().unwrap().tasks.total, 0);
    let of_owner = stores::owner(&store).find_tube("jobs").unwrap().typed::<Job>();
    assert!(of_owner.on_task_change(None).unwrap().is_none());
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn undecodable_task_is_buried_and_the_others_are_released() {
    with_timeout(|| {
        for asynchronous in [false, true] {
            let (store, _clock) = timed_store();
            let tube = tube(&store, FIFO);
            let jobs = tube.typed::<Job>();
            jobs.put(job(0)).unwrap();
            let undecodable = put_undecodable(&tube);
            jobs.put(job(2)).unwrap();
            let taken = if asynchronous {
                block_on(jobs.to_async().take_many(10, Duration::MAX)).map(drop)
            } else {
                jobs.take_many(10, Duration::MAX).map(drop)
            };
            let Err(Error::Codec { what }) = taken else { panic!("{taken:?}") };
            assert!(what.contains("task 1 of tube \"jobs\"") && what.contains("buried"), "{what}");
            assert_eq!(tube.query().task(undecodable).unwrap().info.state, TaskState::Buried);
            let again: Vec<u32> = jobs
                .take_many(10, Duration::MAX)
                .unwrap()
                .iter()
                .map(|claim| claim.value().step)
                .collect();
            assert_eq!(again, [0, 2]);
            // A peek leaves the task as it is.
            assert!(matches!(
                jobs.query().task(undecodable).unwrap().value(),
                Err(Error::Codec { .. })
            ));
            assert!(block_on(jobs.to_async().query().task(undecodable)).unwrap().value().is_err());
            assert_eq!(tube.query().task(undecodable).unwrap().info.state, TaskState::Buried);
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    });
}

/// The write buffer is full and its flush blocked: the future must wait for the bury without
/// blocking its thread.
#[test]
fn future_buries_undecodable_task_without_blocking() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let undecodable = put_undecodable(&small.tube);
        let tickets = small.fill();
        let mut take = small.tube.typed::<Job>().to_async().take_timeout(Duration::MAX);
        poll_pending(&mut take, Waker::noop());
        assert_eq!(small.tube.statistics().unwrap().tasks.taken, 1);
        small.disk.unblock_flushes();
        assert!(matches!(block_on(take), Err(Error::Codec { .. })));
        wait_all(tickets);
        assert_eq!(small.tube.query().task(undecodable).unwrap().info.state, TaskState::Buried);
        small.assert_verified();
    });
}

#[test]
fn value_that_cannot_be_encoded_is_not_put() {
    /// A type whose values cannot be encoded.
    #[derive(Deserialize)]
    struct Never;
    impl Serialize for Never {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("never"))
        }
    }
    let (store, _clock) = timed_store();
    let never = tube(&store, FIFO).typed::<Never>();
    let refused = [
        never.put(&Never).map(drop),
        never.put_many([&Never]).map(drop),
        never.put_timeout(&Never, Duration::MAX).map(drop),
        block_on(never.to_async().put_timeout(&Never, Duration::MAX)).map(drop),
        never.to_async().put(&Never).wait().map(drop),
        never.to_async().put_many([&Never]).wait().map(drop),
    ];
    let is_codec = |answer: &tubewell::Result<()>| matches!(answer, Err(Error::Codec { .. }));
    assert!(refused.iter().all(is_codec), "{refused:?}");
    assert_eq!(never.statistics().unwrap().calls.put, 0);
}

#[test]
fn endless_iterator_of_values_is_refused() {
    let (store, _clock) = timed_store();
    let numbers = tube(&store, FIFO).typed::<u64>();
    let refused = numbers.put_many(std::iter::repeat(&7));
    assert!(matches!(refused, Err(Error::Invalid { .. })));
    assert_eq!(numbers.statistics().unwrap().calls.put, 0);
}

#[test]
fn tickets_of_typed_claims_stand_in_line() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let jobs = small.tube.typed::<Job>();
        jobs.put_many(&[job(1), job(2), job(3)]).unwrap();
        let mut claims = jobs.to_async().take_many(3, Duration::MAX).wait().unwrap();
        let tickets = small.fill();
        let mut last = claims.pop().unwrap();
        let stored = last.checkpoint(job(4));
        assert_eq!(last.value(), &job(4));
        let (acked, ended) = (Claim::end_many(claims, |_| Outcome::done()), last.ack());
        small.disk.unblock_flushes();
        wait_all(tickets);
        assert!(acked.wait().unwrap().iter().all(Result::is_ok));
        assert!(stored.wait().is_ok() && ended.wait().is_ok());
        assert_eq!(small.tube.statistics().unwrap().tasks.done, 3);
        small.assert_verified();
    });
}

#[test]
fn waiting_typed_put_is_dropped_with_its_future() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let options = TubeOptions::new().capacity(1);
        let jobs = store.create_tube("jobs", options.driver(LIMFIFOTTL)).unwrap().typed::<Job>();
        jobs.put(job(0)).unwrap();
        let mut put = jobs.to_async().put_timeout(job(1), Duration::MAX);
        poll_pending(&mut put, Waker::noop());
        drop(put);
        let claim: Claim = jobs.take().unwrap().into_parts().1;
        claim.ack().unwrap();
        assert_eq!(jobs.statistics().unwrap().tasks.total, 0);
    });
}
