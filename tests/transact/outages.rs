//! Calls of the disk fail, during the closure or during the commit: a transaction has all of its
//! effects or none, now, after a kill and after a power cut, and the store goes on.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Claim, Durability, Ending, Error, FIFO, FIFOTTL, Failure, Keep, ManualClock, Put, Result,
    State, Store, TubeOptions, UTUBE,
};

use super::support::{serve, served};
use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};

/// Longer than the store waits before it tries a failed disk again.
const RETRY_TIME: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

struct Run {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Store,
    /// Claims in the order of `effects`.
    claims: Vec<Claim>,
    /// The id of the task that the transaction has put.
    put: Option<u64>,
}

impl Run {
    fn begin() -> Run {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = Store::options().clock(&clock).cache_size(0).open_on(disk.storage()).unwrap();
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let mut claims = Vec::new();
        for (name, driver, options) in [
            ("plain", FIFO, TubeOptions::new()),
            ("kept", FIFO, TubeOptions::new().keep_done(Keep::new().count(1)).max_attempts(5)),
            ("late", FIFOTTL, relaxed.clone()),
            ("sub", UTUBE, TubeOptions::new()),
            ("broken", FIFOTTL, TubeOptions::new().keep_buried(Keep::new().count(1))),
        ] {
            let tube = store.create_tube(name, driver, options).unwrap();
            let put = |body: &str| {
                let put = Put::new(body.repeat(700));
                if driver == UTUBE { put.sub_queue("one") } else { put }
            };
            tube.put_many(["a", "b", "c"].map(put)).unwrap();
            let first = tube.try_take().unwrap().unwrap();
            match name {
                "kept" => drop(first.ack_with("first").unwrap()),
                "broken" => drop(first.bury_with(Failure::new("first", "")).unwrap()),
                _ => drop(first.release(Duration::ZERO).unwrap()),
            }
            claims.push(tube.try_take().unwrap().unwrap());
        }
        store.create_tube("next", UTUBE, relaxed).unwrap();
        store.transact(|tx| serve(tx, "bob")).unwrap();
        // The journal has edits that the database has not.
        store.tube("plain").unwrap().put("d").unwrap();
        Run { disk, clock, store, claims, put: None }
    }

    fn transact(&mut self) -> Result<()> {
        let [plain, kept, late, sub, broken] = &self.claims[..] else { unreachable!() };
        let next = self.store.tube("next").unwrap();
        let put = &mut self.put;
        self.store.transact(|tx| {
            serve(tx, "ann")?;
            tx.ack(plain)?;
            tx.ack_with(kept, "second")?;
            tx.release(late, HOUR)?;
            tx.ack(sub)?;
            tx.bury_with(broken, Failure::new("second", "no answer"))?;
            *put = Some(tx.put(&next, Put::new(vec![7; 3000]).sub_queue("one"))?);
            Ok(())
        })
    }

    /// Whether a store has all effects; panics if it has some. `taken`: what a task is whose claim
    /// stands.
    fn has_effects(&self, store: &Store, what: &str) -> bool {
        assert_eq!(store.verify().unwrap(), [""; 0], "{what}");
        let all = served(store, "ann") == 1;
        assert_eq!(served(store, "bob"), 1, "{what}");
        let tube = |name: &str| store.tube(name).unwrap();
        let state = |claim: &Claim| tube(claim.tube()).peek(claim.id()).map(|it| it.info.state);
        let [plain, kept, late, sub, broken] = &self.claims[..] else { unreachable!() };
        for gone in [plain, sub] {
            let expected = Err(Error::NotFound { id: gone.id() });
            assert_eq!(state(gone) == expected, all, "{what}: {:?}", state(gone));
        }
        let body = tube("plain").peek(plain.id()).map(|it| it.data == b"a".repeat(700));
        assert_eq!(body.unwrap_or(all), true, "{what}: the body of a task");
        let result = Some(Ending::Done { result: Some(b"second".to_vec()) });
        assert_eq!(tube("kept").outcome(kept.id()).unwrap() == result, all, "{what}");
        assert_eq!(state(late) == Ok(State::Delayed), all, "{what}");
        assert_eq!(state(broken) == Ok(State::Buried), all, "{what}");
        let groups = tube("broken").groups().unwrap();
        let name = if all { "second" } else { "first" };
        assert_eq!(groups.iter().map(|it| &*it.name).collect::<Vec<_>>(), [name], "{what}");
        if let Some(put) = self.put {
            let found = tube("next").peek(put).map(|it| it.data.len());
            assert_eq!(found == Ok(3000), all, "{what}: {found:?}");
        }
        assert_eq!(tube("next").statistics().unwrap().tasks.total, u64::from(all), "{what}");
        all
    }
}

/// One run in which a call of the disk fails. Returns whether one did.
fn fails(plan: Plan, with_later_call: bool) -> bool {
    let mut run = Run::begin();
    run.disk.fail(plan);
    let result = run.transact();
    let failed = run.disk.has_failed();
    let what = format!("{plan:?}: {result:?}");
    match &result {
        Ok(()) | Err(Error::OutcomeUnknown { .. }) => {}
        Err(Error::Unavailable { .. } | Error::Io { .. } | Error::Corrupt { .. }) => {
            assert!(failed, "{what}");
        }
        Err(error) => panic!("{what}: {error:?}"),
    }
    if with_later_call {
        // Refused, or decided above the transaction.
        let _ = run.store.tube("plain").unwrap().put("later");
    }
    for (copy, kind) in [(run.disk.after_kill(), "kill"), (run.disk.after_power_cut(), "cut")] {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_on(copy.storage()).unwrap();
        let has = run.has_effects(&store, &format!("{what}, after a {kind}"));
        match result {
            Ok(()) => assert!(has, "{what}, after a {kind}"),
            Err(Error::OutcomeUnknown { .. }) => {}
            Err(_) => assert!(!has, "{what}, after a {kind}"),
        }
    }
    run.disk.repair();
    run.clock.advance(RETRY_TIME);
    let has = run.has_effects(&run.store, &what);
    match result {
        Ok(()) => assert!(has, "{what}"),
        Err(Error::OutcomeUnknown { .. }) => {}
        Err(_) => assert!(!has, "{what}"),
    }
    // A transaction that the store has decided has ended the claims, whether it was committed.
    let has_decided = matches!(result, Ok(()) | Err(Error::OutcomeUnknown { .. }));
    for claim in &run.claims {
        assert_eq!(claim.is_current(), !has_decided, "{what}");
    }
    goes_on(run, has, &what);
    failed
}

/// The tasks are taken again, or not, and the store works.
fn goes_on(mut run: Run, has: bool, what: &str) {
    let store = &run.store.clone();
    if !has && !run.claims[0].is_current() {
        let again = store.tube("plain").unwrap().try_take().unwrap().unwrap();
        assert_eq!((again.id(), again.takes()), (run.claims[0].id(), 3), "{what}");
        store.transact(|tx| serve(tx, "carl").and_then(|()| tx.ack(&again))).unwrap();
        assert_eq!(served(store, "carl"), 1, "{what}");
        let sub = store.tube("sub").unwrap().try_take().unwrap().unwrap();
        assert_eq!(sub.id(), run.claims[3].id(), "{what}: its sub-queue is free");
        sub.ack().unwrap();
    }
    run.claims.clear();
    for name in ["plain", "kept", "late", "sub", "broken", "next"] {
        let tube = store.tube(name).unwrap();
        let put = Put::new("more");
        tube.put(if matches!(name, "sub" | "next") { put.sub_queue("one") } else { put }).unwrap();
        while let Some(claim) = tube.try_take().unwrap() {
            claim.ack().unwrap();
        }
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!(tasks.ready, 0, "{what}: {name} {tasks:?}");
    }
    assert_eq!(store.verify().unwrap(), [""; 0], "{what}");
}

fn fail_each_call(kind: Kind, step: usize) -> usize {
    let mut runs = 0;
    for fault in Fault::ALL {
        for lasting in [false, true] {
            let fails = |nth: &u64| {
                let plan = Plan { kind, nth: *nth, fault, lasting };
                fails(plan, nth % 2 == 0)
            };
            runs += (1..100_000).step_by(step).take_while(fails).count();
        }
    }
    println!("{kind:?}: {runs} runs");
    runs
}

#[test]
fn transaction_without_failures_passes() {
    let plan = Plan { kind: Kind::Any, nth: u64::MAX, fault: Fault::Device, lasting: false };
    assert!(!fails(plan, true));
}

#[test]
fn failed_write_or_flush_leaves_all_or_nothing() {
    assert!(fail_each_call(Kind::Write, 1) > 20);
    assert!(fail_each_call(Kind::Sync, 1) >= 6);
}

#[test]
fn failed_read_or_growth_leaves_all_or_nothing() {
    assert!(fail_each_call(Kind::Read, 5) > 6);
    fail_each_call(Kind::SetLen, 1);
}
