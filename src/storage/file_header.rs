//! What lies in front of the engine's bytes: a page that says what the file is, then the journal.
//!
//! Files that were made before there was a journal have nothing in front, and no journal.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;

use super::magic::{begins_as_engine, is_half_made, is_zero};

/// How much lies in front.
pub(super) const FILE_HEADER: u64 = 1 << 20;
/// Where the journal begins in it.
pub(super) const JOURNAL: u64 = PAGE as u64;
/// The newest layout that this release knows.
pub(super) const LAYOUT: u32 = 1;

const PAGE: usize = 4096;
const MAGIC: [u8; 12] = *b"tubewell\r\n\x1a\n";
const TITLE: usize = MAGIC.len() + 4;

/// The bytes of a medium, and where those of the engine begin in it.
#[derive(Debug)]
pub(super) struct Located {
    /// All of them.
    pub(super) whole: Box<dyn StorageBackend>,
    start: AtomicU64,
}

impl Located {
    pub(super) fn new(whole: Box<dyn StorageBackend>) -> Located {
        Located { whole, start: AtomicU64::new(0) }
    }

    /// Where the engine's bytes begin.
    pub(super) fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// Finds out what is in front of the engine's bytes. An empty medium gets a front, if it is
    /// `has_waiters`; one whose making was cut short begins anew.
    ///
    /// Nothing is flushed: the engine does that before it marks its own part as made, and no
    /// earlier is a store found here.
    pub(super) fn find_start(&self, has_waiters: bool) -> io::Result<()> {
        let start = match self.look()? {
            Found::Header => FILE_HEADER,
            Found::NoHeader => 0,
            Found::Nothing => {
                self.whole.set_len(0)?;
                if has_waiters {
                    self.whole.set_len(FILE_HEADER)?;
                    self.whole.write(0, &title())?;
                }
                if has_waiters { FILE_HEADER } else { 0 }
            }
        };
        self.start.store(start, Ordering::Relaxed);
        Ok(())
    }

    fn look(&self) -> io::Result<Found> {
        let len = self.whole.len()?;
        let mut page = vec![0; PAGE.min(usize::try_from(len).unwrap_or(PAGE))];
        self.whole.read(0, &mut page)?;
        if begins_as_engine(&*self.whole, 0)? {
            return Ok(Found::NoHeader);
        }
        // First, wherever that release has its tables: its journal is not one to be passed over.
        if page.starts_with(&MAGIC) && layout_of(&page) > LAYOUT {
            return Err(io::Error::new(io::ErrorKind::Unsupported, NewerLayout(layout_of(&page))));
        }
        // The title is known by heart: if it is damaged, what follows tells as well.
        if begins_as_engine(&*self.whole, FILE_HEADER)? {
            return Ok(Found::Header);
        }
        if len == 0 || is_half_made(&*self.whole, 0)? || self.is_begun(&page, len)? {
            return Ok(Found::Nothing);
        }
        if page.starts_with(&title()) {
            let cut_off = len <= FILE_HEADER;
            return if cut_off {
                Err(io::ErrorKind::UnexpectedEof.into())
            } else {
                Ok(Found::Header)
            };
        }
        Ok(Found::NoHeader)
    }

    /// Whether the making of a front, and perhaps of what is behind it, was cut short.
    fn is_begun(&self, page: &[u8], len: u64) -> io::Result<bool> {
        let titled = page.iter().zip(&title()).all(|(is, full)| *is == 0 || is == full)
            && page.iter().skip(TITLE).all(|byte| *byte == 0);
        Ok(titled
            && len >= FILE_HEADER
            && is_zero(&*self.whole, page.len() as u64, FILE_HEADER)?
            && (len == FILE_HEADER || is_half_made(&*self.whole, FILE_HEADER)?))
    }
}

enum Found {
    Header,
    NoHeader,
    /// An empty medium, or the beginning of a title and nothing else.
    Nothing,
}

/// The layout of a file that a newer release has made.
#[derive(Debug, thiserror::Error)]
#[error("the file has layout {0}")]
pub(super) struct NewerLayout(pub(super) u32);

/// A medium as the engine sees it.
impl StorageBackend for Located {
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

fn title() -> [u8; TITLE] {
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

    fn placed(start: &[u8], len: u64) -> Located {
        let medium = InMemoryBackend::new();
        medium.set_len(len).unwrap();
        medium.write(0, start).unwrap();
        Located::new(Box::new(medium))
    }

    fn start_of(placed: &Located) -> (u64, u64) {
        placed.find_start(true).unwrap();
        (placed.start(), placed.len().unwrap())
    }

    #[test]
    fn an_empty_medium_gets_a_front_and_so_does_one_whose_making_was_cut_short() {
        let mut torn = title();
        torn[3..9].fill(0);
        let begun: [(&[u8], u64); 4] =
            [(b"", 0), (b"", FILE_HEADER), (&title(), FILE_HEADER), (&torn, FILE_HEADER)];
        for (start, len) in begun {
            let placed = placed(start, len);
            assert_eq!(start_of(&placed), (FILE_HEADER, 0));
            let mut found = [0; TITLE];
            placed.whole.read(0, &mut found).unwrap();
            assert_eq!(found, title());
        }
    }

    #[test]
    fn a_front_whose_title_was_lost_with_all_that_came_after_begins_anew() {
        let placed = placed(b"", 2 * FILE_HEADER);
        placed.whole.write(FILE_HEADER, b"red\0\0\0\0\0\0\x04").unwrap();
        assert_eq!(start_of(&placed), (FILE_HEADER, 0));
    }

    #[test]
    fn what_is_behind_a_damaged_title_is_found_all_the_same() {
        let placed = placed(b"tubXwell", 2 * FILE_HEADER);
        placed.whole.write(FILE_HEADER, b"redb\x1a\x0a\xa9\x0d\x0a").unwrap();
        assert_eq!(start_of(&placed), (FILE_HEADER, FILE_HEADER));
    }

    #[test]
    fn a_file_that_is_cut_off_in_its_front_is_not_taken_for_a_new_one() {
        let cut = placed(&title(), FILE_HEADER / 2);
        assert_eq!(cut.find_start(true).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let cut = placed(&title(), FILE_HEADER);
        cut.whole.write(JOURNAL, b"a record").unwrap();
        assert_eq!(cut.find_start(true).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_older_file_and_one_of_somebody_else_have_no_front() {
        for start in [&b"redb\x1a\x0a\xa9\x0d\x0a"[..], b"a letter"] {
            assert_eq!(start_of(&placed(start, 3 << 20)), (0, 3 << 20));
            assert_eq!(start_of(&placed(start, 100)), (0, 100));
        }
    }

    /// The body of one of its tasks may be the copy of a store.
    #[test]
    fn an_older_file_that_has_another_inside_is_what_it_begins_as() {
        let engine = b"redb\x1a\x0a\xa9\x0d\x0a";
        let placed = placed(engine, 3 << 20);
        placed.whole.write(FILE_HEADER, engine).unwrap();
        assert_eq!(start_of(&placed), (0, 3 << 20));
    }

    #[test]
    fn a_newer_layout_is_not_touched() {
        let mut newer = title();
        newer[TITLE - 1] += 1;
        let placed = placed(&newer, 2 * FILE_HEADER);
        placed.whole.write(FILE_HEADER, b"redb\x1a\x0a\xa9\x0d\x0a").unwrap();
        let refused = placed.find_start(true).unwrap_err();
        assert_eq!(refused.to_string(), format!("the file has layout {}", LAYOUT + 1));
    }
}
