//! Proptest strategy for tasks of another store that are put back.

use proptest::prelude::*;

use super::generator::{MS, group, size, span, task_template};
use super::reference::OnKey;
use super::steps::{Action, CLIENTS, FailureTemplate, Moment, RestoredTemplate, StateTemplate};

pub fn restore(tubes: usize) -> impl Strategy<Value = Action> {
    let tasks = prop::collection::vec(restored_task(), 0..4);
    (0..CLIENTS, 0..tubes, tasks, any::<bool>()).prop_map(|(client, tube, tasks, deferred)| {
        Action::Restore { client, tube, tasks, deferred }
    })
}

fn restored_task() -> impl Strategy<Value = RestoredTemplate> {
    let takes = prop_oneof![
        4 => (0..4_u32).prop_flat_map(|takes| (Just(takes), 0..=takes)),
        // A task cannot have more forgiven takes than takes.
        1 => (0..2_u32, 0..2_u32),
    ];
    (
        task_template(),
        prop::option::of(0..3_u64),
        takes,
        prop::option::weighted(0.4, failure()),
        prop::option::weighted(0.4, put_at()),
        state(),
    )
        .prop_map(|(mut put, skipped_ids, (takes, forgiven), failure, put_at, state)| {
            let is_plain = takes == 0 && skipped_ids.is_none() && failure.is_none();
            let is_plain = is_plain && put_at.is_none();
            let is_plain = is_plain && matches!(state, StateTemplate::Open);
            // A put that replaces cannot say more than a put.
            if !is_plain && put.on_key == OnKey::Replace && !put.keep_unsupported {
                put.on_key = OnKey::Keep;
            }
            RestoredTemplate { put, skipped_ids, takes, forgiven, failure, put_at, state }
        })
}

fn failure() -> impl Strategy<Value = FailureTemplate> {
    (group(), 0..4_u32, (0..=8_u64).prop_map(|ms| ms * MS))
        .prop_map(|(group, attempt, ago)| FailureTemplate { group, attempt, ago })
}

fn put_at() -> impl Strategy<Value = Moment> {
    (0..=8_u64, any::<bool>()).prop_map(|(ms, is_ahead)| {
        if is_ahead { Moment::In(ms * MS) } else { Moment::Ago(ms * MS) }
    })
}

fn state() -> impl Strategy<Value = StateTemplate> {
    prop_oneof![
        3 => Just(StateTemplate::Open),
        3 => prop::option::of(group()).prop_map(|group| StateTemplate::Buried { group }),
        4 => (prop::option::of(size()), prop::option::of(span())).prop_map(
            |(size, ttl)| StateTemplate::Done { size, ttl }
        ),
    ]
}
