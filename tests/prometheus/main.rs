//! The text that a store gives Prometheus, and the alarms and the dashboard that read it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
mod monitoring;
mod oldest_ready;
mod promtool;

use std::sync::Arc;
use std::time::Duration;

use blocking_disk::Disk;
use tubewell::{
    Error, FIFO, Filter, LIMFIFOTTL, ManualClock, OnParent, Put, Store, TaskState, TubeOptions,
};

const SECOND: Duration = Duration::from_secs(1);

/// A store in memory whose clock stands still.
fn in_memory() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    (Store::options().clock(&clock).open_in_memory().unwrap(), clock)
}

/// The value of a sample, by its name and labels as the text has them.
fn sample(text: &str, sample: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(str::to_owned)
}

/// The samples of a family.
fn family<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(name)).collect()
}

/// A tube with metrics, whose tasks have waited and run, and one without.
fn small_store() -> (Store, ManualClock) {
    let (store, clock) = in_memory();
    let mail = store.open_tube("mail", TubeOptions::new().metrics(7)).unwrap();
    mail.put_many(["one", "two", "three"]).unwrap();
    let other = store.create_tube(r#"a\b "c"{}=,ü"#, TubeOptions::new().driver(FIFO)).unwrap();
    other.put("four").unwrap();
    other.admin().pause().unwrap();
    clock.advance(SECOND * 3);
    let claim = mail.try_take().unwrap().unwrap();
    clock.advance(SECOND / 4);
    claim.ack().unwrap();
    mail.try_take().unwrap().unwrap().bury(None).unwrap();
    (store, clock)
}

/// What differs between releases, stores and engines is filled in.
#[test]
fn text_of_a_small_store_is_as_written_down() {
    let (store, _clock) = small_store();
    let text = store.prometheus().unwrap();
    let id = text.split_once("store=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let counters = store.admin().counters().unwrap();
    let size = sample(&text, r#"tubewell_store_bytes{part="file"}"#).unwrap();
    let filled = [
        ("VERSION", env!("CARGO_PKG_VERSION").to_owned()),
        ("STORE", id.to_owned()),
        ("COMMITS", counters.commits.to_string()),
        ("ROWS", counters.rows.to_string()),
        ("FLUSHES", counters.flushes.to_string()),
        ("WRITES", counters.writes.to_string()),
        ("WRITTEN", counters.bytes_written.to_string()),
        ("READS", counters.reads.to_string()),
        ("SIZE", size),
    ];
    let expected = filled
        .iter()
        .fold(include_str!("small_store.txt").to_owned(), |expected, (name, value)| {
            expected.replace(&format!("<{name}>"), value)
        });
    let differs = text.lines().zip(expected.lines()).find(|(one, other)| one != other);
    assert_eq!(differs, None, "{text}");
    assert_eq!(text.len(), expected.len());
    assert_eq!(store.to_async().prometheus().wait().unwrap(), text);
}

#[test]
#[cfg(unix)]
fn connection_gets_the_text_of_the_owner() {
    let (owner, _clock) = small_store();
    let folder = tempfile::tempdir().unwrap();
    let options = tubewell::ServeOptions::unix(folder.path().join("socket"));
    let served = owner.admin().serve(options).unwrap();
    let store = tubewell::connect(served.url()).unwrap();
    // The first scrape reads rows into the cache, and counts that.
    owner.prometheus().unwrap();
    let text = owner.prometheus().unwrap();
    assert_eq!(store.prometheus().unwrap(), text);
    assert_eq!(executor::block_on(store.to_async().prometheus()).unwrap(), text);
    store.close().unwrap();
}

#[test]
fn tube_with_a_capacity_shows_it() {
    let (store, _clock) = in_memory();
    store.create_tube("full", TubeOptions::new().driver(LIMFIFOTTL).capacity(3)).unwrap();
    store.tube("endless").unwrap();
    let text = store.prometheus().unwrap();
    assert_eq!(family(&text, "tubewell_capacity"), [r#"tubewell_capacity{tube="full"} 3"#]);
}

#[test]
fn burials_of_each_kind_are_counted() {
    let (store, _clock) = in_memory();
    let mail = store.open_tube("mail", TubeOptions::new().max_attempts(1)).unwrap();
    mail.put_many([
        Put::new("by a call"),
        Put::new("by its last attempt"),
        Put::new("parent").key("parent"),
    ])
    .unwrap();
    mail.try_take().unwrap().unwrap().bury(None).unwrap();
    mail.try_take().unwrap().unwrap().fail(tubewell::Failure::new("io", "broken")).unwrap();
    let parent = mail.try_take().unwrap().unwrap();
    mail.put(Put::new("child").after_key("parent").on_parent(OnParent::Bury)).unwrap();
    parent.bury(None).unwrap();
    store.admin().catch_up().unwrap();
    // It was buried in the other tube.
    let other = store.open_tube("other", TubeOptions::new()).unwrap();
    other.put("moved").unwrap();
    other.try_take().unwrap().unwrap().bury(None).unwrap();
    other.admin().move_to(&mail, Filter::new().state(TaskState::Buried)).unwrap();
    let text = store.prometheus().unwrap();
    let count = |change| {
        let labels = format!(r#"tubewell_task_changes_total{{tube="mail",change="{change}"}}"#);
        sample(&text, &labels).unwrap()
    };
    let gauge = sample(&text, r#"tubewell_tasks{tube="mail",state="buried"}"#).unwrap();
    assert_eq!((count("buried"), gauge), ("4".to_owned(), "5".to_owned()));
    assert_eq!((count("bury"), count("fail")), ("3".to_owned(), "1".to_owned()));
}

/// The clock is set ahead by more than the store trusts while the store is open.
#[test]
fn untrusted_clock_is_shown() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    assert_eq!(
        sample(&store.prometheus().unwrap(), "tubewell_clock_untrusted").as_deref(),
        Some("0")
    );
    clock.set_wall(SECOND * 60 * 60 * 24 * 365 * 70);
    assert_eq!(
        sample(&store.prometheus().unwrap(), "tubewell_clock_untrusted").as_deref(),
        Some("1")
    );
}

#[test]
fn file_has_a_size_a_journal_and_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Store::options().clock(ManualClock::new()).disk_reserve(4096);
    let store = options.open(&path).unwrap();
    store.tube("mail").unwrap().put("x").unwrap();
    let text = store.prometheus().unwrap();
    let number = |name: &str| sample(&text, name).unwrap().parse::<u64>().unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(number(r#"tubewell_store_bytes{part="file"}"#), size);
    let journal = number(r#"tubewell_store_bytes{part="journal"}"#);
    assert!((1..100_000).contains(&journal), "{journal}");
    assert_eq!(number("tubewell_disk_reserve_bytes"), 4096);
    assert!(number("tubewell_disk_headroom_bytes") > 0);
    let commits = number("tubewell_flush_seconds_count");
    assert!(commits > 0 && commits <= number("tubewell_flushes_total"), "{text}");
    store.close().unwrap();
    assert_eq!(store.prometheus(), Err(Error::Closed));
}

/// The clock of the other tests stands still during a flush.
#[test]
fn flush_counts_with_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let mail = store.tube("mail").unwrap();
    let read = || -> (u64, f64) {
        let text = store.prometheus().unwrap();
        let of = |name: &str| sample(&text, &format!("tubewell_flush_seconds_{name}")).unwrap();
        assert_eq!(of("count"), of("bucket{le=\"+Inf\"}"));
        (of("count").parse().unwrap(), of("sum").parse().unwrap())
    };
    let (count, sum) = read();
    mail.put("x").unwrap();
    let (count_after, sum_after) = read();
    assert_eq!(count_after, count + 1);
    assert!(sum_after > sum, "{sum} to {sum_after}");
}

#[test]
fn failed_storage_shows_and_hides_the_counters_of_its_file() {
    let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
    let store = disk.open(Store::options().clock(&clock));
    let mail = store.tube("mail").unwrap();
    mail.put("x").unwrap();
    let info = |text: &str| family(text, "tubewell_info").join("");
    let before = store.prometheus().unwrap();
    assert_eq!(sample(&before, "tubewell_storage_failed").as_deref(), Some("0"));
    disk.fail_flushes(true);
    mail.put("y").unwrap_err();
    let failed = store.prometheus().unwrap();
    assert_eq!(sample(&failed, "tubewell_storage_failed").as_deref(), Some("1"));
    assert_eq!(info(&failed), info(&before));
    assert_eq!(sample(&failed, r#"tubewell_tasks{tube="mail",state="ready"}"#).unwrap(), "1");
    disk.fail_flushes(false);
    clock.advance(SECOND * 60);
    let again = store.prometheus().unwrap();
    assert_eq!(sample(&again, "tubewell_storage_failed").as_deref(), Some("0"));
    assert!(sample(&again, "tubewell_flushes_total").is_some());
}

#[test]
fn takes_that_wait_and_late_workers_show() {
    let (store, clock) = in_memory();
    let options = TubeOptions::new().ttr(SECOND).reclaim_delay(SECOND * 9).metrics(1);
    let mail = store.open_tube("mail", options).unwrap();
    let waiting = mail.to_async().take();
    let waker = std::task::Waker::noop();
    let mut waiting = Box::pin(waiting);
    executor::poll_pending(&mut waiting, waker);
    let of = |name: &str| {
        sample(&store.prometheus().unwrap(), &format!("{name}{{tube=\"mail\"}}")).unwrap()
    };
    assert_eq!(
        (of("tubewell_waiting_takes"), of("tubewell_overdue_tasks")),
        ("1".into(), "0".into())
    );
    mail.put("x").unwrap();
    let _claim = executor::eventually_ready(&mut waiting).unwrap();
    clock.advance(SECOND * 2);
    assert_eq!(
        (of("tubewell_waiting_takes"), of("tubewell_overdue_tasks")),
        ("0".into(), "1".into())
    );
    // Without metrics there are no histograms.
    assert_eq!(of("tubewell_wait_seconds_count"), "1");
    mail.admin().alter(TubeOptions::new().metrics(2)).unwrap();
    assert_eq!(of("tubewell_wait_seconds_count"), "1");
    mail.admin().alter(TubeOptions::new().metrics(0)).unwrap();
    assert_eq!(family(&store.prometheus().unwrap(), "tubewell_wait_seconds"), [""; 0]);
}

/// Their lines are complete, and in the order of their names, whatever step they are in.
#[test]
fn ten_thousand_tubes_are_all_there() {
    const TUBES: usize = 10_000;
    let (store, clock) = in_memory();
    let later = store.to_async();
    let name = |number: usize| format!("customer {number:05}");
    let created: Vec<_> =
        (0..TUBES).map(|number| later.create_tube(&name(number), TubeOptions::new())).collect();
    for (number, tube) in created.into_iter().enumerate() {
        let tube = tube.wait().unwrap();
        // Every third one has tasks, so that the steps have different lengths.
        if number % 3 == 0 {
            drop(tube.put(Put::new("x")));
        }
    }
    store.flush().unwrap();
    clock.advance(SECOND);
    let text = store.prometheus().unwrap();
    assert_eq!(sample(&text, "tubewell_tubes").unwrap(), TUBES.to_string());
    let ages = family(&text, "tubewell_oldest_ready_seconds{");
    let expected = (0..TUBES).map(|number| {
        let age = u8::from(number % 3 == 0);
        format!("tubewell_oldest_ready_seconds{{tube=\"{}\"}} {age}", name(number))
    });
    assert!(ages.into_iter().eq(expected));
    let states = family(&text, "tubewell_tasks{");
    assert_eq!(states.len(), TUBES * 7);
}
