//! The keys of `notes`: the notes of a task, the entries of its history, and its steps.

use super::{id_of, number, space_of};
use crate::limits::STEP_NAME_MAX;
use crate::more::Note;
use crate::record_error::RecordError;

/// The kind of the entries of a history.
pub const HISTORY: u8 = b'h';
/// The kind of the steps of a task.
pub const STEP: u8 = b's';

/// Returns the key of a note of a task.
#[must_use]
pub fn note(space: u32, id: u64, note: Note) -> Vec<u8> {
    let mut key = Vec::with_capacity(13);
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key.push(note.byte());
    key
}

/// Returns the prefix of the keys of all entries in the history of a task, in `notes`.
#[must_use]
pub fn history(space: u32, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(21);
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key.push(HISTORY);
    key
}

/// Returns the key of an entry in the history of a task, in `notes`.
#[must_use]
pub fn history_entry(space: u32, id: u64, number: u64) -> Vec<u8> {
    let mut key = history(space, id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Returns the prefix of the keys of all steps of a task, in `notes`.
#[must_use]
pub fn steps(space: u32, id: u64) -> Vec<u8> {
    step(space, id, "")
}

/// Returns the key of a step of a task, in `notes`.
#[must_use]
pub fn step(space: u32, id: u64, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(13 + name.len());
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key.push(STEP);
    key.extend_from_slice(name.as_bytes());
    key
}

/// A row of `notes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of keys of one table")]
pub enum NoteRow<'k> {
    /// A note.
    Note(Note),
    /// The entry of this number in the history.
    Entry(u64),
    /// The step of this name, of 1 to [`STEP_NAME_MAX`](crate::STEP_NAME_MAX) bytes.
    Step(&'k str),
}

/// Returns space, id and kind of a key of `notes`.
///
/// # Errors
/// The key has another length, its kind is unknown, or it has no name of a step.
pub fn split_note(key: &[u8]) -> Result<(u32, u64, NoteRow<'_>), RecordError> {
    let bad = || RecordError::new(0, "a key of the notes");
    let note = match key.get(12..) {
        Some(&[kind]) => Note::from_byte(kind).map(NoteRow::Note),
        Some([HISTORY, rest @ ..]) if rest.len() == 8 => number(key, 13).map(NoteRow::Entry),
        Some([STEP, name @ ..]) if (1..=STEP_NAME_MAX).contains(&name.len()) => {
            std::str::from_utf8(name).ok().map(NoteRow::Step)
        }
        _ => None,
    };
    let (Some(space), Some(id), Some(note)) = (space_of(key), id_of(key), note) else {
        return Err(bad());
    };
    Ok((space, id, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_key_reads_back_and_invalid_bytes_are_refused() {
        for of in Note::ALL {
            let key = note(7, 1 << 40, of);
            assert_eq!(split_note(&key), Ok((7, 1 << 40, NoteRow::Note(of))));
            assert_eq!((space_of(&key), id_of(&key)), (Some(7), Some(1 << 40)));
            assert!(split_note(&key[..12]).is_err());
            assert!(split_note(&[&key[..], b"f"].concat()).is_err());
            assert!(split_note(&[&key[..12], b"x"].concat()).is_err());
            assert!(split_note(&[&key[..12], b"h"].concat()).is_err());
        }
        let entry = history_entry(7, 1 << 40, 9);
        assert_eq!(split_note(&entry), Ok((7, 1 << 40, NoteRow::Entry(9))));
        assert!(entry.starts_with(&history(7, 1 << 40)));
        assert!(split_note(&entry[..20]).is_err());
        let long = "n".repeat(STEP_NAME_MAX);
        for name in ["a", "part 7", "ä", &long] {
            let key = step(7, 1 << 40, name);
            assert_eq!(split_note(&key), Ok((7, 1 << 40, NoteRow::Step(name))));
            assert!(key.starts_with(&steps(7, 1 << 40)));
        }
        for bad in [steps(7, 9), step(7, 9, &(long + "n")), [steps(7, 9), vec![0xff]].concat()] {
            assert!(split_note(&bad).is_err());
        }
    }
}
