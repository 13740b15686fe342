//! A great many tasks that are due at once: they go in slices, and callers go on in between.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::{
    Durability, FIFO, FIFOTTL, ManualClock, Put, Storage, Store, Tube, TubeOptions, WhenFull,
};

use crate::support::HOUR;

/// What the sweeper may leave for one commit, in rows, and what it does under one hold of the
/// lock; a task whose life ends is two rows here.
const PENDING: u64 = 2048;
const STEP: u64 = 64;

type Hook = Box<dyn FnMut() + Send>;

/// Bytes, and something that is done in each flush, on the thread that asked for it.
#[derive(Default)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    hook: Mutex<Option<Hook>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Plugged(Arc<Disk>);

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for Plugged {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        out.copy_from_slice(&bytes[at(offset)..at(offset) + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(at(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // Taken out for as long as it runs: what it does must not need another flush.
        let hook = self.0.hook.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook();
            *self.0.hook.lock().unwrap() = Some(hook);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.bytes.lock().unwrap();
        bytes[at(offset)..at(offset) + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn many() -> u64 {
    std::env::var("TUBEWELL_CLOCKS_DUE").map_or(20_000, |text| text.parse().unwrap())
}

/// What was seen in the flushes: how many, and the most that ended between two of them.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    flushes: u64,
    done: u64,
    most: u64,
    served: u64,
}

/// In each flush, one more relaxed put and one more take.
fn look_on(disk: &Disk, seen: &Arc<Mutex<Seen>>, due: &Tube, live: &Tube) {
    let (seen, due, live) = (seen.clone(), due.clone(), live.clone());
    let hook = move || {
        let calls = due.statistics().unwrap().calls;
        let done = calls.ttl + calls.delay;
        let claim = live.try_take().unwrap().expect("a task of the live tube");
        claim.release(Duration::ZERO).unwrap();
        drop(live.deferred(WhenFull::Refuse).put("more").expect("room for a put"));
        let mut seen = seen.lock().unwrap();
        seen.flushes += 1;
        seen.most = seen.most.max(done - seen.done);
        seen.done = done;
        seen.served += 1;
    };
    *disk.hook.lock().unwrap() = Some(Box::new(hook));
}

/// Makes very many tasks due at one moment, and looks on while it comes.
fn flood(put: impl Fn(u64) -> Put) -> (Seen, Store, Tube) {
    let disk = Arc::new(Disk::default());
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_on(Box::new(Plugged(disk.clone()))).unwrap();
    let due = store.create_tube("due", FIFOTTL, TubeOptions::new()).unwrap();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let live = store.create_tube("live", FIFO, relaxed).unwrap();
    live.put("alive").unwrap();
    let many = many();
    for from in (0..many).step_by(50_000) {
        due.put_many((from..many.min(from + 50_000)).map(&put)).unwrap();
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    look_on(&disk, &seen, &due, &live);
    clock.advance(HOUR);
    *disk.hook.lock().unwrap() = None;
    let seen = *seen.lock().unwrap();
    println!("{many} due at once: {seen:?}");
    // A commit may be under way while the next one fills.
    assert!(seen.most <= 2 * (PENDING + 2 * STEP), "{seen:?}");
    assert!(seen.flushes >= many / (2 * (PENDING + 2 * STEP)), "{seen:?}");
    assert_eq!(live.statistics().unwrap().tasks.ready, seen.served + 1);
    (seen, store, due)
}

#[test]
fn when_very_many_lives_end_at_once_callers_go_on_in_between() {
    let (_, store, due) = flood(|_| Put::new("x").ttl(HOUR));
    assert_eq!(due.statistics().unwrap().calls.ttl, many());
    assert_eq!(due.statistics().unwrap().tasks.total, 0);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn when_very_many_delays_end_at_once_callers_go_on_in_between() {
    let (_, store, due) = flood(|_| Put::new("x").delay(HOUR));
    assert_eq!(due.statistics().unwrap().tasks.ready, many());
    assert_eq!(store.verify().unwrap(), [""; 0]);
}
