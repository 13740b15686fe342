//! Tokens: two rows for a put that has one, and nothing for any other call.

use tubewell::{FIFO, IDEMPOTENCY_KEY_TIME, ManualClock, Put, Store, TubeOptions, UTUBETTL};

use crate::{assert_plain_costs, flushes_and_commits, rows_edited, with_tube};

#[test]
fn token_costs_two_rows_and_a_put_that_is_made_again_nothing() {
    for driver in [FIFO, UTUBETTL] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            tube.put("warm").unwrap();
            let plain = rows_edited(store, || _ = tube.put("x").unwrap());
            let put = || _ = tube.put(Put::new("x").idempotency_key("t")).unwrap();
            assert_eq!(rows_edited(store, put), plain + 2, "{driver}");
            assert_eq!(rows_edited(store, put), 0, "{driver}");
            assert_eq!(flushes_and_commits(store, put), (0, 0), "{driver}");
            let again = || _ = tube.put_many([Put::new("x").idempotency_key("t")]).unwrap();
            assert_eq!(flushes_and_commits(store, again), (0, 0), "{driver}");
            let first = || _ = tube.put(Put::new("x").idempotency_key("u")).unwrap();
            assert_eq!(flushes_and_commits(store, first), (1, 1), "{driver}");
        });
    }
}

/// Two old tokens, each with two rows.
#[test]
fn put_with_a_token_removes_the_rows_of_at_most_two() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let put = |token: u64| rows_edited(&store, || _ = tube.put(token_put(token)).unwrap());
    put(0);
    let first = put(1);
    tube.put_many((2..5).map(token_put)).unwrap();
    clock.advance(IDEMPOTENCY_KEY_TIME);
    assert_eq!([10, 11, 12, 13].map(put), [4, 4, 2, 0].map(|removed| first + removed));
}

fn token_put(token: u64) -> Put<&'static str> {
    Put::new("x").idempotency_key(token.to_string())
}

#[test]
fn tokens_of_other_puts_cost_a_plain_task_nothing() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put_many((0..100).map(token_put)).unwrap();
        assert_plain_costs(store, tube);
    });
}
