//! Bit rot: the store detects damaged bytes in its file and never returns them as valid data.
//!
//! A sample store with every kind of tube and task is made once. Two files are kept: one after a
//! clean close, one after a kill. Each image is a copy of one of them with one damage: a flipped
//! bit, a zeroed, swapped or outdated page, or a cut end. The image is opened, verified, listed,
//! emptied, written to and opened again. Every difference must be detected: by the open, by
//! `verify`, by the commit number or by the error of a later call.
//!
//! `TUBEWELL_SEED` repeats the sample and the damage of a seed; `TUBEWELL_BIT_ROT_IMAGE` is the number of
//! the only image to check.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod check;
mod damage;
mod disk;
mod every_row;
mod file_map;
mod regressions;
#[path = "../common/rng.rs"]
mod rng;
mod runner;
mod salvaged;
mod sample;
#[path = "../common/size.rs"]
mod size;
mod watchdog;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tubewell::{Error, FIFO, TaskState, TubeOptions};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use check::{Medium, Outcome, check};
use damage::Damage;
use disk::Disk;
use file_map::{FileMap, PAGE, Row};
use rng::Rng;
use runner::Runner;
use sample::{Sample, clock, options};
use size::{amount, first_seed};

/// Counts allocated bytes: a damaged length must not make the store allocate all memory.
#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// The only image to check, by its number.
fn repeated_image() -> Option<u64> {
    std::env::var("TUBEWELL_BIT_ROT_IMAGE").ok().map(|value| value.parse().unwrap())
}

#[test]
fn damage_is_detected_and_never_returned_as_valid_data() {
    let runner = Runner::new(first_seed(1));
    let images = repeated_image().map_or(0..amount(240, 240, 100_000), |nth| nth..nth + 1);
    let failures = runner.run(images);
    println!("{runner}{} MiB allocated at most", MEMORY.max_allocated() >> 20);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if repeated_image().is_none() {
        for table in ["tasks", "bodies", "places", "heads", "dues", "meta"] {
            let detected = [Outcome::Refused, Outcome::FoundByVerify].map(|outcome| {
                runner.count(&format!("{table} keys"), outcome)
                    + runner.count(&format!("{table} values"), outcome)
            });
            assert!(detected.iter().sum::<u64>() > 0, "no damage in a row of {table} was detected");
        }
    }
}

/// Flips a bit in each row of `tasks` and `bodies` in the closed file.
#[test]
fn verify_names_damaged_task_and_other_tasks_stay_usable() {
    let sample = Sample::new(2);
    let image = sample.images.iter().find(|image| image.closed).unwrap();
    let map = FileMap::new(&image.bytes);
    let stored = &sample.tasks_at(image.last_commit)[0];
    let mut damaged: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for row in map.rows.iter().filter(|row| ["tasks", "bodies"].contains(&&*row.table)) {
        let id = row.id();
        let Some((tube, _)) = stored.get(&id) else { continue };
        let mut bytes = image.bytes.clone();
        bytes[row.value_at.end - 1] ^= 1;
        let (outcome, report) = check(&sample, image, &Medium::in_memory(bytes)).unwrap();
        if outcome == Outcome::Harmless {
            // The row is an outdated copy.
            continue;
        }
        let names = |finding: &String| finding.contains(&format!("tube {tube:?}: task {id}:"));
        assert!(report.findings.iter().any(names), "task {id} in {tube:?}: {:?}", report.findings);
        assert!(!report.peeked.contains(&id) && !report.taken.contains(&id));
        for (other, (in_tube, state)) in stored.iter().filter(|(other, _)| **other != id) {
            assert!(report.peeked.contains(other), "task {other} cannot be read beside task {id}");
            let taken = report.taken.contains(other) || *state == TaskState::Done;
            assert!(taken || in_tube == tube, "{other} in {in_tube:?} cannot be taken");
        }
        damaged
            .entry(if row.table == "tasks" { "tasks" } else { "bodies" })
            .or_default()
            .insert(id);
    }
    assert_eq!(damaged["tasks"].len(), stored.len());
    assert!(damaged["bodies"].len() > 5);
}

#[test]
fn real_file_has_same_outcome_as_memory() {
    let sample = Sample::new(3);
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(3);
    for image in &sample.images {
        let map = FileMap::new(&image.bytes);
        for nth in 0..8 {
            let damage = Damage::random(&sample, image, &map, &mut rng);
            let bytes = damage.apply(&sample, image);
            let path = dir.path().join(format!("{nth}-{}", image.closed));
            std::fs::write(&path, &bytes).unwrap();
            let (in_memory, _) = check(&sample, image, &Medium::in_memory(bytes)).unwrap();
            let (on_disk, _) = check(&sample, image, &Medium::File(path)).unwrap();
            assert_eq!(in_memory, on_disk, "{damage}");
        }
    }
}

/// In a killed store, a damaged newest commit looks like an incomplete one and is rolled back. A
/// caller that kept the receipt can compare its commit number.
#[test]
fn commit_number_shows_rolled_back_commit() {
    let disk = Disk::new(Vec::new());
    let open = |bytes| options(&clock()).open_on(Disk::new(bytes).storage());
    let store = options(&clock()).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let kept = tube.put("kept").unwrap();
    let before = disk.copy();
    let lost = tube.put("lost").unwrap();
    let after = disk.copy();
    assert_eq!(open(after.clone()).unwrap().admin().counters().unwrap().opened_at, lost.commit);
    let newest: Vec<usize> = (0..after.len()).filter(|at| before[*at] != after[*at]).collect();
    for at in &newest {
        let mut bytes = after.clone();
        bytes[*at] ^= 1;
        let store = open(bytes).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let tube = store.find_tube("work").unwrap();
        assert_eq!(tube.query().task(kept.id).unwrap().body, b"kept");
        assert!(store.admin().counters().unwrap().opened_at < lost.commit);
        assert_eq!(tube.query().task(lost.id), Err(Error::NotFound { id: lost.id }));
    }
    // A damaged earlier commit is not rolled back: the open returns an error.
    let first = (PAGE..after.len()).find(|at| after[*at] != 0).unwrap();
    for at in (first..newest[0]).filter(|at| after[*at] != 0) {
        let mut bytes = after.clone();
        bytes[at] ^= 1;
        assert!(matches!(open(bytes), Err(Error::Corrupt { .. })), "byte {at}");
    }
}

/// Tests the check itself. With a forged checksum the store returns a wrong body; the check must
/// fail.
#[test]
fn check_fails_on_wrong_body_with_forged_checksum() {
    let sample = Sample::new(4);
    let image = sample.images.iter().find(|image| image.closed).unwrap();
    let stored = &sample.tasks_at(image.last_commit)[0];
    let inline = |row: &&Row| {
        let is_inline = |id| {
            let original = sample.originals.get(&id);
            original.is_some_and(|original| (1..=1024).contains(&original.body.len()))
        };
        row.table == "tasks" && stored.contains_key(&row.id()) && is_inline(row.id())
    };
    let forged = FileMap::new(&image.bytes).rows.iter().filter(inline).any(|row| {
        let mut bytes = image.bytes.clone();
        let record = &mut bytes[row.value_at.clone()];
        *record.last_mut().unwrap() ^= 1;
        let sum = xxh3_64_with_seed(&record[9..], row.id());
        record[1..9].copy_from_slice(&sum.to_be_bytes());
        let failure = check(&sample, image, &Medium::in_memory(bytes)).err();
        failure.is_some_and(|text| text.contains(&format!("task {} with a wrong body", row.id())))
    });
    assert!(forged);
}

/// Tests the check itself. A task that was never put is expected; the check must fail.
#[test]
fn check_fails_on_missing_task() {
    let mut sample = Sample::new(5);
    let bytes = sample.images[1].bytes.clone();
    let newest = sample.history.last_entry().unwrap().into_mut();
    Arc::make_mut(&mut newest[0]).insert(1 << 40, ("ash", TaskState::Ready));
    let failure = check(&sample, &sample.images[1], &Medium::in_memory(bytes)).err();
    assert!(failure.is_some_and(|text| text.contains("not detected: task 1099511627776")));
}
