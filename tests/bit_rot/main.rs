//! Bit rot: whatever a bad disk makes of the bytes, nothing wrong is handed out as good.
//!
//! A store with tubes and tasks of every kind is made once, and kept as it was closed and as it
//! was killed. Each image is one of the two with one thing wrong: a bit, a page, an old page, its
//! end. It is opened, verified, looked through, emptied, worked on and opened again. Whatever is
//! not as it was must have been noticed: by the open, by `verify`, by the commit number.
//!
//! * `TUBEWELL_BIT_ROT_IMAGES` is how many images are tried, on a fresh seed.
//! * `TUBEWELL_SEED` is the seed of the store and of the damage, and `TUBEWELL_BIT_ROT_IMAGE` the
//!   number of the only image that is tried.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod anatomy;
mod damage;
mod disk;
#[path = "../common/rng.rs"]
mod rng;
mod search;
mod specimen;
mod stories;
mod trial;
mod watchdog;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::hash::BuildHasher;
use std::sync::Arc;

use tubewell::{Error, FIFO, State, TubeOptions};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use anatomy::{Anatomy, Found, PAGE};
use damage::Damage;
use disk::Disk;
use rng::Rng;
use search::Search;
use specimen::{Specimen, clock, options};
use trial::{Fate, Home, trial};

/// Without being told otherwise.
const IMAGES: u64 = 240;

/// All that is allocated is counted: a damaged length must not ask for more than there is.
#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap())
}

#[test]
fn what_rots_is_noticed_and_never_handed_out_as_good() {
    let images = number("TUBEWELL_BIT_ROT_IMAGES");
    let fresh = || RandomState::new().hash_one(0) >> 16;
    let seed = number("TUBEWELL_SEED").or_else(|| images.map(|_| fresh())).unwrap_or(1);
    let search = Search::new(seed);
    let found = match number("TUBEWELL_BIT_ROT_IMAGE") {
        Some(nth) => search.run(nth..nth + 1),
        None => search.run(0..images.unwrap_or(IMAGES)),
    };
    println!("{search}{} MiB at most", MEMORY.max_allocated() >> 20);
    assert!(found.is_empty(), "{}", found.join("\n"));
    if search.tried() >= IMAGES {
        for table in ["tasks", "bodies", "places", "heads", "dues", "meta"] {
            let noticed = [Fate::Refused, Fate::Verified].map(|fate| {
                search.count(&format!("{table} keys"), fate)
                    + search.count(&format!("{table} values"), fate)
            });
            assert!(noticed.iter().sum::<u64>() > 0, "no row of {table} was damaged");
        }
    }
}

/// A flip in every row of the closed file that holds a task.
#[test]
fn a_damaged_task_is_named_and_the_others_stay_usable() {
    let specimen = Specimen::new(2);
    let image = specimen.images.iter().find(|image| image.closed).unwrap();
    let anatomy = Anatomy::of(&image.bytes);
    let stored = &specimen.at(image.last)[0];
    let mut damaged: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for row in anatomy.rows.iter().filter(|row| ["tasks", "bodies"].contains(&&*row.table)) {
        let id = row.id();
        let Some((tube, _)) = stored.get(&id) else { continue };
        let mut bytes = image.bytes.clone();
        bytes[row.value_at.end - 1] ^= 1;
        let (fate, report) = trial(&specimen, image, &Home::of(bytes)).unwrap();
        if fate == Fate::Harmless {
            // An old copy of the row.
            continue;
        }
        let names = |told: &String| told.contains(&format!("tube {tube:?}: task {id}:"));
        assert!(report.findings.iter().any(names), "task {id} in {tube:?}: {:?}", report.findings);
        assert!(!report.peeked.contains(&id) && !report.taken.contains(&id));
        for (other, (in_tube, _)) in stored.iter().filter(|(other, _)| **other != id) {
            assert!(report.peeked.contains(other), "task {other} cannot be read beside task {id}");
            let taken = report.taken.contains(other);
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
fn files_on_a_real_disk_fare_the_same() {
    let specimen = Specimen::new(3);
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(3);
    for image in &specimen.images {
        let anatomy = Anatomy::of(&image.bytes);
        for nth in 0..8 {
            let damage = Damage::random(&specimen, image, &anatomy, &mut rng);
            let bytes = damage.done_to(&specimen, image);
            let path = dir.path().join(format!("{nth}-{}", image.closed));
            std::fs::write(&path, &bytes).unwrap();
            let (in_memory, _) = trial(&specimen, image, &Home::of(bytes)).unwrap();
            let (on_disk, _) = trial(&specimen, image, &Home::File(path)).unwrap();
            assert_eq!(in_memory, on_disk, "{damage}");
        }
    }
}

/// The newest commit of a store that was killed is damaged: it is taken for one that was cut off.
/// Whoever kept a receipt sees it.
#[test]
fn the_commit_number_tells_of_a_commit_that_was_rolled_back() {
    let disk = Disk::new(Vec::new());
    let open = |bytes| options(&clock()).open_on(Disk::new(bytes).plug());
    let store = options(&clock()).open_on(disk.plug()).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let kept = tube.put("kept").unwrap();
    let before = disk.copy();
    let lost = tube.put("lost").unwrap();
    let killed = disk.copy();
    assert_eq!(open(killed.clone()).unwrap().counters().opened_at, lost.commit);
    let newest: Vec<usize> = (0..killed.len()).filter(|at| before[*at] != killed[*at]).collect();
    for at in &newest {
        let mut bytes = killed.clone();
        bytes[*at] ^= 1;
        let store = open(bytes).unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0]);
        let tube = store.tube("work").unwrap();
        assert_eq!(tube.peek(kept.id).unwrap().data, b"kept");
        assert!(store.counters().opened_at < lost.commit);
        assert_eq!(tube.peek(lost.id), Err(Error::NotFound { id: lost.id }));
    }
    // One before it is not mistaken for that.
    let first = (PAGE..killed.len()).find(|at| killed[*at] != 0).unwrap();
    for at in (first..newest[0]).filter(|at| killed[*at] != 0) {
        let mut bytes = killed.clone();
        bytes[at] ^= 1;
        assert!(matches!(open(bytes), Err(Error::Corrupt { .. })), "byte {at}");
    }
}

/// Whoever forges a record's checksum gets a wrong body handed out; and that is seen.
#[test]
fn a_wrong_body_would_be_found_out() {
    let specimen = Specimen::new(4);
    let image = specimen.images.iter().find(|image| image.closed).unwrap();
    let stored = &specimen.at(image.last)[0];
    let inline = |row: &&Found| {
        let original = specimen.originals.get(&row.id());
        row.table == "tasks"
            && stored.contains_key(&row.id())
            && original.is_some_and(|original| (1..=1024).contains(&original.body.len()))
    };
    let forged = Anatomy::of(&image.bytes).rows.iter().filter(inline).any(|row| {
        let mut bytes = image.bytes.clone();
        let record = &mut bytes[row.value_at.clone()];
        *record.last_mut().unwrap() ^= 1;
        let sum = xxh3_64_with_seed(&record[9..], row.id());
        record[1..9].copy_from_slice(&sum.to_be_bytes());
        let told = trial(&specimen, image, &Home::of(bytes)).err();
        told.is_some_and(|told| told.contains(&format!("task {} with a wrong body", row.id())))
    });
    assert!(forged);
}

#[test]
fn a_task_that_goes_missing_unnoticed_would_be_found_out() {
    let mut specimen = Specimen::new(5);
    let bytes = specimen.images[1].bytes.clone();
    let newest = specimen.history.last_entry().unwrap().into_mut();
    Arc::make_mut(&mut newest[0]).insert(1 << 40, ("ash", State::Ready));
    let told = trial(&specimen, &specimen.images[1], &Home::of(bytes)).err();
    assert!(told.is_some_and(|told| told.contains("nobody noticed: task 1099511627776")));
}
