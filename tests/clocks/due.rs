//! A great many tasks that are due at once: no commit has more than a little of it, so that no put
//! waits long. That callers go on between the slices is tested beside the sweeper.

use std::io;
use std::sync::{Arc, Mutex};

use tubewell::{
    EventKind, FIFOTTL, ManualClock, Put, Storage, Store, Subscription, Tube, TubeOptions,
};

use crate::support::HOUR;

/// What the sweeper may leave for one commit, in rows, and what it does under one hold of the
/// lock; a task whose life ends is two rows here.
const PENDING: u64 = 512;
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
    most: u64,
}

/// Counts in each flush what has ended since the last one. It must not call the store, whose
/// engine may hold a lock of its own in a flush: events come without.
fn look_on(disk: &Disk, seen: &Arc<Mutex<Seen>>, events: Subscription) {
    let seen = seen.clone();
    let hook = move || {
        let ended = std::iter::from_fn(|| events.try_recv())
            .filter(|event| matches!(event.kind, EventKind::Ttl | EventKind::Delay));
        let ended = ended.count() as u64;
        assert_eq!(events.dropped(), 0);
        let mut seen = seen.lock().unwrap();
        seen.flushes += 1;
        seen.most = seen.most.max(ended);
    };
    *disk.hook.lock().unwrap() = Some(Box::new(hook));
}

/// Makes very many tasks due at one moment, and looks on while it comes.
fn flood(put: impl Fn(u64) -> Put) -> (Store, Tube) {
    let disk = Arc::new(Disk::default());
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_on(Box::new(Plugged(disk.clone()))).unwrap();
    let due = store.create_tube("due", FIFOTTL, TubeOptions::new()).unwrap();
    let many = many();
    for from in (0..many).step_by(50_000) {
        due.put_many((from..many.min(from + 50_000)).map(&put)).unwrap();
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    look_on(&disk, &seen, store.subscribe(20_000));
    clock.advance(HOUR);
    *disk.hook.lock().unwrap() = None;
    let seen = *seen.lock().unwrap();
    println!("{many} due at once: {seen:?}");
    // A commit may be under way while the next one fills.
    let most = 2 * (PENDING + 2 * STEP);
    assert!(seen.most <= most, "{seen:?}");
    assert!(seen.flushes >= many / most, "{seen:?}");
    (store, due)
}

#[test]
fn when_very_many_lives_end_at_once_no_commit_has_more_than_a_little_of_it() {
    let (store, due) = flood(|_| Put::new("x").ttl(HOUR));
    assert_eq!(due.statistics().unwrap().calls.ttl, many());
    assert_eq!(due.statistics().unwrap().tasks.total, 0);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn when_very_many_delays_end_at_once_no_commit_has_more_than_a_little_of_it() {
    let (store, due) = flood(|_| Put::new("x").delay(HOUR));
    assert_eq!(due.statistics().unwrap().tasks.ready, many());
    assert_eq!(store.verify().unwrap(), [""; 0]);
}
