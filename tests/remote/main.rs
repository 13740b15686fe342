//! The suites through connections: each store is opened as the suite wants it, served on a socket,
//! and used by the suite as a connection to it. Their files are those of the suites themselves;
//! [`stores`] is what differs. What a suite expects of a store that is open in its process, it does
//! not expect here: [`owner_only`] has the tests and files that are left out, with the reasons.
//!
//! [`random_steps`] compares a connection with the reference model. [`reconnected`], [`half_open`], [`cut`],
//! [`killed`] and [`busy_owner`] are about connections alone: those that break or whose peer has vanished,
//! processes that are killed, and owners that are busy. [`limits`] is about the size of calls, and [`workers`] about
//! workers whose connection breaks.
//!
//! A test is known by the name of its thread, so this target does not run with one thread for all
//! tests (`--test-threads=1`).

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
mod busy_owner;
mod child;
mod connection;
mod cut;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
mod half_open;
mod killed;
mod limits;
mod owner_only;
#[path = "../kill/process.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod process;
mod random_steps;
mod reconnected;
#[path = "../common/rng.rs"]
mod rng;
mod stores;
mod tunnel;
mod workers;

#[path = "../catalogue"]
mod catalogue {
    use crate::executor;

    mod bury_kick_delete;
    mod due_order;
    mod durability;
    mod events;
    mod limits;
    mod order;
    mod ownership;
    mod put;
    mod restart;
    mod sessions;
    mod statistics;
    mod subqueues;
    pub mod support;
    mod time;
    mod touch;
    mod tubes;
    mod waiting;
}

#[path = "../conformance"]
mod conformance {
    use crate::executor;

    mod recorded;
    mod run;
    mod scenario;
    mod waiter;

    #[test]
    fn recorded_scenarios() {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
        let outcome = run::run_dir(std::path::Path::new(vectors)).unwrap();
        assert!(outcome.scenarios > 0);
        assert_eq!(outcome.failed, 0);
    }
}

#[path = "../jobs"]
mod jobs {
    use crate::blocking_disk;
    use crate::executor;

    #[path = "../io_errors/disk.rs"]
    #[allow(dead_code, reason = "other test targets use the rest")]
    mod failing_disk;
    #[path = "../common/faults.rs"]
    mod faults;
    #[path = "../common/faulty_disk.rs"]
    mod faulty_disk;
    use crate::catalogue::support;
    use crate::rng;

    mod advance;
    mod ages;
    mod alter;
    mod attempts;
    mod budgets;
    mod cancel;
    mod claims;
    mod complete;
    mod counted;
    mod delete;
    mod delete_many;
    mod edits_of_keyed_tasks;
    mod ended_waits;
    mod endings;
    mod events;
    mod evicted_slots;
    mod fail;
    mod failures;
    mod files;
    mod filters;
    mod filters_bounded;
    mod filters_by_tags;
    mod finish;
    mod full_buffer;
    mod groups;
    mod history;
    mod history_travels;
    mod kept_buried;
    mod keys;
    mod list_where;
    mod listing;
    mod long_keys;
    mod max_taken;
    mod metrics;
    mod metrics_in_files;
    mod move_all;
    mod moves;
    mod not_before;
    mod not_before_clocks;
    mod order;
    mod outages;
    mod outcomes;
    mod owners;
    mod parents;
    mod parents_anew;
    mod parents_catch_up;
    mod parents_edits;
    mod parents_ends;
    mod parked;
    mod pauses;
    mod peek_ready;
    mod priority;
    mod progress;
    mod put;
    mod put_and_wait;
    mod races;
    mod rates;
    mod reclaim;
    mod refused_moves;
    mod renew;
    mod replaced;
    mod replaced_elsewhere;
    mod results;
    mod retention;
    mod scheduled;
    mod schedules;
    mod schedules_catch_up;
    #[cfg(feature = "cron")]
    mod schedules_cron;
    mod schedules_edits;
    mod schedules_overlap;
    mod schedules_tags;
    mod selected;
    mod session_ends;
    mod shared_limits;
    mod soonest_first;
    mod spent;
    mod steps;
    mod steps_ends;
    mod steps_listed;
    mod steps_spawn;
    mod sub_queue_limits;
    mod sub_queue_pauses;
    mod sub_queue_rates;
    mod tags;
    mod tags_in_files;
    mod tags_listed;
    mod take;
    mod tokens;
    mod tokens_in_files;
    mod update;
    mod wait;
    mod wait_drained;
    mod wait_ready;
    mod waits;
    mod workers;
}

#[path = "../parity"]
mod parity {
    use crate::blocking_disk;
    use crate::executor;

    mod deferred;
    mod futures;
    mod list;
    mod put_wait;
    mod stream;
    #[allow(dead_code, reason = "other test targets use the rest")]
    mod support;
    mod typed;
}

#[path = "../threads"]
mod threads {
    use crate::blocking_disk;
    use crate::executor;

    mod attempts;
    mod capacity;
    mod claims;
    mod deferred;
    mod delivery;
    mod gates;
    mod parents;
    mod receipts;
    mod slow_writes;
    mod support;
    mod waiting;
}

#[path = "../worker"]
mod worker {
    use crate::blocking_disk;
    use crate::executor;
    use crate::rng;
    #[path = "../full_disk/disk.rs"]
    #[allow(dead_code, reason = "other test targets use the rest")]
    mod small_disk;

    mod catalogue_ends;
    mod catalogue_lost;
    mod catalogue_orders;
    mod catalogue_parked;
    mod catalogue_stops;
    mod errors;
    mod full_disk;
    mod futures;
    mod gate;
    mod idle;
    mod invariants;
    mod limits;
    mod order;
    mod refused;
    mod retries;
    mod returns;
    mod steps;
    mod stop;
    mod support;
    mod untimed;
    mod waits;
}

/// The reference model and its steps; [`random_steps`] runs them.
#[path = "../model"]
#[allow(dead_code, reason = "the model test uses the rest")]
mod model {
    use crate::stores;

    mod convert;
    pub mod generator;
    pub mod reference;
    mod restored_tasks;
    mod schedules;
    pub mod steps;
    pub mod system;
}

/// The entry point of a child process. Does nothing in the parent.
#[test]
fn child_process_entry() {
    if let Some(job) = process::Job::from_env() {
        child::run(&job);
    }
}
