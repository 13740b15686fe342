//! Tests of the journal: what a replay finds after kills, power cuts and damage.

use std::sync::{OnceLock, Weak};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tubewell_drivers::Table;

use super::replay::{Checkpointed, Replayed, replay};
use super::*;
use crate::storage::backend::IoCounters;
use crate::storage::faulty_storage::{FaultyStorage, Hook};
use crate::storage::file_header::FILE_HEADER_LEN;
use crate::storage::journal_record::{RECORD_HEADER_LEN, ReplayError, seal_record};

fn medium() -> Arc<Medium> {
    let bytes = InMemoryBackend::new();
    bytes.set_len(FILE_HEADER_LEN).unwrap();
    Arc::new(Medium::volatile(Box::new(bytes), IoCounters::new("the disk".into())))
}

fn edit(number: u64) -> Overlay {
    sized_edit(number, 100)
}

fn sized_edit(number: u64, size: usize) -> Overlay {
    let mut overlay = Overlay::default();
    overlay.insert(Table::Tasks, number.to_be_bytes().to_vec(), vec![7; size].into());
    overlay
}

/// A database that has these records and does not know the salt.
fn without_salt(number: u64) -> Checkpointed {
    Checkpointed { number, salt: None }
}

fn open(medium: &Arc<Medium>, checkpoint: u64) -> (Journal, Replayed) {
    let replayed = replay(medium, without_salt(checkpoint)).unwrap();
    (Journal::new(medium, &replayed), replayed)
}

/// The number of edits that a replay finds, and whether it finds damage.
fn found(medium: &Arc<Medium>, checkpoint: u64) -> (usize, bool) {
    let replayed = replay(medium, without_salt(checkpoint)).unwrap();
    (replayed.edits.len(), replayed.damage.is_some())
}

fn append(journal: &Journal, edits: &Overlay) -> u64 {
    match journal.append(edits, Turn::IfFull) {
        Appended::Record(number) | Appended::FirstOfHalf(number) => number,
        other => panic!("{other:?}"),
    }
}

/// Appends these records, each flushed before the next if `flush` is set. Returns their offsets.
fn append_all(journal: &Journal, numbers: std::ops::Range<u64>, flush: bool) -> Vec<u64> {
    let each = |number| {
        let offset = journal.tail.lock().head;
        assert_eq!(append(journal, &edit(number)), number);
        if flush { journal.flush_to(number) } else { journal.write_to(number) }.unwrap();
        offset
    };
    numbers.map(each).collect()
}

fn flip_bit(medium: &Medium, at: u64) {
    let mut byte = [0];
    medium.read_header(at, &mut byte).unwrap();
    medium.write_header(at, &[byte[0] ^ 4]).unwrap();
}

#[test]
fn replay_returns_written_records() {
    for flush in [true, false] {
        let medium = medium();
        let (journal, _) = open(&medium, 0);
        append_all(&journal, 1..6, flush);
        assert_eq!((journal.last(), journal.check().unwrap()), (5, None));
        append(&journal, &edit(6));
        assert_eq!(found(&medium, 0), (5, false), "record 6 is not written");
        assert_eq!(found(&medium, 5), (0, false));
        let (again, replayed) = open(&medium, 0);
        assert_eq!((again.last(), replayed.must_restart), (5, true));
        assert_eq!(
            again.append(&edit(6), Turn::IfFull),
            Appended::Direct,
            "a checkpoint comes first"
        );
        again.records_are_checkpointed(5);
        append_all(&again, 6..8, flush);
        assert_eq!((found(&medium, 5), found(&medium, 6)), ((2, false), (1, false)));
    }
}

#[test]
fn one_write_passes_all_appended_records_on_and_one_flush_covers_them() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    for number in 1..=10 {
        append(&journal, &edit(number));
    }
    journal.flush_to(7).unwrap();
    journal.flush_to(10).unwrap();
    journal.write_to(3).unwrap();
    assert_eq!((medium.io.writes(), medium.io.flushes()), (1, 1));
    assert_eq!(found(&medium, 0), (10, false));
}

#[test]
fn damaged_flushed_record_before_others_is_reported() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    let offsets = append_all(&journal, 1..6, true);
    for (index, offset) in offsets[..4].iter().enumerate() {
        for at in *offset..*offset + 60 {
            flip_bit(&medium, at);
            assert!(found(&medium, 0).1, "byte {at} of record {index}");
            assert!(journal.check().unwrap().is_some());
            flip_bit(&medium, at);
        }
    }
}

/// A power cut keeps any part of the records that were written and not flushed.
#[test]
fn unflushed_records_behind_a_hole_are_a_tail() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..4, true);
    let offsets = append_all(&journal, 4..10, false);
    for (index, offset) in offsets.iter().enumerate() {
        for at in *offset..*offset + 60 {
            flip_bit(&medium, at);
            assert_eq!(found(&medium, 0), (3 + index, false), "byte {at}");
            flip_bit(&medium, at);
        }
    }
    // The next run continues at the hole. What is behind it never returns.
    flip_bit(&medium, offsets[1]);
    let (next_run, replayed) = open(&medium, 0);
    assert_eq!(replayed.last, 4);
    next_run.records_are_checkpointed(4);
    for number in 5..8 {
        append_all(&next_run, number..number + 1, false);
        assert_eq!(found(&medium, 4), (usize::try_from(number - 4).unwrap(), false));
    }
}

#[test]
fn records_written_after_a_flush_prove_that_a_missing_one_was_flushed() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    let offsets = append_all(&journal, 1..4, false);
    journal.flush_to(3).unwrap();
    append_all(&journal, 4..6, false);
    for offset in offsets {
        flip_bit(&medium, offset);
        assert!(found(&medium, 0).1);
        flip_bit(&medium, offset);
    }
}

#[test]
fn full_half_is_followed_by_the_other_and_used_again_after_its_checkpoint() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    let mut first_of_half = Vec::new();
    let mut number = 0;
    loop {
        match journal.append(&sized_edit(number + 1, 50_000), Turn::IfFull) {
            Appended::Record(next) => number = next,
            Appended::FirstOfHalf(next) => {
                first_of_half.push(next);
                number = next;
            }
            Appended::Full => break,
            Appended::Direct => panic!("the record is small"),
        }
    }
    journal.write_to(number).unwrap();
    let all = usize::try_from(number).unwrap();
    assert_eq!((found(&medium, 0), journal.check().unwrap()), ((all, false), None));
    let [first] = first_of_half[..] else { panic!("{first_of_half:?}") };
    journal.records_are_checkpointed(first - 1);
    assert_eq!(journal.append(&sized_edit(0, 50_000), Turn::Never), Appended::Full);
    assert_eq!(
        journal.append(&sized_edit(0, 50_000), Turn::IfFull),
        Appended::FirstOfHalf(number + 1)
    );
    journal.write_to(number + 1).unwrap();
    let rest = usize::try_from(number + 2 - first).unwrap();
    assert_eq!((found(&medium, first - 1), journal.check().unwrap()), ((rest, false), None));
    assert!(found(&medium, 0).1, "the database has lost the checkpoint");
}

#[test]
fn half_without_its_predecessor_is_a_tail_unless_it_was_flushed() {
    for flush in [false, true] {
        let medium = medium();
        let (journal, _) = open(&medium, 0);
        let offsets = append_all(&journal, 1..4, flush);
        assert_eq!(journal.append(&edit(4), Turn::Now), Appended::FirstOfHalf(4));
        journal.write_to(4).unwrap();
        flip_bit(&medium, offsets[0]);
        assert_eq!(found(&medium, 0), (0, flush));
        flip_bit(&medium, offsets[0]);
        flip_bit(&medium, offsets[2]);
        assert_eq!(found(&medium, 0), (2, flush));
    }
}

/// A caller may be about to write a record that the database has already.
#[test]
fn check_does_not_report_a_checkpointed_record_that_is_not_written_yet() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..5, false);
    append(&journal, &edit(5));
    append(&journal, &edit(6));
    journal.records_are_checkpointed(5);
    assert_eq!(journal.check().unwrap(), None);
    journal.write_to(6).unwrap();
    assert_eq!((found(&medium, 5), journal.check().unwrap()), ((1, false), None));
}

/// Numbers repeat after a power cut that has lost records.
#[test]
fn other_half_of_an_earlier_run_is_not_replayed() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    let offsets = append_all(&journal, 1..4, false);
    assert_eq!(journal.append(&edit(4), Turn::Now), Appended::FirstOfHalf(4));
    journal.write_to(4).unwrap();
    flip_bit(&medium, offsets[1]);
    let (next_run, replayed) = open(&medium, 0);
    assert_eq!(replayed.last, 1);
    next_run.records_are_checkpointed(1);
    append_all(&next_run, 2..4, false);
    assert_eq!(found(&medium, 1), (2, false), "record 4 is one of the earlier run");
    // Nothing remains of the next run but its checkpoint.
    next_run.records_are_checkpointed(3);
    let replayed = replay(&medium, next_run.checkpointed(3)).unwrap();
    assert_eq!((replayed.edits.len(), replayed.damage), (0, None));
}

#[test]
fn flush_covers_no_record_that_is_written_while_it_runs() {
    let journal_of_disk: Arc<OnceLock<Weak<Journal>>> = Arc::default();
    let found = journal_of_disk.clone();
    let write_second = move || {
        let journal = found.get().and_then(Weak::upgrade);
        if let Some(journal) = journal.filter(|journal| journal.last() == 1) {
            journal.write_to(append(&journal, &edit(2))).unwrap();
        }
        true
    };
    let disk =
        FaultyStorage { before_sync: Some(Hook::new(write_second)), ..FaultyStorage::default() };
    disk.bytes.set_len(FILE_HEADER_LEN).unwrap();
    let counters = IoCounters::new("the disk".into());
    let medium = Arc::new(Medium::custom(Box::new(disk), counters.clone(), 0));
    let journal = Arc::new(open(&medium, 0).0);
    journal_of_disk.set(Arc::downgrade(&journal)).unwrap();
    let first = append(&journal, &edit(1));
    let before = counters.flushes();
    journal.flush_to(first).unwrap();
    assert_eq!((journal.last(), counters.flushes() - before), (first + 1, 1));
    journal.flush_to(first + 1).unwrap();
    assert_eq!(counters.flushes() - before, 2);
}

/// The journal after a failure has a new salt, which a checkpoint must store first.
#[test]
fn journal_after_a_failure_takes_no_record_before_a_checkpoint() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..3, true);
    let next_run = journal.next_run();
    assert!(matches!(next_run.append(&edit(3), Turn::IfFull), Appended::Direct));
    next_run.records_are_checkpointed(2);
    assert_eq!(append(&next_run, &edit(3)), 3);
}

/// Regression: with no record to read, any salt counted, also that of a record in a body.
#[test]
fn forged_record_is_not_taken_for_a_flushed_one() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..3, true);
    let checkpointed = journal.checkpointed(2);
    journal.records_are_checkpointed(2);
    let mut forged = Vec::new();
    encode_record(&mut forged, &edit(9), (7, 1 << 40, (1 << 40) - 1));
    medium.write_header(JOURNAL_START + 4096, &forged).unwrap();
    let replayed = replay(&medium, checkpointed).unwrap();
    assert_eq!((replayed.edits.len(), replayed.damage), (0, None));
}

/// A first record that is damaged in all of its bytes is reported all the same.
#[test]
fn damaged_first_record_is_reported_by_its_salt() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..3, true);
    let checkpointed = journal.checkpointed(2);
    journal.records_are_checkpointed(2);
    let offsets = append_all(&journal, 3..5, true);
    medium.write_header(offsets[0], &[0xA5; 100]).unwrap();
    assert!(replay(&medium, checkpointed).unwrap().damage.is_some());
}

#[test]
fn end_mark_is_an_empty_journal_and_reports_lost_records() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..6, true);
    journal.records_are_checkpointed(5);
    journal.write_end_mark().unwrap();
    assert_eq!((found(&medium, 5), found(&medium, 4).1), ((0, false), true));
    let (next_run, replayed) = open(&medium, 5);
    assert!(!replayed.must_restart);
    append_all(&next_run, 6..7, true);
    assert_eq!(found(&medium, 5), (1, false));
}

/// An application chooses the bodies of its tasks, and can guess the numbers of records.
#[test]
fn forged_record_in_the_remains_of_an_earlier_run_is_ignored() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..6, true);
    let (next_run, _) = open(&medium, 5);
    next_run.records_are_checkpointed(5);
    append_all(&next_run, 6..7, true);
    let mut forged = Vec::new();
    for number in 7..10 {
        encode_record(&mut forged, &edit(number), (number, number, number - 1));
    }
    let head = next_run.tail.lock().head;
    medium.write_header(head, &forged).unwrap();
    assert_eq!(found(&medium, 5), (1, false));
}

#[test]
fn decode_checkpoint_refuses_numbers_close_to_overflow() {
    for number in [u64::MAX, u64::MAX / 2 + 1] {
        let refused = decode_checkpoint(Some(&encode_checkpoint(without_salt(number))));
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{number}");
    }
    let salted = Checkpointed { number: 7, salt: Some(9) };
    assert_eq!(decode_checkpoint(Some(&encode_checkpoint(salted))), Ok(salted));
    assert_eq!(decode_checkpoint(None), Ok(without_salt(0)));
}

#[test]
fn commit_that_is_too_large_leaves_the_journal_unchanged() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    append_all(&journal, 1..2, true);
    assert_eq!(journal.append(&sized_edit(2, MAX_RECORD), Turn::IfFull), Appended::Direct);
    append_all(&journal, 2..3, true);
    assert_eq!(found(&medium, 0), (2, false));
}

#[test]
fn replay_reports_a_table_of_a_newer_release() {
    let medium = medium();
    let (journal, _) = open(&medium, 0);
    let offsets = append_all(&journal, 1..3, true);
    let len = usize::try_from(journal.tail.lock().head - offsets[1]).unwrap();
    let mut record = vec![0; len];
    medium.read_header(offsets[1], &mut record).unwrap();
    record[RECORD_HEADER_LEN] = 77;
    seal_record(&mut record);
    medium.write_header(offsets[1], &record).unwrap();
    let replayed = replay(&medium, without_salt(0)).unwrap();
    assert_eq!(replayed.edits.len(), 1);
    assert_eq!(replayed.damage, Some(ReplayError::UnknownTable { record: 2, table: 77 }));
}
