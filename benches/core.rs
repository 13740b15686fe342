//! CPU time of the operations: `cargo bench --bench core [-- FILTER]`.
//!
//! No call waits for a disk. Tubes are temporary or relaxed in a store in memory, or written in a
//! store on a file in memory. The clock of the store is stopped, so that no flush falls due. Each
//! call starts and ends with a thousand ready tasks in the tube.
#![allow(clippy::expect_used, reason = "a bench may panic")]

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use tubewell::expert::Storage;
use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, Filter, ManualClock, Put, Store, Tube, TubeOptions, UTUBE,
    UTUBETTL,
};

const BODY: [u8; 128] = [7; 128];
const READY: usize = 1000;
/// The durability of a tube, and its driver.
const KINDS: [(&str, &str); 12] = [
    (TEMPORARY, FIFO),
    (TEMPORARY, FIFOTTL),
    (TEMPORARY, UTUBE),
    (TEMPORARY, UTUBETTL),
    (RELAXED, FIFO),
    (RELAXED, FIFOTTL),
    (RELAXED, UTUBE),
    (RELAXED, UTUBETTL),
    (WRITTEN, FIFO),
    (WRITTEN, FIFOTTL),
    (WRITTEN, UTUBE),
    (WRITTEN, UTUBETTL),
];
const TEMPORARY: &str = "temporary";
const RELAXED: &str = "relaxed";
const WRITTEN: &str = "written";

fn main() {
    divan::Divan::from_args().sample_count(2000).main();
}

/// A tube with ready tasks. The handle keeps its store open.
fn filled_tube((kind, driver): (&str, &str)) -> Tube {
    let store = Store::options().clock(ManualClock::new());
    let store = match kind {
        // A store in memory treats a written tube as a flushed one.
        WRITTEN => store.open_on(Box::new(Memory::default())),
        _ => store.open_in_memory(),
    };
    let store = store.expect("open");
    let options = match kind {
        TEMPORARY => TubeOptions::new().temporary(true),
        WRITTEN => TubeOptions::new().durability(Durability::write()),
        _ => TubeOptions::new().durability(Durability::relaxed()),
    };
    let tube = store.create_tube("work", options.driver(driver)).expect("create_tube");
    tube.put_many((0..READY).map(|n| task(&tube, n))).expect("put_many");
    store.flush().expect("flush");
    tube
}

/// A file in memory, whose flushes take no time.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, start) = (self.bytes(), position(offset)?);
        let found = bytes.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes().resize(position(len)?, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = position(offset)?;
        let mut bytes = self.bytes();
        let place = bytes.get_mut(start..start + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        place.copy_from_slice(data);
        Ok(())
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}

fn task(tube: &Tube, n: usize) -> Put<&'static [u8]> {
    let put = Put::new(BODY.as_slice());
    let sub_queue = || format!("sub{}", n % 100);
    match tube.driver() {
        UTUBE => put.sub_queue(sub_queue()),
        UTUBETTL => put.sub_queue(sub_queue()).ttl(Duration::from_secs(3600)),
        FIFOTTL => put.ttl(Duration::from_secs(3600)),
        _ => put,
    }
}

fn take(tube: &Tube) -> Claim {
    tube.try_take().expect("try_take").expect("a ready task")
}

fn put(tube: &Tube) -> u64 {
    tube.put(task(tube, 1)).expect("put").id
}

#[divan::bench(args = KINDS)]
fn cycle(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    bencher.bench_local(|| {
        put(&tube);
        take(&tube).ack()
    });
}

#[divan::bench(args = KINDS)]
fn put_alone(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    // The untimed input removes one task for each task that is put.
    bencher.with_inputs(|| _ = take(&tube).ack()).bench_local_values(|()| put(&tube));
}

#[divan::bench(args = KINDS)]
fn take_alone(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    // The claim is dropped untimed, which releases its task.
    bencher.bench_local(|| take(&tube));
}

#[divan::bench(args = KINDS)]
fn ack_alone(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    let input = || {
        put(&tube);
        take(&tube)
    };
    bencher.with_inputs(input).bench_local_values(Claim::ack);
}

#[divan::bench(args = KINDS)]
fn release(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    bencher.with_inputs(|| take(&tube)).bench_local_values(tubewell::Claim::release);
}

#[divan::bench(args = KINDS)]
fn bury_and_kick(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    let id = put(&tube);
    bencher.bench_local(|| {
        tube.admin().bury(id, None).expect("bury");
        tube.admin().kick(Filter::new().limit(1))
    });
}

#[divan::bench(args = KINDS)]
fn put_a_thousand(bencher: Bencher, kind: (&str, &str)) {
    let tube = filled_tube(kind);
    let input = || {
        tube.admin().truncate().expect("truncate");
        (0..1000).map(|n| task(&tube, n)).collect::<Vec<_>>()
    };
    bencher
        .counter(ItemsCount::new(1000_usize))
        .with_inputs(input)
        .bench_local_values(|tasks| tube.put_many(tasks));
}

/// Take and ack on one free sub-queue, with `busy` busy sub-queues.
#[divan::bench(args = [0, 10, 1000, 10_000])]
fn free_sub_queue(bencher: Bencher, busy: usize) {
    let tube = filled_tube((RELAXED, UTUBE));
    tube.admin().truncate().expect("truncate");
    let named = |sub: String| Put::new(BODY.as_slice()).sub_queue(sub);
    tube.put_many((0..4 * busy).map(|n| named(format!("busy{}", n % busy)))).expect("put_many");
    let claims = tube.take_many(busy, Duration::ZERO).expect("take_many");
    let free = tube.try_take().expect("try_take");
    assert!(claims.len() == busy && free.is_none(), "all sub-queues are busy");
    bencher
        .with_inputs(|| _ = tube.put(named("free".into())))
        .bench_local_values(|()| take(&tube).ack());
}
