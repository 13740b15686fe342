//! Puts beside many subscriptions with filters that no event of the puts passes.

use tubewell::{Durability, EventKind, FIFO, Filter, Put, Store, Subscription, TubeOptions};

use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body, phase};

const RUNS: usize = 9;
const SUBSCRIPTIONS: u64 = 10_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (name, options) in [
        ("temporary", TubeOptions::new().temporary(true)),
        ("relaxed", TubeOptions::new().durability(Durability::relaxed())),
        ("durable", TubeOptions::new()),
    ] {
        for (of, filter) in [
            ("other tubes", other_tube as fn(u64) -> Filter),
            ("keys", other_key),
            ("labels", |n| Filter::new().owner(format!("worker-{n}"))),
            ("other kinds of this tube", |_| Filter::new().tube("work").kinds([EventKind::Bury])),
            ("puts of other tubes", |n| other_tube(n).kinds([EventKind::Put])),
            ("a mix of them", mixed),
        ] {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                without.push(puts(setting, &options, |_| None)?);
                with.push(puts(setting, &options, |n| Some(filter(n)))?);
            }
            let what = format!("put, {name}, beside {SUBSCRIPTIONS} filters of {of}");
            report.spread(format!("put, {name}"), &without, "tasks/s");
            report.spread(what.as_str(), &with, "tasks/s");
            report.ratio(&format!("{what}, of one without"), 0.9, (&with, &without));
        }
    }
    Ok(())
}

fn other_tube(n: u64) -> Filter {
    Filter::new().tube(format!("tube-{n}"))
}

fn other_key(n: u64) -> Filter {
    Filter::new().key(format!("other-{n}"))
}

/// Filters of all shapes.
fn mixed(n: u64) -> Filter {
    let filter = if n & 1 == 0 { other_tube(n) } else { Filter::new().tube("work") };
    let filter = if n & 2 == 0 { filter } else { filter.key(format!("other-{n}")) };
    let filter = if n & 4 == 0 { filter } else { filter.owner(format!("worker-{n}")) };
    if n & 8 == 0 && n & 7 != 1 { filter } else { filter.kinds([EventKind::Ack, EventKind::Bury]) }
}

/// Puts a second, beside these subscriptions.
fn puts(
    setting: &Setting,
    options: &TubeOptions,
    filter: impl Fn(u64) -> Option<Filter>,
) -> Outcome<f64> {
    let store = Store::open(setting.fresh("filters"))?;
    let tube = store.create_tube("work", FIFO, options.clone())?;
    let subscriptions: Vec<Subscription> =
        (0..SUBSCRIPTIONS).filter_map(&filter).map(|filter| store.events(filter, 10)).collect();
    let rate = phase(1, |n| {
        tube.put(Put::new(body(n, BODY)))?;
        Ok(1)
    })?;
    if subscriptions.iter().any(|events| events.try_recv().is_some()) {
        return Err("an event has passed a filter of other tasks".into());
    }
    store.close()?;
    Ok(rate)
}
