//! Many tasks that are due at the same time: every commit contains only a small part of them, so
//! that no put waits long. The unit tests of the sweeper check that callers proceed between its
//! slices.

use std::io;
use std::sync::{Arc, Mutex};

use tubewell::expert::Storage;
use tubewell::{EventKind, Events, FIFOTTL, Filter, ManualClock, Put, Store, Tube, TubeOptions};

use crate::size::amount;
use crate::support::HOUR;

/// The rows that the sweeper may leave for one commit. An expired task is two rows here.
const ROWS_PER_COMMIT: u64 = 512;
/// The deadlines that the sweeper processes while it has the lock once.
const DUES_PER_SLICE: u64 = 64;

type FlushHook = Box<dyn FnMut() + Send>;

/// Bytes in memory, and a hook that runs in each flush, on the thread that flushes.
#[derive(Default)]
struct HookedMemory {
    bytes: Mutex<Vec<u8>>,
    flush_hook: Mutex<Option<FlushHook>>,
}

impl std::fmt::Debug for HookedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookedMemory").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct HookedStorage(Arc<HookedMemory>);

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for HookedStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        out.copy_from_slice(&bytes[index(offset)..index(offset) + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(index(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // The hook is removed while it runs, so it must not cause another flush.
        let hook = self.0.flush_hook.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook();
            *self.0.flush_hook.lock().unwrap() = Some(hook);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.bytes.lock().unwrap();
        bytes[index(offset)..index(offset) + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// How many tasks are due at the same time.
fn task_count() -> u64 {
    amount(20_000, 20_000, 1_000_000)
}

/// The number of flushes, and the most deadlines that elapsed between two of them.
#[derive(Clone, Copy, Debug, Default)]
struct FlushStatistics {
    flushes: u64,
    most: u64,
}

/// Counts in each flush the deadlines that have elapsed since the last one. The hook must not call
/// the store, whose engine may have a lock of its own in a flush. Events need no call.
fn count_in_flushes(
    memory: &HookedMemory,
    statistics: &Arc<Mutex<FlushStatistics>>,
    events: Events,
) {
    let statistics = statistics.clone();
    let hook = move || {
        let elapsed = std::iter::from_fn(|| events.try_recv())
            .filter(|event| matches!(event.kind, EventKind::Ttl | EventKind::Delay));
        let elapsed = elapsed.count() as u64;
        assert_eq!(events.dropped(), 0);
        let mut statistics = statistics.lock().unwrap();
        statistics.flushes += 1;
        statistics.most = statistics.most.max(elapsed);
    };
    *memory.flush_hook.lock().unwrap() = Some(Box::new(hook));
}

/// Puts many tasks with the same deadline, lets it elapse, and checks the sizes of the commits.
fn let_many_deadlines_elapse(put: impl Fn(u64) -> Put<&'static str>) -> (Store, Tube) {
    let memory = Arc::new(HookedMemory::default());
    let clock = ManualClock::new();
    let storage = Box::new(HookedStorage(memory.clone()));
    let store = Store::options().clock(&clock).open_on(storage).unwrap();
    let due = store.create_tube("due", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let count = task_count();
    for from in (0..count).step_by(50_000) {
        due.put_many((from..count.min(from + 50_000)).map(&put)).unwrap();
    }
    let statistics = Arc::new(Mutex::new(FlushStatistics::default()));
    count_in_flushes(&memory, &statistics, store.events(Filter::new(), 20_000).unwrap());
    clock.advance(HOUR);
    *memory.flush_hook.lock().unwrap() = None;
    let statistics = *statistics.lock().unwrap();
    println!("{count} tasks due at the same time: {statistics:?}");
    // One commit may be in flight while the next one fills.
    let most = 2 * (ROWS_PER_COMMIT + 2 * DUES_PER_SLICE);
    assert!(statistics.most <= most, "{statistics:?}");
    assert!(statistics.flushes >= count / most, "{statistics:?}");
    (store, due)
}

#[test]
fn many_ttls_elapsing_together_are_split_into_small_commits() {
    let (store, due) = let_many_deadlines_elapse(|_| Put::new("x").ttl(HOUR));
    assert_eq!(due.statistics().unwrap().calls.ttl, task_count());
    assert_eq!(due.statistics().unwrap().tasks.total, 0);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn many_delays_elapsing_together_are_split_into_small_commits() {
    let (store, due) = let_many_deadlines_elapse(|_| Put::new("x").delay(HOUR));
    assert_eq!(due.statistics().unwrap().tasks.ready, task_count());
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}
