//! Reading the journal when a store is opened.
//!
//! Records are numbered over the whole life of the file. A record that is missing or damaged ends
//! the journal, if it may not have been flushed: no caller was told that it is safe. If a later
//! record says that it was flushed, it is damage.

use std::io;

use crate::storage::end_mark::{END_MARK, EndMark};
use crate::storage::file_header::{FILE_HEADER_LEN, JOURNAL_START};
use crate::storage::journal_record::{
    RECORD_ALIGN, RECORD_HEADER_LEN, Record, RecordHeader, ReplayError,
};
use crate::storage::medium::Medium;
use crate::storage::overlay::Overlay;

/// Where the two halves of the journal begin and end.
pub(super) const HALVES: [(u64, u64); 2] =
    [(JOURNAL_START, FILE_HEADER_LEN / 2), (FILE_HEADER_LEN / 2, FILE_HEADER_LEN)];

static ZEROS: [u8; 4096] = [0; 4096];

/// The contents of a journal.
pub(in crate::storage) struct Replayed {
    /// The edits that the database does not have.
    pub(in crate::storage) edits: Overlay,
    /// Why some of them cannot be read.
    pub(in crate::storage) damage: Option<ReplayError>,
    /// The number of the last record.
    pub(in crate::storage) last: u64,
    /// The salt of the run that was closed; its records and those of the next run have different
    /// numbers. `None` if the run was not closed: it may have left records that cannot be read, whose
    /// numbers are used again.
    pub(in crate::storage) salt: Option<u64>,
    /// The database must take the edits before the journal gets another record.
    pub(in crate::storage) must_restart: bool,
}

/// What the database says about the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::storage) struct Checkpointed {
    /// The number of the last record that the database has.
    pub(in crate::storage) number: u64,
    /// The salt of the journal's records. `None` before the first checkpoint of a file.
    pub(in crate::storage) salt: Option<u64>,
}

/// Reads the journal.
pub(in crate::storage) fn replay(medium: &Medium, found: Checkpointed) -> io::Result<Replayed> {
    let Checkpointed { number: checkpoint, salt } = found;
    let mut replay = Replay { next: checkpoint + 1, salt, edits: Overlay::default() };
    let mut start = [0; RECORD_HEADER_LEN];
    medium.read_header(JOURNAL_START, &mut start)?;
    if let Some(mark) = EndMark::read(&start)
        && mark.is_valid
        && mark.next == replay.next
    {
        let edits = replay.edits;
        return Ok(Replayed { edits, damage: None, last: checkpoint, salt, must_restart: false });
    }
    medium.flush_and_drop_cache()?;
    let bytes = read_all(medium)?;
    let damage = replay.read(&bytes);
    let last = replay.next - 1;
    let begin = usize::try_from(JOURNAL_START).unwrap_or(bytes.len());
    // Pages of zeros may be lost ones: the database would not know the salt of the next records.
    let must_restart = salt.is_some() || bytes[begin..].iter().any(|byte| *byte != 0);
    Ok(Replayed { edits: replay.edits, damage, last, salt: None, must_restart })
}

/// All bytes of the file header.
pub(super) fn read_all(medium: &Medium) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(FILE_HEADER_LEN).map_err(io::Error::other)?];
    medium.read_header(0, &mut bytes)?;
    Ok(bytes)
}

/// Calls `each` with the records of one half from its begin on, while they have this salt and
/// consecutive numbers from `first` on. Returns the number and the offset that would be next.
pub(super) fn walk<E>(
    bytes: &[u8],
    (from, to): (u64, u64),
    (salt, first): (u64, u64),
    mut each: impl FnMut(&Record<'_>) -> Result<(), E>,
) -> Result<(u64, u64), E> {
    let end = usize::try_from(to).unwrap_or(usize::MAX).min(bytes.len());
    let (mut at, mut number) = (usize::try_from(from).unwrap_or(end), first);
    while let Some(record) = Record::at(&bytes[..end], at)
        && record.has(salt, number)
    {
        each(&record)?;
        at += record.aligned_len();
        number += 1;
    }
    Ok((number, at as u64))
}

/// A replay in progress.
struct Replay {
    /// The number of the next record.
    next: u64,
    /// The salt of the records. Unknown before the first checkpoint of a file: then that of the first
    /// record that is read.
    salt: Option<u64>,
    edits: Overlay,
}

impl Replay {
    /// Reads all records. Returns why some edits cannot be read.
    fn read(&mut self, bytes: &[u8]) -> Option<ReplayError> {
        let first_of =
            |half: (u64, u64)| Some((Record::at(bytes, usize::try_from(half.0).ok()?)?, half));
        let firsts: Vec<_> = HALVES.into_iter().filter_map(first_of).collect();
        if let Some(newer) = firsts.iter().find_map(|(first, _)| first.check_version().err()) {
            return Some(newer);
        }
        let numbers =
            |(first, half): &(Record<'_>, _)| (first.header.number, first.header.salt, *half);
        let mut firsts: Vec<_> = firsts.iter().map(numbers).collect();
        firsts.sort_unstable();
        if let Some((_, next, _)) = firsts.iter().find(|first| first.0 == END_MARK)
            && *next > self.next
        {
            return Some(missing(self.next - 1, *next));
        }
        for (first, salt, half) in firsts {
            let is_newest = self.salt.is_none_or(|newest| newest == salt);
            if first == END_MARK || first > self.next || !is_newest {
                continue;
            }
            if let Err(error) = self.read_half(bytes, half, (salt, first)) {
                return Some(error);
            }
        }
        self.find_flushed_after_end(bytes)
    }

    fn read_half(
        &mut self,
        bytes: &[u8],
        half: (u64, u64),
        (salt, first): (u64, u64),
    ) -> Result<(), ReplayError> {
        let (wanted, edits) = (self.next, &mut self.edits);
        let (next, _) = walk(bytes, half, (salt, first), |record| {
            if record.header.number >= wanted { record.replay(edits) } else { Ok(()) }
        })?;
        if next > wanted {
            (self.next, self.salt) = (next, Some(salt));
        }
        Ok(())
    }

    /// Looks for a record that was made after the missing one had been flushed.
    fn find_flushed_after_end(&self, bytes: &[u8]) -> Option<ReplayError> {
        let start = usize::try_from(JOURNAL_START).unwrap_or(bytes.len());
        let later = |at: usize| {
            let header = RecordHeader::read(bytes.get(at..)?)?;
            let is_later = header.number > self.next
                && header.flushed >= self.next
                && self.salt.is_none_or(|salt| salt == header.salt);
            // The checksum is computed for candidates only.
            is_later.then(|| Record::at(bytes, at))?.map(|record| (at, record.header.number))
        };
        // Most of a journal may be zeros.
        let end_of = |block: usize| (block + ZEROS.len()).min(bytes.len());
        let blocks = (start..bytes.len()).step_by(ZEROS.len());
        let written = blocks.filter(|block| !ZEROS.starts_with(&bytes[*block..end_of(*block)]));
        let mut places = written.flat_map(|block| (block..end_of(block)).step_by(RECORD_ALIGN));
        let (at, number) = places.find_map(later)?;
        let is_first = HALVES.iter().any(|half| half.0 == at as u64);
        if is_first {
            return Some(missing(self.next - 1, number));
        }
        let record = self.next;
        Some(ReplayError::Damaged(format!("record {record} of the journal is damaged")))
    }
}

fn missing(last: u64, first: u64) -> ReplayError {
    ReplayError::Damaged(format!(
        "commits are missing: the database ends with record {last}, the journal begins with \
         record {first}"
    ))
}
