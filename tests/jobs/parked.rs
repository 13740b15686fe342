//! Parked claims, which outlive the process.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, UTUBE};
use tubewell::expert::Storage;
use tubewell::{Claim, ClaimToken, Durability, Error, Filter, Store, TaskState, Tube, TubeOptions};

use super::files::{create, create_with, draft};
use super::support::*;
use crate::stores::{self, ManualClock};

/// The store as another process finds it after this one was killed: a copy of the file as it is.
fn after_a_kill(file: &StoreFile) -> (StoreFile, Store) {
    let killed = StoreFile::new();
    std::fs::copy(file.path(), killed.path()).unwrap();
    let store = stores::open_with(killed.path(), Store::options().clock(&file.clock));
    (killed, store)
}

fn park(tube: &Tube, hold: Duration) -> ClaimToken {
    tube.try_take().unwrap().unwrap().park(hold).unwrap()
}

fn resume(store: &Store, token: &ClaimToken) -> Claim {
    store.resume_claim(token).unwrap()
}

/// B029 B037
/// Difference: the part that runs outside is not watched by its process id. Its claim has a time.
#[test]
fn parked_claim_survives_close_and_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let session = store.session("parent").unwrap();
        tube.put(draft(driver, "film")).unwrap();
        let token = park(&session.tube(&tube).unwrap(), secs(3600));
        drop(session);
        for killed in [false, true] {
            let (_file, store) = if killed {
                after_a_kill(&file)
            } else {
                let copy = StoreFile::new();
                store.admin().backup(copy.path()).unwrap();
                let store = stores::open_with(copy.path(), Store::options().clock(&file.clock));
                (copy, store)
            };
            let tube = store.find_tube("case").unwrap();
            assert_eq!(state(&tube, 0), Some(TaskState::Taken));
            assert_eq!(take(&tube), None);
            let owner = tube.query().owner(0).unwrap().unwrap();
            assert_eq!((owner.label.as_deref(), owner.is_parked), (Some("parent"), true));
            assert_eq!(owner.expires_in, Some(secs(3600)));
            assert_sound(&store);
            let claim = resume(&store, &token.to_string().parse().unwrap());
            assert_eq!((claim.body(), claim.takes()), (&b"film"[..], 1));
            assert!(!claim.owner().unwrap().unwrap().is_parked);
            claim.ack().unwrap();
            assert_eq!(tube.query().task(0), Err(Error::NotFound { id: 0 }));
            assert_sound(&store);
            stores::close(&store);
        }
    }
}

#[test]
fn parked_claim_ends_at_its_time_while_open_and_while_closed() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(draft(driver, "a")).unwrap();
        let token = park(&tube, secs(10));
        let left = |tube: &Tube| tube.query().owner(0).unwrap().unwrap().expires_in;
        file.clock.advance(secs(4));
        assert_eq!(left(&tube), Some(secs(6)));
        drop(tube);
        let store = file.reopen_after(store, secs(5));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(left(&tube), Some(secs(1)));
        assert_eq!(take(&tube), None);
        file.clock.advance(secs(1));
        assert_not_taken(store.resume_claim(&token), 0);
        assert_eq!(tube.query().owner(0).unwrap(), None);
        assert_eq!(calls(&tube).get("ttr"), Some(&1));

        let token = park(&tube, secs(10));
        drop(tube);
        let store = file.reopen_after(store, secs(10));
        file.tick();
        let tube = store.find_tube("case").unwrap();
        assert_not_taken(store.resume_claim(&token), 0);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.takes(), 3);
        claim.ack().unwrap();
        assert_sound(&store);
    }
}

#[test]
fn parked_claim_goes_on_while_the_machine_sleeps() {
    let clock = ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    let token = park(&tube, secs(10));
    clock.suspend(secs(9));
    assert_eq!(tube.query().owner(0).unwrap().unwrap().expires_in, Some(secs(1)));
    let claim = resume(&store, &token);
    // With a holder it is a claim as any other: a worker that sleeps keeps it.
    clock.suspend(secs(9));
    assert_eq!(claim.expires_in().unwrap(), Some(secs(1)));
    claim.ack().unwrap();
    assert_sound(&store);
}

#[test]
fn parked_claim_without_a_limit_ends_when_it_is_revoked() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    tube.put("x").unwrap();
    let token = park(&tube, Duration::MAX);
    drop(tube);
    let store = file.reopen_after(store, secs(1_000_000_000));
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.query().owner(0).unwrap().unwrap().expires_in, None);
    let refused = store.drop_tube("case");
    assert!(matches!(refused, Err(Error::TubeBusy { .. })), "{refused:?}");
    assert_eq!(tube.admin().revoke(0), Ok(1));
    // The revoke of a parked claim is flushed: the claim must not stand again after a kill.
    let (_killed, after) = after_a_kill(&file);
    assert_not_taken(after.resume_claim(&token), 0);
    assert_eq!(take(&after.find_tube("case").unwrap()), Some(0));
    assert_not_taken(store.resume_claim(&token), 0);
    assert_sound(&store);
}

#[test]
fn claim_is_resumed_once() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let token = park(&case.tube, secs(10));
        let session = case.store.session("").unwrap();
        let claim = session.resume_claim(&token).unwrap();
        assert_not_taken(case.store.resume_claim(&token), id);
        assert_eq!(case.tube.query().owner(id).unwrap().unwrap().session, session.id());
        // Its end is that of any claim: with its session, for instance.
        drop(claim.detach());
        session.end().unwrap();
        assert_not_taken(case.store.resume_claim(&token), id);
        let again = park(&case.tube, secs(10));
        assert_not_taken(case.store.resume_claim(&token), id);
        resume(&case.store, &again).bury(None).unwrap();
        assert_not_taken(case.store.resume_claim(&again), id);
    });
}

#[test]
fn resumed_claim_is_parked_again_if_the_process_dies() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    tube.put("x").unwrap();
    let token = park(&tube, secs(100));
    let mut claim = resume(&store, &token);
    claim.checkpoint("half").unwrap();
    let (_killed, after) = after_a_kill(&file);
    let again = resume(&after, &token);
    assert_eq!((again.body(), again.takes()), (&b"half"[..], 1));
    drop(again);
    assert_sound(&after);

    // A release is flushed, since the claim was parked: the task is ready after a kill.
    claim.release().unwrap();
    let (_killed, after) = after_a_kill(&file);
    assert_not_taken(after.resume_claim(&token), 0);
    assert_eq!(take(&after.find_tube("case").unwrap()), Some(0));
    assert_sound(&store);
}

#[test]
fn parked_task_keeps_its_sub_queue_busy_after_a_restart() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, UTUBE);
    for data in ["a", "b"] {
        tube.put(tubewell::Put::new(data).sub_queue("s")).unwrap();
    }
    let token = park(&tube, secs(100));
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(take(&tube), None);
    let error = tube.claim(1).unwrap_err();
    assert!(matches!(error, Error::NotReady { state: TaskState::Ready, .. }), "{error:?}");
    resume(&store, &token).ack().unwrap();
    assert_eq!(take(&tube), Some(1));
    assert_sound(&store);
}

#[test]
fn every_end_of_a_parked_task_removes_the_claim() {
    let ends: [fn(&Tube); 4] = [
        |tube| assert_eq!(tube.delete(0).unwrap().id, 0),
        |tube| assert_eq!(tube.admin().bury(0, None).unwrap().id, 0),
        |tube| tube.admin().truncate().unwrap(),
        |tube| assert_eq!(tube.admin().release(Filter::new()).unwrap(), 1),
    ];
    for end in ends {
        let file = StoreFile::new();
        let (store, tube) = create(&file, FIFOTTL);
        tube.put("x").unwrap();
        let token = park(&tube, secs(100));
        end(&tube);
        assert_not_taken(store.resume_claim(&token), 0);
        drop(tube);
        let store = file.reopen(store);
        assert_not_taken(store.resume_claim(&token), 0);
        assert_eq!(store.find_tube("case").unwrap().statistics().unwrap().tasks.taken, 0);
        assert_sound(&store);
    }
}

/// Once the call returns, as much survives as of a change of this durability.
#[test]
fn ends_of_all_parked_claims_are_stored_when_the_call_returns() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        for revokes in [false, true] {
            let file = StoreFile::new();
            let options = TubeOptions::new().durability(durability);
            let (store, tube) = create_with(&file, FIFO, options);
            tube.put("x").unwrap();
            let token = park(&tube, secs(100));
            store.flush().unwrap();
            let ended = if revokes {
                tube.admin().revoke(Filter::new())
            } else {
                tube.admin().release(Filter::new())
            };
            assert_eq!(ended, Ok(1));
            assert_not_taken(store.resume_claim(&token), 0);
            let (_killed, after) = after_a_kill(&file);
            if durability == Durability::relaxed() {
                resume(&after, &token).ack().unwrap();
                store.flush().unwrap();
            }
            let (_killed, after) = after_a_kill(&file);
            assert_not_taken(after.resume_claim(&token), 0);
            assert_eq!(take(&after.find_tube("case").unwrap()), Some(0));
            assert_sound(&store);
        }
    }
}

#[test]
fn claim_that_is_parked_again_has_the_same_token() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let token = park(&case.tube, secs(10));
        let again = resume(&case.store, &token).park(secs(20)).unwrap();
        assert_eq!(again, token);
        let left = || case.tube.query().owner(id).unwrap().unwrap().expires_in;
        assert_eq!(left(), Some(secs(20)));
        resume(&case.store, &token).ack().unwrap();
        assert_not_taken(case.store.resume_claim(&again), id);
    });
}

#[test]
fn ttl_removes_a_parked_task() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").ttl(secs(5)));
        let token = park(&case.tube, secs(100));
        case.advance(5000);
        assert_not_taken(case.store.resume_claim(&token), id);
        assert_eq!(case.tube.query().task(id), Err(Error::NotFound { id }));
    });
}

#[test]
fn max_runtime_is_the_longest_time_to_park() {
    let options = TubeOptions::default().max_runtime(secs(30));
    for_each_driver_with(TIMED, options, |case| {
        case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(10_000);
        let id = claim.id();
        let token = claim.park(secs(100)).unwrap();
        let left = || case.tube.query().owner(id).unwrap().unwrap().expires_in;
        assert_eq!(left(), Some(secs(20)));
        let claim = resume(&case.store, &token);
        claim.renew(secs(1000)).unwrap();
        assert_eq!(left(), Some(secs(20)));
        claim.ack().unwrap();
    });
}

#[test]
fn max_runtime_limits_a_claim_that_a_later_run_resumes() {
    let file = StoreFile::new();
    let store = file.open();
    let options = TubeOptions::new().max_runtime(secs(30));
    let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
    tube.put("x").unwrap();
    let token = park(&tube, secs(20));
    drop(tube);
    let store = file.reopen_after(store, secs(5));
    let claim = resume(&store, &token);
    claim.renew(secs(1000)).unwrap();
    assert_eq!(claim.expires_in().unwrap(), Some(secs(15)));
    claim.ack().unwrap();
    assert_sound(&store);
}

#[test]
fn claim_of_a_relaxed_or_temporary_tube_can_be_parked() {
    let file = StoreFile::new();
    let store = file.open();
    let options = TubeOptions::new;
    for (name, options) in [
        ("relaxed", options().durability(Durability::relaxed())),
        ("written", options().durability(Durability::write())),
        ("temporary", options().temporary(true)),
    ] {
        let tube = store.create_tube(name, options.driver(FIFO)).unwrap();
        let id = tube.put("x").unwrap().id;
        let token = park(&tube, secs(100));
        assert_eq!(token.tube(), name);
        assert_eq!(token.id(), id);
        assert_eq!(take(&tube), None);
        assert_sound(&store);
        resume(&store, &token).ack().unwrap();
        tube.put("y").unwrap();
        drop(park(&tube, secs(100)));
    }
    let store = file.reopen(store);
    let taken = |name: &str| store.find_tube(name).unwrap().statistics().unwrap().tasks.taken;
    assert_eq!((taken("relaxed"), taken("written"), taken("temporary")), (1, 1, 0));
    assert_sound(&store);
}

#[test]
fn token_has_one_text() {
    let store = store_in_memory();
    for name in ["jobs", "grün/7.x", "~", "1.2.3"] {
        let tube = store.create_tube(name, TubeOptions::new().driver(FIFO)).unwrap();
        tube.put("x").unwrap();
        let token = park(&tube, secs(1));
        let text = token.to_string();
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        assert_eq!(text.parse::<ClaimToken>().unwrap(), token);
        for bad in
            [text[1..].to_owned(), text.to_uppercase() + "~", format!("{text}~4"), String::new()]
        {
            assert!(bad.parse::<ClaimToken>().is_err(), "{bad}");
        }
    }
    let unknown: ClaimToken = "17.0000000000000001.nowhere".parse().unwrap();
    assert!(matches!(store.resume_claim(&unknown), Err(Error::TubeNotFound { .. })));
    assert_sound(&store);
}

/// Bytes in memory, and a copy of them at each flush.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Bytes>>);

#[derive(Debug, Default)]
struct Bytes {
    now: Vec<u8>,
    flushed: Vec<Vec<u8>>,
}

impl Disk {
    fn of(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(Bytes { now: bytes, flushed: Vec::new() })))
    }

    fn open(&self) -> Store {
        let options = Store::options().clock(ManualClock::new());
        stores::serve(options.open_on(Box::new(self.clone())).unwrap())
    }
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        out.copy_from_slice(&self.0.lock().unwrap().now[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().now.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        let image = disk.now.clone();
        disk.flushed.push(image);
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        self.0.lock().unwrap().now[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// Regression: if disk space is short, removals are committed first. When those of `claims` were the
/// first commit of the database, the file was refused as one of another program after a crash.
#[test]
fn store_opens_after_a_crash_between_the_removals_and_the_rest_of_its_first_checkpoint() {
    let disk = Disk::default();
    let store = disk.open();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    // Two parks, so that the row is removed and not only left out.
    let token = park(&tube, Duration::MAX);
    let token = resume(&store, &token).park(secs(100)).unwrap();
    resume(&store, &token).ack().unwrap();
    let killed = Disk::of(disk.0.lock().unwrap().now.clone());
    stores::close(&killed.open()); // the first checkpoint
    let images = std::mem::take(&mut killed.0.lock().unwrap().flushed);
    assert!(images.len() > 5);
    for image in images {
        let store = Disk::of(image).open();
        assert_sound(&store);
    }
}

#[test]
fn overdue_parked_claim_does_not_prevent_a_claim_before_the_sweep() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    tube.put("x").unwrap();
    let token = park(&tube, secs(10));
    drop(tube);
    let store = file.reopen_after(store, secs(10));
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.query().owner(0).unwrap(), None);
    let claim = tube.claim(0).unwrap();
    assert_not_taken(store.resume_claim(&token), 0);
    claim.ack().unwrap();
    assert_sound(&store);
}
