//! What the suites do that a connection cannot, with the reasons.

use std::process::Command;

use super::size::amount;

const BUFFER: &str = "the events that are not read are kept at both ends of a connection";
const FULL: &str = "calls fill the write buffer of the owner until it refuses one at once";
const LAST: &str = "what is on its way when a connection is closed does not arrive";
const WAKES: &str = "counts wake-ups; the answers of a connection wake futures too";
const WAKER: &str = "its waker makes a blocking call on the thread that reads the connection";
const RANDOM: &str = "takes long, and tests rules that a connection does not change";
const PROCESS: &str = "child processes that own their stores";

const AGE: &str = "a worker counts how long its jobs run on the clock of its own process";

/// Tests whose stores are not connections here.
const TESTS: &[(&str, &str)] = &[
    ("catalogue::events::subscribe_accepts_any_capacity", BUFFER),
    ("catalogue::events::unread_subscription_drops_and_counts_events", BUFFER),
    ("jobs::endings::close_during_the_flush_of_an_end_keeps_its_result", LAST),
    ("jobs::filters::slow_reader_is_told_how_many_events_it_missed", BUFFER),
    ("jobs::filters_by_tags::event_of_a_task_with_several_tags_is_missed_once", BUFFER),
    ("jobs::outcomes::ends_of_kept_tasks_are_delivered_as_events", LAST),
    (
        "jobs::refused_moves::driver_that_panics_during_a_move_changes_nothing",
        "a panic of a driver ends the connection, and not the call",
    ),
    ("parity::claims_later::ack_many_with_a_ticket_has_one_result_for_each_claim", FULL),
    ("parity::claims_later::end_that_is_refused_in_line_releases_the_task", FULL),
    ("parity::claims_later::ends_stand_in_line_while_the_write_buffer_is_full", FULL),
    ("parity::claims_later::sessions_last_until_the_call_on_their_claims_is_made", FULL),
    ("parity::claims_later::snooze_that_is_refused_in_line_forgives_the_attempt", FULL),
    ("parity::deferred::calls_are_refused_while_the_write_buffer_is_full", FULL),
    ("parity::futures::close_leaves_no_change_in_line", FULL),
    ("parity::futures::dropped_ticket_in_line_ends_the_wait_that_its_change_begins", FULL),
    ("parity::futures::dropped_ticket_leaves_its_change_in_line", FULL),
    ("parity::futures::long_line_is_made_in_the_order_of_its_calls", FULL),
    ("parity::futures::no_future_blocks_while_the_write_buffer_is_full", FULL),
    ("parity::futures::panic_of_a_driver_in_line_is_the_answer_of_its_call", FULL),
    ("parity::futures::session_lasts_until_its_call_in_line_is_made", FULL),
    (
        "parity::put_wait::invalid_task_is_refused_by_the_first_poll",
        "the first poll of a connection only sends the call",
    ),
    ("parity::put_wait::waker_of_a_waiting_put_may_call_the_store", WAKER),
    ("parity::stream::full_stream_drops_and_counts_events", BUFFER),
    ("parity::stream::stream_has_all_events_and_ends_with_the_store", LAST),
    ("parity::stream::waker_is_called_once_for_each_pending_poll", WAKES),
    ("parity::stream::waker_of_a_stream_may_call_the_store", WAKER),
    ("parity::typed::future_buries_undecodable_task_without_blocking", FULL),
    ("parity::typed::tickets_of_typed_claims_stand_in_line", FULL),
    ("threads::attempts::close_during_count_of_take_counts_it", LAST),
    (
        "threads::attempts::written_take_returns_during_flush_and_flushed_take_after_it",
        "a take of a connection waits for the flush in progress",
    ),
    ("threads::delivery::close_under_load_loses_no_acknowledged_call", LAST),
    ("threads::deferred::changes_stand_in_line_or_are_refused_when_write_buffer_is_full", FULL),
    ("worker::around::function_is_dropped_with_its_handler_when_their_time_has_elapsed", AGE),
    ("worker::catalogue_lost::worker_shows_the_jobs_that_run_and_none_while_it_is_idle", AGE),
    (
        "worker::batches::async_handler_of_a_batch_is_dropped_when_the_time_of_all_its_jobs_has_elapsed",
        AGE,
    ),
    ("worker::batches::time_of_a_batch_counts_from_its_first_task", AGE),
    (
        "worker::errors::worker_ends_when_the_store_is_closed",
        "a worker reports that its owner has closed the store",
    ),
    ("worker::futures::idle_future_is_woken_for_tasks_only", WAKES),
    ("worker::invariants::subscriber_that_reads_nothing_delays_no_worker", BUFFER),
    ("worker::limits::job_times_out_after_the_longest_time_that_it_may_run", AGE),
    ("worker::stop::job_that_runs_after_the_time_of_a_stop_is_left_and_its_task_is_snoozed", AGE),
    (
        "worker::timeouts::async_handler_is_dropped_when_its_time_has_elapsed_and_its_place_is_free",
        AGE,
    ),
    (
        "worker::timeouts::handler_on_a_thread_is_told_that_its_time_has_elapsed_and_counted_as_that",
        AGE,
    ),
    ("worker::timeouts::limit_of_a_task_does_not_lengthen_that_of_the_worker", AGE),
];

/// Modules of the suites whose stores are not connections.
const MODULES: &[(&str, &str)] = &[
    ("jobs::budgets_at_random::", RANDOM),
    ("jobs::counted_outages::", RANDOM),
    ("jobs::killed::", PROCESS),
    ("jobs::metrics_at_random::", RANDOM),
    ("jobs::not_before_at_random::", RANDOM),
    ("jobs::parents_at_random::", RANDOM),
    ("jobs::random_outcomes::", RANDOM),
    ("jobs::schedules_at_random::", RANDOM),
    ("jobs::schedules_killed::", PROCESS),
    ("jobs::update_at_random::", RANDOM),
    ("parity::capacity::", FULL),
    ("parity::close::", "the close of the owner, seen by what the owner has in memory"),
    ("parity::methods::", "compares the texts of signatures"),
    ("threads::close::", "counts the threads of the process"),
    ("worker::killed::", PROCESS),
    (
        "worker::repeated_ends::",
        "the storage of the owner fails; `workers` is about connections that do",
    ),
];

/// Tests with thousands of tasks, whose stores are connections in all but quick runs.
const LONG: &[&str] = &[
    "catalogue::order::take_returns_long_backlog_in_order_before_and_after_release_all",
    "catalogue::order::take_skips_taken_tasks_after_many_urgent_puts",
    "jobs::alter::lowered_retention_removes_the_surplus_of_an_idle_tube",
    "jobs::delete_many::delete_many_of_ten_thousand_tasks_is_one_commit",
    "jobs::evicted_slots::evicted_sub_queues_are_taken_from_in_order_once_their_gates_open",
    "jobs::history::first_entry_and_the_newest_ones_are_kept",
    "jobs::history::history_ends_with_its_task",
    "jobs::list_filters::listed_tasks_are_those_that_meet_all_conditions",
    "jobs::list_filters::page_begins_behind_its_cursor_while_tasks_come_and_go",
    "jobs::parents_anew::children_wait_for_a_buried_parent_that_begins_anew_before_they_are_told",
    "jobs::parents_anew::parent_of_many_children_is_replaced_in_its_tube",
    "jobs::parents_catch_up::catch_up_tells_all_children_of_the_end_of_their_parent",
    "jobs::parents_edits::delete_of_a_filter_deletes_tasks_together_with_later_ones_that_wait_for_them",
    "jobs::parents_ends::ack_frees_64_children_with_its_commit_and_the_others_soon_after",
    "jobs::parents_ends::children_of_a_done_parent_are_freed_after_a_kill",
    "jobs::parents_ends::children_of_a_truncated_or_dropped_tube_follow_their_rules",
    "jobs::priority::tasks_of_a_long_backlog_are_taken_by_their_new_priorities",
    "jobs::retention::many_outcomes_that_are_due_at_open_are_forgotten",
    "jobs::selected::many_selected_tasks_are_changed_in_steps",
    "jobs::shared_limits::random_takes_and_ends_of_three_tubes_keep_to_the_limits",
    "jobs::soonest_first::delayed_tasks_are_listed_in_the_order_in_which_they_become_ready",
    "jobs::spent::spent_tasks_are_buried_once_after_a_reopen",
    "jobs::steps_listed::list_of_large_steps_has_all_of_them",
    "jobs::sub_queue_limits::evicted_sub_queue_with_taken_tasks_is_found_again",
    "jobs::sub_queue_limits::takes_agree_with_a_list_of_tasks_for_any_order_of_verbs",
];

/// The names of the tests that are left out, and what those of whole modules begin with.
pub fn left_out() -> impl Iterator<Item = &'static str> {
    let long = amount(LONG, &[], &[]).iter().copied();
    TESTS.iter().chain(MODULES).map(|(name, _)| *name).chain(long)
}

/// Whether a test uses its stores themselves.
pub fn is_owner_only(test: &str) -> bool {
    TESTS.iter().any(|(name, _)| *name == test)
        || MODULES.iter().any(|(module, _)| test.starts_with(module))
}

/// A name that is a part of another one would leave that out, too.
#[test]
fn tests_that_are_left_out_exist() {
    let list = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let tests: Vec<&str> = list.lines().filter_map(|it| it.strip_suffix(": test")).collect();
    for name in TESTS.iter().map(|(name, _)| name).chain(LONG) {
        let named: Vec<_> = tests.iter().filter(|test| test.contains(name)).collect();
        assert_eq!(named, [name], "{name}");
    }
    for (module, _) in MODULES {
        let mut named = tests.iter().filter(|test| test.contains(module)).peekable();
        assert!(named.peek().is_some(), "{module}");
        assert!(named.all(|test| test.starts_with(module)), "{module}");
    }
}
