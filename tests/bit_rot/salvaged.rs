//! What a salvage reads in a damaged file: nothing that no call has stored, and all but what the damage
//! has hit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use tubewell::Result;
use tubewell::expert::Salvaged;

use crate::check::{Medium, Outcome, check};
use crate::damage::{Damage, TABLES};
use crate::file_map::FileMap;
use crate::rng::Rng;
use crate::sample::{Image, Sample, clock, options};

/// What a salvage has read.
#[derive(Debug, Default)]
pub struct Salvage {
    bodies: BTreeMap<u64, Vec<u8>>,
    /// The results, entries, steps and failures of the tasks, as texts.
    notes: BTreeMap<u64, BTreeSet<String>>,
    schedules: BTreeSet<String>,
    lost: Vec<String>,
}

impl Salvage {
    pub fn of(bytes: &[u8]) -> Result<Salvage> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("damaged");
        std::fs::write(&path, bytes).unwrap();
        let mut found = Salvage::default();
        options(&clock()).salvage(&path, |salvaged| {
            match salvaged {
                Salvaged::Task { task, history, steps, .. } => {
                    let id = task.info.id;
                    found.bodies.insert(id, task.body.into());
                    let notes = found.notes.entry(id).or_default();
                    notes.extend(task.result.map(|it| format!("result {it:?}")));
                    notes.extend(task.info.failure.map(|it| format!("failure {it:?}")));
                    notes.extend(texts(history).chain(texts(steps)));
                }
                Salvaged::Schedule { schedule, body, .. } => {
                    let text = format!("{:?} {body:?}", schedule.key);
                    found.schedules.insert(text);
                }
                Salvaged::Lost { what } => found.lost.push(what),
                _ => {}
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// What the damage must not have brought about.
    pub fn wrong(&self, sample: &Sample, image: &Image) -> Vec<String> {
        let expected = &image.salvaged;
        let bodies = self.bodies.iter().filter(|(id, body)| {
            sample.originals.get(id).is_some_and(|original| original.body != **body)
        });
        let bodies = bodies.map(|(id, _)| format!("salvaged task {id} with a wrong body"));
        let notes = self.notes.iter().filter_map(|(id, notes)| {
            let further = notes.difference(expected.notes.get(id)?).next()?;
            Some(format!("salvaged task {id} with {further}"))
        });
        // A task whose entries have changed since the version of a page has others there.
        let notes = notes.filter(|_| image.closed);
        bodies.chain(notes).collect()
    }

    /// The tasks that are missing here, or lack notes.
    fn less_than(&self, expected: &Salvage) -> BTreeSet<u64> {
        let lacks = |id: &&u64| {
            !self.bodies.contains_key(id) || self.notes.get(id) != expected.notes.get(id)
        };
        expected.bodies.keys().filter(lacks).copied().collect()
    }
}

fn texts<T: Debug>(all: Vec<T>) -> impl Iterator<Item = String> {
    all.into_iter().map(|it| format!("{it:?}"))
}

/// Damages a bit of some rows of each table. Rows that follow from the records lose nothing. A record, a body
/// and a note lose themselves.
#[test]
fn salvage_loses_only_what_the_damaged_row_had() {
    let sample = Sample::new(6);
    let image = sample.images.iter().find(|image| image.closed).unwrap();
    let (map, mut rng) = (FileMap::new(&image.bytes), Rng::new(6));
    for table in TABLES {
        let rows = map.rows.iter().filter(|row| row.table == table && !row.value_at.is_empty());
        let rows: Vec<_> = rows.collect();
        assert!(!rows.is_empty(), "{table}");
        let is_needed = ["tasks", "bodies", "notes"].contains(&table);
        let (mut lost, step) = (0, rows.len().div_ceil(16));
        for row in rows.into_iter().step_by(step) {
            let at = row.value_at.start + rng.index(row.value_at.len());
            let damage = Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() };
            let found = Salvage::of(&damage.apply(&sample, image)).unwrap();
            assert_eq!(found.wrong(&sample, image), [""; 0], "{damage:?} in {table}");
            let less = found.less_than(&image.salvaged);
            assert!(less.len() <= usize::from(is_needed), "{damage:?} in {table}: {less:?}");
            assert!(less.is_empty() || !found.lost.is_empty(), "{table}: {less:?}");
            lost += less.len();
        }
        assert_eq!(lost > 0, is_needed, "{table}");
    }
}

/// Of the tables that no other test of single rows has.
#[test]
fn verify_finds_damaged_rows_of_every_row_tube() {
    let sample = Sample::new(7);
    let image = sample.images.iter().find(|image| image.closed).unwrap();
    let map = FileMap::new(&image.bytes);
    for table in ["claims", "index", "notes", "days"] {
        let rows: Vec<_> = map.rows.iter().filter(|row| row.table == table).collect();
        let found = rows.iter().step_by(rows.len().div_ceil(5)).filter(|row| {
            // Other copies of the row are outdated.
            let at = if row.value_at.is_empty() { row.key_at.end } else { row.value_at.end };
            let bytes = Damage::Flip { at: at - 1, bit: 0 }.apply(&sample, image);
            let (outcome, _) = check(&sample, image, &Medium::in_memory(bytes)).unwrap();
            outcome == Outcome::FoundByVerify
        });
        assert!(found.count() > 0, "no damaged row of {table} was found");
    }
}
