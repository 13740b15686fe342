//! Reads the engine's magic number and flags: interrupted creation, unclean shutdown.

use std::io;

use redb::StorageBackend;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
/// The offset of the engine's flags.
pub(super) const FLAGS: usize = MAGIC.len();
/// The flag that is set while an engine has the file open.
const RECOVERY_REQUIRED: u8 = 2;
const PAGE: usize = 4096;
const HEADER: usize = 320;
const LARGEST_NEW_FILE: u64 = 2 << 20;

/// Whether the creation of a file, whose engine's bytes begin at `start`, was interrupted.
///
/// The engine writes its magic number last. A process that is killed before leaves a file without
/// rows that no later open accepts. All bytes of such a file behind the engine's header are zero,
/// and each byte of its magic number is right or zero.
pub(super) fn is_half_created(bytes: &dyn StorageBackend, start: u64) -> io::Result<bool> {
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

/// Whether the bytes from `start` on are at most the engine's header, without its magic number.
///
/// The engine sets the length of the file before it writes its header, and flushes both before it
/// writes its magic number. A power cut before that flush may lose the length and keep the header.
/// A file that was truncated here has a part of the magic number.
pub(super) fn is_lone_header(bytes: &dyn StorageBackend, start: u64) -> io::Result<bool> {
    let len = bytes.len()?.saturating_sub(start);
    if len == 0 || len > HEADER as u64 {
        return Ok(false);
    }
    is_zero(bytes, start, start + len.min(MAGIC.len() as u64))
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

/// Whether the engine's magic number is at `start`.
pub(super) fn begins_as_engine(bytes: &dyn StorageBackend, start: u64) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    if bytes.len()? < start + MAGIC.len() as u64 {
        return Ok(false);
    }
    bytes.read(start, &mut magic)?;
    Ok(magic == MAGIC)
}

/// Whether engine's bytes begin at `start`, and their last owner did not close them.
pub(super) fn is_unclean(bytes: &dyn StorageBackend, start: u64) -> io::Result<bool> {
    let mut found = [0; FLAGS + 1];
    if bytes.len()? < start + found.len() as u64 {
        return Ok(false);
    }
    bytes.read(start, &mut found)?;
    Ok(found.starts_with(&MAGIC) && found[FLAGS] & RECOVERY_REQUIRED != 0)
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
    fn is_half_created_finds_interrupted_creation() {
        assert!(is_half_created(&medium(b"", NEW_FILE), 0).unwrap());
        assert!(is_half_created(&medium(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\x10", NEW_FILE), 0).unwrap());
        assert!(is_half_created(&medium(b"redb\0\0\0\0\0\x04", NEW_FILE), 0).unwrap());
    }

    #[test]
    fn is_lone_header_finds_a_header_without_magic_number() {
        let header = b"\0\0\0\0\0\0\0\0\0\x04\0\0\0\x10\0\0";
        for len in [16, HEADER as u64] {
            assert!(is_lone_header(&medium(header, len), 0).unwrap());
        }
        assert!(is_lone_header(&medium(b"", 5), 0).unwrap());
        assert!(!is_lone_header(&medium(b"", 0), 0).unwrap());
        assert!(!is_lone_header(&medium(header, HEADER as u64 + 1), 0).unwrap());
        for len in 1..=MAGIC.len() {
            assert!(!is_lone_header(&medium(&MAGIC[..len], len as u64), 0).unwrap());
        }
        assert!(!is_lone_header(&medium(&MAGIC, HEADER as u64), 0).unwrap());
    }

    #[test]
    fn is_half_created_leaves_files_with_content_alone() {
        assert!(!is_half_created(&medium(&MAGIC, NEW_FILE), 0).unwrap());
        assert!(!is_half_created(&medium(b"text", NEW_FILE), 0).unwrap());
        assert!(!is_half_created(&medium(b"", 100), 0).unwrap());
        assert!(!is_half_created(&medium(&[0; 8], 4 * NEW_FILE), 0).unwrap());
        let late = medium(b"", NEW_FILE);
        late.write(NEW_FILE - 1, b"x").unwrap();
        assert!(!is_half_created(&late, 0).unwrap());
    }
}
