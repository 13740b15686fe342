//! Claims of a task by its id, beside other claims of it, its holder, and the flush of its put.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{AsyncClaim, Claim, Error, FIFO, Result, Store, TaskState, Tube, UTUBE};

use crate::disk::Disk;
use crate::explore::explore;
use crate::support::{
    body, manual_clock_store, spawn_with, taker, tube, verify_and_close, waiting_take,
};

/// A body that has a row of its own, which is read without the lock.
fn large(byte: u8) -> Vec<u8> {
    vec![byte; 5000]
}

fn claim_later(tube: &Tube, id: u64) -> Result<Claim> {
    block_on(tube.to_async().claim(id)).map(AsyncClaim::into_blocking)
}

/// Whether the call returned a claim. Otherwise the task was taken.
fn has_claimed(answer: &Result<Claim>) -> bool {
    match answer {
        Ok(_) => true,
        Err(Error::NotReady { state: TaskState::Taken, .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn concurrent_claims_of_one_task_have_one_winner() {
    explore("concurrent_claims_of_one_task_have_one_winner", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, UTUBE);
        let id = tube.put(large(7)).unwrap().id;
        let claims = spawn_with(&tube, move |tube| tube.claim(id));
        let awaits = spawn_with(&tube, move |tube| claim_later(&tube, id));
        let takes = spawn_with(&tube, |tube| tube.try_take().unwrap());
        // The claims are kept until all threads have returned.
        let claimed = [claims.join().unwrap(), awaits.join().unwrap()];
        let taken = takes.join().unwrap();
        let winners = claimed.iter().filter(|answer| has_claimed(answer)).count();
        assert_eq!(winners + usize::from(taken.is_some()), 1);
        let winner = claimed.into_iter().filter_map(Result::ok).chain(taken).next().unwrap();
        assert_eq!((winner.body(), winner.takes()), (&*large(7), 1));
        let statistics = tube.statistics().unwrap();
        assert_eq!((statistics.tasks.taken, statistics.calls.take), (1, 1));
        winner.ack().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn revoke_beside_ack_has_one_winner() {
    explore("revoke_beside_ack_has_one_winner", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let id = tube.put("x").unwrap().id;
        let claim = tube.claim(id).unwrap();
        let acks = thread::spawn(move || claim.ack());
        let revokes = spawn_with(&tube, move |tube| tube.admin().revoke(id));
        let other = spawn_with(&tube, |tube| tube.put("y").unwrap().id);
        let (acked, revoked) = (acks.join().unwrap(), revokes.join().unwrap());
        let other = other.join().unwrap();
        let statistics = tube.statistics().unwrap();
        let calls = (statistics.calls.ack, statistics.calls.release);
        let tasks = (statistics.tasks.ready, statistics.tasks.taken);
        match (acked, revoked) {
            (Ok(acked), Ok(0)) => {
                assert_eq!((acked.id, calls, tasks), (id, (1, 0), (1, 0)));
                assert_eq!(tube.claim(id).unwrap_err(), Error::NotFound { id });
                assert_eq!(tube.claim(other).unwrap().id(), other);
            }
            (Err(Error::NotTaken { .. }), Ok(1)) => {
                assert_eq!((calls, tasks), ((0, 1), (2, 0)));
                assert_eq!(tube.claim(id).unwrap().takes(), 2);
            }
            answers => panic!("{answers:?}"),
        }
        verify_and_close(&store);
    });
}

/// The next taker waits for the flush of the new body, and gets this body.
#[test]
fn taker_after_revoke_gets_the_last_body_that_was_stored() {
    explore("taker_after_revoke_gets_the_last_body_that_was_stored", || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let tube = tube(&store, FIFO);
        let id = tube.put("old").unwrap().id;
        let mut claim = tube.claim(id).unwrap();
        let waits = taker(&tube);
        let stores = thread::spawn(move || {
            let stored = claim.checkpoint(large(1));
            (stored, claim)
        });
        let revokes = spawn_with(&tube, move |tube| tube.admin().revoke(id).unwrap());
        let next = waits.join().unwrap();
        revokes.join().unwrap();
        let (stored, claim) = stores.join().unwrap();
        let last = if stored.is_ok() { large(1) } else { b"old".to_vec() };
        assert!(stored.is_ok() || stored == Err(Error::NotTaken { id }), "{stored:?}");
        assert!(next.body() == last && claim.body() == last);
        assert!(next.is_current().unwrap() && !claim.is_current().unwrap());
        let calls = tube.statistics().unwrap().calls;
        assert_eq!((calls.take, calls.release), (2, 1));
        assert_eq!(calls.checkpoint, u64::from(stored.is_ok()));
        next.ack().unwrap();
        verify_and_close(&store);
    });
}

/// A store on a disk, with a tube and the id of a task whose put is decided and may not be flushed.
fn store_with_deferred_put(
    disk: &Arc<Disk>,
) -> (Store, Tube, u64, tubewell::Ticket<tubewell::Receipt>) {
    let store = disk.open_with_manual_clock();
    let tube = tube(&store, FIFO);
    let id = store.admin().next_id().unwrap();
    let ticket = tube.to_async().put("x");
    (store, tube, id, ticket)
}

/// A claim waits for the flush of the put. Others lead this flush, or the claim leads it.
#[test]
fn claims_of_unflushed_task_return_beside_the_leader() {
    explore("claims_of_unflushed_task_return_beside_the_leader", || {
        let disk = Disk::with_power_cuts();
        let (store, tube, id, ticket) = store_with_deferred_put(&disk);
        let puts = spawn_with(&tube, |tube| tube.put("y").unwrap().id);
        let at_claim = Arc::clone(&disk);
        let claims = spawn_with(&tube, move |tube| (tube.claim(id), at_claim.after_power_cut()));
        let awaits = spawn_with(&tube, move |tube| claim_later(&tube, id));
        let (claimed, flushed) = claims.join().unwrap();
        let claimed = [claimed, awaits.join().unwrap()];
        assert_eq!(claimed.iter().filter(|answer| has_claimed(answer)).count(), 1);
        let reopened = flushed.open_with_manual_clock();
        assert_eq!(reopened.tube(FIFO).unwrap().claim(id).unwrap().body(), b"x");
        reopened.close().unwrap();
        assert_eq!(ticket.wait().unwrap().id, id);
        let winner = claimed.into_iter().find_map(Result::ok).unwrap();
        assert_eq!((winner.id(), &*body(&winner)), (id, "x"));
        assert!(puts.join().unwrap() > id);
        verify_and_close(&store);
    });
}

#[test]
fn claims_of_unflushed_task_return_when_storage_fails() {
    explore("claims_of_unflushed_task_return_when_storage_fails", || {
        let disk = Disk::new();
        let (store, tube, id, ticket) = store_with_deferred_put(&disk);
        let claims = spawn_with(&tube, move |tube| tube.claim(id));
        let awaits = spawn_with(&tube, move |tube| claim_later(&tube, id));
        disk.is_broken.raise();
        let answers = [claims.join().unwrap(), awaits.join().unwrap()];
        let is_put = ticket.wait().is_ok();
        for answer in answers {
            let is_allowed = match &answer {
                Ok(_) | Err(Error::NotReady { .. }) => is_put,
                Err(Error::OutcomeUnknown { .. } | Error::Unavailable { .. }) => true,
                Err(_) => false,
            };
            assert!(is_allowed, "{answer:?}");
        }
        let closed = store.close();
        assert!(is_put || closed.is_err(), "{closed:?}");
    });
}

/// A waiting taker and a claim want the same task, whose put is not flushed yet.
#[test]
fn waiting_taker_or_claim_gets_the_task_put_beside_them() {
    explore("waiting_taker_or_claim_gets_the_task_put_beside_them", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let waiting = waiting_take(&tube);
        let id = store.admin().next_id().unwrap();
        let puts = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
        let claims = spawn_with(&tube, move |tube| tube.claim(id));
        assert_eq!(puts.join().unwrap(), id);
        match claims.join().unwrap() {
            // The claim was made before the put.
            Err(Error::NotFound { .. }) => {}
            claimed => assert!(!has_claimed(&claimed), "a claim overtook a waiting taker"),
        }
        let claim = block_on(waiting).unwrap().unwrap();
        assert_eq!(claim.id(), id);
        claim.ack().wait().unwrap();
        verify_and_close(&store);
    });
}
