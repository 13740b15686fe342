//! What the core's verbs cost in CPU time: `cargo bench --bench core [-- FILTER]`.
//!
//! No disk is waited for: tubes are temporary, or relaxed in a store that lives in memory and whose
//! clock stands still, so that it flushes only what is too much to keep. Each call meets a tube
//! with a thousand ready tasks, and leaves it so.
#![allow(clippy::expect_used, reason = "a bench may stop")]

use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBE, UTUBETTL,
};

const BODY: [u8; 128] = [7; 128];
const READY: usize = 1000;
/// How a tube is kept, and its driver.
const KINDS: [(&str, &str); 8] = [
    (TEMPORARY, FIFO),
    (TEMPORARY, FIFOTTL),
    (TEMPORARY, UTUBE),
    (TEMPORARY, UTUBETTL),
    (RELAXED, FIFO),
    (RELAXED, FIFOTTL),
    (RELAXED, UTUBE),
    (RELAXED, UTUBETTL),
];
const TEMPORARY: &str = "temporary";
const RELAXED: &str = "relaxed";

fn main() {
    divan::Divan::from_args().sample_count(2000).main();
}

/// A tube with tasks; it keeps its store open.
fn stocked((kind, driver): (&str, &str)) -> Tube {
    let store = Store::options().clock(ManualClock::new()).open_in_memory().expect("a store");
    let options = match kind {
        TEMPORARY => TubeOptions::new().temporary(true),
        _ => TubeOptions::new().durability(Durability::relaxed()),
    };
    let tube = store.create_tube("work", driver, options).expect("a tube");
    tube.put_many((0..READY).map(|n| task(&tube, n))).expect("a stock");
    store.flush().expect("a flush");
    tube
}

fn task(tube: &Tube, n: usize) -> Put {
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
    tube.try_take().expect("a take").expect("a task")
}

fn put(tube: &Tube) -> u64 {
    tube.put(task(tube, 1)).expect("a put").id
}

#[divan::bench(args = KINDS)]
fn cycle(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    bencher.bench_local(|| {
        put(&tube);
        take(&tube).ack()
    });
}

#[divan::bench(args = KINDS)]
fn put_alone(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    // What is put must go again, outside the time that is measured.
    bencher.with_inputs(|| _ = take(&tube).ack()).bench_local_values(|()| put(&tube));
}

#[divan::bench(args = KINDS)]
fn take_alone(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    // The answer is dropped after the measuring, and its task goes back.
    bencher.bench_local(|| take(&tube));
}

#[divan::bench(args = KINDS)]
fn ack_alone(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    let input = || {
        put(&tube);
        take(&tube)
    };
    bencher.with_inputs(input).bench_local_values(Claim::ack);
}

#[divan::bench(args = KINDS)]
fn release(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    bencher.with_inputs(|| take(&tube)).bench_local_values(|claim| claim.release(Duration::ZERO));
}

#[divan::bench(args = KINDS)]
fn bury_and_kick(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    let id = put(&tube);
    bencher.bench_local(|| {
        tube.bury(id).expect("a bury");
        tube.kick(1)
    });
}

#[divan::bench(args = KINDS)]
fn put_a_thousand(bencher: Bencher, kind: (&str, &str)) {
    let tube = stocked(kind);
    let input = || {
        tube.truncate().expect("a truncate");
        (0..1000).map(|n| task(&tube, n)).collect::<Vec<_>>()
    };
    bencher
        .counter(ItemsCount::new(1000_usize))
        .with_inputs(input)
        .bench_local_values(|tasks| tube.put_many(tasks));
}

/// Take and ack on the one free sub-queue, beside so many that are held up.
#[divan::bench(args = [0, 10, 1000, 10_000])]
fn free_sub_queue(bencher: Bencher, busy: usize) {
    let tube = stocked((RELAXED, UTUBE));
    tube.truncate().expect("a truncate");
    let named = |sub: String| Put::new(BODY.as_slice()).sub_queue(sub);
    tube.put_many((0..4 * busy).map(|n| named(format!("busy{}", n % busy)))).expect("a crowd");
    let held = tube.take_many(busy, Duration::ZERO).expect("a take");
    assert!(held.len() == busy && tube.try_take().expect("a take").is_none(), "all are busy");
    bencher
        .with_inputs(|| _ = tube.put(named("free".into())))
        .bench_local_values(|()| take(&tube).ack());
}
