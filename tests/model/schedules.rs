//! Proptest strategies for schedules.

use proptest::prelude::*;

use super::generator::{MS, moment, task_template};
use super::reference::{Micros, Missed, NEVER};
use super::steps::{Action, CLIENTS, KEYS, RestoredRunsTemplate, TermsTemplate};

const SECOND: Micros = 1000 * MS;

/// Boxed, as a part of a large choice, so that it needs little of the stack.
pub fn schedules(tubes: usize) -> BoxedStrategy<Action> {
    prop_oneof![
        3 => schedule(tubes),
        2 => (0..CLIENTS, 0..tubes, key(), changed_terms(), any::<bool>()).prop_map(
            |(client, tube, key, terms, deferred)| {
                Action::Reschedule { client, tube, key, terms, deferred }
            }
        ),
        1 => (0..CLIENTS, 0..tubes, key(), task_template(), any::<bool>()).prop_map(
            |(client, tube, key, task, deferred)| {
                Action::ChangeTask { client, tube, key, task, deferred }
            }
        ),
        1 => (0..tubes, key(), any::<bool>()).prop_map(
            |(tube, key, deferred)| Action::Unschedule { tube, key, deferred }
        ),
    ]
    .boxed()
}

fn schedule(tubes: usize) -> BoxedStrategy<Action> {
    let moments = prop_oneof![
        30 => moments().prop_map(|(every, times)| (every, Some(times))),
        1 => Just((MS - 1, None)),
        1 => Just((MS, Some(Some(0)))),
    ];
    let start = prop::option::weighted(0.3, moment());
    let terms = (moments, start, terms(), task_template()).prop_map(
        |((every, times), starting, terms, put)| TermsTemplate {
            every: Some(every),
            starting,
            times,
            put: Some(put),
            ..terms
        },
    );
    let runs = (prop::option::of(0..3_u64), 0..4_u64, 0..3_u64);
    let restored = runs.prop_map(|(skipped_ids, runs, skipped)| RestoredRunsTemplate {
        skipped_ids,
        runs,
        skipped,
    });
    let keys = prop_oneof![30 => key(), 1 => Just(String::new())];
    let restored = prop::option::weighted(0.1, restored);
    (0..CLIENTS, 0..tubes, keys, terms, restored, any::<bool>())
        .prop_map(|(client, tube, key, terms, restored, deferred)| Action::Schedule {
            client,
            tube,
            key,
            terms,
            restored,
            deferred,
        })
        .boxed()
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned),
        1 => Just("k".repeat(tubewell::MAX_KEY - 24)),
    ]
}

/// An interval and a number of runs. Runs that follow each other shortly are few, so that a long
/// move of the clock does not put thousands.
fn moments() -> impl Strategy<Value = (Micros, Option<u64>)> {
    let long = prop_oneof![3 => Just(SECOND), 1 => Just(61 * SECOND), 1 => Just(NEVER)];
    prop_oneof![
        4 => ((1..=9_u64).prop_map(|ms| ms * MS), (1..=5_u64).prop_map(Some)),
        1 => (long, prop::option::of(1..=5_u64)),
    ]
}

fn changed_terms() -> BoxedStrategy<TermsTemplate> {
    let moments = prop_oneof![
        2 => moments().prop_map(|(every, times)| (Some(every), Some(times))),
        1 => (1..=9_u64).prop_map(|times| (None, Some(Some(times)))),
        2 => Just((None, None)),
    ];
    let start = prop::option::weighted(0.2, moment());
    (moments, start, terms())
        .prop_map(|((every, times), starting, terms)| TermsTemplate {
            every,
            starting,
            times,
            ..terms
        })
        .boxed()
}

/// What becomes of missed runs, and of those that overlap.
fn terms() -> impl Strategy<Value = TermsTemplate> {
    let missed = prop_oneof![
        8 => (1..=3_u32).prop_map(Missed::Latest),
        4 => Just(Missed::All),
        4 => Just(Missed::Skip),
        1 => prop::sample::select(vec![Missed::Latest(0), Missed::Latest(101)]),
    ];
    let late = prop_oneof![4 => (0..=5_u64).prop_map(|ms| ms * MS), 1 => Just(NEVER)];
    let within = prop::option::weighted(0.4, prop::option::weighted(0.8, late));
    (prop::option::of(missed), within, prop::option::of(any::<bool>())).prop_map(
        |(missed, within, skips_overlap)| TermsTemplate {
            missed,
            within,
            skips_overlap,
            ..TermsTemplate::default()
        },
    )
}
