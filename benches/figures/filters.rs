//! Puts beside many subscriptions with filters that no event of the puts passes: the processor time
//! of the caller.

use tubewell::{Durability, EventKind, Events, FIFO, Filter, Put, Store, TubeOptions};

use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body};

const RUNS: usize = 9;
const SUBSCRIPTIONS: u64 = 10_000;
/// Puts that are not measured, and those that are.
const WARM: u64 = 10_000;
const PUTS: u64 = 100_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (name, options) in [
        ("temporary", TubeOptions::new().temporary(true)),
        ("relaxed", TubeOptions::new().durability(Durability::relaxed())),
    ] {
        for (kind, put, of, filter) in [
            ("put", plain as fn(u64) -> Put, "other tubes", other_tube as fn(u64) -> Filter),
            ("put", plain, "keys", |n| Filter::new().key(format!("other-{n}"))),
            ("put", plain, "labels", |n| Filter::new().owner(format!("worker-{n}"))),
            ("put", plain, "other kinds of this tube", |_| {
                Filter::new().tube("work").kinds([EventKind::Bury])
            }),
            ("put", plain, "puts of other tubes", |n| other_tube(n).kinds([EventKind::Put])),
            ("put", plain, "a mix of them", mixed),
            ("put with a key", keyed, "keys", |n| Filter::new().key(format!("other-{n}"))),
            ("put with three tags", tagged, "tags", |n| Filter::new().tag(format!("other-{n}"))),
            ("put with three tags", tagged, "a mix of them", mixed),
        ] {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                without.push(put_time(setting, &options, put, |_| None)?);
                with.push(put_time(setting, &options, put, |n| Some(filter(n)))?);
            }
            let what = format!("{kind}, {name}, beside {SUBSCRIPTIONS} filters of {of}");
            report.spread(format!("{kind}, {name}"), &without, "ns of processor time");
            report.spread(what.as_str(), &with, "ns of processor time");
            report.ratio(&format!("{what}: rate, of one without"), 0.9, (&without, &with));
        }
    }
    Ok(())
}

fn plain(n: u64) -> Put {
    Put::new(body(n, BODY).into())
}

fn keyed(n: u64) -> Put {
    plain(n).key(format!("key-{n}"))
}

fn tagged(n: u64) -> Put {
    plain(n).tag("red").tag("green").tag("blue")
}

fn other_tube(n: u64) -> Filter {
    Filter::new().tube(format!("tube-{n}"))
}

/// Filters of all shapes.
fn mixed(n: u64) -> Filter {
    let filter = if n & 1 == 0 { other_tube(n) } else { Filter::new().tube("work") };
    let filter = if n & 2 == 0 { filter } else { filter.key(format!("other-{n}")) };
    let filter = if n & 4 == 0 { filter } else { filter.owner(format!("worker-{n}")) };
    if n & 8 == 0 && n & 7 != 1 { filter } else { filter.kinds([EventKind::Ack, EventKind::Bury]) }
}

/// The processor time of the caller of a put, in nanoseconds.
fn put_time(
    setting: &Setting,
    options: &TubeOptions,
    put: fn(u64) -> Put,
    filter: impl Fn(u64) -> Option<Filter>,
) -> Outcome<f64> {
    let store = Store::open(setting.fresh("filters"))?;
    let tube = store.create_tube("work", options.clone().driver(FIFO))?;
    let subscriptions: Vec<Events> = (0..SUBSCRIPTIONS)
        .filter_map(&filter)
        .map(|filter| store.events(filter, 10))
        .collect::<tubewell::Result<_>>()?;
    let mut start = 0.0;
    for n in 0..WARM + PUTS {
        if n == WARM {
            start = processor_time()?;
        }
        tube.put(put(n))?;
    }
    let time = processor_time()? - start;
    if subscriptions.iter().any(|events| events.try_recv().is_some()) {
        return Err("an event has passed a filter of other tasks".into());
    }
    store.close()?;
    Ok(time / PUTS as f64)
}

/// How long this thread has run, in nanoseconds.
fn processor_time() -> Outcome<f64> {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let running = times.split(' ').next().ok_or("no time in schedstat")?;
    Ok(running.parse()?)
}
