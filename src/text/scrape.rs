//! The text of a scrape, for Prometheus.

use super::exposition::{Exposition, FamilyKind, seconds};
use crate::TaskState;
use crate::values::histogram::Histogram;
use crate::values::scrape::{FileScrape, StoreScrape, TaskDurations, TubeScrape};
use FamilyKind::{Counter, Gauge};

/// The store, and its tubes in the order in which they are given.
pub(crate) fn exposition(store: &StoreScrape, tubes: &[TubeScrape]) -> String {
    let mut out = Exposition::default();
    put_store(&mut out, store, tubes.len());
    put_work(&mut out, store);
    if let Some(file) = &store.file {
        put_file(&mut out, file);
    }
    put_tasks(&mut out, tubes);
    put_changes(&mut out, tubes);
    put_waits(&mut out, tubes);
    put_durations(&mut out, tubes);
    out.into_text()
}

fn put_store(out: &mut Exposition, store: &StoreScrape, tubes: usize) {
    let labels = [("version", store.version.as_str()), ("store", store.id.as_str())];
    let help = "The release of tubewell that has opened the store, and the id of the store.";
    out.family("tubewell_info", Gauge, help).sample(&labels, 1);
    put(out, "tubewell_tubes", Gauge, "Tubes of the store.", tubes as u64);
    let help = "1 while the storage has failed and the store refuses changes, else 0.";
    put(out, "tubewell_storage_failed", Gauge, help, u64::from(store.has_failed));
    let help = "1 while the wall clock is too far ahead to be trusted, and moments do not follow it, else 0.";
    put(out, "tubewell_clock_untrusted", Gauge, help, u64::from(store.is_clock_untrusted));
}

/// What the store has done since it was opened.
fn put_work(out: &mut Exposition, store: &StoreScrape) {
    let counters = &store.counters;
    let help = "Commits of the store, over all its runs.";
    put(out, "tubewell_commits_total", Counter, help, counters.commits);
    let help = "Rows that commits wrote or removed.";
    put(out, "tubewell_rows_total", Counter, help, counters.rows);
    let help = "Commits that waited for a checkpoint because the journal was full.";
    put(out, "tubewell_journal_waits_total", Counter, help, counters.journal_waits);
    // Those of the open file are not known without one. A zero would be a restart.
    if store.file.is_some() {
        put(out, "tubewell_flushes_total", Counter, "Flushes (fsync).", counters.flushes);
        put(out, "tubewell_writes_total", Counter, "Writes to the file.", counters.writes);
        let help = "Bytes written to the file.";
        put(out, "tubewell_written_bytes_total", Counter, help, counters.bytes_written);
        let help = "Reads of the file that were not in the cache.";
        put(out, "tubewell_reads_total", Counter, help, counters.reads);
    }
    let help = "Time of a commit to the journal: its write and its flush.";
    put_histogram(out, "tubewell_flush_seconds", help, &store.flushes);
    let help = "Time of a commit to the database: checkpoints, and commits that do not fit into the journal.";
    put_histogram(out, "tubewell_checkpoint_seconds", help, &store.checkpoints);
}

fn put_file(out: &mut Exposition, file: &FileScrape) {
    let help =
        "Bytes of the whole file, and bytes of the journal that the database may not have yet.";
    let mut family = out.family("tubewell_store_bytes", Gauge, help);
    for (part, bytes) in [("file", file.size), ("journal", file.journal)] {
        family.sample(&[("part", part)], bytes);
    }
    let help = "Bytes of disk space that puts leave free.";
    put(out, "tubewell_disk_reserve_bytes", Gauge, help, file.reserve);
    if let Some(headroom) = file.headroom {
        let help = "Bytes of disk space above the reserve. Puts are refused when none are left.";
        put(out, "tubewell_disk_headroom_bytes", Gauge, help, headroom);
    }
}

fn put_tasks(out: &mut Exposition, tubes: &[TubeScrape]) {
    let help = "Tasks by state. Done tasks are those that are kept; recurring ones are schedules.";
    let mut family = out.family("tubewell_tasks", Gauge, help);
    for tube in tubes {
        for state in TaskState::NAMED {
            let labels = [("tube", &*tube.name), ("state", state.as_str())];
            family.sample(&labels, tube.statistics.tasks.of(*state));
        }
    }
    let help = "Taken tasks whose time to run (ttr) has elapsed, while a reclaim delay runs.";
    each(out, "tubewell_overdue_tasks", help, tubes, |tube| tube.statistics.tasks.overdue);
    let help =
        "How long the first ready task has been ready: the longest of the first 8 priorities.";
    let mut family = out.family("tubewell_oldest_ready_seconds", Gauge, help);
    for tube in tubes {
        if let Some(age) = tube.oldest_ready {
            family.sample(&[("tube", &tube.name)], seconds(age));
        }
    }
}

fn put_changes(out: &mut Exposition, tubes: &[TubeScrape]) {
    let help = "Changes of tasks since the store was opened.";
    let mut family = out.family("tubewell_task_changes_total", Counter, help);
    for tube in tubes {
        for (change, count) in tube.statistics.calls.named() {
            family.sample(&[("tube", &tube.name), ("change", change)], count);
        }
    }
}

fn put_waits(out: &mut Exposition, tubes: &[TubeScrape]) {
    let help = "Takes that wait for a task.";
    each(out, "tubewell_waiting_takes", help, tubes, |tube| tube.waiting_takes);
    let help = "Puts that wait for capacity.";
    each(out, "tubewell_waiting_puts", help, tubes, |tube| tube.waiting_puts);
    let help = "The most tasks that the tube holds, in tubes with a capacity.";
    let mut family = out.family("tubewell_capacity", Gauge, help);
    for tube in tubes.iter().filter(|tube| tube.capacity > 0) {
        family.sample(&[("tube", &tube.name)], tube.capacity);
    }
    let help = "1 while the tube is paused, else 0.";
    each(out, "tubewell_paused", help, tubes, |tube| u64::from(tube.is_paused));
}

fn put_durations(out: &mut Exposition, tubes: &[TubeScrape]) {
    let help = "Time from ready to taken, in tubes with metrics.";
    put_histograms(out, "tubewell_wait_seconds", help, tubes, |durations| &durations.waits);
    let help = "Time from taken to acked, in tubes with metrics.";
    put_histograms(out, "tubewell_run_seconds", help, tubes, |durations| &durations.runs);
}

fn put(out: &mut Exposition, name: &str, kind: FamilyKind, help: &str, value: u64) {
    out.family(name, kind, help).sample(&[], value);
}

fn put_histogram(out: &mut Exposition, name: &str, help: &str, histogram: &Histogram) {
    out.family(name, FamilyKind::Histogram, help).histogram(&[], histogram);
}

/// A gauge of each tube.
fn each(
    out: &mut Exposition,
    name: &str,
    help: &str,
    tubes: &[TubeScrape],
    of: impl Fn(&TubeScrape) -> u64,
) {
    let mut family = out.family(name, Gauge, help);
    for tube in tubes {
        family.sample(&[("tube", &tube.name)], of(tube));
    }
}

fn put_histograms(
    out: &mut Exposition,
    name: &str,
    help: &str,
    tubes: &[TubeScrape],
    of: impl Fn(&TaskDurations) -> &Histogram,
) {
    let mut family = out.family(name, FamilyKind::Histogram, help);
    for tube in tubes {
        if let Some(durations) = &tube.durations {
            family.histogram(&[("tube", &tube.name)], of(durations));
        }
    }
}
