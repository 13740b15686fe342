//! The journal: commits one after the other, in front of the engine's bytes.
//!
//! A commit is appended as one record and flushed: some hundred bytes where the engine writes
//! seven pages, and in place. Its edits stay in memory over the engine's rows until the journal is
//! full; then the engine takes them all with one commit of its own, and the journal begins anew.
//! What came and went meanwhile the engine never hears of. (The write-ahead log of `SQLite` and of
//! others, but in front of a B-tree that is copied on write, and so without undo.)
//!
//! A record: [`MARK`], length of the payload (4), the journal's salt (8), its own number (8), xxh3 of
//! length, salt, number and payload (8), the payload. All big-endian; records begin at multiples of
//! 16. A journal ends where no record of the next number and the same salt follows.
//!
//! The salt is a random number that each journal draws anew (as in the write-ahead log of
//! `SQLite`), for what is left of earlier ones lies behind its end: a body in it may hold bytes that
//! somebody made up to look like a record.

use std::io;
use std::sync::Arc;

use tubewell_drivers::{Table, Value};
use xxhash_rust::xxh3::Xxh3;

use super::file_header::{FILE_HEADER, JOURNAL};
use super::medium::Medium;
use super::overlay::Overlay;
use crate::Error;
use crate::random::random_u64;

const MARK: [u8; 4] = *b"twj\x01";
const FRAME: usize = 32;
const ALIGN: usize = 16;
/// The number of the record that says that there are none; the others count from 1.
const END: u64 = 0;
/// Blocks are written before they are needed, so that a flush need not allocate any.
const AHEAD: u64 = 16 << 10;
/// A commit that takes more than this part of the journal is better off in the engine at once.
const SHARE: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Journal {
    medium: Arc<Medium>,
    /// Where the next record goes.
    head: u64,
    /// The number of the journal's first record: one more than the engine has taken.
    first: u64,
    salt: u64,
    /// The number of the next record.
    next: u64,
    /// Up to here the blocks were written in this life.
    laid: u64,
    /// A write failed: what is in the file is not known before it is read again.
    failed: bool,
}

/// What a journal was found to hold.
pub(super) struct Replayed {
    pub(super) journal: Journal,
    /// The edits that the engine has not taken.
    pub(super) edits: Overlay,
    /// Some of them cannot be read.
    pub(super) damage: Option<String>,
}

impl Journal {
    /// Reads what is there. `taken`: the number of the last record whose edits the engine has.
    pub(super) fn replay(medium: &Arc<Medium>, taken: u64) -> io::Result<Replayed> {
        let mut journal = Journal {
            medium: Arc::clone(medium),
            head: JOURNAL,
            first: taken + 1,
            salt: random_u64(),
            next: taken + 1,
            laid: JOURNAL,
            failed: false,
        };
        let mut start = [0; FRAME];
        medium.read_header(JOURNAL, &mut start)?;
        let mut edits = Overlay::default();
        if journal.is_end(&start) {
            return Ok(Replayed { journal, edits, damage: None });
        }
        medium.distrust_cache()?;
        let bytes = journal.bytes()?;
        let damage = journal.read(&bytes, &mut edits);
        Ok(Replayed { journal, edits, damage })
    }

    /// Reads all records; answers with what is wrong with them.
    fn read(&mut self, bytes: &[u8], edits: &mut Overlay) -> Option<String> {
        // Nothing but a journal's first record, or its end, is ever written here.
        let Some(start) = usize::try_from(JOURNAL).ok().and_then(|at| Record::at(bytes, at)) else {
            return self.later_record(bytes, None);
        };
        let first = if start.number == END { start.salt } else { start.number };
        if first > self.first {
            let back = self.first - 1;
            return Some(format!(
                "the file is back at record {back} of the journal, which goes on with {first}"
            ));
        }
        if start.number != self.first {
            return None;
        }
        self.salt = start.salt;
        let read = self.go_on(bytes, |record| record.edits(edits));
        read.err().or_else(|| self.later_record(bytes, Some(self.salt)))
    }

    /// Refuses a journal of which a write has failed.
    pub(super) fn check_usable(&self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to the journal failed"));
        }
        Ok(())
    }

    /// Appends a commit and flushes it. `false`: there is no room for it, and nothing was done.
    /// After an error the journal takes nothing more.
    pub(super) fn append(&mut self, overlay: &Overlay) -> io::Result<bool> {
        let ballast_space = FILE_HEADER - self.head;
        if overlay.bytes() as u64 > (FILE_HEADER - JOURNAL) / SHARE {
            return Ok(false);
        }
        let mut record = encode(overlay, self.salt, self.next);
        if record.len() as u64 > ballast_space {
            return Ok(false);
        }
        let end = self.head + record.len() as u64;
        if end > self.laid {
            self.laid = end.next_multiple_of(AHEAD).min(FILE_HEADER);
            record.resize(usize::try_from(self.laid - self.head).unwrap_or(record.len()), 0);
        }
        self.failed = true;
        self.medium.write_header(self.head, &record)?;
        self.medium.sync()?;
        self.failed = false;
        self.head = end;
        self.next += 1;
        Ok(true)
    }

    /// The number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }

    /// The engine has taken all edits, and flushed them.
    pub(super) fn restart(&mut self) {
        self.first = self.next;
        self.salt = random_u64();
        self.head = JOURNAL;
    }

    /// Marks a journal with nothing in it, so that the next open need not look through it. Not
    /// flushed: without the mark that takes longer, and no more.
    pub(super) fn mark_end(&mut self) -> io::Result<()> {
        debug_assert!(self.head == JOURNAL, "the engine has taken everything");
        let end = encode(&Overlay::default(), self.first, END);
        self.medium.write_header(JOURNAL, &end)
    }

    /// Whether all records are what was written; if not, says so.
    pub(super) fn check(&self) -> io::Result<Option<String>> {
        let bytes = self.bytes()?;
        let mut found =
            Journal { medium: Arc::clone(&self.medium), head: JOURNAL, next: self.first, ..*self };
        let read = found.go_on(&bytes, |_| Ok(()));
        let damaged = read.is_err() || (found.head, found.next) != (self.head, self.next);
        Ok(damaged.then(|| "a record of the journal is not what was written".to_owned()))
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(FILE_HEADER).map_err(io::Error::other)?];
        self.medium.read_header(0, &mut bytes)?;
        Ok(bytes)
    }

    fn is_end(&self, start: &[u8]) -> bool {
        let record = Record::at(start, 0);
        record.is_some_and(|found| found.is(self.first, END))
    }

    /// Goes on behind the records that are there, or until one makes no sense to `each`.
    fn go_on(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Ok(at) = usize::try_from(self.head)
            && let Some(record) = Record::at(bytes, at)
            && record.is(self.salt, self.next)
        {
            each(&record)?;
            self.head += record.space();
            self.next += 1;
        }
        Ok(())
    }

    /// One commit is on its way at a time, so behind the end there is no record of a later one,
    /// unless one in between is damaged. Without a salt, since the first one is, any will do.
    fn later_record(&self, bytes: &[u8], salt: Option<u64>) -> Option<String> {
        let from = usize::try_from(self.head).unwrap_or(bytes.len());
        let later = |at: usize| {
            let (of, number) = Record::names(bytes.get(at..)?)?;
            let later = number > self.next && salt.is_none_or(|salt| salt == of);
            // What is left of earlier journals need not be looked at more closely.
            later.then(|| Record::at(bytes, at))?
        };
        let found = (from..bytes.len()).step_by(ALIGN).find_map(later);
        found.map(|_| format!("a record of the journal cannot be read: number {}", self.next))
    }
}

struct Record<'a> {
    /// Of an end: the number of the record that would be the first one.
    salt: u64,
    number: u64,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at a place, if there is a whole one.
    fn at(bytes: &'a [u8], at: usize) -> Option<Record<'a>> {
        let rest = bytes.get(at..)?;
        let (salt, number) = Record::names(rest)?;
        let frame = rest.get(..FRAME)?;
        let length = u32::from_be_bytes(frame[4..8].try_into().ok()?);
        let sum = u64::from_be_bytes(frame[24..].try_into().ok()?);
        let payload = rest[FRAME..].get(..usize::try_from(length).ok()?)?;
        let sound = sum == sum_of(length, salt, number, payload);
        sound.then_some(Record { salt, number, payload })
    }

    /// The salt and the number of what begins like a record.
    fn names(rest: &[u8]) -> Option<(u64, u64)> {
        let names = rest.strip_prefix(&MARK)?.get(4..20)?;
        let (salt, number) = names.split_at(8);
        Some((
            u64::from_be_bytes(salt.try_into().ok()?),
            u64::from_be_bytes(number.try_into().ok()?),
        ))
    }

    fn is(&self, salt: u64, number: u64) -> bool {
        (self.salt, self.number) == (salt, number)
    }

    fn space(&self) -> u64 {
        (FRAME + self.payload.len()).next_multiple_of(ALIGN) as u64
    }

    /// Lays the edits over those of the records before.
    fn edits(&self, overlay: &mut Overlay) -> Result<(), String> {
        let mut rest = self.payload;
        while !rest.is_empty() {
            let decoded = bincode::borrow_decode_from_slice(rest, bincode::config::standard());
            let (edit, read): (Written<'_>, usize) = decoded
                .map_err(|error| format!("a record of the journal makes no sense: {error}"))?;
            let (table, key, value, fresh) = edit;
            let table = *Table::ALL
                .get(usize::from(table))
                .ok_or("a record of the journal is about a table that is not known")?;
            match value.map(Value::from) {
                Some(value) if fresh => overlay.insert(table, key.to_vec(), value),
                Some(value) => overlay.replace(table, key.to_vec(), value),
                None => overlay.remove(table, key.to_vec()),
            }
            rest = &rest[read..];
        }
        Ok(())
    }
}

/// An edit as it is in a record: table, key, value, and whether nothing was there before.
type Written<'a> = (u8, &'a [u8], Option<&'a [u8]>, bool);

fn encode(overlay: &Overlay, salt: u64, number: u64) -> Vec<u8> {
    let mut record = Vec::with_capacity(FRAME + overlay.bytes() + 16 * overlay.len() + ALIGN);
    record.resize(FRAME, 0);
    for (table, key, edit) in overlay.edits() {
        let table = u8::try_from(table.index()).unwrap_or(u8::MAX);
        let written: Written<'_> = (table, key, edit.value.as_deref(), edit.fresh);
        let encoded =
            bincode::encode_into_std_write(written, &mut record, bincode::config::standard());
        debug_assert!(encoded.is_ok(), "writing to memory does not fail");
    }
    let payload = record.len() - FRAME;
    let length = u32::try_from(payload).unwrap_or(u32::MAX);
    let sum = sum_of(length, salt, number, &record[FRAME..]);
    record[..4].copy_from_slice(&MARK);
    record[4..8].copy_from_slice(&length.to_be_bytes());
    record[8..16].copy_from_slice(&salt.to_be_bytes());
    record[16..24].copy_from_slice(&number.to_be_bytes());
    record[24..FRAME].copy_from_slice(&sum.to_be_bytes());
    record.resize(record.len().next_multiple_of(ALIGN), 0);
    record
}

fn sum_of(length: u32, salt: u64, number: u64, payload: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&length.to_be_bytes());
    sum.update(&salt.to_be_bytes());
    sum.update(&number.to_be_bytes());
    sum.update(payload);
    sum.digest()
}

/// The key, in `meta`, of the number of the last record whose edits the engine has taken.
pub(super) const TAKEN: &[u8] = b"journal";

pub(super) fn encode_taken(number: u64) -> Value {
    crate::codec::encode_row(&number)
}

pub(super) fn decode_taken(row: Option<&[u8]>) -> Result<u64, Error> {
    let Some(row) = row else { return Ok(0) };
    // Bytes that somebody made up must not make the numbers overflow.
    crate::codec::decode_row(row)
        .filter(|taken| *taken <= u64::MAX / 2)
        .ok_or_else(|| Error::corrupt("the number of the last record that was taken"))
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::storage::backend::IoCounters;

    fn medium() -> Arc<Medium> {
        let bytes = InMemoryBackend::new();
        redb::StorageBackend::set_len(&bytes, FILE_HEADER).unwrap();
        Arc::new(Medium::plain(Box::new(bytes), IoCounters::new("the disk".into())))
    }

    fn edit(number: u64) -> Overlay {
        let mut overlay = Overlay::default();
        overlay.insert(Table::Tasks, number.to_be_bytes().to_vec(), vec![7; 100].into());
        overlay
    }

    fn replay(medium: &Arc<Medium>, taken: u64) -> Replayed {
        Journal::replay(medium, taken).unwrap()
    }

    /// A journal with so many records; where each begins.
    fn written(medium: &Arc<Medium>, records: u64) -> (Journal, Vec<u64>) {
        let mut journal = replay(medium, 0).journal;
        let append = |number| {
            let begin = journal.head;
            assert!(journal.append(&edit(number)).unwrap());
            begin
        };
        let begins = (0..records).map(append).collect();
        (journal, begins)
    }

    fn spoil(medium: &Medium, at: u64) {
        let mut byte = [0];
        medium.read_header(at, &mut byte).unwrap();
        medium.write_header(at, &[byte[0] ^ 4]).unwrap();
    }

    #[test]
    fn what_was_appended_is_there_again_and_goes_on() {
        let medium = medium();
        let (journal, _) = written(&medium, 5);
        assert_eq!((journal.last(), journal.check().unwrap()), (5, None));
        let mut again = replay(&medium, 0);
        assert_eq!((again.edits.len(), again.journal.last(), again.damage), (5, 5, None));
        assert!(again.journal.append(&edit(5)).unwrap());
        assert_eq!(replay(&medium, 0).edits.len(), 6);
    }

    #[test]
    fn a_record_that_is_cut_off_is_the_end_and_is_written_over() {
        let medium = medium();
        let (_, begins) = written(&medium, 5);
        for at in begins[4]..begins[4] + 60 {
            spoil(&medium, at);
            let found = replay(&medium, 0);
            assert_eq!((found.edits.len(), found.damage), (4, None), "byte {at}");
            spoil(&medium, at);
        }
        spoil(&medium, begins[4]);
        assert!(replay(&medium, 0).journal.append(&edit(9)).unwrap());
        assert_eq!(replay(&medium, 0).edits.len(), 5);
    }

    #[test]
    fn a_damaged_record_with_others_behind_it_is_told() {
        let medium = medium();
        let (journal, begins) = written(&medium, 5);
        for begin in &begins[..4] {
            for at in *begin..*begin + 60 {
                spoil(&medium, at);
                assert!(replay(&medium, 0).damage.is_some(), "byte {at}");
                assert!(journal.check().unwrap().is_some());
                spoil(&medium, at);
            }
        }
    }

    #[test]
    fn what_the_engine_has_taken_is_of_no_account_and_what_it_has_lost_is_told() {
        let medium = medium();
        let (mut journal, _) = written(&medium, 5);
        assert!(replay(&medium, 5).edits.is_empty());
        journal.restart();
        assert!(journal.append(&edit(5)).unwrap());
        let found = replay(&medium, 5);
        assert_eq!((found.edits.len(), found.damage), (1, None));
        assert!(replay(&medium, 0).damage.is_some(), "records 1 to 5 are nowhere");
        journal.restart();
        journal.mark_end().unwrap();
        let found = replay(&medium, 6);
        assert_eq!((found.edits.len(), found.damage), (0, None));
        assert!(replay(&medium, 5).damage.is_some(), "record 6 is nowhere");
    }

    /// Whoever puts tasks chooses their bodies, and can guess numbers.
    #[test]
    fn a_body_of_an_earlier_journal_is_not_taken_for_a_record() {
        let medium = medium();
        let (mut journal, _) = written(&medium, 5);
        journal.restart();
        assert!(journal.append(&edit(5)).unwrap());
        let mut at = journal.head;
        for number in 7..10 {
            let made_up = encode(&edit(number), journal.first, number);
            medium.write_header(at, &made_up).unwrap();
            at += made_up.len() as u64;
        }
        let found = replay(&medium, 5);
        assert_eq!((found.edits.len(), found.damage), (1, None));
    }

    #[test]
    fn a_first_record_that_is_cut_off_leaves_what_the_engine_has_taken() {
        let medium = medium();
        let (mut journal, _) = written(&medium, 5);
        journal.restart();
        assert!(journal.append(&edit(5)).unwrap());
        spoil(&medium, JOURNAL + 40);
        let found = replay(&medium, 5);
        assert_eq!((found.edits.len(), found.damage), (0, None));
    }

    #[test]
    fn a_number_that_nobody_can_have_come_to_is_refused() {
        for number in [u64::MAX, u64::MAX / 2 + 1] {
            let refused = decode_taken(Some(&encode_taken(number)));
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{number}");
        }
        assert_eq!(decode_taken(Some(&encode_taken(7))), Ok(7));
        assert_eq!(decode_taken(None), Ok(0));
    }

    #[test]
    fn a_commit_that_finds_no_room_leaves_the_journal_as_it_was() {
        let medium = medium();
        let mut journal = replay(&medium, 0).journal;
        let mut large = Overlay::default();
        large.insert(Table::Bodies, vec![1], vec![0; 300_000].into());
        assert!(!journal.append(&large).unwrap());
        let records =
            (0..100_000).take_while(|number| journal.append(&edit(*number)).unwrap()).count();
        assert!(records > 5000, "{records} records");
        assert_eq!(replay(&medium, 0).edits.len(), records);
        journal.restart();
        assert!(journal.append(&edit(0)).unwrap());
    }
}
