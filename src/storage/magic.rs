//! What the first bytes of a file say: files whose making was cut short, or that nobody closed.

use std::io;

use redb::StorageBackend;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
/// Where the engine's flags are.
pub(super) const FLAGS: usize = MAGIC.len();
/// The flag that stands while an engine has the file open.
const RECOVERY_REQUIRED: u8 = 2;
const PAGE: usize = 4096;
const HEADER: usize = 320;
const LARGEST_NEW_FILE: u64 = 2 << 20;

/// Whether the making of a new file, whose engine's bytes begin at `start`, was cut short.
///
/// The engine writes its magic number last, so a process killed in between leaves a file that no
/// later open would accept, with nothing in it. Such a file is known by its zeros: all but the
/// header's, of which each byte of the magic number is right or still missing.
pub(super) fn is_half_made(bytes: &dyn StorageBackend, start: u64) -> io::Result<bool> {
    let end = bytes.len()?;
    let len = end.saturating_sub(start);
    if len == 0 || len > LARGEST_NEW_FILE || len % PAGE as u64 != 0 {
        return Ok(false);
    }
    let mut page = [0; PAGE];
    bytes.read(start, &mut page)?;
    let magic = &page[..MAGIC.len()];
    let header_fits = magic.iter().zip(&MAGIC).all(|(is, full)| *is == 0 || is == full)
        && page[10..12] == [0; 2]
        && (page[12..16] == [0; 4] || page[12..16] == [0, 0x10, 0, 0]);
    if *magic == MAGIC || !header_fits || page[HEADER..].iter().any(|byte| *byte != 0) {
        return Ok(false);
    }
    is_zero(bytes, start + PAGE as u64, end)
}

/// Whether all bytes of a range are zero.
pub(super) fn is_zero(bytes: &dyn StorageBackend, from: u64, to: u64) -> io::Result<bool> {
    let mut page = [0; PAGE];
    for at in (from..to).step_by(PAGE) {
        let page = &mut page[..usize::try_from(to - at).unwrap_or(PAGE).min(PAGE)];
        bytes.read(at, page)?;
        if page.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an engine's bytes begin at `start`.
pub(super) fn begins_as_engine(bytes: &dyn StorageBackend, start: u64) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    if bytes.len()? < start + MAGIC.len() as u64 {
        return Ok(false);
    }
    bytes.read(start, &mut magic)?;
    Ok(magic == MAGIC)
}

/// Whether the last owner of a whole file did not close it.
pub(super) fn is_unclean(backend: &dyn StorageBackend) -> io::Result<bool> {
    let mut start = [0; FLAGS + 1];
    if backend.len()? < start.len() as u64 {
        return Ok(false);
    }
    backend.read(0, &mut start)?;
    Ok(start.starts_with(&MAGIC) && start[FLAGS] & RECOVERY_REQUIRED != 0)
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const NEW_FILE: u64 = 1 << 20;

    fn medium(start: &[u8], len: u64) -> InMemoryBackend {
        let medium = InMemoryBackend::new();
        medium.set_len(len).unwrap();
        medium.write(0, start).unwrap();
        medium
    }

    #[test]
    fn a_file_whose_making_was_cut_short_starts_afresh() {
        assert!(is_half_made(&medium(b"", NEW_FILE), 0).unwrap());
        assert!(is_half_made(&medium(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\x10", NEW_FILE), 0).unwrap());
        assert!(is_half_made(&medium(b"redb\0\0\0\0\0\x04", NEW_FILE), 0).unwrap());
    }

    #[test]
    fn a_file_with_anything_in_it_is_left_alone() {
        assert!(!is_half_made(&medium(&MAGIC, NEW_FILE), 0).unwrap());
        assert!(!is_half_made(&medium(b"text", NEW_FILE), 0).unwrap());
        assert!(!is_half_made(&medium(b"", 100), 0).unwrap());
        assert!(!is_half_made(&medium(&[0; 8], 4 * NEW_FILE), 0).unwrap());
        let late = medium(b"", NEW_FILE);
        late.write(NEW_FILE - 1, b"x").unwrap();
        assert!(!is_half_made(&late, 0).unwrap());
    }
}
