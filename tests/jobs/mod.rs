//! Behaviours of three job systems that this queue has too, one test for each.
//!
//! The first line above a test names the cases that it covers. The letter of a case names its
//! source: Q is qless (a job queue on Redis by Moz), T is the jobboards of `TaskFlow` (a library of
//! `OpenStack`), B is Blueque (a queue on Redis for long tasks), and I are invariants derived from
//! all three. A line that begins with "Difference:" describes a behaviour of this queue that
//! differs from that system by decision. The test asserts the behaviour of this queue.
//!
//! Their words in words of this queue: a job, posting or task is a task; a queue or board is a
//! tube; a worker, owner or listener is a session. Complete and consume are ack, abandon and retry
//! are release, fail and trash are bury, cancel is delete, and heartbeat is renew or touch. A
//! larger priority of qless is a lower number here.
//!
//! The time of creation is that of the put, and those of changes (B001, B015, B027) are in the history.
//! Left out of their cases: a kick of a failure group into another tube (Q119).
//!
//! All tests use a clock that only the test moves, except those of `killed`, whose child processes
//! have the clock of the machine. Each test verifies its store at the end.

#[path = "../io_errors/disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod failing_disk;
#[path = "../common/family.rs"]
mod family;
#[path = "../common/faults.rs"]
mod faults;
#[path = "../common/faulty_disk.rs"]
mod faulty_disk;
#[path = "../common/recurring.rs"]
mod recurring;

use crate::blocking_disk;
use crate::catalogue::support;
use crate::executor;
#[cfg(unix)]
use crate::process;
use crate::rng;

mod across_tubes;
mod advance;
mod ages;
mod alter;
mod attempts;
mod before_puts;
mod budgets;
mod budgets_at_random;
mod cancel;
mod claimed;
mod claims;
mod complete;
mod counted;
mod counted_outages;
mod delete;
mod delete_many;
mod descriptions;
mod edits_of_keyed_tasks;
mod ended_waits;
mod endings;
mod ends;
mod events;
mod evicted_slots;
mod fail;
mod failures;
mod files;
mod filter_uses;
mod filtered;
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
#[cfg(unix)]
pub mod killed;
mod list_filters;
mod listed_in_all_tubes;
mod listing;
mod long_keys;
mod max_taken;
mod metrics;
mod metrics_at_random;
mod metrics_in_files;
mod move_all;
mod moves;
mod next;
mod not_before;
mod not_before_at_random;
mod not_before_clocks;
mod order;
mod outages;
mod outcomes;
mod own_max_runtimes;
mod owners;
mod parent_counts;
mod parents;
mod parents_anew;
mod parents_at_random;
mod parents_catch_up;
mod parents_edits;
mod parents_ends;
mod parked;
mod pauses;
mod priority;
mod progress;
mod put;
mod put_and_wait;
mod races;
mod random_outcomes;
mod rates;
mod reclaim;
pub mod refused_moves;
mod renew;
mod replaced;
mod replaced_elsewhere;
mod results;
mod retention;
mod scheduled;
mod schedules;
mod schedules_at_random;
mod schedules_catch_up;
#[cfg(feature = "cron")]
mod schedules_cron;
mod schedules_edits;
#[cfg(unix)]
mod schedules_killed;
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
mod sub_queue_cooldowns;
mod sub_queue_limits;
mod sub_queue_pauses;
mod sub_queue_rates;
mod tags;
mod tags_in_files;
mod tags_listed;
mod take;
mod tokens;
mod tokens_in_files;
mod traceparents;
mod update;
mod update_at_random;
mod wait;
mod wait_drained;
mod wait_ready;
mod waits;
mod workers;
