//! The file header: a page with a title that identifies the file, then the journal. The engine's
//! bytes begin behind it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::StorageBackend;

use super::magic::{begins_as_engine, is_half_created, is_lone_header, is_zero};

/// The length of the file header, journal included.
pub(super) const FILE_HEADER_LEN: u64 = 1 << 20;
/// The offset of the journal.
pub(super) const JOURNAL_START: u64 = PAGE as u64;
/// The layout that this release writes, and the newest that it reads.
pub(super) const LAYOUT: u32 = 1;

const PAGE: usize = 4096;
const MAGIC: [u8; 12] = *b"tubewell\r\n\x1a\n";
const TITLE: usize = MAGIC.len() + 4;

/// The bytes of a medium, and the offset at which the engine's begin.
#[derive(Debug)]
pub(super) struct OffsetBytes {
    /// All bytes, from the beginning of the medium.
    pub(super) whole: Box<dyn StorageBackend>,
    start: AtomicU64,
    /// The title is not the one that this release writes.
    has_damaged_title: AtomicBool,
}

impl OffsetBytes {
    pub(super) fn new(whole: Box<dyn StorageBackend>) -> OffsetBytes {
        OffsetBytes { whole, start: AtomicU64::new(0), has_damaged_title: AtomicBool::new(false) }
    }

    /// Whether the title is damaged.
    pub(super) fn has_damaged_title(&self) -> bool {
        self.has_damaged_title.load(Ordering::Relaxed)
    }

    /// Notes that the title was written.
    pub(super) fn title_is_written(&self) {
        self.has_damaged_title.store(false, Ordering::Relaxed);
    }

    /// The offset at which the engine's bytes begin.
    pub(super) fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// Determines that the engine's bytes begin behind a file header. An empty medium, and one whose
    /// creation was interrupted, gets one.
    ///
    /// It flushes nothing: the engine flushes before it writes its own magic number, and without
    /// that number the medium is not taken for a store.
    pub(super) fn find_header(&self) -> io::Result<()> {
        if self.is_new()? {
            self.whole.set_len(0)?;
            self.whole.set_len(FILE_HEADER_LEN)?;
            self.whole.write(0, &title())?;
        }
        self.start.store(FILE_HEADER_LEN, Ordering::Relaxed);
        let mut found = [0; TITLE];
        self.whole.read(0, &mut found)?;
        self.has_damaged_title.store(found != title(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether the medium is empty, or its creation was interrupted. An error if it has no store.
    fn is_new(&self) -> io::Result<bool> {
        let len = self.whole.len()?;
        let mut page = vec![0; PAGE.min(usize::try_from(len).unwrap_or(PAGE))];
        self.whole.read(0, &mut page)?;
        // Checked before the engine's bytes are looked for: the newer layout may have them
        // elsewhere, and its journal must not be skipped.
        if page.starts_with(&MAGIC) && layout_of(&page) > LAYOUT {
            return Err(io::Error::new(io::ErrorKind::Unsupported, NewerLayout(layout_of(&page))));
        }
        // A row of another program's database may be a copy of a store.
        if begins_as_engine(&*self.whole, 0)? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, ForeignDatabase));
        }
        // With the engine's magic number in place, a damaged title does no harm: it is constant.
        if begins_as_engine(&*self.whole, FILE_HEADER_LEN)? {
            return Ok(false);
        }
        if len == 0 || self.has_partial_header(&page, len)? {
            return Ok(true);
        }
        match page.starts_with(&MAGIC) {
            false => Err(io::ErrorKind::InvalidData.into()),
            true if len <= FILE_HEADER_LEN => Err(io::ErrorKind::UnexpectedEof.into()),
            true => Ok(false),
        }
    }

    /// Whether creation was interrupted in the file header, or in the engine's bytes behind it.
    ///
    /// A power cut may lose a new length and keep a write beyond it, so that the file ends with the
    /// title, or with the engine's header. A store that has held a commit has at least one record
    /// of its journal, or its end mark, so that it is not taken for a new one.
    fn has_partial_header(&self, page: &[u8], len: u64) -> io::Result<bool> {
        let titled = page.iter().zip(&title()).all(|(is, full)| *is == 0 || is == full)
            && page.iter().skip(TITLE).all(|byte| *byte == 0);
        if !titled || len == TITLE as u64 {
            return Ok(titled);
        }
        Ok(len >= FILE_HEADER_LEN
            && is_zero(&*self.whole, page.len() as u64, FILE_HEADER_LEN)?
            && (len == FILE_HEADER_LEN
                || is_lone_header(&*self.whole, FILE_HEADER_LEN)?
                || is_half_created(&*self.whole, FILE_HEADER_LEN)?))
    }
}

/// The layout of a file that a newer release created.
#[derive(Debug, thiserror::Error)]
#[error("the file has layout {0}")]
pub(super) struct NewerLayout(pub(super) u32);

/// The file begins with a database.
#[derive(Debug, thiserror::Error)]
#[error("it is a database of another program: a store has its database behind a title")]
pub(super) struct ForeignDatabase;

/// The engine's bytes.
impl StorageBackend for OffsetBytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.whole.len()?.saturating_sub(self.start()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.whole.read(self.start() + offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.whole.set_len(self.start() + len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.whole.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.whole.write(self.start() + offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.whole.close()
    }
}

/// The first bytes of a file of this release.
pub(super) fn title() -> [u8; TITLE] {
    let mut title = [0; TITLE];
    title[..MAGIC.len()].copy_from_slice(&MAGIC);
    title[MAGIC.len()..].copy_from_slice(&LAYOUT.to_be_bytes());
    title
}

fn layout_of(page: &[u8]) -> u32 {
    let bytes = page.get(MAGIC.len()..TITLE).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    fn bytes_with(start: &[u8], len: u64) -> OffsetBytes {
        let medium = InMemoryBackend::new();
        medium.set_len(len).unwrap();
        medium.write(0, start).unwrap();
        OffsetBytes::new(Box::new(medium))
    }

    fn start_and_len(bytes: &OffsetBytes) -> (u64, u64) {
        bytes.find_header().unwrap();
        (bytes.start(), bytes.len().unwrap())
    }

    #[test]
    fn empty_or_half_created_medium_gets_a_header() {
        let mut torn = title();
        torn[3..9].fill(0);
        for start in [&b""[..], &title(), &torn] {
            for len in [TITLE as u64, FILE_HEADER_LEN, FILE_HEADER_LEN + 320, 2 * FILE_HEADER_LEN] {
                assert_created(&bytes_with(start, len));
            }
        }
        assert_created(&bytes_with(b"", 0));
    }

    fn assert_created(bytes: &OffsetBytes) {
        assert_eq!(start_and_len(bytes), (FILE_HEADER_LEN, 0));
        let mut found = [0; TITLE];
        bytes.whole.read(0, &mut found).unwrap();
        assert_eq!(found, title());
    }

    /// The engine writes its header without the magic number first.
    #[test]
    fn engine_header_that_was_kept_without_its_length_is_created_again() {
        for start in [&b""[..], &title()] {
            let bytes = bytes_with(start, FILE_HEADER_LEN + 320);
            bytes.whole.write(FILE_HEADER_LEN + 9, b"\x04\0\0\0\x10\0\0").unwrap();
            bytes.whole.write(FILE_HEADER_LEN + 300, b"checksum").unwrap();
            assert_created(&bytes);
        }
    }

    #[test]
    fn store_truncated_behind_its_header_is_not_taken_for_a_new_one() {
        let engine = b"redb\x1a\x0a\xa9\x0d\x0a";
        for kept in 1..engine.len() {
            let bytes = bytes_with(&title(), FILE_HEADER_LEN + kept as u64);
            bytes.whole.write(FILE_HEADER_LEN, &engine[..kept]).unwrap();
            assert_eq!(start_and_len(&bytes), (FILE_HEADER_LEN, kept as u64));
        }
        for kept in [engine.len() as u64, 320] {
            let bytes = bytes_with(&title(), FILE_HEADER_LEN + kept);
            bytes.whole.write(FILE_HEADER_LEN, engine).unwrap();
            assert_eq!(start_and_len(&bytes), (FILE_HEADER_LEN, kept));
        }
        let with_journal = bytes_with(&title(), FILE_HEADER_LEN + 320);
        with_journal.whole.write(JOURNAL_START, b"a record").unwrap();
        assert_eq!(start_and_len(&with_journal), (FILE_HEADER_LEN, 320));
    }

    #[test]
    fn half_created_engine_behind_an_unwritten_title_is_created_again() {
        let bytes = bytes_with(b"", 2 * FILE_HEADER_LEN);
        bytes.whole.write(FILE_HEADER_LEN, b"red\0\0\0\0\0\0\x04").unwrap();
        assert_eq!(start_and_len(&bytes), (FILE_HEADER_LEN, 0));
    }

    #[test]
    fn engine_behind_a_damaged_title_is_found() {
        let bytes = bytes_with(b"tubXwell", 2 * FILE_HEADER_LEN);
        bytes.whole.write(FILE_HEADER_LEN, b"redb\x1a\x0a\xa9\x0d\x0a").unwrap();
        assert_eq!(start_and_len(&bytes), (FILE_HEADER_LEN, FILE_HEADER_LEN));
    }

    #[test]
    fn file_truncated_in_its_header_is_not_taken_for_a_new_one() {
        for len in [TITLE as u64 + 1, 100, JOURNAL_START, FILE_HEADER_LEN / 2, FILE_HEADER_LEN - 1]
        {
            let cut = bytes_with(&title(), len);
            assert_eq!(cut.find_header().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let cut = bytes_with(&title(), FILE_HEADER_LEN);
        cut.whole.write(JOURNAL_START, b"a record").unwrap();
        assert_eq!(cut.find_header().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    fn assert_refused(bytes: &OffsetBytes) {
        assert_eq!(bytes.find_header().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn files_of_other_programs_are_refused() {
        for start in [&b"redb\x1a\x0a\xa9\x0d\x0a"[..], b"a letter"] {
            for len in [16, 100, 3 << 20] {
                assert_refused(&bytes_with(start, len));
            }
        }
    }

    /// A row of the other database may be a copy of a store.
    #[test]
    fn database_with_a_store_inside_is_refused() {
        let engine = b"redb\x1a\x0a\xa9\x0d\x0a";
        let bytes = bytes_with(engine, 3 << 20);
        bytes.whole.write(FILE_HEADER_LEN, engine).unwrap();
        assert_refused(&bytes);
    }

    #[test]
    fn newer_layout_is_refused() {
        let mut newer = title();
        newer[TITLE - 1] += 1;
        let bytes = bytes_with(&newer, 2 * FILE_HEADER_LEN);
        bytes.whole.write(FILE_HEADER_LEN, b"redb\x1a\x0a\xa9\x0d\x0a").unwrap();
        let refused = bytes.find_header().unwrap_err();
        assert_eq!(refused.to_string(), format!("the file has layout {}", LAYOUT + 1));
    }
}
